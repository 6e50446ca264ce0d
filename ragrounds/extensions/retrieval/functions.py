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
from ragrounds.api.execution import Workspace
from ragrounds.api.frames import MEASURES, QUERIES, Frame, Part, Row
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.servers import met_retrievers, probe_model_servers, server_defaults
from ragrounds.api.workspace import (
    Progress,
    closing,
    open_store,
    texts,
)
from ragrounds.base.contracts import Used
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Passage
from ragrounds.base.settings import Settings
from ragrounds.base.specs import Spec, parse
from ragrounds.base.spent import known_sum
from ragrounds.base.text import file_name_among
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.extensions.retrieval.comparison import compare, mean
from ragrounds.extensions.retrieval.measures import canonical, deepest, means, measure
from ragrounds.extensions.retrieval.pictures import ONE_RETRIEVER, retrieval_differences
from ragrounds.extensions.retrieval.query_generation import GeneratedQueries, QueryGenerator, generate
from ragrounds.extensions.retrieval.query_sets import (
    QuerySet,
    completed,
    pool_set,
    query_set,
    rerank_pools,
    unknown_documents,
    usual_measures,
)
from ragrounds.extensions.retrieval.search import Keep, Retrieved, leak_filter
from ragrounds.extensions.retrieval.search import retrieve as run_queries
from ragrounds.extensions.retrieval.similarity import MEASURES as CORRELATIONS
from ragrounds.extensions.retrieval.similarity import score_similarity
from ragrounds.extensions.retrieval.tables import print_retrieval, print_sets, print_similarity
from ragrounds.extensions.retrieval.trec import (
    Judgements,
    read_judged_run,
    read_judgements,
    read_tag,
    without_own,
    write_run,
)
from ragrounds.models.options import with_defaults
from ragrounds.models.prices import read_prices, used_price
from ragrounds.models.providers import open_model
from ragrounds.tools.retriever import open_searcher, searcher_codes
from ragrounds.tools.retrievers.rerank import scorer_of
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.text import dollars, number_of

SEARCHED = "What is searched, and with what"
"""Heading in the help."""


class RetrievalArguments(Workspace, frozen=True):
    """Corpora, retrievers and measures of an evaluation of retrieval."""

    benchmark: Annotated[
        str | Sequence[str] | None,
        Arg(
            "Queries and judgements: beir:FOLDER or r2med:FOLDER, or a copy by its name, such as beir/scifact; "
            "rerank:FILE for pools to rerank, sts:FILE for pairs of sentences. Give several for one table of all; "
            "none: TREC runs against `qrels`.",
            many=True,
            group=SEARCHED,
        ),
    ] = None
    retrievers: Annotated[
        str | Sequence[str],
        Arg(
            "A retriever's spec, such as 'bm25[k1=0.9,b=0.4]'. Give several to compare them. [default: bm25]",
            option="--retriever",
            many=True,
            group=SEARCHED,
        ),
    ] = ()
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
            "A TREC run file to score, instead of or next to searching; of several sets SET=FILE.",
            option="--run",
            metavar="FILE",
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
            "JSON Lines {query, documents}: what a query may not find. Shown next to unguarded results. A set's own "
            "guard.jsonl is applied without it; none: not even that.",
            metavar="FILE|none",
            group=SEARCHED,
        ),
    ] = None
    guard_near: Annotated[
        float | None,
        Arg("Leave out passages that hold this share of the query's own wording, 0 to 1.", 0, 1, group=SEARCHED),
    ] = None
    at_once: Annotated[
        int | None, Arg("Searches side by side; by default as many as there are cores.", 1, option="--threads")
    ] = None
    resamples: arguments.Resamples = 10_000
    seed: arguments.Seed = 0
    progress: arguments.Progressed = None
    message: arguments.Message = lambda text: None


Entry: TypeAlias = dict[str, Any]
"""Figures of a retriever or a run by their names: numbers, lists and objects as in JSON."""


class RetrieverMean(Struct, frozen=True, kw_only=True):
    """Mean of a retriever over all sets, by the first measure."""

    retriever: str
    values: Mapping[str, float | None]
    """Set → mean; ``None`` if it was not searched."""
    mean: float | None
    """Unweighted mean over sets; ``None`` if a set is missing."""
    queries_per_second: float | None
    """Queries per second over all sets; ``None`` if they were not searched here."""


