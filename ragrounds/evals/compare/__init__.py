"""Comparison of runs: figures, differences, cost frontier, findings and lists of runs."""
