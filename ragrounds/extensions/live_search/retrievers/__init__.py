"""Retrievers of the web and of PubMed."""
