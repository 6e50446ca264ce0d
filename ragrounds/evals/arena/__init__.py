"""The arena: which of two long answers is better, many times over, and what ranking that supports."""
