"""The command line: it parses, calls :mod:`ragrounds.api`, prints. Heavy imports stand inside the commands.

Importing this package imports nothing more: pytest imports `ragrounds.cli.pytest_plugin` whenever it starts.
"""

from __future__ import annotations


def main() -> None:
    """The console script."""
    from ragrounds.cli.entry import main as started

    started()
