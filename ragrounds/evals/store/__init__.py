"""Where runs, attempts, scores and recorded calls are kept."""
