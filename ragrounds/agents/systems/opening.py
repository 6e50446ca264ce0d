"""What happens while a system is imported or built: it may ask models already, to embed its documents, and read the
clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from ragrounds.recorder import clock


def _unwatched(module: str) -> AbstractContextManager[None]:
    return nullcontext()


OPENING: ContextVar[Callable[[str], AbstractContextManager[None]]] = ContextVar("opening", default=_unwatched)
"""Makes what is entered around the import and the building of a system: of what is in a file or module, as named."""
OPENED: dict[str, clock.Values] = {}
"""What systems drew from clock and chance while they were imported or built, by file or module."""
REAL: set[str] = set()
"""Files and modules that an agent names which has the real clock."""
REFUSED: set[str] = set()
"""Files and modules that made something of what a replay refused them: whoever opens them next imports them anew."""


def module_named(name: str) -> str:
    """The file or module of a place. Of a ``langgraph.json``, each graph's own is another."""
    module = name.rpartition(":")[0]
    return name if not module or module.endswith(".json") else module


@contextmanager
def watched(name: str) -> Iterator[None]:
    """To be entered while a system, which a place names, is imported or built."""
    clock.install()
    module, values = module_named(name), clock.VALUES.get()
    if values is None and module not in REAL:
        values = OPENED.setdefault(module, clock.Values())
    with OPENING.get()(module), clock.drawing(values):
        yield
