"""Benchmarks of retrieval: candidates by a committee of retrievers, judged sets on disk, the experts' sample."""
