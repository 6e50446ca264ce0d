"""What stands at a place, loaded in a host: ``PATH.py:NAME`` or ``package.module:NAME``."""

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
    """What stands at a place. A file is loaded once, under a name of its own, with its folder first on the path, as
    ``python FILE`` does it. `called` is how the user names the place, for errors.

    Raises:
        Refused: there is no such module or name, or the module fails.
    """
    place, _, name = target.rpartition(":")
    return held_in(_module(place), name, called or target)


def held_in(module: ModuleType, name: str, called: str) -> object:
    """What a module has under a name, with dots for what is inside something.

    Raises:
        Refused: there is none; it says what there is.
    """
    found: object = module
    for part in name.split("."):
        if not part or not hasattr(found, part):
            raise Refused(lacking(called, part, found, module))
        found = getattr(found, part)
    return found


def _module(place: str) -> ModuleType:
    try:
        return _of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except Refused:
        raise
    except SystemExit:
        raise Refused(f"{place} tried to end the process while it was imported.") from None
    except ModuleNotFoundError as problem:
        if problem.name is not None and f"{place}.".startswith(f"{problem.name}."):
            raise Refused(f"There is no module {place!r}, neither installed nor in the current folder.") from None
        raise Refused(f"importing {place} by {sys.executable} failed: {failure(problem)}") from problem
    except Exception as problem:
        raise Refused(f"importing {place} failed: {failure(problem)}") from problem


def _of_file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"ragrounds_file_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    folder = str(path.parent)
    sys.path[:] = [folder, *(place for place in sys.path if place != folder)]
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


def lacking(name: str, wanted: str, holder: object, module: ModuleType) -> str:
    """Nothing is called `wanted` there: say what is."""
    held = {key: value for key, value in vars(holder).items() if not key.startswith("_")}
    graphs = [key for key, one in held.items() if not isinstance(one, type) and hasattr(one, "get_graph")]
    graphs += [key for key, one in held.items() if not isinstance(one, type) and hasattr(one, "compile")]
    own = [key for key, one in held.items() if callable(one) and getattr(one, "__module__", "") == module.__name__]
    known = list(dict.fromkeys([*graphs, *own]))
    shown = [key for key in known if _may_answer(key, held[key])]
    there = f"It has: {', '.join(shown[:20])}." if shown else "It has no graph and no function of its own."
    if not wanted:
        return f"{name}: which one? Expected {name}:NAME. {there}"
    return f"{name}: there is no {wanted!r}.{nearest(wanted, known)} {there}"


def _may_answer(name: str, one: object) -> bool:
    """Whether it may be a system: no module, no class (of a state), and no second name of a function, such as the
    variable of a loop."""
    if isinstance(one, (type, ModuleType)):
        return False
    return not isinstance(one, FunctionType) or one.__name__ in (name, "<lambda>")
