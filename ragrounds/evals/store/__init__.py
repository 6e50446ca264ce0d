"""Storage of runs, attempts, scores and recorded calls."""
