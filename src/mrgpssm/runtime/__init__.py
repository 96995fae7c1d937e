"""Fitted models with NumPy alone: load a model file, simulate it, step it online. JAX is never imported.

from mrgpssm.runtime import load

model = load("temp.mrgpssm")
model.simulate(u, samples=100)      # the numbers of MRGPSSM.simulate, to rounding
model.simulate_mean(u)              # one noiseless run
model.stepper()                     # sample by sample, corrected by measurements
"""

from mrgpssm.runtime.model import RuntimeModel
from mrgpssm.runtime.output import Simulation
from mrgpssm.runtime.read import load, parse
from mrgpssm.runtime.stepper import Estimate, Stepper, StepperState

__all__ = ["Estimate", "RuntimeModel", "Simulation", "Stepper", "StepperState", "load", "parse"]
