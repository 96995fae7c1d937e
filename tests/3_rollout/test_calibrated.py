"""The exact parts are calibrated: a truth's rank among draws from its posterior is uniform (`trust/sbc.py` does more)."""

import pytest
from ranks import LIMIT, filter_chi_square, posterior_chi_square, sampler_chi_square, simulate_worlds

from mrgpssm.rollout import Analytic, FullMC, Marginal

pytestmark = pytest.mark.float64
COUNT = 200


@pytest.mark.parametrize("scheme", [FullMC(), Marginal(), Analytic()], ids=["full_mc", "marginal", "analytic"])
def test_samplers_rank_the_truth_evenly(scheme):
    """Functions drawn from the prior; the scheme that integrates v out at each step is exact for one step only."""
    worlds = simulate_worlds(COUNT, 0, steps=1 if isinstance(scheme, Marginal) else 5)
    assert sampler_chi_square(scheme, worlds, 1) < LIMIT


def test_a_function_given_its_path_is_ranked_evenly():
    assert posterior_chi_square(simulate_worlds(COUNT, 2), 3) < LIMIT


def test_a_state_given_outputs_is_ranked_evenly_where_the_system_is_linear():
    assert filter_chi_square(COUNT, 4, 500) < LIMIT
