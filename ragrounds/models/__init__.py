"""Chat models and embedders: transports, retries, prices, tokens, and the built-in baseline."""
