"""From a reference to a benchmark.

A reference is ``family`` or ``family/dataset``, with parameters in brackets where the family has some, and with
``:PATH`` where there is no registered copy:

* ``sample``: the benchmark shipped with the package;
* ``mirage:FILE``, ``mirage/pubmedqa:FILE``: read where it lies;
* ``mirage``, ``mirage/pubmedqa``: the copy that `ragrounds data add` has put under the home folder;
* ``jsonl:FILE``, ``csv[question=Stem,answer=Key]:FILE``: the user's own;
* ``package.module:NAME``, ``./file.py:NAME:PATH``: a family of the user's own, by its import path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.files import shown
from ragrounds.base.plugins import NoSuchModule
from ragrounds.base.specs import Value, parse
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item, assemble
from ragrounds.evals.benchmarks.cards import CARD_FILE, Card, card_beside, family_cards, find_card
from ragrounds.evals.benchmarks.family import FAMILIES, BenchmarkSource, Family, families, find_family, named_family
from ragrounds.tools.leak_guard import GUARD_FILE, read_guard

_REFERENCE = re.compile(r"""([^:\[\s"]+(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\])?)(?::(.*))?""", re.DOTALL)
_OWN = re.compile(r"((?:[^:\[\]\s\"]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*)(?=[:\[/]|$)(.*)", re.DOTALL)
"""A family by its import path, and what follows: dataset, parameters, path."""
_DATASET = re.compile(r"\w[\w.-]*")
_SEE = "ragrounds data ls"
_FORMS = {".jsonl": "jsonl", ".csv": "csv"}
"""The end of a file's name → the family that reads such files of the user's own."""


class BenchmarkReference(Struct, frozen=True):
    """A reference, read."""

    family: str
    dataset: str = ""
    path: Path | None = None
    parameters: Mapping[str, Value] = MappingProxyType({})
    own: Family | None = None
    """The family itself, where the user named it by its import path."""

    @property
    def reader(self) -> Family:
        """The family that reads it."""
        return self.own or families()[self.family]

    @property
    def name(self) -> str:
        """``family`` or ``family/dataset``."""
        return f"{self.family}/{self.dataset}" if self.dataset else self.family


def load(reference: str, home: Path) -> Benchmark:
    """The benchmark that `reference` names; `home` holds registered copies.

    Raises:
        UserError: no such benchmark, no file, or a broken file. Nothing is loaded by halves.
    """
    wanted = typed_reference(reference)
    shipped = wanted.reader.shipped
    if shipped and wanted.path is None:
        with FAMILIES.used(wanted.family):
            items = list(shipped())
        described = find_card(wanted.name) or _own_card(wanted.name, Path(wanted.name), items)
        return assemble(wanted.name, described, items)
    if wanted.reader.suite and not wanted.dataset and wanted.path is None:
        return _suite(wanted, home)
    return read(wanted, located(wanted, home))


def _suite(wanted: BenchmarkReference, home: Path) -> Benchmark:
    """All datasets of a family that are registered, one after the other; the others are named.

    Raises:
        UserError: none is registered; a broken file.
    """
    items: list[Item] = []
    absent: list[str] = []
    for card in family_cards(wanted.family):
        dataset = card.name.partition("/")[2]
        if not dataset:
            continue
        one = BenchmarkReference(wanted.family, dataset, None, wanted.parameters, wanted.reader)
        path = registered(one, home) or _original(one, home)
        if path is None:
            absent.append(_how_to_get(card, wanted.reader))
            continue
        with FAMILIES.used(wanted.family):
            items += guarded_items(list(wanted.reader.items(BenchmarkSource(path, dataset, one.parameters))), path)
    if not items:
        raise UserError(f"None of the datasets of {wanted.family} is registered. {' '.join(absent)}")
    described = find_card(wanted.name) or _own_card(wanted.name, Path(wanted.name), items)
    return msgspec.structs.replace(assemble(wanted.name, described, items), absent=tuple(absent))


def _original(wanted: BenchmarkReference, home: Path) -> Path | None:
    """The registered copy of a benchmark that a dataset is read from; ``None``: there is none."""
    names = wanted.reader.originals.get(wanted.dataset, ())
    return next((path for name in names if (path := registered(parse_reference(name), home))), None)


def _how_to_get(card: Card, family: Family) -> str:
    names = family.originals.get(card.name.partition("/")[2], ())
    beside = f" (or as {' or '.join(names)})" if names else ""
    return f"{card.name} is not here ({card.source}): `ragrounds data add {card.name} PATH`{beside}."


def located(wanted: BenchmarkReference, home: Path) -> Path:
    """Where a reference is read: its own path, or the registered copy.

    Raises:
        UserError: it names no path, and there is no copy.
    """
    path = wanted.path or registered(wanted, home) or _original(wanted, home)
    if path is None:
        raise _absent(wanted)
    return path


def read(wanted: BenchmarkReference, path: Path) -> Benchmark:
    """What stands at `path`, whatever path the reference names.

    Raises:
        UserError: no file, or a broken file.
    """
    with FAMILIES.used(wanted.family):
        items = list(wanted.reader.items(BenchmarkSource(path, wanted.dataset, wanted.parameters)))
    items = guarded_items(items, path)
    datasets = list(dict.fromkeys(item.question.benchmark for item in items))
    # A file that is one dataset is known by that dataset's name: beir:scifact/ is beir/scifact.
    name = datasets[0] if len(datasets) == 1 and wanted.reader.open else wanted.name
    built = card_beside(path) if path.is_dir() else None
    described = msgspec.structs.replace(built, name=name) if built else find_card(name) or _own_card(name, path, items)
    return assemble(name, described, items, path)


def guarded_items(items: list[Item], path: Path) -> list[Item]:
    """The items with what the ``guard.jsonl`` of a benchmark's folder, or of a dataset's folder below it, keeps from
    each. Questions are named there without their dataset, as in the files beside it.

    Raises:
        UserError: a guard that cannot be read.
    """
    if not path.is_dir():
        return items
    guards = {file.parent: read_guard(file) for file in [*path.glob(GUARD_FILE), *path.glob(f"*/{GUARD_FILE}")]}
    kept: list[Item] = []
    for question, gold in items:
        dataset, _, bare = question.id.partition("/")
        near = [guards[place] for place in guards if place == path or place.name.casefold() == dataset]
        withheld = frozenset[str]().union(*(guard.get(id, ()) for guard in near for id in (bare, question.id)))
        guarded = msgspec.structs.replace(gold, withheld=tuple(sorted(withheld))) if withheld else gold
        kept.append(Item(question, guarded))
    return kept


def parse_reference(reference: str) -> BenchmarkReference:
    """Read a reference by a family's name. Nothing that it names is imported.

    Raises:
        UserError: an unknown family, dataset or parameter; names the nearest.
    """
    return _parsed(reference.strip(), reference, None)


def typed_reference(reference: str) -> BenchmarkReference:
    """Read a reference that the user typed, which may name a family by its import path: that code is run.

    Raises:
        UserError: as :func:`parse_reference`; or the import path gives no family.
    """
    path = family_path(reference)
    if not path:
        return parse_reference(reference)
    try:
        own = named_family(path)
    except NoSuchModule:
        find_family(path.partition(":")[0])  # says what is wrong with one that an installed package adds
        if nearest(path.partition(":")[0], known()):  # a misspelt name, rather than a module
            return parse_reference(reference)
        raise
    return _parsed(f"{own.name}{reference.strip().removeprefix(path)}", reference, own)


def family_path(reference: str) -> str:
    """The import path of the family that a reference names; empty: it goes by a name. Nothing is imported for it."""
    given = reference.strip()
    code = _OWN.fullmatch(given)
    return code.group(1) if code and given.partition(":")[0] not in families() else ""


def _parsed(given: str, reference: str, own: Family | None) -> BenchmarkReference:
    form = _FORMS.get(Path(given).suffix.lower(), "")
    if own is None and form and ":" not in given and Path(given).is_file():
        raise UserError(f"Unknown benchmark {shown(given)}. That is a file: put `{form}:` before it.")
    match = _REFERENCE.fullmatch(given)
    if match is None:
        raise UserError(
            f"Cannot read the benchmark {shown(reference)}: expected `name`, `family/dataset` or `family:PATH`."
        )
    spec = parse(match.group(1))
    family, _, dataset = spec.name.partition("/")
    reader = own or find_family(family)
    if reader is None:
        raise unknown("benchmark", family, known(), _SEE)
    if dataset and not reader.open and find_card(spec.name) is None:
        raise unknown("benchmark", spec.name, known(), _SEE)
    if dataset and not _DATASET.fullmatch(dataset):
        raise UserError(f"The dataset name {shown(dataset)} may hold letters, digits, '.', '_' and '-' only.")
    for parameter in spec.parameters:
        allowed = reader.parameters
        if parameter not in allowed:
            can = f"It takes {', '.join(allowed)}." if allowed else "It takes none."
            raise UserError(
                f"The benchmark {family!r} has no parameter {parameter!r}.{nearest(parameter, allowed)} {can}"
            )
    path = match.group(2)
    if path is not None and not path.strip():
        raise UserError(f"The benchmark {shown(reference)} has no path after the colon; expected {reader.file}.")
    return BenchmarkReference(family, dataset, Path(path).expanduser() if path else None, dict(spec.parameters), reader)


def known() -> list[str]:
    """Every benchmark name: families and their datasets."""
    return [
        name for family in families() for name in (family, *(c.name for c in family_cards(family) if "/" in c.name))
    ]


def place(reference: BenchmarkReference, home: Path) -> Path:
    """Where the registered copy of a benchmark stands."""
    return home / "benchmarks" / reference.name.replace("/", "--")


def registered(reference: BenchmarkReference, home: Path) -> Path | None:
    """The registered copy of a dataset, or else of the family that holds it; ``None`` where there is neither. A copy
    of one file is that file."""
    family = reference.reader
    if not family.needs:
        return None
    candidates = [place(reference, home)]
    if not family.open or find_card(reference.name) is not None:
        candidates.append(place(BenchmarkReference(reference.family), home))
    for candidate in candidates:
        files: list[Path] = []
        with suppress(OSError):  # no system has a folder of such a name
            files = [file for file in candidate.rglob("*") if file.is_file()] if candidate.is_dir() else []
        if any(file.name != CARD_FILE for file in files):
            return files[0] if len(files) == 1 else candidate
    return None


def _own_card(name: str, path: Path, items: list[Item]) -> Card:
    """A card for a dataset that has none, by its family's where there is one."""
    general = find_card(name.partition("/")[0])
    if general is not None:
        return msgspec.structs.replace(general, name=name, title=path.name, size=len(items), sha256="", revision="")
    kinds = {item.question.kind for item in items}
    task = kinds.pop() if len(kinds) == 1 else "mixed"
    return Card(name=name, title=path.name, task=task, source=path.name, license="not known", size=len(items))


def _absent(reference: BenchmarkReference) -> UserError:
    family = reference.reader
    if not family.needs:
        return UserError(
            f"The benchmark {reference.name!r} needs a path: `{reference.family}:PATH`, where PATH is {family.file}."
        )
    return UserError(
        f"The benchmark {reference.name!r} is not here yet. Add the authors' files once with "
        f"`ragrounds data add {reference.name} PATH`, where PATH is {family.file}, or give the path each time: "
        f"`{reference.name}:PATH`."
    )
