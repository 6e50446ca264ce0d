"""The command line: it parses arguments, calls :mod:`ragrounds.api`, and prints.

Heavy imports are inside the commands.
"""

from __future__ import annotations

import gc


def main(*, own_process: bool = True) -> None:
    """Run the console script; `own_process` is False if the caller continues in this process."""
    if own_process:  # imports, and a table of 40,000 attempts, create millions of objects and hardly a cycle
        gc.set_threshold(100_000, 20, 50)
    from ragrounds.cli.entry import main as started

    started(own_process=own_process)
