"""The instantaneous parts: a Gaussian process and boosted trees of what drives the model, without a state."""
