"""One typed card a dataset: where it comes from, what it may be used for, how it is scored.

The cards stand as TOML beside this file, one file a family.
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
"""Beside the files of a benchmark that was built here."""
Task = Literal["choice", "long", "extraction", "link", "retrieval", "reranking", "similarity", "mixed"]


class RemoteFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a dataset at its public home."""

    of: str
    """The card's name."""
    name: str
    url: str
    bytes: int
    sha256: str


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a dataset apart from its questions. Unknown is an empty string, or 0 for a size."""

    name: str
    """``family`` or ``family/dataset``."""
    title: str
    task: Task
    source: str
    """The public home of the data."""
    license: str
    language: str = "en"
    revision: str = ""
    """The commit or release the size and the hash belong to."""
    sha256: str = ""
    """Of the authors' file; a copy with another hash is loaded all the same, `ragrounds data verify` says so."""
    split: str = "test"
    size: int = 0
    """Questions (or queries) of the published split."""
    metric: str = "accuracy"
    headline: tuple[str, ...] = ()
    """Scorers whose figures are the benchmark's, one for each kind of question; empty: the usual ones of the kinds."""
    columns: tuple[str, ...] = ()
    """Scorers that stand beside the headline, in this order."""
    table: str = ""
    """The paper and the table that its figures stand in."""
    paper: str = ""
    """What a report cites: authors, year, title, and where it stands, in one line."""
    missing: str = ""
    """What of the published benchmark cannot be had."""
    note: str = ""

    @property
    def scorers(self) -> tuple[str, ...]:
        """All that are named, the headline first."""
        return *self.headline, *self.columns


class _Family(Struct, forbid_unknown_fields=True):
    card: list[Card]
    file: list[RemoteFile] = []


_FURTHER: list[Callable[[str], tuple[Card, ...]]] = []


def cards_from(find: Callable[[str], tuple[Card, ...]]) -> None:
    """Have the cards of families found too that have no file here: `find` gives those of a family's name."""
    _FURTHER.append(find)


def family_cards(family: str) -> tuple[Card, ...]:
    """The cards of one family, the family's own first; none where the family has none."""
    shipped = tuple(_family(family).card)
    return shipped or tuple(card for find in _FURTHER for card in find(family))


def remote_files(name: str) -> tuple[RemoteFile, ...]:
    """What `ragrounds data fetch` loads for a card, or for the family that holds it; none where the data may not, or
    cannot, be fetched."""
    files = _family(name.partition("/")[0]).file
    return tuple(file for file in files if file.of == name) or tuple(file for file in files if "/" not in file.of)


class _Made(Struct, frozen=True):
    files: dict[str, str] = {}


class _Beside(Struct):
    benchmark: Card
    made: _Made = _Made()


def card_beside(folder: Path) -> Card | None:
    """The card that stands beside a benchmark's files, as `ragrounds build` writes it; ``None``: there is none.

    Raises:
        UserError: it cannot be read.
    """
    beside = _beside(folder)
    return beside.benchmark if beside else None


def hashes_beside(folder: Path) -> dict[str, str]:
    """The files that `ragrounds build` wrote, by the card beside them: name → SHA-256. Of a set that is a folder inside
    what was built, the names begin with that folder.

    Raises:
        UserError: the card cannot be read.
    """
    beside = _beside(folder)
    return beside.made.files if beside else {}


def _beside(folder: Path) -> _Beside | None:
    path = folder / CARD_FILE
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=_Beside)
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
    """Every card, by family."""
    names = sorted(file.name for file in (files(__package__) / "cards").iterdir() if file.name.endswith(".toml"))
    return tuple(card for name in names for card in family_cards(name.removesuffix(".toml")))


def find_card(name: str) -> Card | None:
    """The card of ``family`` or ``family/dataset``; ``None``: the package has none."""
    return next((found for found in family_cards(name.partition("/")[0]) if found.name == name), None)


def card(name: str) -> Card:
    """The card of ``family`` or ``family/dataset``.

    Raises:
        UserError: no such card; names the nearest.
    """
    found = find_card(name)
    if found is None:
        raise unknown("benchmark", name, [each.name for each in all_cards()], "ragrounds data ls")
    return found


@cache
def card_of(dataset: str) -> Card | None:
    """The card of a dataset by its canonical name (:attr:`ragrounds.base.records.Question.benchmark`), else that of its
    family; ``None``: the package has neither."""
    return find_card(dataset) or find_card(dataset.partition("/")[0])


_FREE = frozenset(
    "apache-2.0|bsd-2-clause|bsd-3-clause|cc0|cc0-1.0|cc by 3.0|cc by 4.0|cc-by-3.0|cc-by-4.0|cc by-sa 3.0|cc by-sa 4.0"
    "|cc-by-sa-3.0|cc-by-sa-4.0|mit|odc-by|pddl|public domain|unlicense".split("|")
)
"""Licences under which anybody may give texts on for any purpose, with their source named. All else is not free: a
licence that forbids some purposes, one that stands elsewhere (``see the original dataset``), one that nobody knows."""


class TextLicence(Struct, frozen=True, kw_only=True):
    """What is known of the licence of a dataset's texts."""

    dataset: str
    """Canonical name, ``family/dataset``."""
    license: str
    """As the card says it; ``not known`` where there is no card."""
    source: str
    """The public home of the data; empty: not known."""
    free: bool
    """Whether anybody may give the texts on."""


def text_licence(dataset: str) -> TextLicence:
    """The licence of a dataset's questions and answers, by its name
    (:attr:`ragrounds.base.records.Question.benchmark`)."""
    card = card_of(dataset)
    said = card.license if card and card.license else "not known"
    return TextLicence(
        dataset=dataset, license=said, source=card.source if card else "", free=said.strip().casefold() in _FREE
    )
