"""Array operations that every layer uses: factors, positive parameters, precision, elapsed time, drive."""
