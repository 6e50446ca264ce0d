"""The command line: it parses, calls :mod:`ragrounds.api`, prints. Heavy imports stand inside the commands.

Importing this package imports nothing more: pytest imports `ragrounds.cli.pytest_plugin` whenever it starts.
"""

from __future__ import annotations


def main(*, own_process: bool = True) -> None:
    """The console script; without `own_process` for who goes on in this process."""
    from ragrounds.cli.entry import main as started

    started(own_process=own_process)
