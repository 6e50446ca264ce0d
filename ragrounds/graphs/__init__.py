"""LangGraph state machines, one file a strategy."""

if __name__ == "graphs":  # reached through the link at the top of the repository
    raise ImportError("This folder is a link into the package: write `import ragrounds.graphs`.")
