"""Turn evidence into sections: one module per family of figures. Needs NumPy only; drawing happens elsewhere."""

from collections.abc import Callable

from mrgpssm.report.chart import Section
from mrgpssm.report.charts.calibration import calibration
from mrgpssm.report.charts.dynamics import drift_fields, relevance
from mrgpssm.report.charts.inputs import input_coverage
from mrgpssm.report.charts.residuals import autocorrelations, cross_correlations, horizon_growth, spectra
from mrgpssm.report.charts.simulation import components, simulation, worst
from mrgpssm.report.charts.territory import territory
from mrgpssm.report.charts.training import resolution_grid, restart_spread, training
from mrgpssm.report.evidence import RunEvidence

CHAPTERS: tuple[Callable[[RunEvidence], Section], ...] = (
    simulation,
    worst,
    components,
    calibration,
    autocorrelations,
    cross_correlations,
    horizon_growth,
    spectra,
    input_coverage,
    territory,
    drift_fields,
    relevance,
    training,
    restart_spread,
    resolution_grid,
)


def sections(evidence: RunEvidence) -> list[Section]:
    """All figures of a report, in reading order: the simulation, its uncertainty, its errors, and training."""
    return [make(evidence) for make in CHAPTERS]
