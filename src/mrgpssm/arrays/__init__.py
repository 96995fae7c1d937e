"""Arrays and what is done to them everywhere: factors, positive parameters, precision, elapsed time, drive."""
