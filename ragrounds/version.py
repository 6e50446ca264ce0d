"""The version, where every package can read it without importing the package's root."""

__version__ = "1.0.0rc1"
