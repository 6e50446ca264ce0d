"""From a reference to a benchmark.

A reference is ``family``, ``family/dataset``, or either with ``:PATH``:

* ``sample``: the benchmark shipped with the package;
* ``mirage:FILE``, ``mirage/pubmedqa:FILE``: read where it lies;
* ``mirage``, ``mirage/pubmedqa``: the copy that `ragrounds data add` has put under the home folder;
* ``jsonl:FILE``: the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from ragrounds.errors import UserError, unknown
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item, assemble
from ragrounds.evals.benchmarks.cards import Card, card, family_cards
from ragrounds.evals.benchmarks.families import jsonl, mirage, sample
from ragrounds.evals.benchmarks.reading import shown

_REFERENCE = re.compile(r"([^:/\s]+)(?:/([^:]*))?(?::(.*))?", re.DOTALL)
_SEE = "ragrounds data ls"


class Family(Struct, frozen=True, kw_only=True):
    """How the benchmarks of one family are read."""

    items: Callable[[Path, str], Iterator[Item]]
    file: str
    """What is read: a file's name in the authors' release, or words for it."""
    own: bool = False
    """Every file is a dataset of its own, named after the file."""


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "sample": Family(items=sample.items, file="questions.jsonl"),
        "mirage": Family(items=mirage.items, file=mirage.FILE),
        "jsonl": Family(items=jsonl.items, file="a JSON Lines file", own=True),
    }
)


def load(reference: str, home: Path) -> Benchmark:
    """The benchmark that `reference` names; `home` holds registered copies.

    Raises:
        UserError: no such benchmark, no file, or a broken file. Nothing is loaded by halves.
    """
    name, dataset, path = parse_reference(reference)
    family = FAMILIES[name]
    if name == "sample" and path is None:
        return assemble("sample", card("sample"), sample.items())
    if path is None:
        path = registered(name, home)
        if path is None:
            raise _absent(name, dataset)
    if family.own:
        return _own(name, dataset, family, path)
    return assemble("/".join(filter(None, (name, dataset))), _card(name, dataset), family.items(path, dataset), path)


def parse_reference(reference: str) -> tuple[str, str, Path | None]:
    """Family, dataset (or ``""`` for all) and path.

    Raises:
        UserError: an unknown family or dataset; names the nearest.
    """
    match = _REFERENCE.fullmatch(reference.strip())
    if match is None:
        raise UserError(
            f"Cannot read the benchmark {shown(reference)}: expected `name`, `family/dataset` or `family:PATH`."
        )
    name, dataset, path = match.group(1), match.group(2) or "", match.group(3)
    if name not in FAMILIES:
        raise unknown("benchmark", name, known(), _SEE)
    datasets = [found.name.partition("/")[2] for found in family_cards(name) if "/" in found.name]
    if dataset and dataset not in datasets and not FAMILIES[name].own:
        raise unknown("benchmark", f"{name}/{dataset}", known(), _SEE)
    if path is not None and not path.strip():
        raise UserError(
            f"The benchmark {shown(reference)} names no path after the colon; expected {FAMILIES[name].file}."
        )
    return name, dataset, Path(path).expanduser() if path else None


def known() -> list[str]:
    """Every benchmark name: families and their datasets."""
    return [name for family in FAMILIES for name in (family, *(c.name for c in family_cards(family) if "/" in c.name))]


def folder(home: Path) -> Path:
    """Where registered copies stand."""
    return home / "benchmarks"


def registered(family: str, home: Path) -> Path | None:
    """The registered copy of a family, if there is one."""
    place = folder(home) / family
    file = place / FAMILIES[family].file
    return file if file.is_file() else None


def _card(family: str, dataset: str) -> Card:
    return card(f"{family}/{dataset}" if dataset else family)


def _own(name: str, label: str, family: Family, path: Path) -> Benchmark:
    found = list(family.items(path, label))
    dataset = found[0].question.benchmark if found else name
    kinds = {item.question.kind for item in found}
    made = Card(
        name=dataset,
        title=path.name,
        task="mixed" if len(kinds) != 1 else kinds.pop(),
        source=path.name,
        license="not known",
        size=len(found),
    )
    return assemble(dataset, made, found, path)


def _absent(family: str, dataset: str) -> UserError:
    name = "/".join(filter(None, (family, dataset)))
    what = FAMILIES[family]
    if what.own:
        return UserError(f"The benchmark {name!r} needs a path: `{family}:PATH`, where PATH is {what.file}.")
    return UserError(
        f"The benchmark {name!r} has no copy here yet. Add the authors' file once with "
        f"`ragrounds data add {family} PATH/{what.file}`, or name it each time: `{name}:PATH/{what.file}`."
    )
