"""What people look at. Nothing here computes; matplotlib comes with the extra `plot`."""
