"""A gated recurrent network trained to simulate; written by hand on JAX, trained in fleets."""

from mrgpssm.baselines.gru.estimator import GRU, fit_together

__all__ = ["GRU", "fit_together"]
