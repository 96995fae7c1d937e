"""How far a measurement may lie from a free run: bands that depend on where the run is."""
