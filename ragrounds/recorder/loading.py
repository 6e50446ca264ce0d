"""Hooks that run when the system loads a library, perhaps in the middle of an answer. An unused library is not
loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_HOOKS: dict[str, list[Callable[[ModuleType], None]]] = {}
"""Module → functions that are called when it is loaded."""


def when_loaded(name: str, act: Callable[[ModuleType], None]) -> None:
    """Call `act` with the module of this name: now if it is loaded, and each time that it is loaded from now on."""
    acts = _HOOKS.setdefault(name, [])
    if act not in acts:
        acts.append(act)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    if name in sys.modules:
        act(sys.modules[name])


class _HookingFinder:
    """A finder that delegates to the other finders, and hooks the loading of modules."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module by the other finders."""
        if name not in _HOOKS:
            return None
        for finder in sys.meta_path:
            # Old finders, which Python 3.11 still accepts, have no `find_spec`.
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    _run_hooks_after(spec.loader)
                return spec
        return None


def _run_hooks_after(loader: Any) -> None:
    """Let a loader run the hooks of a module after it has loaded the module."""
    load = loader.exec_module

    def loaded(module: ModuleType) -> None:
        loader.exec_module = load
        load(module)
        for act in _HOOKS.get(module.__name__, ()):
            act(module)

    loader.exec_module = loaded


_FINDER = _HookingFinder()
