"""Retrieval scored alone: retrievers over a benchmark's queries, TREC runs, similarity of sentences."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import MODEL, Arg, takes
from ragrounds.api.event_loop import finish
from ragrounds.api.frames import MEASURES, QUERIES, Frame, Part, Row
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.servers import met_retrievers, met_servers, server_defaults
from ragrounds.api.workspace import (
    Progress,
    chosen_settings,
    closing,
    open_store,
    texts,
    user_prices,
)
from ragrounds.contracts import Used
from ragrounds.errors import UserError
from ragrounds.evals.retrieval.bench import QueryDifference, largest_differences
from ragrounds.evals.retrieval.comparison import RetrievalComparison, compare
from ragrounds.evals.retrieval.measures import canonical, deepest
from ragrounds.evals.retrieval.published import read_published, same_set
from ragrounds.evals.retrieval.query_generation import GeneratedQueries, QueryGenerator, generate
from ragrounds.evals.retrieval.query_sets import (
    QuerySet,
    completed,
    pool_set,
    query_set,
    rerank_pools,
    unknown_documents,
    usual_measures,
)
from ragrounds.evals.retrieval.search import Keep, Retrieved, leak_filter
from ragrounds.evals.retrieval.search import retrieve as run_queries
from ragrounds.evals.retrieval.trec import Judgements, read_judgements, read_run, write_run
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.models.options import with_defaults
from ragrounds.models.prices import used_price
from ragrounds.models.providers import open_model
from ragrounds.records import Passage
from ragrounds.settings import Settings
from ragrounds.specs import Spec, parse
from ragrounds.text import file_name_among
from ragrounds.tools.retriever import open_searcher, searcher_codes
from ragrounds.tools.retrievers.rerank import scorer_of
from ragrounds.ui.plot import PictureMaker
from ragrounds.ui.retrieval_pictures import ONE_RETRIEVER, retrieval_differences, retrieval_means
from ragrounds.ui.retrieval_tables import print_retrieval
from ragrounds.ui.text import dollars, number_of

SEARCHED = "What is searched, and with what"
"""A heading in the help."""


class SearchArguments(Struct, frozen=True, kw_only=True):
    """What is searched for, and by which measures it is scored."""

    split: Annotated[str, Arg("Which judgements of a BEIR folder: qrels/SPLIT.tsv.", group=SEARCHED)] = "test"
    measures: Annotated[
        str | Sequence[str],
        Arg(
            "Such as nDCG@10; the first is what is compared. [default: nDCG@10 and the usual others]",
            option="--measure",
            many=True,
            group=SEARCHED,
        ),
    ] = ()
    k: Annotated[
        int | None, Arg("Documents a query; by default as deep as the measures look.", 1, short="-k", group=SEARCHED)
    ] = None
    trec_runs: Annotated[
        str | Path | Sequence[str | Path],
        Arg(
            "A TREC run file to score, instead of or beside searching; of several sets SET=FILE.",
            option="--run",
            metavar="FILE",
            many=True,
            group=SEARCHED,
        ),
    ] = ()
    published: Annotated[
        str | Path | Sequence[str | Path],
        Arg(
            "A result file of MTEB, or a folder of them: means of others, shown beside.",
            metavar="PATH",
            many=True,
            group=SEARCHED,
        ),
    ] = ()
    write_runs: Annotated[
        str | Path | None, Arg("Folder for TREC run files of the searches.", metavar="FOLDER", group=SEARCHED)
    ] = None
    guard: Annotated[
        str | Path | None,
        Arg(
            "JSON Lines {query, documents}: what a query may not find. Shown beside the unguarded results. A set's own "
            "guard.jsonl is applied without it; none: not even that.",
            metavar="FILE|none",
            group=SEARCHED,
        ),
    ] = None
    guard_near: Annotated[
        float | None,
        Arg("Leave out passages that hold this share of the query's own wording, 0 to 1.", 0, 1, group=SEARCHED),
    ] = None
    differences: Annotated[int, Arg("How many of the queries that the two best differ on most are shown.", 0)] = 5
    at_once: Annotated[
        int | None, Arg("Searches side by side; by default as many as there are cores.", 1, option="--threads")
    ] = None
    resamples: arguments.Resamples = 10_000
    seed: arguments.Seed = 0
    progress: arguments.Progressed = None
    message: arguments.Message = lambda text: None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


Retrievers = Annotated[
    str | Sequence[str],
    Arg(
        "A retriever's spec, such as 'bm25[k1=0.9,b=0.4]'. Give several to compare them. [default: bm25]",
        option="--retriever",
        many=True,
        group=SEARCHED,
    ),
]


class _Searched(SearchArguments, frozen=True):
    """What may be given without its name."""

    benchmark: Annotated[
        str | None,
        Arg(
            "Queries and judgements, FAMILY:PATH or a copy by its name; none: `trec_runs` against `qrels`.", option="-"
        ),
    ] = None
    retrievers: Retrievers = ()


class RetrievalArguments(_Searched, frozen=True, kw_only=True):
    """What is searched, with what, and by which measures it is scored."""

    corpus: Annotated[
        str | None,
        Arg("What is searched, if not the benchmark's own corpus: an index or a source.", group=SEARCHED),
    ] = None
    qrels: Annotated[
        str | Path | None,
        Arg("Judgements for TREC runs, where there is no `benchmark`.", metavar="FILE", group=SEARCHED),
    ] = None
    query_generation: Annotated[
        str | Sequence[str],
        Arg(
            "Let a model write what is searched for: hyde, query2doc, lamer or answer[agent=NAME].",
            many=True,
            group=SEARCHED,
        ),
    ] = ()
    model: Annotated[
        str | None, Arg("It writes the queries: provider:model[temperature=0,…].", short="-m", group=MODEL)
    ] = None
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    server_changed: arguments.ServerChanged = "stop"
    journal: arguments.Journal = "reuse"
    per_query: Annotated[bool, Arg("Also give every query's values.")] = False


Entry: TypeAlias = dict[str, Any]
"""A retriever's or a run's figures by their names: numbers, lists and objects as JSON has them."""


class RetrievalResult(Result, frozen=True, kw_only=True):
    """What came of :func:`retrieve`."""

    entries: tuple[Entry, ...]
    """A retriever or a TREC run each: its figures, by the measures' names and what the search took."""
    comparisons: tuple[RetrievalComparison, ...]
    """Every pair, by the first measure."""
    measures: tuple[str, ...]
    differences: tuple[QueryDifference, ...] = ()
    """Queries on which the two best by the first measure differ the most."""

    def draw(self, console: Console) -> None:
        """Print the measures and the paired differences."""
        print_retrieval(self.entries, self.comparisons, self.measures, console, self.differences)

    def brief(self) -> str:
        """Each retriever with its first measure."""
        first = self.measures[0]
        had = [entry for entry in self.entries if entry[first] is not None]
        return ", ".join(f"{entry['retriever']} {entry[first]:.4f}" for entry in had) + f" {first}"

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The means, and the paired differences by the first measure."""
        return {
            "means": PictureMaker(partial(retrieval_means, self.entries, self.measures), "no measure is a share"),
            "differences": PictureMaker(partial(retrieval_differences, self.comparisons), ONE_RETRIEVER),
        }

    def own_frames(self) -> tuple[Frame, ...]:
        """The measures, and the values of every query where they were kept."""
        return (MEASURES, QUERIES) if "per_query" in self.entries[0] else (MEASURES,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """A part for each retriever."""
        read = measure_rows if frame is MEASURES else query_rows
        yield (list(read(entry, self.measures)) for entry in self.entries)


def measure_rows(entry: Entry, measures: Sequence[str], of: str | None = None) -> Iterator[Row]:
    """The rows of a retriever in the frame ``measures``; `of` is the set of queries."""
    took = ("queries", "queries_without_results", "queries_per_second", "p95_seconds")
    for name in measures:
        yield (entry["retriever"], name, entry[name], *(entry.get(each) for each in took), of)


def query_rows(entry: Entry, measures: Sequence[str], of: str | None = None) -> Iterator[Row]:
    """The rows of a retriever in the frame ``queries``; none of published means."""
    for name in measures if "per_query" in entry else ():
        for query, value in entry["per_query"][name].items():
            yield (entry["retriever"], name, query, value, of)


@takes(RetrievalArguments)
def retrieve(given: RetrievalArguments) -> RetrievalResult:
    """Search with each retriever and score the results; compare them in pairs.

    Figures are trec_eval's means over every judged query; a query without results counts 0.

        rr.retrieve("beir:scifact", ["bm25", "bm25[k1=0.9,b=0.4]"]).to_pandas()

    Raises:
        UserError: nothing to score; an unknown benchmark, retriever, measure or model; a file that cannot be read.
    """
    with counted(given.progress) as tell:
        return retrieve_set(given, chosen_settings(given.settings, given.home), tell)


def paths(given: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """One path, or several, as paths."""
    return tuple(map(Path, [given] if isinstance(given, str | Path) else given))


def retrieve_set(request: RetrievalArguments, settings: Settings, progress: Progress) -> RetrievalResult:
    """Carry a request out.

    Raises:
        UserError: as :func:`retrieve`.
    """
    if request.benchmark is None and (request.retrievers or not request.trec_runs or request.qrels is None):
        raise UserError("Nothing to score: give --benchmark with --retriever, or --run with --qrels.")
    pooled = request.benchmark is not None and request.benchmark.startswith(("rerank:", "cmedteb/"))
    if pooled and (request.guard or request.guard_near is not None or request.corpus):
        raise UserError(
            "A reranking set brings its own documents: --guard, --guard-near and --corpus do not go with it."
        )
    names = [canonical(name) for name in texts(request.measures) or usual_measures(request.benchmark)]
    queries = _query_set(request, settings) if request.benchmark else None
    judgements = read_judgements(Path(request.qrels)) if request.qrels else queries.judgements if queries else {}
    table = _Entries(judgements, names)
    if queries is not None and (request.retrievers or not request.trec_runs):
        _search_all(request, queries, table, settings, progress)
    for path in paths(request.trec_runs):
        table.add_run(path)
    table.add_published(request, queries)
    first = {label: each[names[0]] for label, each in table.values.items()}
    comparisons = compare(first, names[0], resamples=request.resamples, seed=request.seed)
    ranked = sorted(first, key=lambda label: -sum(first[label].values()))[:2]
    text = {"": dict(queries.queries) if queries is not None else {}}
    apart: tuple[QueryDifference, ...] = ()
    if len(ranked) == 2:
        apart = largest_differences({"": first[ranked[0]]}, {"": first[ranked[1]]}, text, request.differences)
    if not request.per_query:
        for entry in table.entries:
            entry.pop("per_query", None)
    return RetrievalResult(
        entries=tuple(table.entries), comparisons=tuple(comparisons), measures=tuple(names), differences=apart
    )


def retrieval_identity(given: Mapping[str, Any], measures: Sequence[str], settings: Settings) -> str:
    """A digest of all that the values of a retrieval depend on: queries, judgements, the index, the retriever with its
    code, the depth, the measures. Equal digests have equal values. Empty: it cannot be told beforehand, as of queries
    that a model writes.

    Args:
        given: arguments of :func:`retrieve`, with one retriever.
        measures: by these.
        settings: where indexes are.

    Raises:
        UserError: as :func:`retrieve`.
    """
    if given.get("query_generation"):
        return ""
    request = RetrievalArguments(**given)
    names = [canonical(name) for name in measures]
    queries = _query_set(request, settings)
    if queries.pools:
        return ""
    searcher = open_searcher(parse(given["retrievers"][0]), queries.corpus, settings.home)
    known = (
        queries.queries, queries.judgements, searcher.spec, searcher.corpus, searcher_codes(searcher),
        request.k or deepest(names), names,
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(known, order="sorted")).hexdigest()


class _Entries:
    """The entries of a result, and every query's values behind them."""

    def __init__(self, judgements: Judgements, names: Sequence[str]) -> None:
        self._judgements, self.names = judgements, names
        self.entries: list[Entry] = []
        self.values: dict[str, dict[str, dict[str, float]]] = {}

    def _add(self, label: str, scores: Any) -> Entry:
        from ragrounds.evals.retrieval.measures import means, measure

        candidate, number = label, 2
        while candidate in self.values:
            candidate, number = f"{label} ({number})", number + 1
        values = self.values[candidate] = measure(self._judgements, scores, self.names)
        self.entries.append({"retriever": candidate, **means(values), "queries": len(self._judgements)})
        return self.entries[-1]

    def add_search(self, label: str, found: Retrieved) -> Entry:
        """Score a search; gives its entry."""
        entry = self._add(label, found.scores)
        entry |= {
            "corpus": found.corpus,
            "queries_per_second": found.queries_per_second,
            "p95_seconds": found.p95,
            "queries_without_results": sum(not documents for documents in found.run.values()),
            "left_out": found.left_out,
            "unknown_documents": found.unknown,
        }
        if found.size is not None:
            entry["index_bytes"] = found.size
        entry["per_query"] = self.values[entry["retriever"]]
        return entry

    def add_run(self, path: Path) -> None:
        """Score a TREC run file."""
        scores = read_run(path)
        entry = self._add(path.name, scores)
        entry["per_query"] = self.values[entry["retriever"]]
        entry["unjudged_queries"] = len(scores.keys() - self._judgements.keys())
        entry["queries_without_results"] = len(self._judgements.keys() - scores.keys())

    def add_published(self, request: RetrievalArguments, queries: QuerySet | None) -> None:
        """Add the means that others published of this set.

        Raises:
            UserError: a file of another set.
        """
        name = queries.name if queries is not None else ""
        for path in paths(request.published):
            found = read_published(path, self.names, split=request.split)
            fitting = [one for one in found if same_set(one.task, name)]
            if not fitting:
                had = ", ".join(sorted({one.task for one in found})) or f"no split {request.split!r}"
                raise UserError(f"{str(path)!r} has {had}: expected results of {name or 'a named set'}.")
            for one in fitting:
                means = {measure: one.means.get(measure) for measure in self.names}
                self.entries.append({"retriever": one.name, "published": one.path, **means})


