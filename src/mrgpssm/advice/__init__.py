"""What a fit needs to know of the data: time constants, resolutions, sizes; and the default that chooses them."""
