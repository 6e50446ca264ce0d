"""Trace viewer: state without a terminal library, and thin Textual widgets over it."""
