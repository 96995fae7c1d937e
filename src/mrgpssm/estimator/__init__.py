"""The model as users hold it: check, choose, train, calibrate, simulate, save."""