def _search_all(
    request: RetrievalArguments, queries: QuerySet, table: _Entries, settings: Settings, progress: Progress
) -> None:
    """Search with each retriever, with and without written queries, with and without the guard."""
    depth = request.k or deepest(table.names)
    file = Path(request.guard) if request.guard and str(request.guard) != "none" else None
    own = queries.guard if request.guard is None and request.guard_near is None else {}
    keep = leak_filter(queries.queries, file, request.guard_near, own)
    ways = [None, *texts(request.query_generation)]
    guards: Sequence[Keep | None] = [keep] if own else [None, keep] if keep else [None]
    if own:
        request.message(
            f"{queries.name}: its guard.jsonl withholds {sum(map(len, own.values())):,} documents from {len(own):,} "
            "queries; --guard none lets them be found."
        )
    written: list[str] = []
    retrievers = met_retrievers(
        texts(request.retrievers) or ("bm25",), settings, request.server_changed, request.journal
    )
    for spec, way, kept in product(retrievers, ways, guards):
        generated = _generated(way, spec, queries, request, settings, progress) if way else None
        texts_of = generated.queries if generated else {}
        found = _search(spec, queries, depth, kept, texts_of, settings, progress, request.at_once)
        label = found.retriever + (f" after {way}" if way else "") + (" guarded" if kept else "")
        entry = table.add_search(label, found)
        if generated:
            entry |= {
                "generation_failed": len(generated.failed),
                "generation_usage": generated.usage,
                "generation_cost_paid": generated.cost_paid,
                "generation_cost_uncached": generated.cost_uncached,
            }
        if found.used:
            entry |= _search_bill(found.used, settings)
        if request.write_runs:
            _write_run(Path(request.write_runs), found, entry, written)


