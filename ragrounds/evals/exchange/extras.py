"""Optional libraries, asked for by what needs them."""

from __future__ import annotations

import importlib
from typing import Any

from ragrounds.errors import UserError


def need(module: str, form: str, extra: str = "export") -> Any:
    """Import a module of an extra.

    Raises:
        UserError: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"Exporting {form} needs {module.partition('.')[0]}: pip install 'ragrounds[{extra}]' ({error})."
        ) from error
