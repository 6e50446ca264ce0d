"""Importers: one file a form of others' files, found by scanning this folder."""
