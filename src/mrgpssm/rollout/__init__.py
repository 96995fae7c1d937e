"""The three sampling schemes of q(x_t) (paper, supplement A) behind one interface."""

from mrgpssm.rollout.analytic import Analytic, conditional_moments, inducing_given_path, prior_dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Path, Rollout, draw_noise, draw_process, draw_starts
from mrgpssm.rollout.batch import departures, draw_driven, draw_states, rollout
from mrgpssm.rollout.full_mc import FullMC, fastest
from mrgpssm.rollout.marginal import Marginal
from mrgpssm.rollout.mean import MeanDynamics, mean_states
from mrgpssm.rollout.walk import Particles, advance, cut_rows, draw_particles, emit

SCHEMES: dict[str, AbstractScheme] = {"full_mc": FullMC(), "marginal": Marginal(), "analytic": Analytic()}

__all__ = [
    "SCHEMES",
    "AbstractScheme",
    "Analytic",
    "FullMC",
    "Marginal",
    "MeanDynamics",
    "Noise",
    "Particles",
    "Path",
    "Rollout",
    "advance",
    "conditional_moments",
    "cut_rows",
    "departures",
    "draw_driven",
    "draw_noise",
    "draw_particles",
    "draw_process",
    "draw_starts",
    "draw_states",
    "emit",
    "fastest",
    "inducing_given_path",
    "mean_states",
    "prior_dynamics",
    "rollout",
]
