"""Training of retrievers."""

BASES = ("construction", "retrieval")  # mined passages are labelled by its prompt
