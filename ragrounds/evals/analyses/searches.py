"""What each search of an attempt was good for: was a gold document found, was it new, was it kept by the reader, was it
used in the answer? And the shares of these over a run.

Kept and used are read off the words: a text is taken to come from the passage that holds the largest share of its
content words, if that is half of them or more. It is an attribution by wording, right for quotes and close
paraphrases, and silent (``None``) about texts that fit no passage or say too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import share_figure
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, every_trace
from ragrounds.records import Gold, Passage, Question, Run
from ragrounds.text import words

READER = "information"
"""The key of the state under which `reason_in_documents` leaves what is worth keeping."""
_COMMON = frozenset(
    "a an and are as at be been but by can could did do does for from had has have he her his how if in into is it its "
    "may more most no not of on or our she should so such than that the their them then there these they this those to "
    "was we were what when where which who will with would you your 的 了 是 在 和 有 与 及 或 为 不 对 等".split()
)
_FEWEST_WORDS = 4
_HALF = 0.5


class Searched(Struct, frozen=True, kw_only=True):
    """One search of an attempt as it was asked and answered, in order."""

    query: str
    passages: tuple[Passage, ...]
    kept: str | None = None
    """What a reader kept of the passages; ``None`` where the graph has no reader."""


class SearchUse(Struct, frozen=True, kw_only=True):
    """What one search was good for."""

    query: str
    found: int | None
    """Rank of the first passage from a gold document; ``None``: none found."""
    new_gold: bool
    """A gold document that no earlier search of the attempt had found."""
    new: float
    """Share of its passages that no earlier search had found; 0.0 where it found none."""
    repeated: bool
    """The same query was asked before."""
    kept: bool | None
    """Whether what the reader kept comes from a gold document; ``None``: no reader, or it cannot be decided."""
    used: bool | None
    """Whether the answer rests on a gold document of this search; ``None``: it cannot be decided."""


def searches_of(trace: Trace, reader: str = READER) -> tuple[Searched, ...]:
    """The searches of a traced attempt, each with what the next reader kept before another search was made.

    A search whose passages the journal does not hold (it failed, or was imported) has none.
    """
    made: list[Searched] = []
    for step in trace.steps:
        for call in step.calls:
            if call.call.kind == "search":
                query = call.searched.query if call.searched else ""
                made.append(Searched(query=query, passages=call.passages))
        kept = step.changes.get(reader)
        if made and made[-1].kept is None and isinstance(kept, str):
            made[-1] = replace(made[-1], kept=kept)
    return tuple(made)


def use_of_searches(searches: Sequence[Searched], gold: Gold, answer: str) -> tuple[SearchUse, ...]:
    """Follow the gold documents through an attempt's searches.

    Args:
        searches: in the order they were made.
        gold: its `documents` are ids of documents, not of passages.
        answer: the text to attribute: of a reasoning answer, its reasoning too.
    """
    wanted = set(gold.documents)
    everything = [passage for search in searches for passage in search.passages]
    source = attributed(answer, everything)
    uses = []
    seen: set[str] = set()
    seen_gold: set[str] = set()
    asked: set[str] = set()
    for search in searches:
        ids = [passage.id for passage in search.passages]
        golden = [passage.document for passage in search.passages if passage.document in wanted]
        ranks = (rank for rank, passage in enumerate(search.passages, start=1) if passage.document in wanted)
        kept = None if search.kept is None else attributed(search.kept, search.passages)
        query = " ".join(search.query.split()).casefold()
        uses.append(
            SearchUse(
                query=search.query,
                found=next(ranks, None),
                new_gold=bool(set(golden) - seen_gold),
                new=sum(id not in seen for id in ids) / len(ids) if ids else 0.0,
                repeated=query in asked,
                kept=None if kept is None else kept in wanted,
                used=None if source is None else source in wanted and source in golden,
            )
        )
        seen.update(ids)
        seen_gold.update(golden)
        asked.add(query)
    return tuple(uses)


def attributed(text: str, passages: Iterable[Passage]) -> str | None:
    """The document whose passage holds the largest share of the text's content words; ``None`` where none holds half,
    or the text has too few words. Of equal shares the passage that comes first wins."""
    said = _content(text)
    if len(said) < _FEWEST_WORDS:
        return None
    best, document = 0.0, None
    for passage in passages:
        share = len(said & _content(f"{passage.title} {passage.text}")) / len(said)
        if share > best:
            best, document = share, passage.document
    return document if best >= _HALF else None


def _content(text: str) -> set[str]:
    return set(words(text)) - _COMMON


LAST = 4
"""Searches of an attempt that stand by themselves; the later ones stand together."""
EVERY = "all"
_TITLE = "What searches were good for"


class SearchUseShares(Struct, frozen=True, kw_only=True):
    """What some searches were good for, as shares with intervals; searches for one question are one cluster.
    ``None``: of none of them it can be decided."""

    which: str
    """``1``, ``2``, … by their order in an attempt, or ``all``."""
    searches: int
    found: Figure | None
    """Searches that found a gold document; of questions that name one."""
    new_gold: Figure | None
    """Searches that found a gold document that no earlier one had found."""
    new: Figure | None
    """A search's passages that no earlier one had found."""
    repeated: Figure | None
    """Searches for what was searched for before."""
    kept: Figure | None
    """What a reader kept comes from a gold document; where there is a reader and it can be decided."""
    used: Figure | None
    """The answer rests on a gold document of this search; where it can be decided."""