def _search_bill(used: Sequence[Used], settings: Settings) -> Entry:
    """What embedders on servers were sent for the searches, which are not journaled: all of it was paid."""
    prices = user_prices(settings)
    costs = [used_price(one, prices) for one in used]
    tokens = [one.tokens for one in used]
    return {
        "search_calls": len(used),
        "search_tokens": None if None in tokens else sum(one for one in tokens if one is not None),
        "search_cost_paid": None if None in costs else sum(one for one in costs if one is not None),
    }


def _query_set(request: RetrievalArguments, settings: Settings) -> QuerySet:
    name = request.benchmark or ""
    if name.startswith("rerank:"):
        return pool_set(Path(name.removeprefix("rerank:")).expanduser(), settings.home)
    return query_set(name, split=request.split, corpus=request.corpus, home=settings.home)


def _search(
    spec: str,
    queries: QuerySet,
    depth: int,
    keep: Keep | None,
    written: Mapping[str, Any],
    settings: Settings,
    progress: Progress,
    at_once: int | None,
) -> Retrieved:
    chosen = parse(spec)
    if queries.pools and chosen.name == "rerank" and "of" not in chosen.parameters:
        return rerank_pools(str(chosen), scorer_of(chosen), queries)
    if queries.pools:
        depth = max(map(len, queries.pools.values()))

        def keep(query: str, passage: Passage) -> bool:
            return passage.document in queries.pools[query]

    searcher = open_searcher(chosen, queries.corpus, settings.home, progress=progress)
    searching = run_queries(
        searcher,
        queries.queries,
        depth,
        written=written,
        keep=keep,
        progress=partial(progress, "searching"),
        at_once=at_once,
    )
    found = finish(searching)
    if queries.pools:
        return replace(found, run=completed(found.run, queries.pools), left_out=0)
    return replace(found, unknown=len(unknown_documents(queries.judgements, searcher)))


