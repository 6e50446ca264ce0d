"""A benchmark family: one object in one file of ``families/`` that reads the authors' own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, field

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.files import broken
from ragrounds.plugins import shipped_and_installed
from ragrounds.specs import Value


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
    shipped: Callable[[], Iterator[Item]] | None = None
    """The questions that come with the package, where no path is named."""
    open: bool = False
    """Datasets that have no card may be read too: they are named after their file or folder."""


GROUP = "ragrounds.benchmarks"
"""Entry points by which installed packages add families."""


@cache
def families() -> Mapping[str, Family]:
    """Every family by its name: those of the files in ``families/``, and those of installed packages."""
    return MappingProxyType(shipped_and_installed("ragrounds.evals.benchmarks.families", GROUP, Family))
