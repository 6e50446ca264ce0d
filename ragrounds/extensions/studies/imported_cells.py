"""Cells of a study from recorded replies: `imported = PATH` in a row takes the place of asking a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Run
from ragrounds.evals.benchmarks import load
from ragrounds.evals.store.store import Store
from ragrounds.extensions.exchange.imported_runs import RowFile, store_rows
from ragrounds.extensions.exchange.importers.importer import IMPORTERS, BadRow
from ragrounds.extensions.exchange.imports import import_files
from ragrounds.extensions.studies.study import Study

Imported: TypeAlias = Mapping[str, str | Path] | Sequence[str]
"""Row → its recorded replies; or texts ``ROW=PATH``."""


def recorded_rows(given: Imported, study: Study) -> dict[str, str]:
    """The rows whose replies are recorded, with the absolute paths of these.

    Raises:
        UserError: no such row, a text that is no ``ROW=PATH``, or a path where nothing is.
    """
    rows = [row.name for row in study.rows]
    found: dict[str, str] = {}
    for text in given:
        if isinstance(given, Mapping):
            row, path = text, str(given[text])
        else:
            # Names of rows and paths may hold the sign themselves.
            row = next((name for name in rows if text.startswith(f"{name}=")), text.partition("=")[0])
            path = text[len(row) + 1 :]
        if row not in rows:
            raise UserError(f"The study {study.name!r} has no row {row!r}.{nearest(row, rows)}")
        if not path:
            raise UserError(f"{text!r} has no recorded replies; expected ROW=PATH.")
        place = Path(path).expanduser().resolve()
        if not place.exists():
            raise UserError(f"The recorded replies of {row!r} do not exist: {place}.")
        found[row] = str(place)
    return found


def imported_run(store: Store, path: str | Path, benchmark: str, home: Path) -> Run:
    """The run of recorded replies to one benchmark, scored; the same replies imported again are the same run.

    Args:
        store: where it is kept.
        path: a file or folder of any form that is imported, of one system. What it holds of other questions is left
            aside.
        benchmark: the cell's.
        home: where registered copies of benchmarks are.

    Raises:
        UserError: nothing there, a broken row, no reply to this benchmark, or replies of several systems.
    """
    loaded = load(benchmark, home)
    files, _ = import_files([Path(path).expanduser()])
    rows = RowFile()
    try:
        for file, importer in files:
            with IMPORTERS.used(importer.name):
                for row in importer.rows(file):
                    if isinstance(row, BadRow):
                        raise UserError(f"{file.path}, {row.place}: {row.reason}.")
                    rows.add(replace(row, agent=row.agent or file.title))
        made = store_rows(store, rows, loaded, files[0][1].name)
    finally:
        rows.close()
    if len(made) > 1:
        systems = ", ".join(sorted(one.run.identity["agent"] for one in made))
        raise UserError(f"{path} has replies of several systems ({systems}), but a cell shows one.")
    return made[0].run