class SearchUses(Struct, frozen=True, kw_only=True):
    """The searches of a run."""

    run: str
    attempts: int
    searching: int
    """Attempts that searched."""
    without_gold: int
    """Attempts at questions that name no gold document."""
    uses: tuple[SearchUseShares, ...]


class _Row(Struct, frozen=True):
    question: Question
    position: int
    use: SearchUse
    gold: bool


def uses_of_searches(store: Store, run: Run, seed: int = 0) -> SearchUses:
    """Follow the gold documents through the searches of every attempt."""
    rows: list[_Row] = []
    attempts = searching = without = 0
    for trace in every_trace(store, run):
        found = _uses(trace)
        attempts += 1
        searching += bool(found)
        without += not trace.gold.documents
        rows += [_Row(trace.question, place, use, bool(trace.gold.documents)) for place, use in enumerate(found, 1)]
    most = max((row.position for row in rows), default=0)
    parts = [(str(place), [row for row in rows if row.position == place]) for place in range(1, min(most, LAST) + 1)]
    if most > LAST:
        parts.append((f"{LAST + 1} and later", [row for row in rows if row.position > LAST]))
    return SearchUses(
        run=run.id,
        attempts=attempts,
        searching=searching,
        without_gold=without,
        uses=tuple(_use(which, some, seed) for which, some in [*parts, (EVERY, rows)]),
    )


def _uses(trace: Trace) -> Sequence[SearchUse]:
    return use_of_searches(searches_of(trace), trace.gold, trace.attempt.text)


def _use(which: str, rows: Sequence[_Row], seed: int) -> SearchUseShares:
    golden = [row for row in rows if row.gold]
    return SearchUseShares(
        which=which,
        searches=len(rows),
        found=share_figure([(row.question, float(row.use.found is not None)) for row in golden], seed),
        new_gold=share_figure([(row.question, float(row.use.new_gold)) for row in golden], seed),
        new=share_figure([(row.question, row.use.new) for row in rows], seed),
        repeated=share_figure([(row.question, float(row.use.repeated)) for row in rows], seed),
        kept=share_figure([(row.question, float(row.use.kept)) for row in golden if row.use.kept is not None], seed),
        used=share_figure([(row.question, float(row.use.used)) for row in golden if row.use.used is not None], seed),
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[SearchUses, ...]:
    return tuple(uses_of_searches(store, run, options.seed) for run in runs)


def _table(made: tuple[SearchUses, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=_TITLE,
        columns=(
            *("run", "search", "searches", "found gold", "new gold", "new passages", "asked before"),
            *("kept gold", "used gold"),
        ),
        rows=tuple(
            (one.run, use.which, use.searches, use.found, use.new_gold, use.new, use.repeated, use.kept, use.used)
            for one in made
            for use in one.uses
        ),
        note="; ".join(
            f"{one.run}: {one.searching:,} of {one.attempts:,} attempts searched; {one.without_gold:,} name no gold"
            for one in made
        ),
    )


def _picture(made: tuple[SearchUses, ...], options: AnalysisOptions) -> Picture:
    marks = []
    for one in made:
        use = one.uses[-1]
        shown = {"found gold": use.found, "new gold": use.new_gold, "kept gold": use.kept, "used gold": use.used}
        marks += [figure_mark(name, figure, one.run) for name, figure in shown.items()]
    return Picture(title=_TITLE, marks=tuple(marks), bars=True)


SEARCHES = Analysis(
    name="searches",
    summary="what each search found, what was kept and used of it",
    needs="recorded searches, and questions that name gold documents",
    measure=_measure,
    table=_table,
    picture=_picture,
    scored=False,
)
