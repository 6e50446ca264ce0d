"""Search as of a date: ``as_of[of=bm25,date=2015-06-30,dates=FILE]`` finds no passage of a later document.

The file is CSV with a heading line: a document's id (a PMID, say) in the first column, its date in the second, as a
year, ``2015-06`` or ``2015-06-30``. A date that is not whole is taken for its last day, so that nothing later is found.
A document that the file does not name is left out, too; the attempt's notes say how many of each.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ragrounds.base.contracts import Searcher, SearchNote
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.tools.leak_guard import GuardedSearcher, LeakGuard
from ragrounds.tools.retriever import Retriever, RetrieverParameter, member_spec, value_of
from ragrounds.tools.search_notes import SEARCH_NOTES

_DATE = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?")


def day(text: str) -> str | None:
    """Return the last day that a date may mean, ``YYYY-MM-DD``; ``None`` if it is not a date."""
    match = _DATE.fullmatch(text.strip())
    return f"{match[1]}-{match[2] or '12'}-{match[3] or '31'}" if match else None


@lru_cache(maxsize=8)
def _read(path: str, text: str) -> dict[str, str]:
    """Read the last day that each document's date may mean, by document."""
    dates: dict[str, str] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if number == 1 or not row:
            continue
        last_day = day(row[1]) if len(row) > 1 else None
        if last_day is None:
            raise UserError(f"Cannot read line {number} of {path}: expected a document's id and its date.")
        dates[row[0].strip()] = max(last_day, dates.get(row[0].strip(), ""))
    return dates


@dataclass(frozen=True)
class DateGuard(LeakGuard):
    """Guard that keeps passages of documents not later than a day, and remembers the others of a search."""

    until: str = ""
    dates: Mapping[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    """Reason by left-out passage."""

    def keeps(self, passage: Passage) -> bool:
        """Return True if the passage may be found."""
        document_date = self.dates.get(passage.document) or self.dates.get(passage.id)
        if document_date is not None and document_date <= self.until:
            return True
        self.left[passage.id] = "later" if document_date else "without a date"
        return False


class DatedSearcher:
    """Searcher without the passages that are later than a day or have no known date."""

    def __init__(self, spec: Spec, searcher: Searcher) -> None:
        AS_OF.check(spec)
        until = day(str(spec.parameters.get("date", "")))
        file = str(spec.parameters.get("dates", ""))
        if until is None or not file:
            raise UserError(f"{spec} needs date=YYYY-MM-DD and dates=FILE, of documents' ids and dates.")
        text = read_text(Path(file))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if spec.parameters.get("digest", digest) != digest:
            raise UserError(f"{file} is not the file that {spec} was made with.")
        self._searcher, self._until, self._dates = searcher, until, _read(file, text)
        self.corpus = searcher.corpus
        parameters = {"date": until, "dates": file, "digest": digest, "of": value_of(searcher)}
        self.spec = str(Spec("as_of", parameters))

    def _guard_search(self) -> tuple[GuardedSearcher, DateGuard]:
        guard = DateGuard(until=self._until, dates=self._dates)
        return GuardedSearcher(self._searcher, guard), guard

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document that is not too late, if the inner retriever can return them."""
        return self._guard_search()[0].document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages that are not too late. More are fetched until `k` are found."""
        searcher, guard = self._guard_search()
        passages = await searcher.search(query, k)
        if guard.left:
            counts = " and ".join(
                f"{count:,} {reason}" for reason, count in sorted(Counter(guard.left.values()).items())
            )
            SEARCH_NOTES.report(SearchNote("as_of", f"left out as of {self._until}: {counts}"))
        return passages


AS_OF = Retriever(
    name="as_of",
    summary="what was known at a date: later documents, and those of no known date, are not found",
    example="as_of[of=bm25,date=2015-06-30,dates=dates.csv]",
    open=lambda spec, corpora: DatedSearcher(spec, corpora.searcher(member_spec(spec))),
    parameters=(
        RetrieverParameter("of", "the retriever inside", "bm25"),
        RetrieverParameter("date", "the last day that counts: YYYY-MM-DD, YYYY-MM or YYYY"),
        RetrieverParameter("dates", "CSV with a heading line: a document's id and its date"),
        RetrieverParameter("digest", "of that file; another one is refused"),
    ),
    cost="a search of the retriever inside, deeper where passages are left out",
)
