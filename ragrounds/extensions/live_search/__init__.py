"""Retrievers of corpora that change by themselves: the web, by search providers, and PubMed."""