class RetrievalResult(Result, frozen=True, kw_only=True):
    """Result of :func:`retrieve`."""

    entries: tuple[Entry, ...]
    """Figures of each retriever or TREC run on each set: the measures by name, and the time and cost of the search."""
    comparisons: tuple[Any, ...]
    """Comparison of every pair of retrievers: a `RetrievalComparison` by the first measure over the sets that both
    have.

    For graded pairs, a `CorrelationDifference` by each measure.
    """
    measures: tuple[str, ...]
    sets: tuple[str, ...]
    means: tuple[RetrieverMean, ...] = ()
    """Means over several sets; empty for one set."""

    def draw(self, console: Console) -> None:
        """Print the measures, or the means over several sets, and the paired differences."""
        if self.measures == CORRELATIONS:
            print_similarity(self.entries, self.comparisons, console)
        elif self.means:
            print_sets(self.means, self.comparisons, self.measures[0], self.sets, console)
        else:
            print_retrieval(self.entries, self.comparisons, self.measures, console)

    def facts(self) -> Entry:
        """Return the result as in JSON, without the values of queries."""
        entries = [{key: value for key, value in entry.items() if key != "per_query"} for entry in self.entries]
        if len(entries) == 1:
            return entries[0]
        means = {"means": self.means} if self.means else {}
        return {"runs": entries, "comparisons": self.comparisons, **means}

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the picture of the paired differences by the first measure."""
        if self.measures == CORRELATIONS:
            return {}
        return {"differences": PictureMaker(partial(retrieval_differences, self.comparisons), ONE_RETRIEVER)}

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames of the measures and of the values of every query."""
        return (MEASURES, QUERIES) if "per_query" in self.entries[0] else (MEASURES,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield a part for each retriever and set."""
        read = self._measure_rows if frame is MEASURES else self._queries
        yield (list(read(entry)) for entry in self.entries)

    def _measure_rows(self, entry: Entry) -> Iterator[Row]:
        keys = ("queries_without_results", "queries_per_second", "p95_seconds")
        for name in self.measures:
            count = entry.get("queries", entry.get("pairs"))
            yield (entry["retriever"], name, entry.get(name), count, *map(entry.get, keys), self._set_of(entry))

    def _queries(self, entry: Entry) -> Iterator[Row]:
        for name in self.measures:
            for query, value in entry["per_query"][name].items():
                yield (entry["retriever"], name, query, value, self._set_of(entry))

    def _set_of(self, entry: Entry) -> str | None:
        return entry["set"] if self.means else None


@takes(RetrievalArguments)
def retrieve(arguments: RetrievalArguments) -> RetrievalResult:
    """Search with each retriever, score the results, and compare them in pairs.

    Figures are trec_eval's means over every judged query; a query without results counts 0. Several sets give one table
    of means, in which every set has the same weight; a TREC run then names its set (``scifact=their.run``), and runs of
    one tag are one retriever. For graded pairs of sentences (``sts:FILE``) the figures are correlations.

        rr.retrieve("beir:scifact", ["bm25", "bm25[k1=0.9,b=0.4]"]).to_pandas()

    Raises:
        UserError: there is nothing to score; a benchmark, retriever, measure or model is unknown; or a file cannot be
            read.
    """
    settings, benchmarks = arguments.used_settings, texts(arguments.benchmark or ())
    if benchmarks and benchmarks[0].startswith("sts:"):
        return _score_similarity(arguments, Path(benchmarks[0].removeprefix("sts:")).expanduser())
    # A set is named by its folder, or by the last part of its own name.
    names = [benchmark.rstrip("/").replace(":", "/").rpartition("/")[2] for benchmark in benchmarks] or [""]
    _check(arguments, benchmarks, names)
    runs = _runs_by_set(arguments.trec_runs, names)
    measures = tuple(
        canonical(name) for name in texts(arguments.measures) or usual_measures(benchmarks[0] if benchmarks else None)
    )
    entries = list[Entry]()
    with counted(arguments.progress) as tell:
        for name, benchmark in zip(names, benchmarks or [None], strict=True):
            report: Progress = partial(_report_for_set, tell, name) if len(names) > 1 else tell
            search = _SetSearch(arguments, benchmark, settings, measures, report)
            if search.queries is not None and (arguments.retrievers or not runs):
                search.carry_out(
                    Path(arguments.write_runs, name if len(names) > 1 else "") if arguments.write_runs else None
                )
            for path in runs.get(name, ()):
                search.add_run(path, (read_tag(path) if len(names) > 1 else "") or path.name)
            entries += [{"set": name, **entry} if len(names) > 1 else entry for entry in search.entries]
    values: dict[str, dict[str, Mapping[str, float]]] = {}
    for entry in entries:
        values.setdefault(entry["retriever"], {})[entry.get("set", names[0])] = entry["per_query"][measures[0]]
    means = [_mean_over_sets(label, values[label], names, entries) for label in values]
    return RetrievalResult(
        entries=tuple(entries),
        comparisons=tuple(compare(values, measures[0], resamples=arguments.resamples, seed=arguments.seed)),
        measures=measures,
        sets=tuple(names),
        means=tuple(means) if len(names) > 1 else (),
    )


def _report_for_set(tell: Progress, name: str, step: str, done: int) -> None:
    tell(f"{name}: {step}", done)


def _check(request: RetrievalArguments, benchmarks: Sequence[str], names: Sequence[str]) -> None:
    if not benchmarks and (request.retrievers or not request.trec_runs or request.qrels is None):
        raise UserError("Nothing to score: give --benchmark with --retriever, or --run with --qrels.")
    pooled = any(benchmark.startswith(("rerank:", "cmedteb/")) for benchmark in benchmarks)
    if pooled and (request.guard or request.guard_near is not None or request.corpus):
        raise UserError("A reranking set has its own documents: leave out --guard, --guard-near and --corpus.")
    if len(benchmarks) > 1 and (request.corpus or request.qrels):
        option = "--corpus" if request.corpus else "--qrels"
        raise UserError(f"{option} needs a single --benchmark: of several, each is searched in its own corpus.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"Two sets have the name {twice[0]!r}: give folders with different names.")


def _runs_by_set(files: str | Path | Sequence[str | Path], names: Sequence[str]) -> dict[str, list[Path]]:
    """Return the TREC runs of each set."""
    runs: dict[str, list[Path]] = {}
    for file in [files] if isinstance(files, str | Path) else files:
        name, equals, path = str(file).partition("=") if len(names) > 1 else (names[0], "=", str(file))
        if not equals or name not in names:
            raise UserError(
                f"With several sets, give a run as SET=FILE, not {str(file)!r}.{nearest(name, names)} The sets are "
                f"{', '.join(names)}."
            )
        runs.setdefault(name, []).append(Path(path).expanduser())
    return runs


def _mean_over_sets(
    label: str, had: Mapping[str, Mapping[str, float]], names: Sequence[str], entries: Sequence[Entry]
) -> RetrieverMean:
    searched = [entry for entry in entries if entry["retriever"] == label and entry.get("queries_per_second")]
    seconds = sum(entry["queries"] / entry["queries_per_second"] for entry in searched)
    means = {name: mean(had[name]) if had.get(name) else None for name in names}
    measured_means = [set_mean for set_mean in means.values() if set_mean is not None]
    return RetrieverMean(
        retriever=label,
        values=means,
        mean=sum(measured_means) / len(measured_means) if len(measured_means) == len(names) else None,
        queries_per_second=sum(entry["queries"] for entry in searched) / seconds if seconds else None,
    )


def _score_similarity(request: RetrievalArguments, pairs: Path) -> RetrievalResult:
    """Compare embedders' cosines with graded pairs of sentences.

    Raises:
        UserError: no retriever is given, one embeds nothing, or a file cannot be read.
    """
    retrievers = list(texts(request.retrievers))
    if not retrievers:
        raise UserError("Sentence similarity needs a model: --retriever 'dense[model=…]', or a card.")
    entries, differences = score_similarity(pairs, retrievers, resamples=request.resamples, seed=request.seed)
    request.message("Pairs with the same first sentence are sampled together; both sides are embedded as queries.")
    return RetrievalResult(
        entries=tuple(entries), comparisons=tuple(differences), measures=CORRELATIONS, sets=(pairs.name,)
    )


def retrieval_identity(identity_settings: Mapping[str, Any], measures: Sequence[str], settings: Settings) -> str:
    """Return a digest of everything that the values of a retrieval depend on.

    This is the queries, the judgements, the index, the retriever with its code, the depth and the measures. Equal
    digests have equal values. It is empty if the values cannot be known beforehand, as for queries that a model writes.

    Args:
        identity_settings: arguments of :func:`retrieve`, with one retriever.
        measures: names of the measures.
        settings: settings that lead to the indexes.

    Raises:
        UserError: as :func:`retrieve`.
    """
    if identity_settings.get("query_generation"):
        return ""
    names = [canonical(name) for name in measures]
    request = RetrievalArguments(**identity_settings)
    queries = _query_set(request, identity_settings["benchmark"], settings)
    if queries.pools:
        return ""
    searcher = open_searcher(parse(identity_settings["retrievers"][0]), queries.corpus, settings.home)
    identity = (
        queries.queries, queries.judgements, searcher.spec, searcher.corpus, searcher_codes(searcher),
        request.k or deepest(names), names,
    )  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()


def _query_set(request: RetrievalArguments, name: str, settings: Settings) -> QuerySet:
    if name.startswith("rerank:"):
        return pool_set(Path(name.removeprefix("rerank:")).expanduser(), settings.home)
    return query_set(name, split=request.split, corpus=request.corpus, home=settings.home)


class _SetSearch:
    """Search and scores of one set of queries."""

    def __init__(
        self, request: RetrievalArguments, benchmark: str | None, settings: Settings, names: Sequence[str],
        progress: Progress,
    ) -> None:  # fmt: skip
        self._request, self._settings, self._names, self._progress = request, settings, names, progress
        self.queries = _query_set(request, benchmark, settings) if benchmark else None
        set_judgements: Judgements = self.queries.judgements if self.queries is not None else {}
        self._judgements = read_judgements(Path(request.qrels)) if request.qrels else set_judgements
        self.entries: list[Entry] = []

    def _add_entry(self, label: str, scores: Any, facts: Entry) -> Entry:
        """Score a search or a run, and return its entry."""
        candidate, number, labels = label, 2, {entry["retriever"] for entry in self.entries}
        while candidate in labels:
            candidate, number = f"{label} ({number})", number + 1
        values = measure(self._judgements, scores, self._names)
        entry = {"retriever": candidate, **means(values), "queries": len(self._judgements), **facts}
        self.entries.append({**entry, "per_query": values})
        return self.entries[-1]

    def add_run(self, path: Path, label: str) -> None:
        """Score a TREC run file."""
        drops_own = self.queries is not None and self.queries.drops_own
        scores = read_judged_run(path, self._judgements, self._request.message if drops_own else None)
        facts = {
            "unjudged_queries": len(scores.keys() - self._judgements.keys()),
            "queries_without_results": len(self._judgements.keys() - scores.keys()),
        }
        self._add_entry(label, scores, facts)

    def carry_out(self, folder: Path | None) -> None:
        """Search with each retriever, with and without written queries and the guard; write rankings to `folder`."""
        request, queries, settings = self._request, self.queries, self._settings
        assert queries is not None
        file = Path(request.guard) if request.guard and str(request.guard) != "none" else None
        own_guard = queries.guard if request.guard is None and request.guard_near is None else {}
        keep = leak_filter(queries.queries, file, request.guard_near, own_guard)
        guards: Sequence[Keep | None] = [keep] if own_guard else [None, keep] if keep else [None]
        if own_guard:
            request.message(
                f"{queries.name}: its guard.jsonl withholds {sum(map(len, own_guard.values())):,} documents from "
                f"{len(own_guard):,} queries; --guard none turns this off."
            )
        retrievers = tuple(dict.fromkeys(texts(request.retrievers))) or ("bm25",)
        specs = met_retrievers(retrievers, settings, request.server_changed, request.journal)
        for spec, way, guard in product(specs, [None, *texts(request.query_generation)], guards):
            generated = self._generate_queries(way, spec, queries) if way else None
            retrieved = self._search(parse(spec), queries, guard, generated.queries if generated else {})
            facts: Entry = {
                "corpus": retrieved.corpus,
                "queries_per_second": retrieved.queries_per_second,
                "p95_seconds": retrieved.p95,
                "queries_without_results": sum(not documents for documents in retrieved.run.values()),
                "left_out": retrieved.left_out,
                "unknown_documents": retrieved.unknown,
            }
            if retrieved.size is not None:
                facts["index_bytes"] = retrieved.size
            if generated:
                facts |= {
                    "generation_failed": len(generated.failed),
                    "generation_usage": generated.spent.usage,
                    "generation_cost_paid": generated.spent.cost_paid,
                    "generation_cost_uncached": generated.spent.cost_uncached,
                }
            if retrieved.used:
                facts |= _search_bill(retrieved.used, settings)
            label = retrieved.retriever + (f" after {way}" if way else "") + (" guarded" if guard else "")
            entry = self._add_entry(label, retrieved.scores, facts)
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                file_names = [Path(scored["run"]).name for scored in self.entries if "run" in scored]
                path = folder / file_name_among(entry["retriever"], ".run", file_names)
                write_run(path, retrieved.run, entry["retriever"])
                entry["run"] = str(path)

    def _search(
        self, retriever: Spec, queries: QuerySet, keep: Keep | None, written_queries: Mapping[str, Any]
    ) -> Retrieved:
        depth = self._request.k or deepest(self._names)
        if queries.pools and retriever.name == "rerank" and "of" not in retriever.parameters:
            return rerank_pools(str(retriever), scorer_of(retriever), queries)
        if queries.pools:
            depth = max(map(len, queries.pools.values()))

            def keep(query: str, passage: Passage) -> bool:
                return passage.document in queries.pools[query]

        searcher = open_searcher(retriever, queries.corpus, self._settings.home, progress=self._progress)
        retrieved = finish(
            run_queries(
                searcher,
                queries.queries,
                depth + queries.drops_own,
                replacements=written_queries,
                keep=keep,
                progress=partial(self._progress, "searching"),
                at_once=self._request.at_once,
            )
        )
        if queries.pools:
            return replace(retrieved, run=completed(retrieved.run, queries.pools), left_out=0)
        if queries.drops_own:
            scores = without_own(retrieved.scores, retrieved.retriever, self._request.message)
            retrieved = replace(retrieved, run={id: list(results.items())[:depth] for id, results in scores.items()})
        return replace(retrieved, unknown=len(unknown_documents(queries.judgements, searcher)))

    def _generate_queries(self, way: str, retriever: str, queries: QuerySet) -> GeneratedQueries:
        """Let a model write the queries; its calls are recorded in the user's store.

        LameR and searching agents search with the retriever itself, over the benchmark's corpus, unless the way names
        others: ``lamer[retriever=bm25]`` (as in R2MED), ``answer[agent=search_o1,corpus=medcorp,retriever=bm25]``.
        ``hyde[prompts=FOLDER]`` uses the user's own prompts.

        Raises:
            UserError: no model was named, or the way is unknown.
        """
        model_text = self._request.model or self._settings.model
        if model_text is None:
            raise UserError("--query-generation needs a model. Give one with --model, such as openai:gpt-4o-mini.")
        text = with_defaults(model_text, server_defaults(self._request.base_url, self._request.alias, self._settings))
        with open_store(self._settings) as store:
            prices = read_prices(self._settings.home)
            opened = probe_model_servers(store, [text], self._request.server_changed, self._request.journal).texts.get(
                text, text
            )
            model, journal = open_model(opened, prices, self._settings.home), StoreJournal(store, self._request.journal)
            parameters = dict(parse(way).parameters)
            spec, corpus = str(parameters.pop("retriever", retriever)), str(parameters.pop("corpus", queries.corpus))
            searcher = open_searcher(spec, corpus, self._settings.home, progress=self._progress)
            folder = parameters.pop("prompts", None)
            generator = QueryGenerator(
                Spec(parse(way).name, parameters),
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
                        concurrency=self._settings.concurrency,
                        progress=partial(self._progress, f"writing, {way}"),
                    )

            generated = finish(carry_out())
        self._request.message(
            f"{way}: {number_of(journal.calls_made, 'model call')} made, {journal.reused:,} from the journal, "
            f"{len(generated.failed):,} queries failed; "
            f"{dollars(generated.spent.cost_paid)} paid, {dollars(generated.spent.cost_uncached)} uncached."
        )
        return generated


def _search_bill(used: Sequence[Used], settings: Settings) -> Entry:
    """Return the bill of embedders on servers for the searches.

    These calls are not recorded, so all of them were paid.
    """
    prices = read_prices(settings.home)
    return {
        "search_calls": len(used),
        "search_tokens": known_sum(call.tokens for call in used),
        "search_cost_paid": known_sum(used_price(call, prices) for call in used),
    }
