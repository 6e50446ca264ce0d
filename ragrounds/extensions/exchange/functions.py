"""Functions for exporting runs to files, stores and other tools, and for importing them from stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    chosen_settings,
    make_folder,
    open_selected_runs,
    open_store,
    replaced_file,
    run_names,
    texts,
    unheard,
)
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import is_import_path
from ragrounds.base.records import FINAL
from ragrounds.base.settings import Settings, read_settings
from ragrounds.evals.scorers.words import copy_words
from ragrounds.evals.store.database import open_source, open_target
from ragrounds.evals.store.run_names import copy_names
from ragrounds.extensions.exchange.formats import EXPORTS, Export, ExportFormat
from ragrounds.extensions.exchange.transfer import TransferResult, choose_runs, copy_runs
from ragrounds.ui.text import safe

STORE = "store"
"""Name of the export into a store, which is not a format: runs with everything that they depend on."""


def list_formats() -> Mapping[str, ExportFormat[Any]]:
    """Return the export formats by name, each with its kind of output and its options."""
    return EXPORTS.all()


def typed_format(name: str) -> ExportFormat[Any] | None:
    """Return the format that the user typed, by its name or by an import path (``package.module:NAME``), which runs
    that code.

    ``None`` if no format has that name.

    Raises:
        UserError: the import path gives no format; an installed package adds the name, and it cannot be used.
    """
    return EXPORTS.imported(name) if is_import_path(name) else EXPORTS.find(name)


def export_runs(
    references: Sequence[str], location: str, settings: Settings | None = None, progress: Progress = unheard
) -> TransferResult:
    """Copy runs with everything that they depend on into a portable file, created if needed, or another store, by its
    URL.

    Raises:
        UserError: an unknown run, no run at all, or a place that cannot be written.
    """
    with open_store(settings or read_settings()) as store, open_target(location) as engine:
        moved = copy_runs(store.engine, engine, choose_runs(store.engine, references), FINAL, progress)
        copy_words(store.engine, engine)
        copy_names(store.engine, engine, moved.runs)
    return moved


def transfer_lines(moved: TransferResult) -> Iterator[str]:
    """Yield what was copied into a store, and what was already there."""
    yield from (safe(name) for name in moved.runs)
    yield from (f"{safe(name)} is there already, the same." for name in moved.present)
    yield from (safe(name) for name in moved.arenas)
    yield f"{moved.calls:,} recorded calls and {moved.texts:,} texts are new there."
    if moved.differing:
        yield (
            f"{moved.differing:,} calls are recorded there with another reply, which was left: "
            "the moved runs' traces show that one, and their scores are as they were."
        )


def import_store(
    location: str | Path,
    runs: str | Iterable[str] = (),
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress = unheard,
) -> TransferResult:
    """Copy runs of a portable file or another store into this one. The whole file is checked before anything is
    written.

        rr.load(rr.import_store("runs.ragrounds").runs[0])

    Args:
        location: a file of `ragrounds export store`, a ``store.sqlite``, or a URL.
        runs: runs to copy: ids, beginnings of ids, or agents' texts; all by default.
        home, settings: the folder of the store, and all settings; ``None`` for the user's.
        progress: called with a label of the records being copied, and their number.

    Raises:
        UserError: an unknown run, no run at all, or a damaged file.
    """
    with open_store(chosen_settings(settings, home)) as store, open_source(str(location)) as engine:
        moved = copy_runs(engine, store.engine, choose_runs(engine, texts(runs)), FINAL, progress)
        copy_words(engine, store.engine)
        copy_names(engine, store.engine, moved.runs)
    return moved


def is_store(location: str) -> bool:
    """Return True if a place is a store: a file of SQLite, or a URL."""
    if "://" in location:
        return True
    try:
        with Path(location).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except (OSError, ValueError):
        return False


def export(
    format: str,
    runs: RunsGiven,
    out: str | Path | None = None,
    *,
    force: bool = False,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress = unheard,
    **options: object,
) -> tuple[str, ...]:
    """Export runs: as files of a format, into a store, or to a server if a format's options request it.

        rr.export("jsonl", "direct", "direct.jsonl")
        rr.export("store", rr.runs(), "runs.ragrounds")

    Args:
        format: a name from `ragrounds export --help`, or the import path of a custom format (``package.module:NAME``).
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        out: the file or folder, or a store's URL; ``None`` to send the runs.
        force: overwrite existing files.
        home, settings: the folder of the store, and all settings; ``None`` for the user's.
        progress: called with a label of the items being sent, and their number.
        options: options of the format.

    Returns:
        One line per file, with its path and contents. Each file is written completely or not at all.

    Raises:
        UserError: an unknown format, run or option; an existing file; an extra that is not installed.
    """
    effective_settings = chosen_settings(settings, home)
    if format == STORE:
        if out is None or options:
            raise UserError("A store takes a place and no options: rr.export('store', runs, 'runs.ragrounds').")
        return tuple(transfer_lines(export_runs(run_names(runs), str(out), effective_settings, progress)))
    export_format, folder = EXPORTS.resolve(format), None if out is None else Path(out)
    format_options, lines = export_format.options(**options), list[str]()
    if export_format.check is not None:
        export_format.check(format_options, folder is not None)
    with open_selected_runs(runs, effective_settings) as (store, loaded_runs), EXPORTS.used(export_format.name):
        request = Export(store, loaded_runs, format_options, progress)
        if folder is None and export_format.send is not None:
            lines.append(export_format.send(request))
        elif folder is not None:
            for part in export_format.parts(request):
                target = folder / part.name if part.name else folder
                if part.name:
                    make_folder(target.parent)
                with replaced_file(target, force) as path:
                    summary = part.write(path)
                lines.append(f"{target}: {summary}")
    return tuple(lines)
