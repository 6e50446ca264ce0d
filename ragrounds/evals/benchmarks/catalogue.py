"""Catalogue of benchmarks: loads the benchmark that a reference names.

A reference is ``family`` or ``family/dataset``, with parameters in brackets if the family has some, and with
``:PATH`` if there is no registered copy:

* ``sample``: the benchmark shipped with the package;
* ``mirage:FILE``, ``mirage/pubmedqa:FILE``: read from the path;
* ``mirage``, ``mirage/pubmedqa``: the copy that `ragrounds data add` put under the home folder;
* ``jsonl:FILE``, ``csv[question=Stem,answer=Key]:FILE``: a user's file;
* ``package.module:NAME``, ``./file.py:NAME:PATH``: a custom family, by its import path.
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
from ragrounds.base.files import quote_value
from ragrounds.base.plugins import NoSuchModule
from ragrounds.base.specs import Value, parse
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item, assemble
from ragrounds.evals.benchmarks.cards import CARD_FILE, Card, family_cards, find_card, load_built_card
from ragrounds.evals.benchmarks.family import FAMILIES, BenchmarkSource, Family, families, find_family, named_family
from ragrounds.tools.leak_guard import GUARD_FILE, read_guard

_REFERENCE = re.compile(r"""([^:\[\s"]+(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\])?)(?::(.*))?""", re.DOTALL)
_IMPORT_PATH = re.compile(r"((?:[^:\[\]\s\"]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):[^\W\d]\w*)(?=[:\[/]|$)(.*)", re.DOTALL)
"""Pattern of an import path of a family, followed by dataset, parameters and path."""
_DATASET = re.compile(r"\w[\w.-]*")
_HINT = "ragrounds data ls"
_FORMS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
"""File ending → family that reads a user's files of that kind."""


class BenchmarkReference(Struct, frozen=True):
    """A parsed reference."""

    family: str
    dataset: str = ""
    path: Path | None = None
    parameters: Mapping[str, Value] = MappingProxyType({})
    custom_family: Family | None = None
    """The family itself, if it was named by its import path."""

    @property
    def reader(self) -> Family:
        """Family that reads the benchmark."""
        return self.custom_family or families()[self.family]

    @property
    def name(self) -> str:
        """``family`` or ``family/dataset``."""
        return f"{self.family}/{self.dataset}" if self.dataset else self.family


def load(reference: str, home: Path) -> Benchmark:
    """Load the benchmark that `reference` names; `home` contains registered copies.

    Raises:
        UserError: no such benchmark, no file, or a broken file. Nothing is loaded in part.
    """
    target = typed_reference(reference)
    shipped = target.reader.shipped
    if shipped and target.path is None:
        with FAMILIES.used(target.family):
            items = list(shipped())
        card = find_card(target.name) or _own_card(target.name, Path(target.name), items)
        return assemble(target.name, card, items)
    if target.reader.suite and not target.dataset and target.path is None:
        return _suite(target, home)
    return read(target, located(target, home))


def _suite(target: BenchmarkReference, home: Path) -> Benchmark:
    """Load all registered datasets of a family, one after the other; the others are listed in `absent`.

    Raises:
        UserError: none is registered; a broken file.
    """
    items: list[Item] = []
    absent: list[str] = []
    for card in family_cards(target.family):
        dataset = card.name.partition("/")[2]
        if not dataset:
            continue
        member = BenchmarkReference(target.family, dataset, None, target.parameters, target.reader)
        path = registered(member, home) or _original(member, home)
        if path is None:
            names = target.reader.originals.get(dataset, ())
            command = f"`ragrounds data add {card.name} PATH`" + (f" (or as {' or '.join(names)})" if names else "")
            absent.append(f"{card.name} is not here ({card.source}): {command}.")
            continue
        with FAMILIES.used(target.family):
            items += guarded_items(list(target.reader.items(BenchmarkSource(path, dataset, member.parameters))), path)
    if not items:
        raise UserError(f"None of the datasets of {target.family} is registered. {' '.join(absent)}")
    suite_card = find_card(target.name) or _own_card(target.name, Path(target.name), items)
    return msgspec.structs.replace(assemble(target.name, suite_card, items), absent=tuple(absent))


def _original(target: BenchmarkReference, home: Path) -> Path | None:
    """Return the registered copy of the benchmark that a dataset is read from; ``None`` if it does not exist."""
    names = target.reader.originals.get(target.dataset, ())
    return next((path for name in names if (path := registered(parse_reference(name), home))), None)


def located(reference: BenchmarkReference, home: Path) -> Path:
    """Return the path that a reference is read from: its own path, or the registered copy.

    Raises:
        UserError: it names no path, and there is no copy.
    """
    path = reference.path or registered(reference, home) or _original(reference, home)
    if path is None:
        raise _absent(reference)
    return path


def read(reference: BenchmarkReference, path: Path) -> Benchmark:
    """Read the benchmark at `path`, whatever path the reference names.

    Raises:
        UserError: no file, or a broken file.
    """
    with FAMILIES.used(reference.family):
        items = list(reference.reader.items(BenchmarkSource(path, reference.dataset, reference.parameters)))
    items = guarded_items(items, path)
    datasets = list(dict.fromkeys(item.question.benchmark for item in items))
    # A file that is one dataset is known by that dataset's name: beir:scifact/ is beir/scifact.
    name = datasets[0] if len(datasets) == 1 and reference.reader.open else reference.name
    built_card = load_built_card(path) if path.is_dir() else None
    if built_card:
        card = msgspec.structs.replace(built_card, name=name)
    else:
        card = find_card(name) or _own_card(name, path, items)
    return assemble(name, card, items, path)


def guarded_items(items: list[Item], path: Path) -> list[Item]:
    """Add to each item the documents that a ``guard.jsonl`` withholds from its searches.

    The file is in the benchmark's folder, or in a dataset's folder below it. It names questions without their dataset,
    as the files next to it do.

    Raises:
        UserError: a guard that cannot be read.
    """
    if not path.is_dir():
        return items
    guards = {file.parent: read_guard(file) for file in [*path.glob(GUARD_FILE), *path.glob(f"*/{GUARD_FILE}")]}
    guarded_list: list[Item] = []
    for question, gold in items:
        dataset, _, bare = question.id.partition("/")
        applicable = [guards[folder] for folder in guards if folder == path or folder.name.casefold() == dataset]
        withheld = frozenset[str]().union(*(guard.get(id, ()) for guard in applicable for id in (bare, question.id)))
        guarded = msgspec.structs.replace(gold, withheld=tuple(sorted(withheld))) if withheld else gold
        guarded_list.append(Item(question, guarded))
    return guarded_list


def parse_reference(reference: str) -> BenchmarkReference:
    """Read a reference by a family's name. Nothing that it names is imported.

    Raises:
        UserError: an unknown family, dataset or parameter; the message names the nearest.
    """
    return _parsed(reference.strip(), reference, None)


def typed_reference(reference: str) -> BenchmarkReference:
    """Read a reference that the user typed. If it names a family by its import path, that code is run.

    Raises:
        UserError: as :func:`parse_reference`; or the import path gives no family.
    """
    path = family_path(reference)
    if not path:
        return parse_reference(reference)
    try:
        family = named_family(path)
    except NoSuchModule:
        find_family(path.partition(":")[0])  # raises a precise error if an installed package adds it
        if nearest(path.partition(":")[0], benchmark_names()):  # a misspelt name, rather than a module
            return parse_reference(reference)
        raise
    return _parsed(f"{family.name}{reference.strip().removeprefix(path)}", reference, family)


def family_path(reference: str) -> str:
    """Return the import path of the family that a reference names; empty if it uses a name. Nothing is imported."""
    text = reference.strip()
    code = _IMPORT_PATH.fullmatch(text)
    return code.group(1) if code and text.partition(":")[0] not in families() else ""


def _parsed(text: str, reference: str, imported: Family | None) -> BenchmarkReference:
    suffix = Path(text).suffix.lower()
    if imported is None and suffix and ":" not in text and Path(text).is_file():
        form = f"`{_FORMS[suffix]}:`" if suffix in _FORMS else "its form, such as `csv:` or `jsonl:`,"
        raise UserError(f"Unknown benchmark {quote_value(text)}. That is a file: put {form} before it.")
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise UserError(
            f"Cannot read the benchmark {quote_value(reference)}: expected `name`, `family/dataset` or `family:PATH`."
        )
    spec = parse(match.group(1))
    family, _, dataset = spec.name.partition("/")
    reader = imported or find_family(family)
    if reader is None:
        raise unknown("benchmark", family, benchmark_names(), _HINT)
    if dataset and not reader.open and find_card(spec.name) is None:
        raise unknown("benchmark", spec.name, benchmark_names(), _HINT)
    if dataset and not _DATASET.fullmatch(dataset):
        raise UserError(f"The dataset name {quote_value(dataset)} may hold letters, digits, '.', '_' and '-' only.")
    for parameter in spec.parameters:
        allowed = reader.parameters
        if parameter not in allowed:
            can = f"It takes {', '.join(allowed)}." if allowed else "It takes none."
            raise UserError(
                f"The benchmark {family!r} has no parameter {parameter!r}.{nearest(parameter, allowed)} {can}"
            )
    path = match.group(2)
    if path is not None and not path.strip():
        raise UserError(f"The benchmark {quote_value(reference)} has no path after the colon; expected {reader.file}.")
    return BenchmarkReference(family, dataset, Path(path).expanduser() if path else None, dict(spec.parameters), reader)


def benchmark_names() -> list[str]:
    """Return every benchmark name: families and their datasets."""
    return [
        name for family in families() for name in (family, *(c.name for c in family_cards(family) if "/" in c.name))
    ]


def copy_folder(reference: BenchmarkReference, home: Path) -> Path:
    """Return the folder of a benchmark's registered copy."""
    return home / "benchmarks" / reference.name.replace("/", "--")


def registered(reference: BenchmarkReference, home: Path) -> Path | None:
    """Return the registered copy of a dataset, or else of the family that contains it; ``None`` if neither exists.

    A copy of one file is that file.
    """
    family = reference.reader
    if not family.needs:
        return None
    candidates = [copy_folder(reference, home)]
    if not family.open or find_card(reference.name) is not None:
        candidates.append(copy_folder(BenchmarkReference(reference.family), home))
    for candidate in candidates:
        files: list[Path] = []
        with suppress(OSError):  # no system has a folder of such a name
            files = [file for file in candidate.rglob("*") if file.is_file()] if candidate.is_dir() else []
        if any(file.name != CARD_FILE for file in files):
            return files[0] if len(files) == 1 else candidate
    return None


def _own_card(name: str, path: Path, items: list[Item]) -> Card:
    """Return a card for a dataset that has none, derived from its family's if that exists."""
    family_card = find_card(name.partition("/")[0])
    if family_card is not None:
        return msgspec.structs.replace(family_card, name=name, title=path.name, size=len(items), sha256="", revision="")
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
