"""Training: pure steps, sweeps, backfitting over a fleet, and the choice among restarts."""

from mrgpssm.training.backfit import begin, fit_fleet, train_fleet
from mrgpssm.training.journal import Progress
from mrgpssm.training.plan import FleetFit, Plan, Snapshot
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import FitInfo, FitState, Task

__all__ = [
    "FitInfo",
    "FitState",
    "FleetFit",
    "Plan",
    "Progress",
    "Snapshot",
    "Task",
    "TrainingSettings",
    "begin",
    "fit_fleet",
    "train_fleet",
]
