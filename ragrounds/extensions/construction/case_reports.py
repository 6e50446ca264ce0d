"""Intake of case reports, with the facts that they are filtered by (OGCaReBench, Section 3.1, step 1).

Reports are a corpus as :mod:`ragrounds.tools.corpora` reads it: a folder of PMC NXML or text (``files:``), BEIR, JSON
Lines. NXML contains its year, type, subject and PMC id. JSON Lines may have ``year``, ``citations`` (articles that
cite it), ``other_citations`` (those of them that are no case reports), ``type``, ``specialty`` and ``language``
in addition to the text; for any corpus, a table (a sheet or JSON Lines, by ``id``) can provide them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.files import broken, quote_value, read_sheet
from ragrounds.base.records import Gold, Passage, Question
from ragrounds.base.text import fault
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.extensions.construction.items import INTAKE, Dropped, ItemSet, draw_items, plain_name, sample_ids
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.tools.corpora import BadLine, CorpusSource, corpus_source, guess_family, passages
from ragrounds.tools.documents import read_document, read_whole
from ragrounds.tools.documents.jats import read_article
from ragrounds.tools.jsonlines import read_lines

Count = Annotated[int, Meta(ge=0)]


class ReportFacts(Struct, frozen=True, kw_only=True):
    """Facts about a report. ``None`` and empty mean unknown."""

    year: int | None = None
    citations: Count | None = None
    other_citations: Count | None = None
    type: str = ""
    specialty: str = ""
    language: str = ""


class ReportFilters(Struct, frozen=True, kw_only=True):
    """Filters of reports; ``None`` for any. The paper: `after` 2022, `max_citations` 3, `max_other_citations` 1.

    A report whose fact is unknown does not pass a filter on it.
    """

    after: int | None = None
    """Year after which the report must have been published."""
    max_citations: int | None = None
    max_other_citations: int | None = None
    types: tuple[str, ...] = ()

    def fault(self, facts: ReportFacts) -> tuple[str, str]:
        """Return the reason why a report is dropped, and the details; empty texts if it passes."""
        checks: tuple[tuple[str, int | None, int | None], ...] = (
            ("citations", facts.citations, self.max_citations),
            ("citations by other articles", facts.other_citations, self.max_other_citations),
        )
        if self.after is not None and facts.year is None:
            return "year not known", ""
        if self.after is not None and facts.year is not None and facts.year <= self.after:
            return f"published in {self.after} or before", str(facts.year)
        for name, value, limit in checks:
            if limit is not None and value is None:
                return f"{name} not known", ""
            if limit is not None and value is not None and value > limit:
                return f"more than {limit} {name}", str(value)
        if self.types and facts.type.casefold() not in {allowed_type.casefold() for allowed_type in self.types}:
            return "another type" if facts.type else "type not known", facts.type
        return "", ""


class ReportSource(Struct, frozen=True, kw_only=True):
    """Source of reports, which can be read several times."""

    origin: CorpusSource
    table: Mapping[str, ReportFacts]

    @property
    def name(self) -> str:
        """Name of the corpus, which the items' ids and the card show."""
        return self.origin.name

    def read(self, bad: list[BadLine] | None = None) -> Iterator[tuple[Passage, ReportFacts]]:
        """Yield every report with its facts. Facts in the table override those in the report.

        Raises:
            UserError: a report cannot be read, and no list `bad` is given.
        """
        if self.origin.root is None:
            own_facts = (
                _facts(_decoded(line, file, number), file, f"line {number}")
                for file in self.origin.files
                for number, line in enumerate(read_lines(file), 1)
                if line.strip()
            )
            for (passage, _), facts in zip(passages(self.origin), own_facts, strict=True):
                renamed = _with_unbroken_id(passage, passage.id)
                yield renamed, self._merge_facts(renamed.id, facts)
            return
        for file in self.origin.files:
            try:
                passage, facts = _of_file(file, self.origin.root)
            except (ValueError, OSError, EOFError, zlib.error, RecursionError) as error:
                bad_line = BadLine(str(file), 0, fault(error))
                if bad is None:
                    raise UserError(f"Cannot read {bad_line}.") from None
                bad.append(bad_line)
                continue
            yield passage, self._merge_facts(passage.id, facts)

    def _merge_facts(self, id: str, own_facts: ReportFacts) -> ReportFacts:
        table_facts = self.table.get(id)
        if table_facts is None:
            return own_facts
        table_fields = {
            name: value
            for name in ReportFacts.__struct_fields__
            if (value := getattr(table_facts, name)) not in (None, "")
        }
        return replace(own_facts, **table_fields)


def open_reports(corpus: str, table: Path | None) -> ReportSource:
    """Open the reports. `table` is a sheet (`benchmarks.spreadsheets.read_sheet`) or JSON Lines with a
    column or field ``id``, and any of those of :class:`ReportFacts`.

    Raises:
        UserError: no such corpus; a broken table, one with an unknown column or with the same id twice.
    """
    return ReportSource(origin=corpus_source(guess_family(corpus)), table=_table(table) if table else {})


