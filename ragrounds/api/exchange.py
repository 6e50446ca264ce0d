"""The formats that runs are exported to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragrounds.evals.exchange.formats import ExportFormat


def list_formats() -> Mapping[str, ExportFormat[Any]]:
    """The export formats by name, each with what it writes or sends and its own options."""
    from ragrounds.evals.exchange.formats import export_formats

    return export_formats()


def typed_format(name: str) -> ExportFormat[Any] | None:
    """The format that the user typed, by its name or an import path (``package.module:NAME``), which runs that code;
    ``None``: there is none of that name.

    Raises:
        UserError: the import path gives no format; an installed package adds the name, and it cannot be used.
    """
    from ragrounds.evals.exchange.formats import EXPORTS
    from ragrounds.plugins import is_import_path

    return EXPORTS.imported(name) if is_import_path(name) else EXPORTS.find(name)
