"""Registered copies: benchmark files that stand under the home folder and are found by name."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.benchmarks.cards import remote_files
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


class Checked(Struct, frozen=True, kw_only=True):
    """A registered copy, loaded and compared with its card."""

    name: str
    path: str
    questions: int
    version: str
    files: dict[str, bool | None]
    """File → whether it is the very file that the card describes; ``None``: the card does not say."""
    size_as_published: bool | None
    """Whether it has as many questions as the card says; ``None``: the card does not say."""


def verify(name: str, home: Path) -> Checked:
    """Load a registered copy and compare its files with the card.

    Raises:
        UserError: there is no copy, or it is broken.
    """
    benchmark = load(name, home)
    described = {file.name: file.sha256 for file in remote_files(benchmark.card.name)}
    folder = Path(benchmark.path)
    return Checked(
        name=name,
        path=benchmark.path,
        questions=len(benchmark),
        version=benchmark.version,
        files={
            str(file.relative_to(folder)): _sha256(file) == described[file.name] if file.name in described else None
            for file in sorted(folder.rglob("*"))
            if file.is_file()
        }
        if benchmark.path
        else {},
        size_as_published=len(benchmark) == benchmark.card.size if benchmark.card.size else None,
    )


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
    for file in sorted({file for pattern in needs for file in source.glob(pattern) if file.is_file()}):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
