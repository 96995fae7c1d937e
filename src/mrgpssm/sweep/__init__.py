"""Many training runs: expand a grid, pack runs into fleets, spread them over workers, write one record each."""
