"""Acting on a library when the system loads it, which may be in the middle of an answer: who does not use it does not
load it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ACTS: dict[str, list[Callable[[ModuleType], None]]] = {}
"""Module → what is called when it is loaded."""


def when_loaded(name: str, act: Callable[[ModuleType], None]) -> None:
    """Call `act` with the module of this name: now where it is loaded, and once each time that it is from now on."""
    acts = _ACTS.setdefault(name, [])
    if act not in acts:
        acts.append(act)
    if _ARRIVALS not in sys.meta_path:
        sys.meta_path.insert(0, _ARRIVALS)
    if name in sys.modules:
        act(sys.modules[name])


class _Arrivals:
    """A finder that finds modules as they are found without it, and hears when they have run."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is, by who else finds modules."""
        if name not in _ACTS:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)  # what Python 3.11 still takes has none
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    _hear(spec.loader)
                return spec
        return None


def _hear(loader: Any) -> None:
    load = loader.exec_module

    def loaded(module: ModuleType) -> None:
        loader.exec_module = load
        load(module)
        for act in _ACTS.get(module.__name__, ()):
            act(module)

    loader.exec_module = loaded


_ARRIVALS = _Arrivals()
