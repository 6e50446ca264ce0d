"""Importers: one file for each form of other systems' files, found by scanning this folder."""
