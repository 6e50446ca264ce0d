"""What an export format is, how formats are found, and what they share: optional libraries, and keys kept out of files.

A format is one object in one file of this folder (`FORMAT`). `ragrounds export NAME`, its help and its options are made
from it, so a new file is a new command. Installed packages add theirs by entry points of the group
``ragrounds.exports``, and ``ragrounds export package.module:NAME`` takes one by its import path.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_type_hints

from msgspec import Meta, Struct
from msgspec.structs import fields

from ragrounds.base import hooks
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import ExtensionPoint, fields_amiss
from ragrounds.base.redaction import Redactor as Redactor  # formats of other packages import it from here
from ragrounds.base.text import file_name_among

Progress = Callable[[str, int], None]
if TYPE_CHECKING:
    from ragrounds.base.records import Run
    from ragrounds.evals.store.store import Store


class NoOptions(Struct, frozen=True):
    """A format without options of its own."""


O = TypeVar("O", bound=Struct)  # noqa: E741 - options


class Export(Struct, Generic[O], frozen=True):
    """What is to be exported: some runs of a store, under a format's options."""

    store: Store
    runs: Sequence[Run]
    options: O
    progress: Progress = lambda what, done: None
    """Is told what is being sent, and how many are."""


class ExportPart(Struct, frozen=True):
    """One file of an export."""

    write: Callable[[Path], str]
    """Writes the file at a path; returns what it wrote, in words."""
    name: str = ""
    """Its name in the folder; empty: the export is this file alone."""


class ExportFormat(Struct, Generic[O], frozen=True, kw_only=True):
    """One format: its name, what it writes or sends, and its words."""

    name: str
    """As in ``ragrounds export NAME``."""
    summary: str
    """Its help: what the file holds, in a sentence or two."""
    writes: Literal["file", "folder", "nothing"]
    """What ``--out`` names."""
    extra: str = ""
    """The extra of this package that it needs; empty: none."""
    options: type[O]
    """Its own options: each field becomes an option of the command, with its type, default and description
    (``Annotated[T, msgspec.Meta(description=…)]``)."""
    parts: Callable[[Export[O]], Iterator[ExportPart]] | None = None
    """Yields the files one after the other; raises UserError where there is nothing to write."""
    send: Callable[[Export[O]], str] | None = None
    """Sends the runs to a server and returns what it sent, in words. It is called where no ``--out`` is given."""
    check: Callable[[O, bool], None] | None = None
    """Called first, with the options and whether ``--out`` is given; raises UserError where they do not fit. A format
    that sends refuses here unless an option asks for it."""

    @property
    def help(self) -> str:
        """The summary, with the extra that the format needs, and the package that adds it."""
        extra = f" Needs the extra `{self.extra}`." if self.extra else ""
        package = EXPORTS.origin(self.name)
        return f"{self.summary}{extra}" + (f" From the package {package}." if package else "")


def _lacks(made: ExportFormat[Any]) -> str:
    if made.name == "store":
        return "`ragrounds export store` writes stores; give the format another name."
    if amiss := fields_amiss(made, texts=("summary", "extra")):
        return amiss
    if not (isinstance(made.options, type) and issubclass(made.options, Struct)):
        return "its options are no class of msgspec.Struct."
    for name, hint in get_type_hints(made.options, include_extras=True).items():
        if not any(isinstance(one, Meta) for one in getattr(hint, "__metadata__", ())):
            return f"its option {name!r} has no description: Annotated[TYPE, msgspec.Meta(description=…)]."
    if bare := [field.name for field in fields(made.options) if field.required]:
        return f"its option {bare[0]!r} has no default."
    return "" if made.parts or made.send else f"the export format {made.name!r} has neither `parts` nor `send`."


EXPORTS: ExtensionPoint[ExportFormat[Any]] = ExtensionPoint(hooks.EXPORT, ExportFormat, _lacks)
"""What ships, what installed packages add, and what users name by import path."""


def export_formats() -> dict[str, ExportFormat[Any]]:
    """All formats by name: those of this folder, and those that installed packages add."""
    return EXPORTS.all()


def find_export(name: str) -> ExportFormat[Any]:
    """The format that the user names, by its name or an import path (``package.module:NAME``), which runs that code.

    Raises:
        UserError: there is none; names the nearest.
    """
    return EXPORTS.named(name)


def lines_file(lines: Callable[[], Iterator[bytes]]) -> ExportPart:
    """An export that is one file of lines, written as they come."""

    def _write(path: Path) -> str:
        count = 0
        with path.open("wb") as file:
            for line in lines():
                file.write(line)
                count += 1
        return f"{count:,} lines, {path.stat().st_size / 1e6:.1f} MB"

    return ExportPart(_write)


def run_file_name(run: Run, suffix: str, taken: Sequence[str] = ()) -> str:
    """A file name for a run that is none of those `taken`, such as ``direct-a1b2c3.run``."""
    return file_name_among(run.id, suffix, taken)


def optional_module(module: str, what: str, extra: str = "export") -> ModuleType:
    """Import a module of an extra; `what` is exported with it.

    Raises:
        UserError: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"Exporting {what} needs {module.partition('.')[0]}: pip install 'ragrounds[{extra}]' ({error})."
        ) from error
