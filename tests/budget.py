"""How often the statistical tests would fail by chance, if their seeds were drawn anew: under once in 1000 runs.

Seeds are fixed, so in truth they fail never or always; but a new version of a random generator is a new draw. Comparisons
with a standard error allow `SIGMAS` of it. Tests whose thresholds lie far beyond any spread are not listed.
"""

import math
from typing import NamedTuple

SIGMAS = 5.5
SMALL_P = 1e-6  # of a test that gives a p-value
CHI_SQUARE_19 = 1.66e-5  # P(chi-square of 19 degrees of freedom > 55.9)


class Statistical(NamedTuple):
    """A test with its comparisons in all passes, each at so many standard errors."""

    test: str
    comparisons: int
    sigmas: float = SIGMAS


COVARIANCES = 10 + 10 * 11 // 2  # means and distinct covariances of five steps in two dimensions
LISTED = (
    Statistical("test_theorems.py::test_full_mc_and_analytic_agree_in_distribution", 2 * 2 * 10 * COVARIANCES),
    Statistical("test_theorems.py::test_marginal_is_biased_where_steps_share_a_function", 2 * (5 + 15)),
    Statistical("test_theorems.py::test_noise_is_independent_over_everything", 2 * 2),
    Statistical("test_bound.py::test_expected_bound_does_not_depend_on_the_number_of_samples", 2 * 3 * 3),
    Statistical("test_limits.py::test_zero_gp_with_linear_mean_gives_the_kalman_prediction", 6 * (2 + 3)),
    Statistical("test_data.py::test_windows_are_the_rows_they_should_be", 2),
    Statistical("test_metrics.py::test_coverage_is_nominal_for_the_truth", 1),
    Statistical("test_walks.py::test_process_noise_is_independent_over_steps_samples_and_dimensions", 5),
    Statistical("test_walks.py::test_a_warm_up_without_measurements_spreads_as_the_linear_system_does", 4 + 10),
    Statistical("test_estimator.py::test_warm_up_is_a_kalman_filter_where_the_model_is_linear", 2, 5.0),
    Statistical("test_bands.py::test_bands_hold_what_they_say_where_the_model_is_right", 2 * 3 * 3 * 3),
    Statistical("test_bands.py::test_bands_of_a_learned_law_are_quantiles_of_students_t", 2),
    Statistical(
        "test_bands.py::test_noise_has_a_number_for_every_row_output_and_sample_and_the_runtime_has_the_same", 3
    ),
    Statistical("test_estimator.py::test_intervals_cover_what_the_model_itself_generates", 3, 5.3),
)
RANKED, VALUED = 5, 2 + 3  # chi-square tests of test_calibrated.py; p-values of test_metrics.py and test_bands.py


def false_alarm(sigmas: float) -> float:
    """P(|Z| > sigmas) of a standard normal Z."""
    return math.erfc(sigmas / math.sqrt(2))


def total() -> float:
    """The sum over all comparisons, an upper bound on the probability that any fails."""
    return sum(s.comparisons * false_alarm(s.sigmas) for s in LISTED) + RANKED * CHI_SQUARE_19 + VALUED * SMALL_P
