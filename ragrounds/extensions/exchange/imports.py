"""Import of other systems' answers as runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.workspace import chosen_settings, open_store
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import load
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.run_audit import RunFinding, audit_runs
from ragrounds.extensions.exchange.imported_runs import RowFile, RunOfRows, benchmark_of, store_rows
from ragrounds.extensions.exchange.importers.importer import IMPORTERS, BadRow, Importer, ImportFile, find_importer
from ragrounds.extensions.exchange.importers.records import looked_at, read_records
from ragrounds.ui.text import one_line

_PARQUET = " A frame in Parquet is read as JSON Lines: frame.to_json(FILE, orient='records', lines=True)."
_NAMED = 20
"""Number of unreadable rows that are named."""


class ImportedFiles(ComparisonResult, frozen=True, kw_only=True):
    """Result of an import: runs made of other systems' files, and their comparison."""

    runs: tuple[RunOfRows, ...]
    files: Mapping[str, str]
    """File → form that it was read in."""
    bad: tuple[str, ...]
    """First rows that could not be read, each with the reason."""
    bad_rows: int
    left: tuple[str, ...]
    """Files of a folder whose form was not recognised."""
    guesses: tuple[str, ...]
    findings: tuple[RunFinding, ...]

    def lines(self) -> Iterator[str]:
        """Yield lines on the rows that were read, those that were not, and how questions were found."""
        for line in self.guesses[:5]:
            yield one_line(line, 400)
        for line in self.bad:
            yield one_line(f"Not read: {line}.", 300)
        if self.bad_rows > len(self.bad):
            yield f"Not read: {self.bad_rows - len(self.bad):,} rows more."
        if self.left:
            yield one_line(f"Ignored files: {', '.join(self.left[:8])}{' ...' if len(self.left) > 8 else ''}.", 400)
        for imported in self.runs:
            match = imported.matching
            unchecked_note = "" if match.checked else " (the file has no question texts)"
            match_texts = [
                f"{match.by_id:,} matched by id{unchecked_note}" if match.by_id else "",
                f"{match.by_text:,} matched by text" if match.by_text else "",
            ]
            yield one_line(f"{imported.run.id}: {match.rows:,} rows, {', '.join(filter(None, match_texts))}.", 300)


def import_runs(
    paths: str | Path | Iterable[str | Path],
    benchmark: str | None = None,
    *,
    agent: str | None = None,
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Callable[[str, int], None] = lambda label, done: None,
) -> ImportedFiles:
    """Make runs of the answers in other systems' files, one per agent; score, audit and compare them. No model is
    called.

        rr.import_runs("theirs.csv", "jsonl:questions.jsonl", agent="theirs").findings

    Args:
        paths: files, or folders of files.
        benchmark: benchmark that the files answer; ``None`` if the files contain the questions and the right answers.
        agent: system that answered; ``None`` for the one in the files, else their names.
        format: a name from `ragrounds import --help`, or an import path; ``None`` to recognise it.
        fields: field → column of a table, to correct wrong guesses.
        home, settings: the folder of the store, and all settings; ``None`` for the user's.
        progress: called with the name of the file, and the number of rows.

    Raises:
        UserError: a file that cannot be read, a form that is not recognised, or rows that answer no question.
    """
    effective_settings = chosen_settings(settings, home)
    guesses: list[str] = []
    files, left = import_files(
        [paths] if isinstance(paths, str | Path) else paths, format, dict(fields or {}), guesses.append
    )
    form, benchmark_name = files[0][1].name, benchmark or files[0][1].benchmark
    named_benchmark = load(benchmark_name, effective_settings.home) if benchmark_name else None
    rows, bad_rows, count = RowFile(), list[str](), 0
    log_by_agent: dict[str, Path] = {}
    try:
        for file, importer in files:
            with IMPORTERS.used(importer.name):
                for row in importer.rows(file):
                    if isinstance(row, BadRow):
                        count += 1
                        if count <= _NAMED:
                            bad_rows.append(f"{file.path.name}, {row.place}: {row.reason}")
                        continue
                    name = " ".join(filter(None, (agent or row.agent or file.title, row.variant)))
                    if importer.log and log_by_agent.setdefault(name, file.path) != file.path:
                        name = f"{name} {file.title}"
                    rows.add(replace(row, agent=name))
            progress(file.path.name, rows.count)
        if not rows.count:
            raise UserError(f"There is no row that could be read. {' '.join(bad_rows[:3])}".strip())
        loaded = named_benchmark or benchmark_of(rows, form)
        with open_store(effective_settings) as store:
            stored = store_rows(store, rows, loaded, form)
            runs = [imported.run for imported in stored]
            sets = {run.questions for run in runs}
            compared = runs if len(sets) == 1 else [run for run in runs if run.questions == runs[0].questions]
            return ImportedFiles(
                settings=effective_settings,
                runs=tuple(stored),
                files={str(file.path): importer.name for file, importer in files},
                bad=tuple(bad_rows),
                bad_rows=count,
                left=tuple(map(str, left)),
                guesses=tuple(guesses),
                findings=tuple(audit_runs(store, runs)),
                comparison=compare(store, compared, shared_scorers=True),
            )
    finally:
        rows.close()


def import_files(
    paths: Iterable[str | Path],
    format: str | None = None,
    fields: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[tuple[ImportFile, Importer]], list[Path]]:
    """Find the importer of each file, all of one form, and the files of folders that are left over.

    If files of a special form are recognised in a folder, a table next to them is not imported.

    Raises:
        UserError: no file, its form is not recognised, or there are several forms.
    """
    requested = IMPORTERS.resolve(format) if format else None
    importer_by_file: list[tuple[ImportFile, Importer]] = []
    unrecognised: list[Path] = []
    for path in map(Path, paths):
        is_folder = path.is_dir()
        matches = []
        for file_path in (
            sorted(candidate for candidate in path.rglob("*") if candidate.is_file()) if is_folder else [path]
        ):
            file = looked_at(file_path, root=path if is_folder else None, fields=fields or {}, say=say)
            importer = requested or find_importer(file)
            if importer is not None:  # there may be thousands of files: their beginnings are not kept
                matches.append((replace(file, start=file.start[:64], first={}), importer))
            elif is_folder:
                unrecognised.append(file_path)
            else:
                first = None if file.start.startswith(b"PAR1") else next(read_records(file_path), None)
                fault = f" {first.place}: {first.reason}." if isinstance(first, BadRow) else ""
                names, hint = ", ".join(IMPORTERS.all()), _PARQUET if file.start.startswith(b"PAR1") else ""
                raise UserError(
                    f"{file_path}: no form is recognised in it.{fault} --format says which ({names}).{hint}"
                )
        has_special_form = any(not importer.general for _, importer in matches)
        selected = [
            (file, importer) for file, importer in matches if not (is_folder and has_special_form and importer.general)
        ]
        unrecognised += [file.path for file, importer in matches if (file, importer) not in selected]
        importer_by_file += selected
    forms = sorted({importer.name for _, importer in importer_by_file})
    if not forms:
        raise UserError("There is no file of a form that is recognised. `ragrounds import --help` names the forms.")
    if len(forms) > 1:
        raise UserError(f"These files have several forms ({', '.join(forms)}); import them one form at a time.")
    return importer_by_file, unrecognised
