"""The three sampling schemes of q(x_t) (paper, supplement A) behind one interface."""

from mrgpssm.rollout.analytic import Analytic, conditional_moments, inducing_given_path, prior_dynamics
from mrgpssm.rollout.base import AbstractScheme, Noise, Path, Rollout, draw_noise, draw_process, draw_starts
from mrgpssm.rollout.batch import departures, draw_driven, draw_states, rollout
from mrgpssm.rollout.filtering import Filtered, filter_states, mean_steps, sampled_steps
from mrgpssm.rollout.full_mc import FullMC, fastest
from mrgpssm.rollout.marginal import Marginal
from mrgpssm.rollout.mean import MeanDynamics, mean_states
from mrgpssm.rollout.walk import Particles, advance, cut_rows, draw_particles, emit, round_rows

SCHEMES: dict[str, AbstractScheme] = {"full_mc": FullMC(), "marginal": Marginal(), "analytic": Analytic()}


def find_scheme(given: str | AbstractScheme) -> AbstractScheme:
    """The scheme of a word, full Monte Carlo by the quickest way, or the user's own."""
    if isinstance(given, str):
        return fastest() if given == "full_mc" else SCHEMES[given]
    return given


__all__ = [
    "SCHEMES",
    "AbstractScheme",
    "Analytic",
    "Filtered",
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
    "filter_states",
    "find_scheme",
    "inducing_given_path",
    "mean_states",
    "mean_steps",
    "prior_dynamics",
    "rollout",
    "round_rows",
    "sampled_steps",
]
