"""The layout of a prompt: in which order the parts of a user's turn stand, and what stands in the system's turn.

A part begins with a line ``### Heading`` in the prompt's own file and is named by the first word of that heading, in
lower case: ``documents``, ``known``, ``question``, ``options``, ``first``, ``instruction``. ``system`` is the text of
the system's turn, where a layout names it: it then stands in the user's. Values are filled in later, so that nothing in
a document or a model's text counts as a part.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Speaker

PARTS = ("documents", "known", "first", "question", "options", "instruction", "system")
OPTIONAL = ("known", "options")
"""Parts that are left out, with their headings, where their value is empty."""
_CUE = "answer"
_SYSTEM = "@system"
_HEADING = re.compile(r"^### (\S+)[^\n]*(?:\n|\Z)", re.MULTILINE)


class Section(Struct, frozen=True):
    """A part of a turn: its name, empty for what stands before the first heading, and its text with the heading."""

    name: str
    text: str


def layout_parts(layout: str) -> tuple[str, ...]:
    """The parts of ``documents+question+options``, each with ``@system`` where it goes into the system's turn.

    Raises:
        UserError: an unknown part, or one that is named twice.
    """
    parts = tuple(layout.split("+")) if layout else ()
    for part in parts:
        name = part.removesuffix(_SYSTEM)
        if name not in PARTS:
            raise UserError(
                f"The layout {layout!r} has an unknown part {name!r}.{nearest(name, PARTS)} Known: {', '.join(PARTS)}, "
                "joined by +; NAME@system stands in the system's turn."
            )
    if len({part.removesuffix(_SYSTEM) for part in parts}) < len(parts):
        raise UserError(f"The layout {layout!r} names a part twice.")
    return parts


def sections(turn: str) -> list[Section]:
    """The parts of one turn, in its order."""
    starts = [(found.start(), found[1].lower()) for found in _HEADING.finditer(turn)]
    if not starts:
        return [Section("", turn.strip())]
    ends = [start for start, _ in starts[1:]] + [len(turn)]
    found = [Section(name, turn[start:end].strip()) for (start, name), end in zip(starts, ends, strict=True)]
    return [*([Section("", before)] if (before := turn[: starts[0][0]].strip()) else []), *found]


def arranged(turns: Sequence[tuple[Speaker, str]], layout: str) -> list[tuple[Speaker, list[Section]]]:
    """The turns of a prompt with their parts in the order of a layout.

    Parts that the layout does not name follow those that it names; the cue for the answer stays last. A prompt of other
    turns than one of the system's and one of the user's stays as it is.

    Args:
        turns: Speaker and text.
        layout: ``documents+question+options``; empty: as the parts stand.
    """
    parted = [(speaker, sections(text)) for speaker, text in turns]
    wanted = layout_parts(layout)
    if not wanted or [speaker for speaker, _ in turns] not in (["system", "user"], ["user"]):
        return parted
    held = {section.name: section for section in parted[-1][1]}
    system = parted[0][1] if len(parted) == 2 else []
    if "system" in wanted and system:
        held["system"], system = Section("system", system[0].text), system[1:]
    named = [part for part in wanted if part.removesuffix(_SYSTEM) in held]
    above = [held[part.removesuffix(_SYSTEM)] for part in named if part.endswith(_SYSTEM)]
    below = [held[part] for part in named if not part.endswith(_SYSTEM)]
    used = {part.removesuffix(_SYSTEM) for part in named}
    rest = [section for name, section in held.items() if name not in used and name != _CUE]
    user = [*below, *rest, *([held[_CUE]] if _CUE in held else [])]
    told: list[tuple[Speaker, list[Section]]] = [("system", [*system, *above])] if system or above else []
    return [*told, ("user", user)]
