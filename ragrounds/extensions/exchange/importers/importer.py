"""What an importer is: it recognises files of its form, and reads rows from them.

A file of this folder that holds an :class:`Importer` adds a form to ``ragrounds import``. Importers give what a file
says and nothing else: what is not there stays ``None`` or empty, which is *unknown*, and a row that cannot be read is a
:class:`BadRow` with its place and the reason. Which question a row answers is found by
:mod:`ragrounds.extensions.exchange.imported_runs`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ragrounds.base import hooks
from ragrounds.base.http import believed_count
from ragrounds.base.plugins import ExtensionPoint, fields_amiss
from ragrounds.base.records import Status, Usage

MOST_SECONDS = 1e7
"""Seconds of one answer beyond which a time is not believed."""


class GivenPassage(Struct, frozen=True):
    """A passage that an answer was given from."""

    text: str
    id: str = ""
    title: str = ""
    score: float | None = None


class ImportedStep(Struct, frozen=True, kw_only=True):
    """One call that a system made on its way."""

    kind: Literal["model", "search", "tool"]
    name: str = ""
    asked: str = ""
    text: str = ""
    passages: tuple[GivenPassage, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None
    cost: float | None = None


class ImportedRow(Struct, frozen=True, kw_only=True):
    """What a file says of one answer."""

    place: str
    """Where it stands, for messages: ``row 3``."""
    agent: str = ""
    """What answered; empty: the file does not say."""
    dataset: str = ""
    id: str = ""
    question: str = ""
    options: dict[str, str] = {}
    gold: str = ""
    """The right label, the right option's text, or a reference answer."""
    wordings: tuple[str, ...] = ()
    """Several reference answers, any of which is right: the first of them is `gold`."""
    answer: str = ""
    choice: str = ""
    """The label, where the file gives it apart from the text."""
    reply: bool = False
    """Whether the answer is a model's reply, to be read even where it is a label alone."""
    epoch: int = 0
    """From 0."""
    passages: tuple[GivenPassage, ...] = ()
    steps: tuple[ImportedStep, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None
    cost: float | None = None
    score: float | None = None
    """The file's own score, from 0 to 1."""
    scored_by: str = ""
    """What that tool calls this score."""
    status: Status = "completed"
    reason: str = ""
    notes: tuple[str, ...] = ()
    """What was odd, each in a sentence."""


class BadRow(Struct, frozen=True):
    """A row that could not be read."""

    place: str
    reason: str


Rows: TypeAlias = Iterator[ImportedRow | BadRow]


class ImportFile(Struct, frozen=True, kw_only=True):
    """A file to read."""

    path: Path
    root: Path | None = None
    """The folder that was given, in which it stands."""
    first: Mapping[str, object] = {}
    """Its first record, of JSON, JSON Lines or CSV, for `recognises` alone; empty: it has none."""
    start: bytes = b""
    """Its first bytes, unpacked; for `rows` 64 of them."""
    fields: Mapping[str, str] = {}
    """Field → column, as the user gave them."""
    say: Callable[[str], None] = lambda text: None
    """Is told what was guessed."""

    @property
    def title(self) -> str:
        """Its name without its endings: what answered, where nothing else says it."""
        return Path(self.path.name.removesuffix(".gz")).stem.lstrip(".") or self.path.name

    @property
    def many(self) -> bool:
        """Whether it is rows under column names: CSV, JSON Lines or an array."""
        return bool(self.first) and (self.start.lstrip()[:1] != b"{" or b"\n{" in self.start)


class Importer(Struct, frozen=True, kw_only=True):
    """One form of files."""

    name: str
    """As in ``ragrounds import --format NAME``."""
    summary: str
    """What such a file is, and what of it is read."""
    recognises: Callable[[ImportFile], bool]
    """Whether a file is of this form, by its first record and bytes. Nothing is run or unpacked for it."""
    rows: Callable[[ImportFile], Rows]
    """The rows, one after the other."""
    general: bool = False
    """Whether it is asked after all others, because it reads nearly anything."""
    benchmark: str = ""
    """Which its files answer where the user names none; empty: the one that their rows hold."""


IMPORTERS: ExtensionPoint[Importer] = ExtensionPoint(
    hooks.IMPORT, Importer, lambda made: fields_amiss(made, texts=("summary",), functions=("recognises", "rows"))
)
"""What ships, what installed packages add, and what users name by import path."""


def recognised(file: ImportFile) -> Importer | None:
    """The importer whose form a file has; ``None``: no form is recognised."""
    made = sorted(IMPORTERS.all().values(), key=lambda one: one.general)
    for one in made:
        with IMPORTERS.used(one.name):
            if one.recognises(file):
                return one
    return None


def dict_of(value: object) -> dict[str, Any]:
    """An object; of anything else an empty one."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, Any]]:
    """The objects of a list; of anything else none."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def too_deep(value: object, levels: int = 100) -> bool:
    """Whether lists and objects stand in each other on more levels than can be followed."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    return not levels or any(too_deep(one, levels - 1) for one in inside)


def unpacked(value: object) -> object:
    """A list or object that stands there as text, by JSON or as Python prints it; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        for read in (json.loads, ast.literal_eval):
            try:
                found = read(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            return value if too_deep(found) else found
    return value


def text_of(value: object) -> str:
    """A value as text: a text as it is, nothing as empty, a list of one as that one, JSON's numbers as written."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return "NaN" if value != value else str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
    if isinstance(value, list):
        return text_of(value[0]) if len(value) == 1 else "\n".join(text_of(one) for one in value)
    if isinstance(value, dict):
        for key in ("content", "text", "answer", "output", "value"):
            if key in value:
                return text_of(value[key])
    return str(value)


def number_of(value: object) -> float | None:
    """A finite number, also one with a decimal comma or a dollar sign; ``None``: it is none."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        plain = value.strip().lstrip("$€").strip()
        plain = plain.replace(",", ".") if plain.count(",") == 1 and "." not in plain else plain
        if plain.lower() in ("true", "false"):
            return float(plain.lower() == "true")
        try:
            value = float(plain) if len(plain) < 40 else None
        except ValueError:
            return None
    if isinstance(value, int | float) and abs(value) < 1e300 and value == value:
        return float(value)
    return None


def step_of_tool(name: str, asked: object, said: object) -> ImportedStep:
    """The use of a tool: a search where its name says so, whose passages are the list that it gave."""
    kind: Literal["search", "tool"] = "search" if _SEARCHES.search(name) else "tool"
    found = unpacked(said) if kind == "search" else None
    passages = passages_of(found) if isinstance(found, list) else ()
    query = asked.get("query") if isinstance(asked, dict) else None
    wanted = query if isinstance(query, str) else asked if isinstance(asked, str) else json.dumps(asked, default=str)
    return ImportedStep(kind=kind, name=name, asked=wanted[:2000], text="" if passages else text_of(said),
                        passages=passages)  # fmt: skip


_SEARCHES = re.compile(r"(?<![a-z])(?:search|retriev)", re.IGNORECASE)


def sums_of(steps: Iterable[ImportedStep]) -> tuple[Usage | None, float | None]:
    """Tokens and dollars of the models' calls together; unknown where those of one are."""
    calls = [step for step in steps if step.kind == "model"]
    tokens = [step.usage for step in calls if step.usage is not None]
    costs = [step.cost for step in calls if step.cost is not None]
    return (
        sum(tokens, Usage()) if calls and len(tokens) == len(calls) else None,
        sum(costs) if calls and len(costs) == len(calls) else None,
    )


def usage_of(input: object, output: object) -> tuple[Usage | None, str]:
    """Tokens, and what is odd about them; unknown where one is not given or cannot be true."""
    counts = []
    for value in (input, output):
        number = number_of(value)
        counts.append(believed_count(int(number)) if number is not None and number.is_integer() else None)
    if None not in counts:
        return Usage(counts[0], counts[1]), ""  # type: ignore[arg-type]
    given = [text_of(value)[:20] for value in (input, output) if value is not None and value != ""]
    return None, f"its tokens ({', '.join(given)}) cannot be true, or one is not given" if given else ""


def bounded(value: object, largest: float, what: str) -> tuple[float | None, str]:
    """A number from 0 to `largest`, and what is odd about another."""
    number = number_of(value)
    if number is None or 0 <= number <= largest:
        return number, ""
    return None, f"its {what} ({text_of(value)[:20]}) cannot be true"


def labels_for(options: object) -> dict[str, str]:
    """Options under labels: their own, or letters, in the order given."""
    options = unpacked(options)
    if isinstance(options, dict):
        return {str(key): text_of(value) for key, value in options.items()}
    if isinstance(options, list):
        lettered = len(options) <= 26
        return {chr(65 + place) if lettered else str(place + 1): text_of(one) for place, one in enumerate(options)}
    return {}


def passages_of(value: object) -> tuple[GivenPassage, ...]:
    """Passages in any of the usual forms: texts, or objects with a text under one of the usual names."""
    found: list[GivenPassage] = []
    value = unpacked(value)
    for one in value if isinstance(value, list) else [value] if value else []:
        if isinstance(one, list):
            found += passages_of(one)
        elif isinstance(one, dict):
            inner = dict_of(one.get("document")) or one
            text = next((text_of(inner[key]) for key in _TEXT if inner.get(key)), "")
            about = {**dict_of(inner.get("metadata")), **one, **inner}
            id = next((text_of(about[key]) for key in _ID if about.get(key)), "")
            score = number_of(about.get("score", about.get("document.score")))
            found.append(GivenPassage(text, id, text_of(about.get("title")), score))
        elif one:
            found.append(GivenPassage(text_of(one)))
    return tuple(found)


_ID = ("id", "doc_id", "docid", "document.id", "_id")
_TEXT = ("text", "contents", "content", "page_content", "passage", "document.content", "document")
