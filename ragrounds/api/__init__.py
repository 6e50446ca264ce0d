"""All functions of ragrounds: typed arguments in, records out, nothing printed.

The command line parses its arguments, calls one of these functions and shows the result; ``import ragrounds as rr`` has
the most used of them for scripts and notebooks (docs/reference/api.md). Each function reads the user's settings unless
settings are given, opens their store, and closes everything that it opened. Events are reported to a listener, an
object whose methods do nothing unless they are overridden.
"""
