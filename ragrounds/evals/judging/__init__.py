"""Asking a model for a verdict: the prompt, what it must answer, reading that, asking again."""
