"""Benchmarks of relations, one file each."""
