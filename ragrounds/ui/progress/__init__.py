"""A command at work, on standard error: one screen that redraws, plain lines, JSON lines, or nothing."""
