"""Stored attempts run again with one thing changed."""

FUNCTIONS = ("ragrounds.api.counterfactual:counterfactual",)
