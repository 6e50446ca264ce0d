"""Where a system of the user's own stands, and what stands there.

``PATH.py:NAME``, ``package.module:NAME``, ``PATH/langgraph.json:NAME``; an object or a function that makes one. A
Python object that is given to :func:`ragrounds.run` itself has a place too, ``__main__:NAME``, which lasts as long as
the process.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.in_process import refusals
from ragrounds.agents.systems.live_objects import object_source
from ragrounds.agents.systems.opening import OPENED, REFUSED, module_named, watched
from ragrounds.agents.systems.reads import Heard, OwnSource, SystemReads, forget, heard_here
from ragrounds.agents.trust import say_whose
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.plugins import imported_module, say_once
from ragrounds.graphs.user_graph import About, about
from ragrounds.recorder.answers import at_path
from ragrounds.recorder.targets import held_in

HERE = "__main__"
"""The module of what was given as an object."""
_given: dict[str, object] = {}
"""Objects that were given themselves, by their place."""
_of_modules: dict[str, object] = {}
"""Objects that were given themselves and that a module holds, by their place there."""
_shared: dict[str, tuple[str, str]] = {}
"""What systems of this process share: a module or a variable → which one has it first, and its file or value."""


class App(Struct, frozen=True):
    """A graph of a ``langgraph.json``."""

    target: str
    """Where it stands: ``/folder/src/graph.py:graph`` or ``package.module:graph``."""
    folders: tuple[str, ...]
    """The local folders among its dependencies, which are on the import path."""
    packages: tuple[str, ...]
    """Its other dependencies, as the file names them: they are to be installed."""
    variables: dict[str, str]
    """What its `env` sets, where the environment does not."""


def is_place(name: str) -> bool:
    """Say whether a name is a place: ``PATH.py:NAME``, ``package.module:NAME``, ``langgraph.json:NAME``; a file alone
    is one too, of which :func:`named_object` tells what it has."""
    place, colon, wanted = name.rpartition(":")
    if _is_file(name):
        return True
    if not colon:
        return False
    if place.endswith(".json"):
        return bool(wanted)
    return _is_dotted(wanted) and (place.endswith(".py") or is_module(name))


def _is_file(name: str) -> bool:
    return name.endswith((".py", ".json"))


def is_module(name: str) -> bool:
    """Say whether what has such a name stands in a module, rather than in a file that is named by its path."""
    place = name.rpartition(":")[0]
    return not _is_file(place) and _is_dotted(place)


def _is_dotted(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def beside(file: str, name: str) -> str:
    """A place that a file names, as seen from where the command is given: paths begin at the file's folder."""
    return name if is_module(name) else str(Path(file).parent / name)


def named_object(name: str) -> object:
    """What stands at a place: a system, the function that makes one, or an agent's card.

    Raises:
        UserError: there is no such module or name, or the module fails.
    """
    if name in _given or name in _of_modules:
        return _given[name] if name in _given else _of_modules[name]
    if name.startswith(f"{HERE}:") and not hasattr(sys.modules.get(HERE), name.partition(":")[2]):
        raise UserError(
            f"{name} was an object of another process, such as a notebook: give it to rr.run(agents=[…]) again, or put "
            "it into a file and name it as ./FILE.py:NAME."
        )
    _forget_changed(name)
    target = target_of(name)
    with refusals():
        return held_in(module_of(target, name), "" if _is_file(target) else target.rpartition(":")[2], name)


def give(made: Sequence[object]) -> list[str]:
    """Give objects places that last as long as this process, and say which. Equal names get a number.

    What a module holds at its top level has a place already, which works in other processes too. Anything else is
    called by its own name, or by that of a variable of the session that holds it.
    """
    places: list[str] = []
    for one in made:
        place = _own_place(one)
        if place:
            _of_modules[place] = one
        else:
            name = _name_of(one)
            numbered = (f"{HERE}:{name}" + (f"_{number}" if number > 1 else "") for number in count(1))
            place = next(each for each in numbered if each not in places or _given[each] is one)
            _given[place] = one
        places.append(place)
    return places


def _own_place(made: object) -> str:
    """Where a module holds a function or a class; empty: none does."""
    module, qualified = getattr(made, "__module__", None), getattr(made, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualified, str) or module == HERE or not _is_dotted(module):
        return ""
    if not _is_dotted(qualified) or at_path(sys.modules.get(module), qualified) is not made:
        return ""
    return f"{module}:{qualified}"


def _name_of(made: object) -> str:
    session = vars(sys.modules[HERE]) if HERE in sys.modules else {}
    names = [key for key, value in session.items() if value is made and not key.startswith("_")]
    own = str(getattr(made, "__qualname__", "")).rpartition(".")[2].strip("<>")
    name = own if own in names or not names else names[0]
    return name if name.isidentifier() else type(made).__name__.strip("_").lower() or "system"


def object_at(name: str) -> object | None:
    """The object that was given itself and has this place; ``None``: none was."""
    return _given.get(name)


def was_given(name: str) -> bool:
    """Whether what has this place is an object of this process: it was given itself."""
    return name in _given or name in _of_modules or name.startswith(f"{HERE}:")


def about_place(name: str) -> About:
    """What the decorator of what stands at a place says, or the defaults."""
    return about(named_object(name))


