"""Importers: the interface that recognises files of one form and reads rows from them.

A file of this folder with an :class:`Importer` adds a form to ``ragrounds import``. Importers return what a file states
and nothing else: missing values stay ``None`` or empty, which means *unknown*, and a row that cannot be read is a
:class:`BadRow` with its location and the reason. Rows are matched with questions by
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
from ragrounds.base.records import CallKind, Status
from ragrounds.base.spent import Spent, Usage, total_spent

MOST_SECONDS = 1e7
"""Seconds of one answer above which a time is taken for an error."""


class GivenPassage(Struct, frozen=True):
    """A passage that an answer was based on."""

    text: str
    id: str = ""
    title: str = ""
    score: float | None = None


class ImportedStep(Struct, frozen=True, kw_only=True):
    """One call that a system made for an answer."""

    kind: CallKind
    name: str = ""
    asked: str = ""
    text: str = ""
    passages: tuple[GivenPassage, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None
    cost: float | None = None


class ImportedRow(Struct, frozen=True, kw_only=True):
    """Contents of a file about one answer."""

    place: str
    """Location in the file, for messages: ``row 3``."""
    agent: str = ""
    """System that answered; empty if the file does not state it."""
    dataset: str = ""
    id: str = ""
    question: str = ""
    options: dict[str, str] = {}
    gold: str = ""
    """Right label, text of the right option, or reference answer."""
    wordings: tuple[str, ...] = ()
    """Reference answers, if there are several. Any of them is right; the first is `gold`."""
    answer: str = ""
    choice: str = ""
    """Label, if the file has it in a separate field."""
    reply: bool = False
    """True if the answer is a model's reply, which is to be read even if it is only a label."""
    variant: str = ""
    """Part of the file that is a run of its own, such as a filter of lm-eval; added to the system's name."""
    epoch: int = 0
    """Repetition of the question, from 0."""
    passages: tuple[GivenPassage, ...] = ()
    steps: tuple[ImportedStep, ...] = ()
    usage: Usage | None = None
    seconds: float | None = None
    cost: float | None = None
    score: float | None = None
    """Score in the file, from 0 to 1."""
    scored_by: str = ""
    """Name of this score in the tool that wrote the file."""
    status: Status = "completed"
    reason: str = ""
    notes: tuple[str, ...] = ()
    """Oddities of the row, one sentence each."""
    dropped: tuple[str, ...] = ()
    """Fields whose value cannot be true or used, and is therefore left out; `notes` say why."""


class BadRow(Struct, frozen=True):
    """A row that could not be read."""

    place: str
    reason: str


Rows: TypeAlias = Iterator[ImportedRow | BadRow]


class ImportFile(Struct, frozen=True, kw_only=True):
    """A file to read."""

    path: Path
    root: Path | None = None
    """Folder that was given, if the file is in one."""
    first: Mapping[str, object] = {}
    """First record of JSON, JSON Lines or CSV, only for `recognises`; empty if the file has none."""
    start: bytes = b""
    """First bytes, decompressed; 64 of them for `rows`."""
    fields: Mapping[str, str] = {}
    """Field → column, as the user set them."""
    say: Callable[[str], None] = lambda text: None
    """Function that reports the guesses."""

    @property
    def title(self) -> str:
        """File name without its endings. It names the system if nothing else does."""
        return Path(self.path.name.removesuffix(".gz")).stem.lstrip(".") or self.path.name

    @property
    def many(self) -> bool:
        """True if the file has rows under column names: CSV, JSON Lines or an array."""
        return bool(self.first) and (self.start.lstrip()[:1] != b"{" or b"\n{" in self.start)


class Importer(Struct, frozen=True, kw_only=True):
    """One form of files."""

    name: str
    """Name in ``ragrounds import --format NAME``."""
    summary: str
    """Description of such files, and of what is read."""
    recognises: Callable[[ImportFile], bool]
    """Predicate that is True if a file is of this form, by its first record and bytes. It runs and unpacks nothing."""
    rows: Callable[[ImportFile], Rows]
    """Function that yields the rows one by one."""
    general: bool = False
    """True if the importer is tried after all others, because it reads nearly anything."""
    log: bool = False
    """True if a file is the log of one run: answers of two files are never merged, also of one system."""
    benchmark: str = ""
    """Benchmark that the files answer if the user names none; empty for the one that their rows contain."""


IMPORTERS: ExtensionPoint[Importer] = ExtensionPoint(
    hooks.IMPORT,
    Importer,
    lambda importer: fields_amiss(importer, texts=("summary",), functions=("recognises", "rows")),
)
"""Importers that ship, that installed packages add, and that users name by import path."""


def find_importer(file: ImportFile) -> Importer | None:
    """Return the importer whose form a file has; ``None`` if no form is recognised."""
    importers = sorted(IMPORTERS.all().values(), key=lambda importer: importer.general)
    for importer in importers:
        with IMPORTERS.used(importer.name):
            if importer.recognises(file):
                return importer
    return None


