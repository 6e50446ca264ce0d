"""Propagation of context variables to threads: a thread that a system starts belongs to the attempt that started it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pool
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import ParamSpec  # missing in Python 3.9

    P = ParamSpec("P")
T = TypeVar("T")


def install() -> Callable[[], None]:
    """Let threads start in the context of their starter, and work of pools in the context of its submitter.

    The threads of pools themselves start without a context, because they serve many. Return a function that undoes the
    patches.
    """
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def started(self: threading.Thread) -> None:
        context = contextvars.copy_context()
        if getattr(self, "_target", None) is not getattr(pool, "_worker", None) and len(context):
            run = self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(self)

    def submitted(self: ThreadPoolExecutor, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context = contextvars.copy_context()
        return submit(self, lambda: context.run(fn, *args, **kwargs))

    threading.Thread.start = started  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submitted  # type: ignore[method-assign,assignment]

    def undo() -> None:
        threading.Thread.start = start  # type: ignore[method-assign]
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]

    return undo
