"""Runs written for other tools, and what reads them whole for that."""
