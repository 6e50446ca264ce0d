"""Stored attempts run again with one thing changed."""

FUNCTIONS = ("ragrounds.extensions.counterfactual.functions:counterfactual",)
