"""Experiments: each runs from a config, and returns what a record holds."""
