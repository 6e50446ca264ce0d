"""Export formats: their interface, their discovery, and shared helpers for optional libraries and for keeping keys out
of files.

A format is one object (`FORMAT`) in one file of this folder. `ragrounds export NAME`, its help and its options are made
from it, so a new file adds a command. Installed packages add theirs by entry points of the group ``ragrounds.exports``,
and ``ragrounds export package.module:NAME`` takes one by its import path.
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
from ragrounds.base.text import file_name_among
from ragrounds.recorder.redaction import Redactor as Redactor  # formats of other packages import it from here

Progress = Callable[[str, int], None]
if TYPE_CHECKING:
    from ragrounds.base.records import Run
    from ragrounds.evals.store.store import Store


class NoOptions(Struct, frozen=True):
    """Options of a format without options."""


O = TypeVar("O", bound=Struct)  # noqa: E741 - options


class Export(Struct, Generic[O], frozen=True):
    """Request for an export: some runs of a store, with a format's options."""

    store: Store
    runs: Sequence[Run]
    options: O
    progress: Progress = lambda label, done: None
    """Callback with a label of the items being sent, and their number so far."""


class ExportPart(Struct, frozen=True):
    """One file of an export."""

    write: Callable[[Path], str]
    """Function that writes the file at a path and returns a phrase on its contents."""
    name: str = ""
    """File name in the folder; empty if the export is a single file."""


class ExportFormat(Struct, Generic[O], frozen=True, kw_only=True):
    """One export format: its name, its output, and its functions."""

    name: str
    """Name of the format in ``ragrounds export NAME``."""
    summary: str
    """Help text: the contents of the file, in a sentence or two."""
    writes: Literal["file", "folder"]
    """Kind of the output that ``--out`` names."""
    extra: str = ""
    """Extra of this package that the format needs; empty if it needs none."""
    options: type[O]
    """Options of the format.

    Each field becomes an option of the command, with its type, default and description
    (``Annotated[T, msgspec.Meta(description=…)]``).
    """
    parts: Callable[[Export[O]], Iterator[ExportPart]]
    """Function that yields the files one by one. It raises UserError if there is nothing to write."""
    send: Callable[[Export[O]], str] | None = None
    """Function that sends the runs to a server and returns a phrase on the result.

    It is called if no ``--out`` is given.
    """
    check: Callable[[O, bool], None] | None = None
    """Function that is called first, with the options and True if ``--out`` is given.

    It raises UserError if they do not fit. A format that sends refuses here unless an option requests it.
    """

    @property
    def help(self) -> str:
        """Summary, with the extra that the format needs, and the package that adds it."""
        extra = f" Needs the extra `{self.extra}`." if self.extra else ""
        package = EXPORTS.origin(self.name)
        return f"{self.summary}{extra}" + (f" From the package {package}." if package else "")


def _missing_requirements(export_format: ExportFormat[Any]) -> str:
    if export_format.name == "store":
        return "`ragrounds export store` writes stores; give the format another name."
    if fault := fields_amiss(export_format, texts=("summary", "extra"), functions=("parts",)):
        return fault
    if not (isinstance(export_format.options, type) and issubclass(export_format.options, Struct)):
        return "its options are no class of msgspec.Struct."
    for name, hint in get_type_hints(export_format.options, include_extras=True).items():
        if not any(isinstance(annotation, Meta) for annotation in getattr(hint, "__metadata__", ())):
            return f"its option {name!r} has no description: Annotated[TYPE, msgspec.Meta(description=…)]."
    if required := [field.name for field in fields(export_format.options) if field.required]:
        return f"its option {required[0]!r} has no default."
    return ""


EXPORTS: ExtensionPoint[ExportFormat[Any]] = ExtensionPoint(hooks.EXPORT, ExportFormat, _missing_requirements)
"""Formats that ship, that installed packages add, and that users name by import path."""


def lines_file(lines: Callable[[], Iterator[bytes]]) -> ExportPart:
    """Return an export that is one file of lines, written one by one."""

    def _write(path: Path) -> str:
        count = 0
        with path.open("wb") as file:
            for line in lines():
                file.write(line)
                count += 1
        return f"{count:,} lines, {path.stat().st_size / 1e6:.1f} MB"

    return ExportPart(_write)


def run_file_name(run: Run, suffix: str, taken: Sequence[str] = ()) -> str:
    """Return a file name for a run that is not in `taken`, such as ``direct-a1b2c3.run``."""
    return file_name_among(run.id, suffix, taken)


def optional_module(module: str, purpose: str, extra: str = "export") -> ModuleType:
    """Import a module of an extra. `purpose` names the export that needs it.

    Raises:
        UserError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"Exporting {purpose} needs {module.partition('.')[0]}: pip install 'ragrounds[{extra}]' ({error})."
        ) from error
