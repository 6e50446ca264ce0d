"""The formats that runs are exported to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragrounds.evals.exchange.formats import EXPORTS, ExportFormat, export_formats
from ragrounds.plugins import is_import_path


def list_formats() -> Mapping[str, ExportFormat[Any]]:
    """The export formats by name, each with what it writes or sends and its own options."""
    return export_formats()


def typed_format(name: str) -> ExportFormat[Any] | None:
    """The format that the user typed, by its name or an import path (``package.module:NAME``), which runs that code;
    ``None``: there is none of that name.

    Raises:
        UserError: the import path gives no format; an installed package adds the name, and it cannot be used.
    """
    return EXPORTS.imported(name) if is_import_path(name) else EXPORTS.find(name)
