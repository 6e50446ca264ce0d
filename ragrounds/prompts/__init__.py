"""Prompt texts as files, and their loader."""

if __name__ == "prompts":  # reached through the link at the top of the repository
    raise ImportError("This folder is a link into the package: write `import ragrounds.prompts`.")
