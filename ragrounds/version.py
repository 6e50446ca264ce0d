"""The version, where every room can read it without importing the package's root."""

__version__ = "0.2.0"
