"""The built-in commands, by the first sentences of their files: ``--help`` imports none of them."""

from __future__ import annotations

import re
from functools import cache

from ragrounds.base import hooks
from ragrounds.cli.help_text import SECTIONS

_HEAD = re.compile(r"`ragrounds ([a-z-]+)`: ([^`]+?)\.? ?(?=`|$)")


@cache
def command_files() -> dict[str, tuple[str, str]]:
    """Return the module and the description of each built-in command, ordered by subject."""
    commands: dict[str, tuple[str, str]] = {}
    for module, path in hooks.COMMAND.modules().items():
        with path.open(encoding="utf-8") as file:
            head = " ".join(file.read(500).strip().strip('"').partition("\n\n")[0].partition('"""')[0].split())
        commands |= {command: (module, f"{about[0].upper()}{about[1:]}") for command, about in _HEAD.findall(head)}
    in_sections = [name for names in SECTIONS.values() for name in names if name in commands]
    return {name: commands[name] for name in (*in_sections, *sorted(commands.keys() - {*in_sections}))}
