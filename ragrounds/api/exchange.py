"""Runs written to files and to other tools, and read from them; the formats that they are exported to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ragrounds.api.workspace import (
    Progress,
    made_beside,
    make_folder,
    open_store,
    opened_runs,
    unheard,
    user_settings,
)
from ragrounds.evals.benchmarks import load
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.exchange.formats import EXPORTS, Export, ExportFormat, export_formats, find_export
from ragrounds.evals.exchange.mirage_predictions import as_runs, read_predictions, store_run
from ragrounds.evals.scorers.words import copy_words
from ragrounds.evals.store.database import open_source, open_target
from ragrounds.evals.store.run_names import copy_names
from ragrounds.evals.store.transfer import TransferResult, choose_runs, copy_runs
from ragrounds.plugins import is_import_path
from ragrounds.records import FINAL, Run
from ragrounds.settings import Settings


def list_formats() -> Mapping[str, ExportFormat[Any]]:
    """The export formats by name, each with what it writes or sends and its own options."""
    return export_formats()


def typed_format(name: str) -> ExportFormat[Any] | None:
    """The format that the user typed, by its name or an import path (``package.module:NAME``), which runs that code;
    ``None``: there is none of that name.

    Raises:
        UserError: the import path gives no format; an installed package adds the name, and it cannot be used.
    """
    return EXPORTS.imported(name) if is_import_path(name) else EXPORTS.find(name)


class ImportedRuns(Struct, frozen=True):
    """Runs made from another system's outputs."""

    runs: tuple[tuple[Run, int, int], ...]
    """Each with its predictions, and its questions without one."""
    comparison: Comparison


def export_runs(
    references: Sequence[str], place: str, settings: Settings | None = None, progress: Progress = unheard
) -> TransferResult:
    """Copy runs with all they rest on into a portable file (made where there is none) or another store, by its URL.

    Raises:
        UserError: an unknown run, no run at all, or a place that cannot be written.
    """
    with open_store(settings or user_settings()) as store, open_target(place) as engine:
        moved = copy_runs(store.engine, engine, choose_runs(store.engine, references), FINAL, progress)
        copy_words(store.engine, engine)
        copy_names(store.engine, engine, moved.runs)
    return moved


def import_runs(
    place: str, references: Sequence[str], settings: Settings | None = None, progress: Progress = unheard
) -> TransferResult:
    """Copy runs of a portable file or another store into this one. A file is checked whole before anything is written.

    Raises:
        UserError: an unknown run, no run at all, or a damaged file.
    """
    with open_store(settings or user_settings()) as store, open_source(place) as engine:
        moved = copy_runs(engine, store.engine, choose_runs(engine, references), FINAL, progress)
        copy_words(engine, store.engine)
        copy_names(engine, store.engine, moved.runs)
    return moved


def import_mirage_predictions(
    paths: Sequence[Path], benchmark: str = "mirage", settings: Settings | None = None
) -> ImportedRuns:
    """Make runs of the MIRAGE authors' prediction files, score and compare them.

    Args:
        paths: the authors' folders of per-question files, or JSON lines.
        benchmark: which they answer.

    Raises:
        UserError: a file that cannot be read, or questions that the benchmark does not have.
    """

    chosen = settings or user_settings()
    loaded = load(benchmark, chosen.home)
    with open_store(chosen) as store:
        predictions = (prediction for path in paths for prediction in read_predictions(path))
        counted = []
        for one in as_runs(predictions, loaded, [run.id for run in store.runs()]):
            counted.append((store_run(store, one, loaded), len(one.attempts) - one.missing, one.missing))
            del one  # one run at a time is in memory
        return ImportedRuns(tuple(counted), compare(store, [run for run, _, _ in counted]))


def export(
    name: str,
    references: Sequence[str],
    options: Mapping[str, object],
    out: Path | None = None,
    *,
    force: bool = False,
    settings: Settings | None = None,
    progress: Progress = unheard,
) -> Iterator[str]:
    """Write the files of an export, each whole or not at all, or send it where its options say so.

    Args:
        name: of the format, or an import path of one's own (``package.module:NAME``).
        references: runs: ids, beginnings of ids, or agents' texts.
        options: of the format.
        out: the file or folder; ``None``: it is sent.
        force: write over what is there.
        progress: is told what is being sent, and how many are.

    Yields:
        What was written where, a line for each file.

    Raises:
        UserError: an unknown format, run or option; what is there already; an extra that is not installed.
    """
    made = find_export(name)
    chosen = made.options(**options)
    if made.check is not None:
        made.check(chosen, out is not None)
    with opened_runs(references, settings) as (store, runs), EXPORTS.used(made.name):
        wanted = Export(store, runs, chosen, progress)
        if out is None and made.send is not None:
            yield made.send(wanted)
        elif out is not None and made.parts is not None:
            for part in made.parts(wanted):
                target = out / part.name if part.name else out
                if part.name:
                    make_folder(out)
                with made_beside(target, force) as path:
                    written = part.write(path)
                yield f"{target}: {written}"
