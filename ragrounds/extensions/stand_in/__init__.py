"""Stand-in server for a model, without a key or a GPU."""
