"""Displays of a running command on standard error: a screen that redraws, plain lines, JSON lines, or nothing."""