def app_of(name: str) -> App | None:
    """What a ``langgraph.json`` says of one of its graphs; ``None``: the place is in no such file. Nothing is imported.

    Raises:
        UserError: no such file, it has another form, or there is no graph of that name.
    """
    path, colon, wanted = name.rpartition(":")
    path, wanted = (path, wanted) if colon and path.endswith(".json") else (name, "")
    if not path.endswith(".json"):
        return None
    file = Path(path).expanduser()
    try:
        said = msgspec.json.decode(file.read_bytes(), type=_Said)
    except OSError as error:
        raise UserError(f"Cannot read {path!r} (from {name!r}): {error.strerror}.") from None
    except msgspec.MsgspecError as error:
        raise UserError(f"{path}: {error}. Expected a langgraph.json, with graphs = {{NAME: PATH.py:NAME}}.") from None
    if wanted not in said.graphs:
        there = f"It has: {', '.join(said.graphs)}." if said.graphs else "It has none."
        if not wanted:
            raise UserError(f"{name}: which graph? Expected {name}:NAME. {there}")
        raise UserError(f"{name}: there is no graph {wanted!r}.{nearest(wanted, said.graphs)} {there}")
    entry = said.graphs[wanted]
    target = str(entry.get("path", "")) if isinstance(entry, Mapping) else entry
    folder = file.resolve().parent
    if not is_module(target):
        target = str(folder / target)
    local = [each for each in said.dependencies if each.startswith(".") or Path(each).is_absolute()]
    folders = [str(folder)]
    for each in local:
        place = (folder / each).resolve()
        folders += [str(place), *([str(place / "src")] if (place / "src").is_dir() else [])]
    variables = _variables(folder, said.env, path)
    others = tuple(each for each in said.dependencies if each not in local)
    return App(target, tuple(dict.fromkeys(folders)), others, variables)


class _Said(Struct):
    """The parts of a ``langgraph.json`` that matter here."""

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
    if not file.is_file():  # as after every fresh clone
        say_once(f"{path}: its env is {env!r}, and there is no such file in its folder: no variable is set.")
        return {}
    return {key: value for key, value in dotenv_values(file).items() if value is not None}


def target_of(name: str) -> str:
    """Where a place leads: of a ``langgraph.json`` to its graph's own place, with its folders on the import path and
    its variables in the environment (what is set there already comes first); else to itself."""
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
    """Where the source of what stands at a place begins.

    Raises:
        UserError: there is no such file.
    """
    if (given := object_at(name)) is not None:
        return object_source(given)
    app = app_of(name)
    target = app.target if app else name
    module = is_module(target)
    return OwnSource(
        files=() if module else (file_of(target),),
        modules=(target.rpartition(":")[0],) if module else (),
        folders=tuple(map(Path, app.folders)) if app else (),
        packages=app.packages if app else (),
        variables=app.variables if app else {},
    )


def heard_at(name: str) -> Heard:
    """What is heard of the systems that stand where this one does, in this process."""
    app = app_of(name)
    target = app.target if app else name
    if object_at(name) is not None:
        return heard_here(HERE)
    module = target.rpartition(":")[0].partition(".")[0]
    return heard_here(module if is_module(target) else str(file_of(target).parent))


def _forget_changed(name: str) -> None:
    """Have the modules behind a place imported anew where they have read something that is another now: an edited
    prompt file, another variable.

    Raises:
        UserError: another system of this process has modules or variables of these names.
    """
    heard, app, source = heard_at(name), app_of(name), source_of(name)
    say_whose(name, app.target if app else name)
    reads = SystemReads(source, heard)
    own = reads.own_modules()
    begins = {path.resolve() for path in source.files}
    shared = {f"module {one!r}": str(path) for path, one in own.items() if path not in begins}
    of_files = {f"environment variable {key}": value for key, value in source.variables.items()}
    # What the user has set comes before any file.
    shared |= {what: value for what, value in of_files.items() if what in _shared or what.split()[-1] not in os.environ}
    for what, mine in sorted(shared.items()):
        whose, first = _shared.setdefault(what, (name, mine))
        if first != mine and whose != name:
            raise UserError(
                f"{whose} and {name} each have their own {what}, and a process can have only one. Run them in two "
                "commands; `ragrounds compare` compares their runs."
            )
    module = module_named(name)
    if reads.changed or module in REFUSED:
        REFUSED.discard(module)
        OPENED.pop(module, None)
        for one, loaded in list(sys.modules.items()):
            file = getattr(loaded, "__file__", None)
            if file and one != HERE and not one.startswith("ragrounds.") and Path(file) in own:
                del sys.modules[one]
        forget(heard)


def prompts(name: str) -> tuple[str, ...]:
    """``PROMPTS`` of the file: names of prompts that a graph renders through the context."""
    return () if object_at(name) is not None else tuple(getattr(module_of(target_of(name), name), "PROMPTS", ()))


def module_of(target: str, name: str) -> ModuleType:
    """The module that a target is in, imported; `name` is the place that leads to it.

    Raises:
        UserError: there is none, or it fails.
    """
    with watched(name), heard_at(name).listening():
        return imported_module(target if _is_file(target) else target.rpartition(":")[0])


def file_of(target: str) -> Path:
    """The file of a place that is named by its path.

    Raises:
        UserError: there is none.
    """
    path = Path(target if _is_file(target) else target.rpartition(":")[0]).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} (from {target!r}). Expected PATH.py:NAME.")
    return path.resolve()
