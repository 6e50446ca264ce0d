"""Writes what is public into docs/reference/surface.txt: a line that changes or goes is a change for users.

    python docs/scripts/surface.py

Python names with their parameters, commands with their options, columns of frames, fields of files, hooks, extras, and
the versions of JSON and store. docs/project/stability.md says what may change when.
"""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "scripts")]

from reference_pages.commands import commands_of  # noqa: E402
from reference_pages.formats import FORMATS  # noqa: E402

import ragrounds as rr  # noqa: E402
from ragrounds.api import frames  # noqa: E402
from ragrounds.api.functions import public_modules  # noqa: E402
from ragrounds.base import hooks  # noqa: E402
from ragrounds.cli.entry import command_tree  # noqa: E402
from ragrounds.cli.output import JSON_VERSION  # noqa: E402
from ragrounds.evals.store import schema  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "surface.txt"


def surface() -> str:
    """Return all lines."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    frames_public = [value for value in vars(frames).values() if isinstance(value, frames.Frame)]
    lines = [
        f"version of JSON: {JSON_VERSION}",
        f"version of a store: {schema.VERSION}",
        *(f"extra {name}" for name in sorted(extras)),
        *(f"hook {hook.group or hook.folder}: {hook.expected}" for hook in hooks.HOOKS),
        *sorted(line for name in public_modules() for line in _python(name)),
        *(f"frame {frame.name}.{column.name}: {column.type}" for frame in frames_public for column in frame.columns),
        *sorted(line for name, command in command_tree().commands.items() for line in _command(name, command)),
        *sorted({line for kind in FORMATS for line in _fields(kind.name, kind.records)}),
    ]
    return "".join(f"{line}\n" for line in lines)


def _python(name: str) -> Iterator[str]:
    value = getattr(rr, name)
    yield f"rr.{name}{_parameters(value)}"
    for member in dir(value) if inspect.isclass(value) and value.__module__.startswith("ragrounds") else ():
        if not member.startswith("_") and not hasattr(Exception, member):
            attribute = getattr(value, member)
            yield f"rr.{name}.{member}{_parameters(attribute) if inspect.isroutine(attribute) else ''}"


def _parameters(value: object) -> str:
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    # Kinds and names are the contract; defaults may be objects whose text differs from run to run.
    names = [{2: "*", 4: "**"}.get(parameter.kind, "") + parameter.name for parameter in parameters]
    keyword = next((at for at, parameter in enumerate(parameters) if parameter.kind == parameter.KEYWORD_ONLY), None)
    if keyword is not None and not any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        names.insert(keyword, "*")
    return f"({', '.join(names)})"


def _command(name: str, command: object) -> Iterator[str]:
    for path, below in commands_of(name, command):
        if not below.hidden:
            yield f"ragrounds {path}"
            for parameter in below.params:
                if not getattr(parameter, "hidden", False):
                    yield f"ragrounds {path} {' '.join((*parameter.opts, *parameter.secondary_opts))}"


def _fields(format: str, records: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for module, name, *_ in records:
        record = getattr(import_module(module), name)
        fields = getattr(record, "__struct_encode_fields__", record.__annotations__)
        yield from (f"file {format}, {name.strip('_')}: {field}" for field in fields)


if __name__ == "__main__":
    PAGE.write_text(surface(), encoding="utf-8")