def dict_of(value: object) -> dict[str, Any]:
    """Return an object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, Any]]:
    """Return the objects of a list, and an empty list for anything else."""
    return [member for member in value if isinstance(member, dict)] if isinstance(value, list) else []


_CONTAINERS = (dict, list, tuple, set)


def too_deep(value: object, levels: int = 100) -> bool:
    """Return True if lists and objects are nested on more levels than can be followed."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, _CONTAINERS) else ()
    if levels < 2:
        return not levels or len(members) > 0
    return any(too_deep(member, levels - 1) for member in members if isinstance(member, _CONTAINERS))


def unpacked(value: object) -> object:
    """Return a list or object that is stored as text, by JSON or as Python prints it; anything else unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        for parse in (json.loads, ast.literal_eval):
            try:
                parsed = parse(value.strip())
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            return value if too_deep(parsed) else parsed
    return value


def text_of(value: object) -> str:
    """Return a value as text: a text unchanged, nothing as empty, a list of one element as that element, JSON's numbers
    as written.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return "NaN" if value != value else str(int(value)) if value.is_integer() and abs(value) < 1e15 else str(value)
    if isinstance(value, list):
        return text_of(value[0]) if len(value) == 1 else "\n".join(text_of(part) for part in value)
    if isinstance(value, dict):
        for key in ("content", "text", "answer", "output", "value"):
            if key in value:
                return text_of(value[key])
    return str(value)


def number_of(value: object) -> float | None:
    """Return a finite number, also from a text with a decimal comma or a dollar sign; ``None`` for anything else."""
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


def step_of_tool(name: str, arguments: object, output: object) -> ImportedStep:
    """Return the use of a tool. It is a search if its name says so; its passages are then the list in the output."""
    kind: Literal["search", "tool"] = "search" if _SEARCHES.search(name) else "tool"
    results = unpacked(output) if kind == "search" else None
    passages = passages_of(results) if isinstance(results, list) else ()
    query = arguments.get("query") if isinstance(arguments, dict) else None
    query_text = (
        query
        if isinstance(query, str)
        else arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, default=str)
    )
    return ImportedStep(kind=kind, name=name, asked=query_text[:2000], text="" if passages else text_of(output),
                        passages=passages)  # fmt: skip


_SEARCHES = re.compile(r"(?<![a-z])(?:search|retriev)", re.IGNORECASE)


def sums_of(steps: Iterable[ImportedStep]) -> tuple[Usage | None, float | None]:
    """Return the sums of tokens and dollars of the models' calls; ``None`` if those of one call are unknown."""
    calls = [step for step in steps if step.kind == "model"]
    spent = total_spent(Spent(usage=step.usage, cost_paid=step.cost) for step in calls)
    return (spent.usage, spent.cost_paid) if calls else (None, None)


def usage_of(input: object, output: object) -> tuple[Usage | None, str]:
    """Return the tokens, and a note on oddities. Tokens are ``None`` if a count is missing or cannot be true."""
    counts = []
    for value in (input, output):
        number = number_of(value)
        counts.append(believed_count(int(number)) if number is not None and number.is_integer() else None)
    if None not in counts:
        return Usage(counts[0], counts[1]), ""  # type: ignore[arg-type]
    reported = [text_of(value)[:20] for value in (input, output) if value is not None and value != ""]
    return None, f"its tokens ({', '.join(reported)}) cannot be true, or one is not given" if reported else ""


def bounded(value: object, largest: float, label: str) -> tuple[float | None, str]:
    """Return a number from 0 to `largest`, or ``None`` and a note if it is outside."""
    number = number_of(value)
    if number is None or 0 <= number <= largest:
        return number, ""
    return None, f"its {label} ({text_of(value)[:20]}) cannot be true"


def labels_for(options: object) -> dict[str, str]:
    """Return options under labels: their own, or letters, in the given order."""
    options = unpacked(options)
    if isinstance(options, dict):
        return {str(key): text_of(value) for key, value in options.items()}
    if isinstance(options, list):
        lettered = len(options) <= 26
        return {chr(65 + index) if lettered else str(index + 1): text_of(text) for index, text in enumerate(options)}
    return {}


def passages_of(value: object) -> tuple[GivenPassage, ...]:
    """Return passages from any of the usual forms: texts, or objects with a text under one of the usual names."""
    passages: list[GivenPassage] = []
    value = unpacked(value)
    for entry in value if isinstance(value, list) else [value] if value else []:
        if isinstance(entry, list):
            passages += passages_of(entry)
        elif isinstance(entry, dict):
            document = dict_of(entry.get("document")) or entry
            text = next((text_of(document[key]) for key in _TEXT if document.get(key)), "")
            fields = {**dict_of(document.get("metadata")), **entry, **document}
            id = next((text_of(fields[key]) for key in _ID if fields.get(key)), "")
            score = number_of(fields.get("score", fields.get("document.score")))
            passages.append(GivenPassage(text, id, text_of(fields.get("title")), score))
        elif entry:
            passages.append(GivenPassage(text_of(entry)))
    return tuple(passages)


_ID = ("id", "doc_id", "docid", "document.id", "_id")
_TEXT = ("text", "contents", "content", "page_content", "passage", "document.content", "document")
