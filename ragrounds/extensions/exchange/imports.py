"""Answers of other systems become runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.api.workspace import chosen_settings, open_store
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import load
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.compare.run_audit import RunFinding, audit_runs
from ragrounds.extensions.exchange.imported_runs import RowFile, RunOfRows, benchmark_of, store_rows
from ragrounds.extensions.exchange.importers.importer import IMPORTERS, BadRow, Importer, ImportFile, recognised
from ragrounds.extensions.exchange.importers.records import looked_at
from ragrounds.ui.text import one_line

_PARQUET = " A frame in Parquet is read as JSON Lines: frame.to_json(FILE, orient='records', lines=True)."
_NAMED = 20
"""Rows that could not be read, which are named."""


class ImportedFiles(Struct, frozen=True):
    """Runs made of others' files."""

    runs: tuple[RunOfRows, ...]
    files: Mapping[str, str]
    """File → the form that it was read in."""
    bad: tuple[str, ...]
    """Rows that could not be read, with the reason: the first of them."""
    bad_rows: int
    left: tuple[str, ...]
    """Files of a folder that no form was recognised in."""
    guesses: tuple[str, ...]
    findings: tuple[RunFinding, ...]
    comparison: Comparison


def import_formats() -> Mapping[str, Importer]:
    """The forms that are read, by name."""
    return IMPORTERS.all()


def import_runs(
    paths: str | Path | Iterable[str | Path],
    benchmark: str | None = None,
    *,
    agent: str | None = None,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Callable[[str, int], None] = lambda what, done: None,
) -> ImportedFiles:
    """Make runs of the answers in others' files, one an agent; score, audit and compare them. No model is asked.

        rr.import_runs("theirs.csv", "jsonl:questions.jsonl", agent="theirs").findings

    Args:
        paths: files, or folders of such.
        benchmark: which they answer; ``None``: the files hold the questions and the right answers themselves.
        agent: what answered; ``None``: as the files say, else their names.
        format: of `ragrounds import --help`, or an import path; ``None``: it is recognised.
        fields: of a table, field → column, where the guess is wrong.
        home, settings: the folder of the store, and all settings; ``None``: the user's.
        progress: gets which file is read, and how many rows are.

    Raises:
        UserError: a file that cannot be read, a form that is not recognised, or rows that answer no question.
    """
    chosen = chosen_settings(settings, home)
    guesses: list[str] = []
    files, left = import_files(
        [paths] if isinstance(paths, str | Path) else paths, format, dict(fields or {}), guesses.append
    )
    form, asked = files[0][1].name, benchmark or files[0][1].benchmark
    known = load(asked, chosen.home) if asked else None
    rows, bad, count = RowFile(), list[str](), 0
    try:
        for file, importer in files:
            with IMPORTERS.used(importer.name):
                for row in importer.rows(file):
                    if isinstance(row, BadRow):
                        count += 1
                        if count <= _NAMED:
                            bad.append(f"{file.path.name}, {row.place}: {row.reason}")
                        continue
                    rows.add(replace(row, agent=agent or row.agent or file.title))
            progress(file.path.name, rows.count)
        if not rows.count:
            raise UserError(f"There is no row that could be read. {' '.join(bad[:3])}".strip())
        loaded = known or benchmark_of(rows, form)
        with open_store(chosen) as store:
            made = store_rows(store, rows, loaded, form)
            runs = [one.run for one in made]
            sets = {run.questions for run in runs}
            compared = runs if len(sets) == 1 else [run for run in runs if run.questions == runs[0].questions]
            return ImportedFiles(
                tuple(made),
                {str(file.path): importer.name for file, importer in files},
                tuple(bad),
                count,
                tuple(map(str, left)),
                tuple(guesses),
                tuple(audit_runs(store, runs)),
                compare(store, compared, shared_scorers=True),
            )
    finally:
        rows.close()


def import_files(
    paths: Iterable[str | Path],
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[tuple[ImportFile, Importer]], list[Path]]:
    """Each file with what reads it, all of one form, and those of folders that are left: where files of a form were
    recognised in a folder, a table beside them is not theirs.

    Raises:
        UserError: there is none, its form is not recognised, or there are several.
    """
    wanted = IMPORTERS.named(format) if format else None
    found: list[tuple[ImportFile, Importer]] = []
    left: list[Path] = []
    for path in map(Path, paths):
        inside = path.is_dir()
        here = []
        for each in sorted(one for one in path.rglob("*") if one.is_file()) if inside else [path]:
            file = looked_at(each, root=path if inside else None, fields=fields or {}, say=say)
            importer = wanted or recognised(file)
            if importer is not None:  # of many thousand files the beginnings are not kept
                here.append((replace(file, start=file.start[:64], first={}), importer))
            elif inside:
                left.append(each)
            else:
                names, hint = ", ".join(import_formats()), _PARQUET if file.start.startswith(b"PAR1") else ""
                raise UserError(f"{each}: no form is recognised in it. --format says which ({names}).{hint}")
        special = any(not importer.general for _, importer in here)
        kept = [(file, importer) for file, importer in here if not (inside and special and importer.general)]
        left += [file.path for file, importer in here if (file, importer) not in kept]
        found += kept
    forms = sorted({importer.name for _, importer in found})
    if not forms:
        raise UserError("There is no file of a form that is recognised. `ragrounds import --help` names the forms.")
    if len(forms) > 1:
        raise UserError(f"These files have several forms ({', '.join(forms)}); import them one form at a time.")
    return found, left


def import_lines(found: ImportedFiles) -> Iterator[str]:
    """What was read, what could not be, and how the questions were found."""
    for line in found.guesses[:5]:
        yield one_line(line, 400)
    for line in found.bad:
        yield one_line(f"Not read: {line}.", 300)
    if found.bad_rows > len(found.bad):
        yield f"Not read: {found.bad_rows - len(found.bad):,} rows more."
    if found.left:
        yield one_line(f"Files left: {', '.join(found.left[:8])}{' ...' if len(found.left) > 8 else ''}.", 400)
    for one in found.runs:
        match, unsure = one.matching, "" if one.matching.checked else ", whose texts the file lacks"
        how = [
            f"{match.by_id:,} by id{unsure}" if match.by_id else "",
            f"{match.by_text:,} by text" if match.by_text else "",
        ]
        yield one_line(f"{one.run.id}: {match.rows:,} rows; questions found {', '.join(filter(None, how))}.", 300)
