"""The three sampling schemes of q(x_t) (paper, supplement A) behind one interface."""

from mrgpssm.rollout.analytic import Analytic, conditional_moments, inducing_given_path, prior_dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Path, Rollout, draw_noise, draw_process, draw_starts
from mrgpssm.rollout.batch import departures, draw_driven, draw_states, rollout
from mrgpssm.rollout.full_mc import FullMC, fastest
from mrgpssm.rollout.marginal import Marginal

SCHEMES: dict[str, AbstractScheme] = {"full_mc": FullMC(), "marginal": Marginal(), "analytic": Analytic()}

__all__ = [
    "SCHEMES",
    "AbstractScheme",
    "Analytic",
    "FullMC",
    "Marginal",
    "Noise",
    "Path",
    "Rollout",
    "conditional_moments",
    "departures",
    "draw_driven",
    "draw_noise",
    "draw_process",
    "draw_starts",
    "draw_states",
    "fastest",
    "inducing_given_path",
    "prior_dynamics",
    "rollout",
]
