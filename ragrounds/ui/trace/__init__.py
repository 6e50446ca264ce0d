"""The trace viewer: a state that knows no terminal library, and thin widgets over it (Textual)."""
