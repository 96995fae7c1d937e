"""The demo as evidence for a report."""

from mrgpssm.paper.demo import MULTI, SAMPLES, Demo
from mrgpssm.report.evidence import OtherModel, RunEvidence
from mrgpssm.report.gather import assemble
from mrgpssm.report.trace import from_history


def demo_evidence(demo: Demo, command: str) -> RunEvidence:
    """What a report shows of the multi-resolution model, beside its rivals; nothing is simulated again."""
    outcome = demo.outcomes[MULTI]
    rivals = (
        OtherModel(name.split(" ")[0], other.contender.resolutions, {"y": other.scores["rmse"]})
        for name, other in demo.outcomes.items()
        if name != MULTI
    )
    return assemble(
        outcome.model.fitted_,
        [demo.test.sequence],
        [outcome.forecast],
        training=[demo.train.sequence],
        name=f"demo {demo.kind}",
        notes="A synthetic system with one fast and one slow part, measured with noise; the test is a fresh recording.",
        samples=SAMPLES,
        trace=from_history(outcome.model.history_),
        rivals=tuple(rivals),
        commands=(command,),
    )
