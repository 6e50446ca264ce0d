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
"""Recorded replies of each row, or texts ``ROW=PATH``."""


def recorded_rows(imported: Imported, study: Study) -> dict[str, str]:
    """Return the absolute path of the recorded replies of each row that has them.

    Raises:
        UserError: no such row, a text that is no ``ROW=PATH``, or a path that does not exist.
    """
    rows = [row.name for row in study.rows]
    paths: dict[str, str] = {}
    for text in imported:
        if isinstance(imported, Mapping):
            row, path = text, str(imported[text])
        else:
            # Names of rows and paths may contain an equals sign themselves.
            row = next((name for name in rows if text.startswith(f"{name}=")), text.partition("=")[0])
            path = text[len(row) + 1 :]
        if row not in rows:
            raise UserError(f"The study {study.name!r} has no row {row!r}.{nearest(row, rows)}")
        if not path:
            raise UserError(f"{text!r} has no recorded replies; expected ROW=PATH.")
        resolved = Path(path).expanduser().resolve()
        if not resolved.exists():
            raise UserError(f"The recorded replies of {row!r} do not exist: {resolved}.")
        paths[row] = str(resolved)
    return paths


def imported_run(store: Store, path: str | Path, benchmark: str, home: Path) -> Run:
    """Import and score the recorded replies to one benchmark; the same replies imported again are the same run.

    Args:
        store: the store that the run is added to.
        path: a file or folder of any form that can be imported, of one system. Replies to other questions are ignored.
        benchmark: the cell's benchmark.
        home: folder with the registered copies of benchmarks.

    Raises:
        UserError: an empty path, a broken row, no reply to this benchmark, or replies of several systems.
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
        imports = store_rows(store, rows, loaded, files[0][1].name)
    finally:
        rows.close()
    if len(imports) > 1:
        systems = ", ".join(sorted(imported.run.identity["agent"] for imported in imports))
        raise UserError(f"{path} has replies of several systems ({systems}), but a cell shows one.")
    return imports[0].run
