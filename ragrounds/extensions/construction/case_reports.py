"""Case reports in, with the facts that they are filtered by (OGCaReBench, Section 3.1, step 1).

Reports are a corpus as :mod:`ragrounds.tools.corpora` reads it: a folder of PMC NXML or text (``files:``), BEIR, JSON
Lines. NXML says its year, type, subject and PMC id itself. JSON Lines may have ``year``, ``citations`` (articles that
cite it), ``other_citations`` (of these, those that are no case reports), ``type``, ``specialty`` and ``language``
beside the text; for any corpus a table (a sheet or JSON Lines, by ``id``) can bring them.
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
from ragrounds.base.files import broken, read_sheet, shown
from ragrounds.base.records import Gold, Passage, Question
from ragrounds.base.text import fault
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.extensions.construction.items import INTAKE, Dropped, ItemSet, draw_items, drawn_ids, plain_name
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.tools.corpora import BadLine, CorpusSource, corpus_source, guess_family, passages
from ragrounds.tools.documents import read_document, read_whole
from ragrounds.tools.documents.jats import read_article
from ragrounds.tools.jsonlines import read_lines

Count = Annotated[int, Meta(ge=0)]


class ReportFacts(Struct, frozen=True, kw_only=True):
    """What is known of a report. ``None`` and empty: not known."""

    year: int | None = None
    citations: Count | None = None
    other_citations: Count | None = None
    type: str = ""
    specialty: str = ""
    language: str = ""


class ReportFilters(Struct, frozen=True, kw_only=True):
    """Which reports are worked on; ``None``: any. The paper: `after` 2022, `max_citations` 3, `max_other_citations` 1.

    What is not known does not pass a filter that asks for it.
    """

    after: int | None = None
    """Published after this year."""
    max_citations: int | None = None
    max_other_citations: int | None = None
    types: tuple[str, ...] = ()

    def fault(self, facts: ReportFacts) -> tuple[str, str]:
        """Why a report is dropped, and the case itself; empty texts: it is not."""
        checks: tuple[tuple[str, int | None, int | None], ...] = (
            ("citations", facts.citations, self.max_citations),
            ("citations by other articles", facts.other_citations, self.max_other_citations),
        )
        if self.after is not None and facts.year is None:
            return "year not known", ""
        if self.after is not None and facts.year is not None and facts.year <= self.after:
            return f"published in {self.after} or before", str(facts.year)
        for name, value, most in checks:
            if most is not None and value is None:
                return f"{name} not known", ""
            if most is not None and value is not None and value > most:
                return f"more than {most} {name}", str(value)
        if self.types and facts.type.casefold() not in {each.casefold() for each in self.types}:
            return "another type" if facts.type else "type not known", facts.type
        return "", ""


class ReportSource(Struct, frozen=True, kw_only=True):
    """Reports to be read, as often as needed."""

    origin: CorpusSource
    table: Mapping[str, ReportFacts]

    @property
    def name(self) -> str:
        """The corpus's name, which the items' ids and the card show."""
        return self.origin.name

    def read(self, bad: list[BadLine] | None = None) -> Iterator[tuple[Passage, ReportFacts]]:
        """Every report with its facts; what stands in the table goes before what the report says.

        Raises:
            UserError: a report cannot be read, and no list of `bad` ones is given.
        """
        if self.origin.root is None:
            own = _rows(self.origin)
            for (passage, _), facts in zip(passages(self.origin), own, strict=True):
                named = _named(passage, passage.id)
                yield named, self._known(named.id, facts)
            return
        for file in self.origin.files:
            try:
                passage, facts = _of_file(file, self.origin.root)
            except (ValueError, OSError, EOFError, zlib.error, RecursionError) as problem:
                wrong = BadLine(str(file), 0, fault(problem))
                if bad is None:
                    raise UserError(f"Cannot read {wrong}.") from None
                bad.append(wrong)
                continue
            yield passage, self._known(passage.id, facts)

    def _known(self, id: str, own: ReportFacts) -> ReportFacts:
        beside = self.table.get(id)
        if beside is None:
            return own
        given = {
            name: value for name in ReportFacts.__struct_fields__ if (value := getattr(beside, name)) not in (None, "")
        }
        return replace(own, **given)


def open_reports(corpus: str, table: Path | None) -> ReportSource:
    """Find the reports; `table` is a sheet (`benchmarks.spreadsheets.read_sheet`) or JSON Lines with a
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
    """The items: reports that pass the filters, `limit` of them drawn by `seed`. Ids of the table that are no report's
    are appended to `strangers`.

    Texts are kept of those alone that are drawn: a store of reports may be larger than memory.

    Raises:
        UserError: none passes, or a report cannot be read.
    """
    dropped: list[Dropped] = []
    passing: list[str] = []
    seen: set[str] = set()
    bad: list[BadLine] = []
    for number, (passage, facts) in enumerate(reports.read(bad), 1):
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
    dropped += [Dropped(id=each.file, stage=INTAKE, reason="cannot be read", detail=each.reason) for each in bad]
    chosen = drawn_ids(passing, limit, seed)
    items = (_item(passage, facts, reports.name) for passage, facts in reports.read([]) if passage.id in chosen)
    name = plain_name(reports.name)
    return draw_items(
        f"case-questions/{name}", items, dropped, of=reports.name, limit=limit, seed=seed, passed=len(passing)
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
    """A file's report; under its PMC id and with what it says of itself, where it is NXML that has them."""
    if not file.name.removesuffix(".gz").endswith((".nxml", ".xml")):
        passage, _ = read_document(file, root)
        return _named(passage, passage.id), ReportFacts()
    article = read_article(read_whole(file))
    name = article.pmc or (file.relative_to(root).as_posix() if file != root else file.name)
    passage = Passage(id=name, document=name, title=article.title, text=article.text, corpus="")
    return _named(passage, name), ReportFacts(year=article.year, type=article.type, specialty=article.subject)


def _named(passage: Passage, id: str) -> Passage:
    """Under an id without blanks, which judgements cannot carry."""
    name = _unbroken(id)
    return passage if name == passage.id == passage.document else replace(passage, id=name, document=name)


def _unbroken(id: str) -> str:
    return "_".join(id.split())


def _rows(origin: CorpusSource) -> Iterator[ReportFacts]:
    """The facts of every row of JSON Lines."""
    for file in origin.files:
        for number, line in enumerate(read_lines(file), 1):
            if line.strip():
                yield _facts(_decoded(line, file, number), file, f"line {number}")


def _decoded(line: bytes, file: Path, number: int) -> JsonObject:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise broken(file, f"this is not JSON ({fault(error)})", f"line {number}") from None
    return found if isinstance(found, dict) else {}


def _facts(row: Mapping[str, Any], file: Path, place: str) -> ReportFacts:
    given = {name: row[name] for name in ReportFacts.__struct_fields__ if row.get(name) not in (None, "")}
    try:
        return msgspec.convert(given, ReportFacts, strict=False)
    except msgspec.ValidationError as error:
        raise broken(file, str(error), place) from None


_IDS = ("id", "_id", "pmc_id")


def _table(path: Path) -> dict[str, ReportFacts]:
    rows: Iterable[tuple[str, JsonObject]]
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        rows = ((f"line {n}", _decoded(line, path, n)) for n, line in enumerate(read_lines(path), 1) if line.strip())
    else:
        sheet = read_sheet(path, ())
        rows = ((place, {name.strip(): cell.strip() for name, cell in row.items()}) for place, row in sheet)
    known = (*_IDS, *ReportFacts.__struct_fields__)
    found: dict[str, ReportFacts] = {}
    for place, row in rows:
        for column in row:
            if column and column not in known:  # spreadsheets end their lines with columns that have no name
                wanted = f"expected id, {', '.join(ReportFacts.__struct_fields__)}"
                raise broken(path, f"the column {shown(column)} is unknown; {wanted}{_meant(column, known)}", "line 1")
        name = _unbroken(next((str(row[id]) for id in _IDS if row.get(id) not in (None, "")), ""))
        if not name:
            raise broken(path, "it has no id", place)
        if name in found:
            raise broken(path, f"the id {shown(name)} is not unique", place)
        found[name] = _facts(row, path, place)
    return found


def _meant(column: str, known: Iterable[str]) -> str:
    return f".{nearest(column, known)}".removesuffix(".")


def store_of(reports: ReportSource) -> Iterator[tuple[str, str, str]]:
    """Id, title and text of every report that can be read: the store that the questions are asked of."""
    return ((passage.id, passage.title, passage.text) for passage, _ in reports.read([]))