def _generated(
    way: str,
    retriever: str,
    queries: QuerySet,
    request: RetrievalArguments,
    settings: Settings,
    progress: Progress,
) -> GeneratedQueries:
    """Let a model write the queries, journaled in the user's store.

    LameR and searching agents search with the retriever itself, over the benchmark's corpus, unless the way names
    others: ``lamer[retriever=bm25]`` (as R2MED has it), ``answer[agent=search_o1,corpus=medcorp,retriever=bm25]``.
    ``hyde[prompts=FOLDER]`` asks by the user's own prompts.

    Raises:
        UserError: no model was named, or no such way.
    """
    named = request.model or settings.model
    if named is None:
        raise UserError("--query-generation needs a model. Name one with --model, such as openai:gpt-4o-mini.")
    text = with_defaults(named, server_defaults(request.base_url, request.alias, settings))
    with open_store(settings) as store:
        prices = user_prices(settings)
        opened = met_servers(store, [text], request.server_changed, request.journal).texts.get(text, text)
        model, journal = open_model(opened, prices), StoreJournal(store, request.journal)
        given = dict(parse(way).parameters)
        read_with, read = str(given.pop("retriever", retriever)), str(given.pop("corpus", queries.corpus))
        searcher = open_searcher(read_with, read, settings.home, progress=progress)
        folder = given.pop("prompts", None)
        generator = QueryGenerator(
            Spec(parse(way).name, given),
            {"model": model},
            searcher,
            journal,
            prompts=None if folder is None else str(folder),
            prices=prices,
        )

        async def carry_out() -> GeneratedQueries:
            async with closing([model], journal):
                return await generate(
                    generator,
                    queries.queries,
                    concurrency=settings.concurrency,
                    progress=partial(progress, f"writing, {way}"),
                )

        made = finish(carry_out())
    request.message(
        f"{way}: {number_of(journal.made, 'call')} made, {journal.reused:,} from the journal, "
        f"{len(made.failed):,} queries failed; {dollars(made.cost_paid)} paid, {dollars(made.cost_uncached)} uncached."
    )
    return made


def _write_run(folder: Path, found: Retrieved, entry: Entry, written: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    label = entry["retriever"]
    path = folder / file_name_among(label, ".run", written)
    write_run(path, found.run, label)
    entry["run"] = str(path)
    written.append(path.name)
