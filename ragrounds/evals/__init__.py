"""Benchmarks in, verdicts out: replay, journal, store, scoring, judging, statistics."""

if __name__ == "evals":  # reached through the link at the top of the repository
    raise ImportError("This folder is a link into the package: write `import ragrounds.evals`.")
