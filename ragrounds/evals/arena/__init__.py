"""Arena: compare two long answers many times over, and derive the ranking that the verdicts support."""
