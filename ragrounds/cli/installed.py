"""Commands of installed packages."""

from __future__ import annotations

import typer

from ragrounds.base import hooks
from ragrounds.base.plugins import ExtensionPoint
from ragrounds.cli.command_files import command_files

COMMANDS: ExtensionPoint[object] = ExtensionPoint(hooks.COMMAND, typer.Typer, ships=lambda: dict(command_files()))
"""Commands: built-in ones, by files, and those of installed packages."""
