"""Public functions, ``rr.NAME``: those of the core, of extensions and of installed packages."""

from __future__ import annotations

import sys
from importlib import import_module

import ragrounds
from ragrounds.base import hooks
from ragrounds.base.plugins import ExtensionPoint, declared


def public_modules() -> dict[str, str]:
    """Return the module of each public name of the core and of the extensions."""
    core = {name: f"ragrounds.{module}" for name, module in ragrounds._PLACES.items()}
    return core | hooks.extension_functions() | core


def public_names() -> list[str]:
    """List all public names, those of installed packages too. Nothing is imported for it."""
    return [*public_modules(), *(addition.name for addition in declared(hooks.FUNCTION.group))]


FUNCTIONS: ExtensionPoint[object] = ExtensionPoint(
    hooks.FUNCTION,
    object,
    lambda value: "" if callable(value) else f"it is {type(value).__name__}, expected {hooks.FUNCTION.expected}.",
    public_modules,
)
"""Public functions: built-in ones, by the names of modules, and those of installed packages."""


def added_function(name: str) -> object:
    """Import a public function of an extension or of an installed package.

    Raises:
        AttributeError: the name is unknown.
        UserError: the package that adds it cannot be used.
    """
    if module := hooks.extension_functions().get(name):
        return getattr(import_module(module), name)
    if addition := FUNCTIONS.addition(name):
        return addition[1]
    raise AttributeError(f"module 'ragrounds' has no attribute {name!r}", name=name, obj=sys.modules["ragrounds"])
