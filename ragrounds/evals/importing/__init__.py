"""Existing outputs of other systems become runs, and are scored, compared and traced like our own."""
