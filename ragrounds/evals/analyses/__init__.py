"""Analyses of stored runs, one for each figure and table of the papers: one file an analysis."""
