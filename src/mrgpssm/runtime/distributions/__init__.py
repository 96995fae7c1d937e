"""Numbers drawn by counters, and the distributions that measurements have: NumPy alone, for runtime and prediction."""
