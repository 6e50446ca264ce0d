"""Policies that choose an agent for each question."""
