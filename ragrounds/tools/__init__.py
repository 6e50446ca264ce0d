"""Corpus search, web search, literature search, and the retrieval engines behind them."""

if __name__ == "tools":  # reached through the link at the top of the repository
    raise ImportError("This folder is a link into the package: write `import ragrounds.tools`.")
