"""Registered copies: benchmark files under the home folder that are found by name."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.files import READ, make_home, quote_value
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.cards import CARD_FILE, Card, card, load_built_card, load_built_hashes, remote_files
from ragrounds.evals.benchmarks.catalogue import (
    BenchmarkReference,
    copy_folder,
    load,
    located,
    parse_reference,
    read,
    typed_reference,
)
from ragrounds.evals.benchmarks.family import BenchmarkSource, families


def register(name: str, path: Path, home: Path) -> Benchmark:
    """Copy the authors' files of a family or a dataset under `home`, so that they are found by name.

    They are read first, and so is the copy before it replaces an older one; nothing broken is copied. A dataset of an
    open family is registered under its own name: ``beir`` with the folder ``scifact`` as ``beir/scifact``.

    Returns:
        The benchmark; it is found by its name.

    Raises:
        UserError: unknown family, broken file, or a home folder that cannot be written.
    """
    reference = parse_reference(name)
    family = families()[reference.family]
    if not family.needs:
        raise UserError(f"A {reference.family!r} benchmark is not registered: give its file each time, `{name}:PATH`.")
    if reference.path is not None:
        raise UserError(f"Give the benchmark without a path, {reference.name!r}, and the path as the next argument.")
    source = path.expanduser().absolute()  # `.` has a name too
    with READ.collecting() as files:
        benchmark = read(reference, source)
        files += _check(reference, source)
    try:
        copy_reference = parse_reference(benchmark.name)
    except UserError:
        raise UserError(
            f"{quote_value(benchmark.name)} cannot be a benchmark's name; choose one, "
            f"`ragrounds data add {reference.family}/NAME PATH`, of letters, digits, '.', '_' and '-'."
        ) from None
    copy_reference = msgspec.structs.replace(copy_reference, parameters=reference.parameters)
    target = copy_folder(copy_reference, home)
    make_home(home)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".adding-") as scratch:
            _copy(source, copy_folder(copy_reference, Path(scratch)), files, family.needs)
            _same_again(benchmark, copy_reference, Path(scratch), source)
            _replace(copy_folder(copy_reference, Path(scratch)), target, Path(scratch) / "old")
    except OSError as error:
        raise UserError(f"Cannot write {target}: {error.strerror}. Choose another home with RAGROUNDS_HOME.") from None
    return benchmark


def unregister(name: str, home: Path) -> Path:
    """Remove the registered copy of a family or a dataset, and return the folder that it was in.

    Raises:
        UserError: an unknown name, or there is no copy under it.
    """
    folder = copy_folder(parse_reference(name), home)
    if not folder.is_dir():
        raise UserError(f"There is no copy of {name!r} in {home / 'benchmarks'}: see `ragrounds data ls`.")
    shutil.rmtree(folder)
    return folder


def _same_again(benchmark: Benchmark, reference: BenchmarkReference, home: Path, source: Path) -> None:
    """Check that a copy, found by name, is the benchmark that was read.

    Raises:
        UserError: it is a different benchmark, or cannot be read.
    """
    try:
        copied = read(reference, located(reference, home))
        _check(reference, located(reference, home))
    except UserError as error:
        raise UserError(f"A copy of {source} alone cannot be read, so nothing was registered. {error}") from None
    if copied.version != benchmark.version:
        raise UserError(
            f"A copy of {source} does not hold the same questions under the name {reference.name!r}, so nothing was "
            f"registered. Give the dataset: `ragrounds data add {reference.family}/NAME PATH`."
        )


def _replace(new: Path, target: Path, old: Path) -> None:
    # The old copy is restored if the new one cannot take its place.
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise


def _check(reference: BenchmarkReference, path: Path) -> set[Path]:
    """Read the files that the questions do not need, and return their paths."""
    check = reference.reader.check
    return set(check(BenchmarkSource(path, reference.dataset, reference.parameters))) if check else set()


def known_card(name: str, home: Path) -> Card:
    """Return the card of a registered copy if it has one (`ragrounds build` writes it), else the package's.

    Raises:
        UserError: neither exists; the message names the nearest.
    """
    family = name.partition("/")[0]
    if family in families() and families()[family].open and "/" in name:
        reference = parse_reference(name)
        built_card = load_built_card(copy_folder(reference, home))
        if built_card is not None:
            return msgspec.structs.replace(built_card, name=reference.name)
    return card(name)


class VerifiedBenchmark(Struct, frozen=True, kw_only=True):
    """A benchmark's files, loaded and compared with its card."""

    name: str
    path: str
    questions: int
    version: str
    files: dict[str, bool | None]
    """File → True if it is the file that the card describes; ``None`` if the card does not say."""
    size_as_published: bool | None
    """True if it has as many questions as the card says; ``None`` if the card does not say."""
    size: int
    """Number of questions by the card; 0 if it does not say."""


def verify(reference: str, home: Path) -> VerifiedBenchmark:
    """Load a benchmark, registered or named with its path, and compare its files with the card.

    Raises:
        UserError: there is no copy, or it is broken.
    """
    benchmark = load(reference, home)
    path, card = Path(benchmark.path), benchmark.card
    if benchmark.path:
        _check(typed_reference(reference), path)
    hash_by_name = {file.name: file.sha256 for file in remote_files(card.name)}
    if not benchmark.path:
        hashes = {}
    elif path.is_file():
        # A lone file may have any name; its hash is compared if the card describes a single file.
        only = next(iter(hash_by_name.values())) if len(hash_by_name) == 1 else ""
        hashes = {path.name: _same(path, hash_by_name.get(path.name) or only or card.sha256)}
    else:
        files = [file for file in sorted(path.rglob("*")) if file.is_file()]
        single_hash = card.sha256 if len(files) == 1 else ""
        built_hashes = load_built_hashes(path)
        hashes = {
            str(file.relative_to(path)): _same(
                file,
                *_built(file.relative_to(path).as_posix(), built_hashes),
                hash_by_name.get(file.name) or single_hash,
            )
            for file in files
        }
    return VerifiedBenchmark(
        name=benchmark.name,
        path=benchmark.path,
        questions=len(benchmark),
        version=benchmark.version,
        files=hashes,
        size_as_published=len(benchmark) == card.size if card.size else None,
        size=card.size,
    )


def _built(name: str, hashes: Mapping[str, str]) -> list[str]:
    """Return the hashes that a file may have by the card of a built benchmark.

    A set that was a folder inside is registered without that folder, so that its names are the ends of the card's.
    """
    if name in hashes:
        return [hashes[name]]
    return [sha256 for path, sha256 in hashes.items() if path.endswith(f"/{name}")]


def _same(file: Path, *expected: str) -> bool | None:
    """Return True if the file has one of the hashes; ``None`` if no hash is known."""
    hashes = [sha256 for sha256 in expected if sha256]
    return file_sha256(file) in hashes if hashes else None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _copy(source: Path, target: Path, read_files: Iterable[Path], needs: tuple[str, ...]) -> None:
    """Copy the files that were read and, from a folder, the further files that the family keeps."""
    folder = source if source.is_dir() else source.parent
    files = {file for file in read_files if file.is_relative_to(folder)}
    if source.is_dir():
        files |= {file for pattern in (*needs, CARD_FILE) for file in source.glob(pattern) if file.is_file()}
    else:
        # The card of a folder is not the card of one of its files.
        files.discard(folder / CARD_FILE)
    for file in sorted(files):
        name = file.relative_to(folder)
        if file == source and len(files) > 1 and not any(file.match(pattern) for pattern in needs):
            name = Path(needs[0])  # among other files, the loader finds it by the family's name for it
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
