"""A benchmark family: one object in one file of ``families/`` that reads the authors' own format."""

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
    """Which dataset of the family; empty: all that is there."""
    parameters: Mapping[str, Value] = field(default_factory=dict)

    def file(self, *names: str) -> Path:
        """The path itself where it is a file, else the first of `names` that the folder holds.

        Raises:
            UserError: the folder holds none of them.
        """
        if not self.path.is_dir():
            return self.path
        for name in names:
            if (self.path / name).is_file():
                return self.path / name
        raise broken(self.path, f"the folder holds no {' or '.join(names)}")

    def text(self, name: str, default: str = "") -> str:
        """A parameter that is text."""
        return str(self.parameters.get(name, default))

    def number(self, name: str, default: int) -> int:
        """A parameter that is a whole number.

        Raises:
            UserError: it is something else.
        """
        value = self.parameters.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UserError(f"The parameter {name!r} of a benchmark must be a whole number, got {value!r}.")
        return value


class Family(Struct, frozen=True, kw_only=True):
    """How the benchmarks of one family are read. Where they can be had, their licence and how they are scored is said
    by the family's cards, ``cards/NAME.toml``."""

    name: str
    items: Callable[[BenchmarkSource], Iterator[Item]]
    file: str
    """What is read, in the words of an error: a file's name in the authors' release, or a description."""
    needs: tuple[str, ...] = ()
    """Patterns of the files of a folder that a registered copy keeps beside those that were read; none: the family is
    never registered."""
    check: Callable[[BenchmarkSource], Iterable[Path]] | None = None
    """Reads what the questions alone do not need, a corpus, and gives its files; done where a benchmark is registered
    or verified."""
    parameters: tuple[str, ...] = ()
    """Parameters that a reference may set, as in ``csv[question=Stem]:FILE``."""
    sets: Callable[[BenchmarkSource], list[tuple[Path, str]]] | None = None
    """The folders of the query sets that are named, with their names, where a folder may hold several."""
    shipped: Callable[[], Iterator[Item]] | None = None
    """The questions that come with the package, where no path is named."""
    open: bool = False
    """Datasets that have no card may be read too: they are named after their file or folder."""
    suite: bool = False
    """Whether its bare name, without a path, stands for all its datasets that are registered, each read for itself."""
    originals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dataset → names of benchmarks whose registered copies are read where the dataset has none of its own."""
    cards: tuple[Card, ...] = ()
    """For a family from outside: its cards, the family's own first. Those that ship stand in ``cards/``."""


def _lacks(made: Family) -> str:
    if amiss := fields_amiss(made, texts=("file",), functions=("items",)):
        return amiss
    for card in made.cards:
        try:
            convert(asdict(card), Card)
        except (ValidationError, TypeError) as problem:
            return f"a card of it: {problem}."
    strange = [card.name for card in made.cards if card.name.partition("/")[0] != made.name]
    return f"its card {strange[0]!r} is another family's; expected {made.name!r} or '{made.name}/…'." if strange else ""


FAMILIES: ExtensionPoint[Family] = ExtensionPoint(hooks.FAMILY, Family, _lacks)
"""What ships, what installed packages add, and what users name by import path."""


@cache
def families() -> Mapping[str, Family]:
    """Every family by its name: those of the files in ``families/``, and those of installed packages."""
    return MappingProxyType(FAMILIES.all())


_NAMED: dict[str, Family] = {}


def named_family(path: str) -> Family:
    """The family at an import path that the user typed. Its cards are known from then on.

    Raises:
        UserError: there is none.
    """
    found = FAMILIES.imported(path)
    _NAMED[found.name] = found
    return found


def find_family(name: str) -> Family | None:
    """The family of a name: one that ships, that an installed package adds, or that the user has named by import path
    in this process. Nothing else is imported.

    Raises:
        UserError: an installed package adds it, and it cannot be used.
    """
    return FAMILIES.find(name) or _NAMED.get(name)


def installed_cards() -> list[Card]:
    """The cards of installed packages' families; of a family that brings none, one that says no more than its name."""
    return [card for name, found in FAMILIES.installed().items() for card in found.cards or (_bare(name),)]


def _bare(name: str) -> Card:
    return Card(name=name, title=name, task="mixed", source=FAMILIES.origin(name), license="not known")


def _further_cards(name: str) -> tuple[Card, ...]:
    found = FAMILIES.ours(name) or families().get(name) or _NAMED.get(name)
    return found.cards if found else ()


cards_from(_further_cards)
