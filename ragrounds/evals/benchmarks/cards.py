"""Cards of datasets: one typed card each, with its source, licence and scoring.

The cards are TOML files next to this file, one per family.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ragrounds.base.errors import unknown
from ragrounds.base.files import broken, read_bytes

CARD_FILE = "card.json"
"""Name of the card file next to the files of a benchmark that was built locally."""
Task = Literal["choice", "long", "extraction", "link", "retrieval", "reranking", "similarity", "mixed"]


class RemoteFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a dataset at its public source."""

    of: str
    """Name of the card."""
    name: str
    url: str
    bytes: int
    sha256: str


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metadata of a dataset. Unknown fields are an empty string, or 0 for a size."""

    name: str
    """``family`` or ``family/dataset``."""
    title: str
    task: Task
    source: str
    """Public source of the data."""
    license: str
    language: str = "en"
    revision: str = ""
    """Commit or release that the size and the hash belong to."""
    sha256: str = ""
    """SHA-256 of the authors' file.

    A copy with another hash is loaded all the same; `ragrounds data verify` reports it.
    """
    split: str = "test"
    size: int = 0
    """Number of questions (or queries) of the published split."""
    metric: str = "accuracy"
    headline: tuple[str, ...] = ()
    """Scorers of the benchmark's main figures, one for each kind of question; empty for the usual ones of the kinds."""
    columns: tuple[str, ...] = ()
    """Further scorers that are shown after the headline, in this order."""
    table: str = ""
    """Paper and table with published figures."""
    paper: str = ""
    """Citation in one line: authors, year, title, and place of publication."""
    missing: str = ""
    """Parts of the published benchmark that are not available."""
    note: str = ""

    @property
    def scorers(self) -> tuple[str, ...]:
        """All scorers, the headline first."""
        return *self.headline, *self.columns


class _Family(Struct, forbid_unknown_fields=True):
    card: list[Card]
    file: list[RemoteFile] = []


_CARD_SOURCES: list[Callable[[str], tuple[Card, ...]]] = []


def cards_from(find: Callable[[str], tuple[Card, ...]]) -> None:
    """Register a function that returns further cards, for families without a card file here, by the family's name."""
    _CARD_SOURCES.append(find)


def family_cards(family: str) -> tuple[Card, ...]:
    """Return the cards of one family, the family's own first; empty if the family has none."""
    shipped = tuple(_family(family).card)
    return shipped or tuple(card for find in _CARD_SOURCES for card in find(family))


def remote_files(name: str) -> tuple[RemoteFile, ...]:
    """Return the files that `ragrounds data fetch` downloads for a card, or for the family that contains it.

    Empty if the data may not, or cannot, be fetched.
    """
    files = _family(name.partition("/")[0]).file
    return tuple(file for file in files if file.of == name) or tuple(file for file in files if "/" not in file.of)


class _BuildRecord(Struct, frozen=True):
    files: dict[str, str] = {}


class _CardFile(Struct):
    benchmark: Card
    made: _BuildRecord = _BuildRecord()


def load_built_card(folder: Path) -> Card | None:
    """Return the card next to a benchmark's files, as `ragrounds build` writes it; ``None`` if it does not exist.

    Raises:
        UserError: it cannot be read.
    """
    card_file = _read_card_file(folder)
    return card_file.benchmark if card_file else None


def load_built_hashes(folder: Path) -> dict[str, str]:
    """Return the hashes of the files that `ragrounds build` wrote, from the card next to them: name → SHA-256.

    If the set is a folder inside the built benchmark, the names begin with that folder.

    Raises:
        UserError: the card cannot be read.
    """
    card_file = _read_card_file(folder)
    return card_file.made.files if card_file else {}


def _read_card_file(folder: Path) -> _CardFile | None:
    path = folder / CARD_FILE
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=_CardFile)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise broken(path, f"it is not a benchmark card ({error})") from None


@cache
def _family(family: str) -> _Family:
    folder = files(__package__) / "cards"
    if f"{family}.toml" not in {file.name for file in folder.iterdir()}:
        return _Family(card=[])
    file = folder / f"{family}.toml"
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _Family)


def all_cards() -> tuple[Card, ...]:
    """Return every card, by family."""
    names = sorted(file.name for file in (files(__package__) / "cards").iterdir() if file.name.endswith(".toml"))
    return tuple(card for name in names for card in family_cards(name.removesuffix(".toml")))


def find_card(name: str) -> Card | None:
    """Return the card of ``family`` or ``family/dataset``; ``None`` if the package has none."""
    return next((candidate for candidate in family_cards(name.partition("/")[0]) if candidate.name == name), None)


def card(name: str) -> Card:
    """Return the card of ``family`` or ``family/dataset``.

    Raises:
        UserError: no such card; the message names the nearest.
    """
    match = find_card(name)
    if match is None:
        raise unknown("benchmark", name, [known_card.name for known_card in all_cards()], "ragrounds data ls")
    return match


@cache
def card_of(dataset: str) -> Card | None:
    """Return the card of a dataset by its canonical name, or else that of its family.

    The name is :attr:`ragrounds.base.records.Question.benchmark`. ``None`` if the package has neither card.
    """
    return find_card(dataset) or find_card(dataset.partition("/")[0])


_FREE = frozenset(
    "apache-2.0|bsd-2-clause|bsd-3-clause|cc0|cc0-1.0|cc by 3.0|cc by 4.0|cc-by-3.0|cc-by-4.0|cc by-sa 3.0|cc by-sa 4.0"
    "|cc-by-sa-3.0|cc-by-sa-4.0|mit|odc-by|pddl|public domain|unlicense".split("|")
)
"""Licences under which texts may be passed on for any purpose if their source is named.

All others are not free: a licence that forbids some purposes, one that is stated elsewhere (``see the original
dataset``), an unknown one.
"""


class TextLicence(Struct, frozen=True, kw_only=True):
    """Licence of a dataset's texts, as far as known."""

    dataset: str
    """Canonical name, ``family/dataset``."""
    license: str
    """Licence by the card; ``not known`` without a card."""
    source: str
    """Public source of the data; empty if unknown."""
    free: bool
    """True if the texts may be passed on."""


def text_licence(dataset: str) -> TextLicence:
    """Return the licence of a dataset's questions and answers, by its name
    (:attr:`ragrounds.base.records.Question.benchmark`)."""
    card = card_of(dataset)
    licence = card.license if card and card.license else "not known"
    return TextLicence(
        dataset=dataset, license=licence, source=card.source if card else "", free=licence.strip().casefold() in _FREE
    )
