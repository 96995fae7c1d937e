"""Many runs: a grid expanded, packed into fleets, spread over workers, one record each."""
