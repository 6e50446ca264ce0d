"""Benchmark families: one object in one file of ``families/`` that reads the authors' format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import asdict

from ragrounds.base import hooks
from ragrounds.base.errors import UserError
from ragrounds.base.files import broken
from ragrounds.base.plugins import ExtensionPoint, fields_amiss
from ragrounds.base.specs import Value
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.cards import Card, cards_from


class BenchmarkSource(Struct, frozen=True):
    """A file or a folder in the authors' form."""

    path: Path
    dataset: str = ""
    """Dataset of the family to read; empty for all."""
    parameters: Mapping[str, Value] = field(default_factory=dict)

    def file(self, *names: str) -> Path:
        """Return the path itself if it is a file, else the first of `names` that the folder contains.

        Raises:
            UserError: the folder contains none of them.
        """
        if not self.path.is_dir():
            return self.path
        for name in names:
            if (self.path / name).is_file():
                return self.path / name
        raise broken(self.path, f"the folder holds no {' or '.join(names)}")

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter as text."""
        return str(self.parameters.get(name, default))

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a whole number.

        Raises:
            UserError: the parameter is something else.
        """
        value = self.parameters.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UserError(f"The parameter {name!r} of a benchmark must be a whole number, got {value!r}.")
        return value


class Family(Struct, frozen=True, kw_only=True):
    """Reader of the benchmarks of one family.

    Their sources, licences and scoring are in the family's cards, ``cards/NAME.toml``.
    """

    name: str
    items: Callable[[BenchmarkSource], Iterator[Item]]
    file: str
    """Description of the files that are read, for messages: a file's name in the authors' release, or a phrase."""
    needs: tuple[str, ...] = ()
    """Patterns of the files of a folder that a registered copy keeps in addition to those that were read; empty if the
    family is never registered.
    """
    check: Callable[[BenchmarkSource], Iterable[Path]] | None = None
    """Function that reads files which the questions do not need, such as a corpus, and returns their paths.

    It is called when a benchmark is registered or verified.
    """
    parameters: tuple[str, ...] = ()
    """Parameters that a reference may set, as in ``csv[question=Stem]:FILE``."""
    sets: Callable[[BenchmarkSource], list[tuple[Path, str]]] | None = None
    """Function that returns the folders of the requested query sets, with their names, if a folder may hold several."""
    shipped: Callable[[], Iterator[Item]] | None = None
    """Function that yields the questions shipped with the package, which are used if no path is named."""
    open: bool = False
    """True if datasets without a card may be read too. They are named after their file or folder."""
    suite: bool = False
    """True if the family's bare name, without a path, means all its registered datasets, each read separately."""
    originals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dataset → names of benchmarks whose registered copies are read if the dataset has none itself."""
    cards: tuple[Card, ...] = ()
    """Cards of a family from outside, the family's own first. Shipped cards are in ``cards/``."""


def _missing_requirements(family: Family) -> str:
    if fault := fields_amiss(family, texts=("file",), functions=("items",)):
        return fault
    for card in family.cards:
        try:
            convert(asdict(card), Card)
        except (ValidationError, TypeError) as error:
            return f"a card of it: {error}."
    foreign_cards = [card.name for card in family.cards if card.name.partition("/")[0] != family.name]
    return (
        f"its card {foreign_cards[0]!r} belongs to another family; expected {family.name!r} or '{family.name}/…'."
        if foreign_cards
        else ""
    )


FAMILIES: ExtensionPoint[Family] = ExtensionPoint(hooks.FAMILY, Family, _missing_requirements)
"""Families that ship, that installed packages add, and that users name by import path."""


@cache
def families() -> Mapping[str, Family]:
    """Return every family by its name: those of the files in ``families/``, and those of installed packages."""
    return MappingProxyType(FAMILIES.all())


_IMPORTED: dict[str, Family] = {}


def named_family(path: str) -> Family:
    """Return the family at an import path that the user typed. Its cards are known from then on.

    Raises:
        UserError: no such family.
    """
    family = FAMILIES.imported(path)
    _IMPORTED[family.name] = family
    return family


def find_family(name: str) -> Family | None:
    """Return the family of a name: shipped, added by an installed package, or named by import path in this process.

    Nothing else is imported.

    Raises:
        UserError: an installed package adds it, and it cannot be used.
    """
    return FAMILIES.find(name) or _IMPORTED.get(name)


def installed_cards() -> list[Card]:
    """Return the cards of installed packages' families. A family without cards gets one with its name only."""
    cards: list[Card] = []
    for name, family in FAMILIES.installed().items():
        cards += family.cards or [
            Card(name=name, title=name, task="mixed", source=FAMILIES.origin(name), license="not known")
        ]
    return cards


def _further_cards(name: str) -> tuple[Card, ...]:
    family = FAMILIES.ours(name) or families().get(name) or _IMPORTED.get(name)
    return family.cards if family else ()


cards_from(_further_cards)
