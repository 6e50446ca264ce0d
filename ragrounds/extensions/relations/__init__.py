"""Benchmarks of relations: triplets to extract from texts, links of knowledge graphs, and MRAG's suite with both."""
