"""Training of retrievers."""
