"""Exports of runs to other tools, a file a format, and imports of what other systems answered."""
