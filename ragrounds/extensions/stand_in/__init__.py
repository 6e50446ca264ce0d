"""A server that stands in for a model, without a key or a GPU."""
