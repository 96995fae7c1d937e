"""The instantaneous component: a Gaussian process of what drives the model, without a state."""
