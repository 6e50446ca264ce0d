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
