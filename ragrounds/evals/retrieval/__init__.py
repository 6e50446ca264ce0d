"""Scoring of retrieval alone: sets of queries with judgements, TREC files, measures, paired comparisons."""
