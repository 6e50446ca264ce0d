"""Analyses of stored runs, one file each."""
