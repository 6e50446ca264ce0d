"""Acting on a library as soon as the system has loaded it, which may be in the middle of an answer: who does not use it
does not load it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_loaded(name: str, act: Callable[[ModuleType], None]) -> None:
    """Call `act` with the module of this name, once: now where it is loaded, or else as soon as it is."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        act(loaded)
    else:
        sys.meta_path.insert(0, _Waiting(name, act))


class _Waiting:
    """A finder that finds nothing, and hears when the module is looked for."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name, self._act = name, act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the others find the module, and act once it has run."""
        if fullname != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        loader = spec.loader if spec is not None else None
        if loader is None:
            return None
        run, act = loader.exec_module, self._act

        def exec_module(module: ModuleType) -> None:
            run(module)
            act(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
