"""Indexes of corpora: collections, chunks, BM25 and vectors, and how they are built."""
