"""Cells of a study from recorded replies: `imported = PATH` in a row takes the place of asking a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from ragrounds.errors import UserError, nearest
from ragrounds.evals.benchmarks import load
from ragrounds.evals.exchange.mirage_predictions import as_runs, read_predictions, store_run
from ragrounds.evals.store.store import Store
from ragrounds.evals.studies.study import Study
from ragrounds.records import Run

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
        path: the MIRAGE authors' folder of one setting and model, or JSON lines of such (plain or gzip). What it holds
            of other datasets is left aside.
        benchmark: the cell's.
        home: where registered copies of benchmarks are.

    Raises:
        UserError: nothing there, a broken file, no reply to this benchmark, or replies of several systems.
    """
    loaded = load(benchmark, home)
    wanted = {question.id.partition("/")[0] for question in loaded.questions}
    kept = [one for one in read_predictions(Path(path).expanduser()) if one.dataset in wanted]
    if not kept:
        raise UserError(f"{path} has no reply to a question of {loaded.name}.")
    systems = sorted({(one.setting, one.model) for one in kept})
    if len(systems) > 1:
        found = ", ".join(f"{setting} of {model}" for setting, model in systems)
        raise UserError(f"{path} has replies of several systems ({found}), but a cell shows one.")
    (made,) = as_runs(iter(kept), loaded, [run.id for run in store.runs()])
    return store_run(store, made, loaded)
