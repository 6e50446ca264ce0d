"""Analyses that the core does not need: ranks, quality and sources of passages, calibration, costs of wrong answers,
trajectories."""
