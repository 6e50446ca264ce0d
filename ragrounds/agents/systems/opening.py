"""Context of the import and building of a system, which may already call models, embed documents, and read the
clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from ragrounds.recorder import clock
from ragrounds.recorder.wire import setting

OPENING: ContextVar[Callable[[str], AbstractContextManager[None]]] = ContextVar(
    "opening", default=lambda module: nullcontext()
)
"""Returns the context manager around the import and building of a system in a file or module, by its name."""
OPENED: dict[str, clock.Values] = {}
"""Clock and random values that systems used while they were imported or built, by file or module."""
REAL: set[str] = set()
"""Files and modules of agents that use the real clock."""
REFUSED: set[str] = set()
"""Files and modules that were loaded although a replay refused one of their calls. They are imported again at the next
opening.
"""


def module_named(name: str) -> str:
    """Return the file or module of an import path. Each graph of a ``langgraph.json`` counts as a separate module."""
    module = name.rpartition(":")[0]
    return name if not module or module.endswith(".json") else module


@contextmanager
def watched(name: str) -> Iterator[None]:
    """Enter the context in which the system at an import path is imported or built."""
    clock.install()
    module, values = module_named(name), clock.VALUES.get()
    if values is None and module not in REAL:
        values = OPENED.setdefault(module, clock.Values())
    with OPENING.get()(module), setting(clock.VALUES, values):
        yield
