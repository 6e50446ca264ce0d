"""Arena: compare two long answers many times over, and derive the ranking that the verdicts support."""

FUNCTIONS = ("ragrounds.extensions.arena.functions:arena",)
