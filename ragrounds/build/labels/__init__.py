"""`consensus-labels` (CMedTEB, Section 3.1): relevance by several models' agreement, and rerank and STS sets."""
