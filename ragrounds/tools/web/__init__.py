"""The web: pages fetched with care, search providers, PubMed."""
