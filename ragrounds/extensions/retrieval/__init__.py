"""Scoring of retrieval alone: retrievers over a benchmark's queries, trec_eval's measures, paired comparisons."""

FUNCTIONS = ("ragrounds.extensions.retrieval.functions:retrieve",)
