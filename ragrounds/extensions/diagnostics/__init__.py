"""Analyses that the core does not need: calibration, costs of wrong answers, trajectories."""
