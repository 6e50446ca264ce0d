"""Registered copies: benchmark files that stand under the home folder and are found by name."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.cards import CARD_FILE, Card, card, card_beside, remote_files
from ragrounds.evals.benchmarks.catalogue import load, parse_reference, place
from ragrounds.evals.benchmarks.families import FAMILIES


def register(name: str, path: Path, home: Path) -> Benchmark:
    """Copy the authors' files of a family or a dataset under `home`, so that they are found by name.

    They are loaded first; nothing broken is copied. An older copy is replaced in one step.

    Raises:
        UserError: unknown family, broken file, or a home folder that cannot be written.
    """
    reference = parse_reference(name)
    family = FAMILIES[reference.family]
    if not family.needs:
        raise UserError(f"A {reference.family!r} benchmark is not registered: name its file each time, `{name}:PATH`.")
    source = path.expanduser()
    benchmark = load(f"{name}:{source}", home)
    target = place(reference, home)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".adding-") as scratch:
            new, old = Path(scratch) / "new", Path(scratch) / "old"
            _copy(source, new, family.needs)
            if target.exists():
                target.rename(old)
            new.rename(target)
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}. Choose another home with RAGROUNDS_HOME.") from None
    return benchmark


def known_card(name: str, home: Path) -> Card:
    """The card of a registered copy that brings its own (`ragrounds build` writes one), else the package's.

    Raises:
        UserError: neither is there; names the nearest.
    """
    family = name.partition("/")[0]
    if family in FAMILIES and FAMILIES[family].open and "/" in name:
        reference = parse_reference(name)
        built = card_beside(place(reference, home))
        if built is not None:
            return msgspec.structs.replace(built, name=reference.name)
    return card(name)


class Checked(Struct, frozen=True, kw_only=True):
    """A benchmark's files, loaded and compared with its card."""

    name: str
    path: str
    questions: int
    version: str
    files: dict[str, bool | None]
    """File → whether it is the very file that the card describes; ``None``: the card does not say."""
    size_as_published: bool | None
    """Whether it has as many questions as the card says; ``None``: the card does not say."""
    size: int
    """Questions by the card; 0: it does not say."""


def verify(reference: str, home: Path) -> Checked:
    """Load a benchmark, registered or named with its path, and compare its files with the card.

    Raises:
        UserError: there is no copy, or it is broken.
    """
    benchmark = load(reference, home)
    path, card = Path(benchmark.path), benchmark.card
    described = {file.name: file.sha256 for file in remote_files(card.name)}
    if not benchmark.path:
        hashes = {}
    elif path.is_file():
        # A lone file may have any name; its hash is compared where the card describes a single file.
        only = next(iter(described.values())) if len(described) == 1 else ""
        hashes = {path.name: _same(path, described.get(path.name) or only or card.sha256)}
    else:
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        alone = card.sha256 if len(files) == 1 else ""
        hashes = {str(file.relative_to(path)): _same(file, described.get(file.name) or alone) for file in files}
    return Checked(
        name=benchmark.name,
        path=benchmark.path,
        questions=len(benchmark),
        version=benchmark.version,
        files=hashes,
        size_as_published=len(benchmark) == card.size if card.size else None,
        size=card.size,
    )


def _same(file: Path, described: str) -> bool | None:
    return _sha256(file) == described if described else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(source: Path, target: Path, needs: tuple[str, ...]) -> None:
    target.mkdir()
    if source.is_file():
        # The loader finds a lone file by the family's own name for it.
        name = source.name if any(source.match(pattern) for pattern in needs) else needs[0]
        shutil.copyfile(source, target / Path(name).name)
        return
    for file in sorted({file for pattern in (*needs, CARD_FILE) for file in source.glob(pattern) if file.is_file()}):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
