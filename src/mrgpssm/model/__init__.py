"""The model: transition, emission, initial state, and the sum of components."""

from mrgpssm.model.emission import EMISSIONS, AbstractEmission, IdentityEmission, LinearEmission, NonlinearEmission
from mrgpssm.model.initial import Gaussian, InitialState
from mrgpssm.model.presets import PAPER, PRESETS, STABLE, Preset, init_component, init_ssm
from mrgpssm.model.sde import SDEComponent, from_sde, to_sde
from mrgpssm.model.ssm import SSM, AbstractComponent, Component
from mrgpssm.model.stability import noiseless_growth, noiseless_radius, second_moment_bound, spectral_norm
from mrgpssm.model.transition import (
    AbstractMean,
    Dynamics,
    Forcing,
    IdentityMean,
    Local,
    StableMean,
    Transition,
)

__all__ = [
    "EMISSIONS",
    "PAPER",
    "PRESETS",
    "SSM",
    "STABLE",
    "AbstractComponent",
    "AbstractEmission",
    "AbstractMean",
    "Component",
    "Dynamics",
    "Forcing",
    "Gaussian",
    "IdentityEmission",
    "IdentityMean",
    "InitialState",
    "LinearEmission",
    "Local",
    "NonlinearEmission",
    "Preset",
    "SDEComponent",
    "StableMean",
    "Transition",
    "from_sde",
    "init_component",
    "init_ssm",
    "noiseless_growth",
    "noiseless_radius",
    "second_moment_bound",
    "spectral_norm",
    "to_sde",
]
