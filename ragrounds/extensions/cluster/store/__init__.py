"""Databases that hold a store, one file each."""
