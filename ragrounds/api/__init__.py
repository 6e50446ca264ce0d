"""What can be done with ragrounds, as functions: typed arguments in, records out, nothing printed.

The command line parses, calls one of these and shows what it returns; ``import ragrounds as rr`` has the most used of
them for scripts and notebooks (docs/reference/api.md). Each function reads the user's settings unless some are given,
opens the store they name, and closes what it opened. What happens meanwhile is reported to a listener, an object whose
methods do nothing unless they are overridden.
"""
