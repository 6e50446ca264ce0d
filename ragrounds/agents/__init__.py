"""Agents: graph, models, prompts, tools and parameters as one named spec. Evaluations compare agents."""

if __name__ == "agents":  # imported through the link at the top of the repository
    raise ImportError("This folder is a link into the package: write `import ragrounds.agents`.")