def report_items(
    reports: ReportSource,
    filters: ReportFilters,
    *,
    limit: int | None,
    seed: int,
    progress: Callable[[int], None] = lambda read: None,
    strangers: list[str] | None = None,
) -> ItemSet:
    """Return the items: a sample by `seed` of at most `limit` reports that pass the filters.

    Ids of the table that belong to no report are appended to `strangers`. Only texts of sampled reports are kept: a
    store of reports may be larger than memory.

    Raises:
        UserError: none passes, or a report cannot be read.
    """
    dropped: list[Dropped] = []
    passing: list[str] = []
    seen: set[str] = set()
    bad_lines: list[BadLine] = []
    for number, (passage, facts) in enumerate(reports.read(bad_lines), 1):
        progress(number)
        if passage.id in seen:
            raise UserError(f"The report {passage.id!r} is twice in {reports.name}; ids must be unique.")
        seen.add(passage.id)
        reason, detail = filters.fault(facts)
        if not reason and not passage.text.strip():
            reason = "empty"
        if reason:
            dropped.append(Dropped(id=passage.id, stage=INTAKE, reason=reason, detail=detail))
        else:
            passing.append(passage.id)
    if strangers is not None:
        strangers += [id for id in reports.table if id not in seen]
    dropped += [
        Dropped(id=bad_line.file, stage=INTAKE, reason="cannot be read", detail=bad_line.reason)
        for bad_line in bad_lines
    ]
    sampled_ids = sample_ids(passing, limit, seed)
    items = (_item(passage, facts, reports.name) for passage, facts in reports.read([]) if passage.id in sampled_ids)
    name = plain_name(reports.name)
    return draw_items(
        f"case-questions/{name}", items, dropped, source=reports.name, limit=limit, seed=seed, passed=len(passing)
    )


def _item(passage: Passage, facts: ReportFacts, source_name: str) -> Item:
    metadata = {"title": passage.title, "specialty": facts.specialty}
    question = Question(
        id=passage.id,
        benchmark=f"case-questions/{source_name}",
        text=f"{passage.title}\n\n{passage.text}".strip(),
        kind="long",
        group=facts.specialty,
        language=facts.language or "en",
        metadata={name: text for name, text in metadata.items() if text},
    )
    return Item(question, Gold(question_id=question.id, answer="", documents=(passage.document,)))


def _of_file(file: Path, root: Path) -> tuple[Passage, ReportFacts]:
    """Return a file's report. NXML reports have their PMC id and the facts in the file, if it has them."""
    if not file.name.removesuffix(".gz").endswith((".nxml", ".xml")):
        passage, _ = read_document(file, root)
        return _with_unbroken_id(passage, passage.id), ReportFacts()
    article = read_article(read_whole(file))
    name = article.pmc or (file.relative_to(root).as_posix() if file != root else file.name)
    passage = Passage(id=name, document=name, title=article.title, text=article.text, corpus="")
    return _with_unbroken_id(passage, name), ReportFacts(
        year=article.year, type=article.type, specialty=article.subject
    )


def _with_unbroken_id(passage: Passage, id: str) -> Passage:
    """Return the passage under an id without blanks: judgements cannot represent blanks."""
    name = _unbroken(id)
    return passage if name == passage.id == passage.document else replace(passage, id=name, document=name)


def _unbroken(id: str) -> str:
    return "_".join(id.split())


def _decoded(line: bytes, file: Path, number: int) -> JsonObject:
    try:
        row = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise broken(file, f"this is not JSON ({fault(error)})", f"line {number}") from None
    return row if isinstance(row, dict) else {}


def _facts(row: Mapping[str, Any], file: Path, location: str) -> ReportFacts:
    values = {name: row[name] for name in ReportFacts.__struct_fields__ if row.get(name) not in (None, "")}
    try:
        return msgspec.convert(values, ReportFacts, strict=False)
    except msgspec.ValidationError as error:
        raise broken(file, str(error), location) from None


_IDS = ("id", "_id", "pmc_id")


def _table(path: Path) -> dict[str, ReportFacts]:
    rows: Iterable[tuple[str, JsonObject]]
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = ((f"line {n}", _decoded(line, path, n)) for n, line in enumerate(read_lines(path), 1) if line.strip())
    else:
        sheet = read_sheet(path, ())
        rows = ((location, {name.strip(): cell.strip() for name, cell in row.items()}) for location, row in sheet)
    known_columns = (*_IDS, *ReportFacts.__struct_fields__)
    facts_by_id: dict[str, ReportFacts] = {}
    for location, row in rows:
        for column in row:
            if column and column not in known_columns:  # spreadsheets end their lines with columns that have no name
                expected = f"expected id, {', '.join(ReportFacts.__struct_fields__)}"
                suggestion = f".{nearest(column, known_columns)}".removesuffix(".")
                raise broken(path, f"the column {quote_value(column)} is unknown; {expected}{suggestion}", "line 1")
        name = _unbroken(next((str(row[id]) for id in _IDS if row.get(id) not in (None, "")), ""))
        if not name:
            raise broken(path, "it has no id", location)
        if name in facts_by_id:
            raise broken(path, f"the id {quote_value(name)} is not unique", location)
        facts_by_id[name] = _facts(row, path, location)
    return facts_by_id


def store_of(reports: ReportSource) -> Iterator[tuple[str, str, str]]:
    """Return id, title and text of every report that can be read: the store that the questions are asked about."""
    return ((passage.id, passage.title, passage.text) for passage, _ in reports.read([]))
