"""Training of retrievers."""

BASES = ("construction",)  # mined passages are labelled by its prompt
