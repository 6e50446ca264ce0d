"""Loading of an object by its import path in a host: ``PATH.py:NAME`` or ``package.module:NAME``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import FunctionType, ModuleType

from .errors import Refused, failure, nearest


def loaded(target: str, called: str = "") -> object:
    """Load the object at an import path.

    A file is loaded once, under a generated module name, with its folder first on the path, as ``python FILE`` does it.
    `called` is the user's name for the path, for errors.

    Raises:
        Refused: the module or name does not exist, or the module fails.
    """
    module_path, _, name = target.rpartition(":")
    return attribute_at(_load_module(module_path), name, called or target)


def attribute_at(module: ModuleType, name: str, called: str) -> object:
    """Return the object of a name in a module. Dots in the name access attributes.

    Raises:
        Refused: the name does not exist. The message lists the existing names.
    """
    target: object = module
    for part in name.split("."):
        if not part or not hasattr(target, part):
            raise Refused(missing_name_message(called, part, target, module))
        target = getattr(target, part)
    return target


def _load_module(module_path: str) -> ModuleType:
    try:
        return _load_file(Path(module_path)) if module_path.endswith(".py") else importlib.import_module(module_path)
    except Refused:
        raise
    except SystemExit:
        raise Refused(f"{module_path} tried to end the process while it was imported.") from None
    except ModuleNotFoundError as problem:
        if problem.name is not None and f"{module_path}.".startswith(f"{problem.name}."):
            raise Refused(f"There is no module {module_path!r}, neither installed nor in the current folder.") from None
        raise Refused(f"importing {module_path} by {sys.executable} failed: {failure(problem)}") from problem
    except Exception as problem:
        raise Refused(f"importing {module_path} failed: {failure(problem)}") from problem


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"ragrounds_file_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    folder = str(path.parent)
    sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refused(f"Cannot load {str(path)!r} as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def missing_name_message(name: str, missing_name: str, holder: object, module: ModuleType) -> str:
    """Return the error message for a missing name, with the existing names."""
    attributes = {key: value for key, value in vars(holder).items() if not key.startswith("_")}
    graphs = [
        key
        for method in ("get_graph", "compile")  # compiled graphs first
        for key, attribute in attributes.items()
        if not isinstance(attribute, type) and hasattr(attribute, method)
    ]
    functions = [
        key
        for key, attribute in attributes.items()
        if callable(attribute) and getattr(attribute, "__module__", "") == module.__name__
    ]
    names = list(dict.fromkeys([*graphs, *functions]))
    candidates = [key for key in names if _may_answer(key, attributes[key])]
    listing = f"It has: {', '.join(candidates[:20])}." if candidates else "It has no graph and no function of its own."
    if not missing_name:
        return f"{name}: which one? Expected {name}:NAME. {listing}"
    return f"{name}: there is no {missing_name!r}.{nearest(missing_name, names)} {listing}"


def _may_answer(name: str, candidate: object) -> bool:
    """Return True if an object may be a system.

    It is neither a module, nor a class (of a state), nor a second name of a function, such as the variable of a loop.
    """
    if isinstance(candidate, (type, ModuleType)):
        return False
    return not isinstance(candidate, FunctionType) or candidate.__name__ in (name, "<lambda>")
