"""Exporters: one file for each format, found by scanning this folder."""
