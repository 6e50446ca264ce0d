"""Axes on which two answers are compared: data, MRAG-Bench's four and the user's own."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.errors import UserError, unknown

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class Axis(Struct, frozen=True):
    """A name, and what it means in the judge's prompt."""

    name: str
    en: str
    zh: str = ""

    def text(self, language: str) -> str:
        """What it means, in the question's language where there is such a text."""
        return self.zh if language == "zh" and self.zh else self.en


class _Entry(Struct, forbid_unknown_fields=True):
    en: str
    zh: str = ""
    source: str = ""


def load_axes(names: Sequence[str] = (), file: Path | None = None) -> tuple[Axis, ...]:
    """The axes `names` in this order, by default all: MRAG-Bench's four, or those of the user's TOML file, which has
    one table an axis, ``[name]`` with ``en`` and perhaps ``zh``.

    Raises:
        UserError: no such axis, or a file of another form.
    """
    if file is None:
        known = _read(files(__package__).joinpath("axes.toml").read_text(encoding="utf-8"), "axes.toml")
    else:
        try:
            known = _read(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"Cannot read the axes in {file}: {error}.") from error
    for name in names:
        if name not in known:
            raise unknown("axis", name, known, "ragrounds arena --help")
    return tuple(Axis(name, known[name].en, known[name].zh) for name in dict.fromkeys(names or known))


def _read(text: str, where: str) -> Mapping[str, _Entry]:
    try:
        known = msgspec.convert(tomllib.loads(text), dict[str, _Entry])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UserError(f'{where}: {error}. Expected one table an axis: [name] with en = "what it means".') from error
    if not known:
        raise UserError(f"{where} has no axes.")
    for name, entry in known.items():
        if not _NAME.fullmatch(name) or not entry.en.strip():
            raise UserError(f"{where}: the axis {name!r} needs a name of letters, digits, - and _, and a text `en`.")
    return known
