"""Layout of a prompt: the order of the parts of the user's turn, and which parts go into the system's turn.

A part begins with a line ``### Heading`` in the prompt's file. Its name is the first word of that heading in lower
case: ``documents``, ``known``, ``question``, ``options``, ``first``, ``instruction``. ``system`` is the text of the
system's turn; if a layout names it, it goes into the user's turn. Values are filled in later, so nothing in a document
or a model's text counts as a part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Speaker

PARTS = ("documents", "known", "first", "question", "options", "instruction", "system")
OPTIONAL = ("known", "options")
"""Parts that are left out, with their headings, if their value is empty."""
_CUE = "answer"
_SYSTEM = "@system"
_HEADING = re.compile(r"^### (\S+)[^\n]*(?:\n|\Z)", re.MULTILINE)


class Section(Struct, frozen=True):
    """Part of a turn: its name (empty for text before the first heading) and its text with the heading."""

    name: str
    text: str


def layout_parts(layout: str) -> tuple[str, ...]:
    """Return the parts of a layout such as ``documents+question+options``.

    A part that goes into the system's turn keeps its suffix ``@system``.

    Raises:
        UserError: a part is unknown, or is named twice.
    """
    parts = tuple(layout.split("+")) if layout else ()
    for part in parts:
        name = part.removesuffix(_SYSTEM)
        if name not in PARTS:
            raise UserError(
                f"The layout {layout!r} has an unknown part {name!r}.{nearest(name, PARTS)} Known: {', '.join(PARTS)}, "
                "joined by +; NAME@system puts a part into the system's turn."
            )
    if len({part.removesuffix(_SYSTEM) for part in parts}) < len(parts):
        raise UserError(f"The layout {layout!r} names a part twice.")
    return parts


def sections(turn: str) -> list[Section]:
    """Split one turn into its parts, in order."""
    starts = [(heading.start(), heading[1].lower()) for heading in _HEADING.finditer(turn)]
    if not starts:
        return [Section("", turn.strip())]
    ends = [start for start, _ in starts[1:]] + [len(turn)]
    named_parts = [Section(name, turn[start:end].strip()) for (start, name), end in zip(starts, ends, strict=True)]
    return [*([Section("", before)] if (before := turn[: starts[0][0]].strip()) else []), *named_parts]


def arrange_turns(turns: Sequence[tuple[Speaker, str]], layout: str) -> list[tuple[Speaker, list[Section]]]:
    """Return the turns of a prompt with their parts in the order of a layout.

    Parts that the layout does not name follow the named ones; the cue for the answer stays last. A prompt with turns
    other than one of the system and one of the user is returned unchanged.

    Args:
        turns: speaker and text of each turn.
        layout: ``documents+question+options``; empty: keep the order of the parts.
    """
    parted = [(speaker, sections(text)) for speaker, text in turns]
    requested = layout_parts(layout)
    if not requested or [speaker for speaker, _ in turns] not in (["system", "user"], ["user"]):
        return parted
    part_by_name = {section.name: section for section in parted[-1][1]}
    system = parted[0][1] if len(parted) == 2 else []
    if "system" in requested and system:
        part_by_name["system"], system = Section("system", system[0].text), system[1:]
    present_parts = [part for part in requested if part.removesuffix(_SYSTEM) in part_by_name]
    above = [part_by_name[part.removesuffix(_SYSTEM)] for part in present_parts if part.endswith(_SYSTEM)]
    below = [part_by_name[part] for part in present_parts if not part.endswith(_SYSTEM)]
    used = {part.removesuffix(_SYSTEM) for part in present_parts}
    rest = [section for name, section in part_by_name.items() if name not in used and name != _CUE]
    user = [*below, *rest, *([part_by_name[_CUE]] if _CUE in part_by_name else [])]
    system_turn: list[tuple[Speaker, list[Section]]] = [("system", [*system, *above])] if system or above else []
    return [*system_turn, ("user", user)]
