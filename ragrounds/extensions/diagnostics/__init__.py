"""Analyses that the core does not need: figures of papers, evidence from listed documents, ranks, quality and sources
of passages, calibration, costs of wrong answers, trajectories."""
