"""Benchmarks of retrieval, one file each."""
