"""Import paths of users' systems, and loading of the objects at them.

The forms are ``PATH.py:NAME``, ``package.module:NAME`` and ``PATH/langgraph.json:NAME``, for an object or a function
that creates one. A Python object that is passed to :func:`ragrounds.run` directly also gets an import path,
``__main__:NAME``, which is valid as long as the process.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.in_process import refusals
from ragrounds.agents.systems.live_objects import object_source
from ragrounds.agents.systems.opening import OPENED, REFUSED, module_named, watched
from ragrounds.agents.systems.reads import (
    OwnSource,
    RecordedDependencies,
    SystemDependencies,
    dependencies_in_process,
    forget,
)
from ragrounds.agents.trust import say_whose
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import imported_module, warn_once
from ragrounds.graphs.user_graph import About, about
from ragrounds.recorder.answers import at_path
from ragrounds.recorder.factory import describe_factory, makes_systems
from ragrounds.recorder.targets import attribute_at

if TYPE_CHECKING:
    from ragrounds.graphs.catalogue import Graph

HERE = "__main__"
"""Module name of objects that were passed directly."""
_passed_objects: dict[str, object] = {}
"""Objects that were passed directly, by their import path."""
_module_objects: dict[str, object] = {}
"""Objects that were passed directly and are in a module, by their import path there."""
_shared: dict[str, tuple[str, str]] = {}
"""Modules and variables that systems of this process share → the first system with it, and its file or value."""


class App(Struct, frozen=True):
    """A graph of a ``langgraph.json``."""

    target: str
    """Import path of the graph: ``/folder/src/graph.py:graph`` or ``package.module:graph``."""
    folders: tuple[str, ...]
    """Local folders among its dependencies, which are on the import path."""
    packages: tuple[str, ...]
    """Other dependencies, as named in the file. They must be installed."""
    variables: dict[str, str]
    """Variables that its `env` sets, if the environment does not."""


def is_place(name: str) -> bool:
    """Return True if a name is an import path: ``PATH.py:NAME``, ``package.module:NAME``, ``langgraph.json:NAME``.

    A file without an object name counts too. :func:`named_object` then lists its objects.
    """
    module_part, colon, object_name = name.rpartition(":")
    if _is_file(name):
        return True
    if not colon:
        return False
    if module_part.endswith(".json"):
        return bool(object_name)
    return _is_dotted(object_name) and (module_part.endswith(".py") or is_module(name))


def _is_file(name: str) -> bool:
    return name.endswith((".py", ".json"))


def is_module(name: str) -> bool:
    """Return True if the import path names a module, not a file by its path."""
    module_part = name.rpartition(":")[0]
    return not _is_file(module_part) and _is_dotted(module_part)


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def path_beside(file: str, name: str) -> str:
    """Return an import path in a file, relative to the current folder. Paths in the file are relative to the file's
    folder.
    """
    return name if is_module(name) else str(Path(file).parent / name)


def named_object(name: str) -> object:
    """Load the object at an import path: a system, a function that creates one, or an agent's card.

    Raises:
        UserError: the module or name does not exist, or the module fails.
    """
    if name in _passed_objects or name in _module_objects:
        return _passed_objects[name] if name in _passed_objects else _module_objects[name]
    if name.startswith(f"{HERE}:") and not hasattr(sys.modules.get(HERE), name.partition(":")[2]):
        raise UserError(
            f"{name} was an object of another process, such as a notebook: give it to rr.run(agents=[…]) again, or put "
            "it into a file and name it as ./FILE.py:NAME."
        )
    _forget_changed(name)
    target = target_of(name)
    with refusals():
        return attribute_at(module_of(target, name), "" if _is_file(target) else target.rpartition(":")[2], name)


def drawable(name: str) -> Graph:
    """Return the graph at an import path, for a diagram.

    Raises:
        UserError: it does not load, or the object is not a graph.
    """
    graph = named_object(name)
    if not hasattr(graph, "get_graph") and not hasattr(graph, "compile") and makes_systems(graph):
        maker = describe_factory(cast("Callable[..., object]", graph), name)
        if maker.each_time:
            raise UserError(f"{name} builds its graph for each attempt, so no graph can be shown before an attempt.")
        with refusals():
            graph = maker.now()
    if not hasattr(graph, "get_graph") and not hasattr(graph, "compile"):
        raise UserError(f"{name} gave {type(graph).__name__}, which has no graph to draw.")
    return cast("Graph", graph)


def give(objects: Sequence[object]) -> list[str]:
    """Assign import paths to passed objects, valid as long as this process, and return them. Equal names get a number.

    An object at the top level of a module already has an import path, which works in other processes too. Any other
    object is named by its own name, or by a variable of the session that refers to it.
    """
    import_paths: list[str] = []
    for passed in objects:
        import_path = _path_in_module(passed)
        if import_path:
            _module_objects[import_path] = passed
        else:
            name = _name_for(passed)
            numbered = (f"{HERE}:{name}" + (f"_{number}" if number > 1 else "") for number in count(1))
            import_path = next(
                candidate
                for candidate in numbered
                if candidate not in import_paths or _passed_objects[candidate] is passed
            )
            _passed_objects[import_path] = passed
        import_paths.append(import_path)
    return import_paths


def _path_in_module(passed: object) -> str:
    """Return the import path of a function or a class in its module. Empty if it is in none."""
    module, qualified = getattr(passed, "__module__", None), getattr(passed, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualified, str) or module == HERE or not _is_dotted(module):
        return ""
    if not _is_dotted(qualified) or at_path(sys.modules.get(module), qualified) is not passed:
        return ""
    return f"{module}:{qualified}"


def _name_for(passed: object) -> str:
    session = vars(sys.modules[HERE]) if HERE in sys.modules else {}
    names = [key for key, value in session.items() if value is passed and not key.startswith("_")]
    own_name = str(getattr(passed, "__qualname__", "")).rpartition(".")[2].strip("<>")
    name = own_name if own_name in names or not names else names[0]
    return name if name.isidentifier() else type(passed).__name__.strip("_").lower() or "system"


def object_at(name: str) -> object | None:
    """Return the object that was passed directly and has this import path, or ``None``."""
    return _passed_objects.get(name)


def was_given(name: str) -> bool:
    """Return True if this import path belongs to an object of this process that was passed directly."""
    return name in _passed_objects or name in _module_objects or name.startswith(f"{HERE}:")


def about_place(name: str) -> About:
    """Return the values of the decorator of the object at an import path, or the defaults."""
    return about(named_object(name))


def app_of(name: str) -> App | None:
    """Return a graph of a ``langgraph.json``, or ``None`` for any other import path. Nothing is imported.

    Raises:
        UserError: the file does not exist or has another form, or it has no graph of that name.
    """
    path, colon, graph_name = name.rpartition(":")
    path, graph_name = (path, graph_name) if colon and path.endswith(".json") else (name, "")
    if not path.endswith(".json"):
        return None
    file = Path(path).expanduser()
    try:
        config = msgspec.json.decode(file.read_bytes(), type=_LanggraphConfig)
    except OSError as error:
        raise UserError(f"Cannot read {path!r} (from {name!r}): {error.strerror}.") from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path}: {error}. Expected a langgraph.json, with graphs = {{NAME: PATH.py:NAME}}.") from None
    if graph_name not in config.graphs:
        listing = f"It has: {', '.join(config.graphs)}." if config.graphs else "It has none."
        if not graph_name:
            raise UserError(f"{name}: which graph? Expected {name}:NAME. {listing}")
        raise UserError(f"{name}: there is no graph {graph_name!r}.{nearest(graph_name, config.graphs)} {listing}")
    entry = config.graphs[graph_name]
    target = str(entry.get("path", "")) if isinstance(entry, Mapping) else entry
    folder = file.resolve().parent
    if not is_module(target):
        target = str(folder / target)
    local_dependencies = [
        dependency for dependency in config.dependencies if dependency.startswith(".") or Path(dependency).is_absolute()
    ]
    folders = [str(folder)]
    for dependency in local_dependencies:
        dependency_folder = (folder / dependency).resolve()
        folders += [
            str(dependency_folder),
            *([str(dependency_folder / "src")] if (dependency_folder / "src").is_dir() else []),
        ]
    variables = _variables(folder, config.env, path)
    packages = tuple(dependency for dependency in config.dependencies if dependency not in local_dependencies)
    return App(target, tuple(dict.fromkeys(folders)), packages, variables)


class _LanggraphConfig(Struct):
    """The parts of a ``langgraph.json`` that are used here."""

    graphs: dict[str, str | dict[str, object]]
    dependencies: list[str] = []
    env: str | dict[str, object] = ""


def _variables(folder: Path, env: str | dict[str, object], path: str) -> dict[str, str]:
    if isinstance(env, dict):
        return {key: str(value) for key, value in env.items()}
    if not env:
        return {}
    from dotenv import dotenv_values

    file = folder / env
    if not file.is_file():  # usual after a fresh clone, because the file is not committed
        warn_once(f"{path}: its env is {env!r}, and there is no such file in its folder: no variable is set.")
        return {}
    return {key: value for key, value in dotenv_values(file).items() if value is not None}


def resolve(name: str) -> tuple[App | None, str]:
    """Return the graph of a ``langgraph.json``, if the import path names one, and its target. Nothing is imported."""
    app = app_of(name)
    return app, app.target if app else name


def target_of(name: str) -> str:
    """Resolve an import path. A ``langgraph.json`` resolves to its graph's import path; any other path is returned
    itself.

    A ``langgraph.json`` also puts its folders on the import path and its variables into the environment, unless they
    are already set.
    """
    app = app_of(name)
    if app is None:
        return name
    for key, value in app.variables.items():
        os.environ.setdefault(key, value)
    for folder in app.folders:
        if folder not in sys.path:
            sys.path.append(folder)
    importlib.invalidate_caches()
    return app.target


def source_of(name: str) -> OwnSource:
    """Return the entry points of the source of the object at an import path.

    Raises:
        UserError: the file does not exist.
    """
    if (passed := object_at(name)) is not None:
        return object_source(passed)
    app, target = resolve(name)
    module = is_module(target)
    return OwnSource(
        files=() if module else (file_of(target),),
        modules=(target.rpartition(":")[0],) if module else (),
        folders=tuple(map(Path, app.folders)) if app else (),
        packages=app.packages if app else (),
        variables=app.variables if app else {},
    )


def dependencies_at(name: str) -> RecordedDependencies:
    """Return the recorded dependencies of the systems in the same folder or package, in this process."""
    _, target = resolve(name)
    if object_at(name) is not None:
        return dependencies_in_process(HERE)
    module = target.rpartition(":")[0].partition(".")[0]
    return dependencies_in_process(module if is_module(target) else str(file_of(target).parent))


def _forget_changed(name: str) -> None:
    """Unload the modules of an import path if their dependencies have changed: an edited prompt file, another variable.

    Raises:
        UserError: another system of this process has modules or variables of these names.
    """
    heard, source = dependencies_at(name), source_of(name)
    say_whose(name, resolve(name)[1])
    reads = SystemDependencies(source, heard)
    own_files = reads.own_modules()
    entry_files = {path.resolve() for path in source.files}
    shared = {
        f"module {module_name!r}": str(path) for path, module_name in own_files.items() if path not in entry_files
    }
    of_files = {f"environment variable {key}": value for key, value in source.variables.items()}
    # Variables that the user has set take precedence over any file.
    shared |= {
        resource: value
        for resource, value in of_files.items()
        if resource in _shared or resource.split()[-1] not in os.environ
    }
    for resource, own_value in sorted(shared.items()):
        owner, first_value = _shared.setdefault(resource, (name, own_value))
        if first_value != own_value and owner != name:
            raise UserError(
                f"{owner} and {name} each have their own {resource}, and a process can have only one. Run them in two "
                "commands; `ragrounds compare` compares their runs."
            )
    module = module_named(name)
    if reads.changed or module in REFUSED:
        REFUSED.discard(module)
        OPENED.pop(module, None)
        for loaded_name, loaded in list(sys.modules.items()):
            file = getattr(loaded, "__file__", None)
            if file and loaded_name != HERE and not loaded_name.startswith("ragrounds.") and Path(file) in own_files:
                del sys.modules[loaded_name]
        forget(heard)


def prompts(name: str) -> tuple[str, ...]:
    """Return ``PROMPTS`` of the file: names of prompts that a graph renders through the context."""
    return () if object_at(name) is not None else tuple(getattr(module_of(target_of(name), name), "PROMPTS", ()))


def module_of(target: str, name: str) -> ModuleType:
    """Import the module of a target. `name` is the import path that resolves to it.

    Raises:
        UserError: the module does not exist, or its import fails.
    """
    with watched(name), dependencies_at(name).listening():
        return imported_module(target if _is_file(target) else target.rpartition(":")[0])


def file_of(target: str) -> Path:
    """Return the file of an import path that names a file.

    Raises:
        UserError: the file does not exist.
    """
    path = Path(target if _is_file(target) else target.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} (from {target!r}). Expected PATH.py:NAME.")
    return path.resolve()
