"""A gated recurrent network trained to simulate, written in JAX and trained in fleets."""

from mrgpssm.baselines.gru.estimator import GRU, fit_together

__all__ = ["GRU", "fit_together"]
