"""The source text behind a graph: a part of a run's fingerprint, so that an edited graph is another run."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
from types import ModuleType


def digest(module: ModuleType, package: str) -> str:
    """Hash of the sources of a module and of the modules of `package` that it imports, directly or not."""
    sources: dict[str, str] = {}
    _collect(module, package, sources)
    return hashlib.sha256("\0".join(sources[key] for key in sorted(sources)).encode()).hexdigest()[:16]


def _collect(module: ModuleType, package: str, sources: dict[str, str]) -> None:
    if module.__name__ in sources:
        return
    sources[module.__name__] = source = inspect.getsource(module)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(package):
            whole = [f"{package}.{alias.name}" for alias in node.names] if node.module == package else [node.module]
            for full in whole:
                _collect(importlib.import_module(full), package, sources)
