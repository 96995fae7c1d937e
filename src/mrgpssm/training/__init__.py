"""Training: pure steps, sweeps, backfitting over a fleet, and the choice among restarts."""

from mrgpssm.training.backfit import FleetFit, Progress, fit_fleet
from mrgpssm.training.settings import TrainingSettings
from mrgpssm.training.state import FitInfo, FitState, Task

__all__ = ["FitInfo", "FitState", "FleetFit", "Progress", "Task", "TrainingSettings", "fit_fleet"]
