"""`ragrounds retrieve`: scores retrieval alone.

The model's part of `ragrounds retrieve --query-generation`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ragrounds.evals.retrieval.comparison import RetrievalComparison
    from ragrounds.evals.retrieval.query_generation import GeneratedQueries
    from ragrounds.evals.retrieval.query_sets import QuerySet
    from ragrounds.evals.retrieval.search import Keep, Retrieved
    from ragrounds.records import Passage


def retrieve(
    benchmark: Annotated[
        str | None,
        typer.Option(
            help="Queries and judgements: beir:FOLDER or r2med:FOLDER, or a copy by its name, such as beir/scifact; "
            "rerank:FILE for pools to rerank, sts:FILE for pairs of sentences.",
            show_default=False,
        ),
    ] = None,
    retriever: Annotated[
        list[str] | None,
        typer.Option(help="A retriever's spec, such as 'bm25[k1=0.9,b=0.4]'. Give several to compare them."),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="What is searched, if not the benchmark's own corpus: an index or a source.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder: qrels/SPLIT.tsv.")] = "test",
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure, such as nDCG@10. The first one is what is compared.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Documents a query; by default as deep as the measures look.")
    ] = None,
    run: Annotated[
        list[Path] | None, typer.Option(help="A TREC run file to score, instead of or beside searching.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements for --run, where there is no --benchmark.")] = None,
    write_runs: Annotated[Path | None, typer.Option(help="Folder for TREC run files of the searches.")] = None,
    guard: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines {query, documents}: what a query may not find. Shown beside the unguarded results."
        ),
    ] = None,
    guard_near: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Leave out passages that hold this share of the query's own wording."),
    ] = None,
    query_generation: Annotated[
        list[str] | None,
        typer.Option(help="Let a model write what is searched for: hyde, query2doc, lamer or answer[agent=NAME]."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model that writes: openai:NAME[temperature=0].")] = None,
    base_url: Annotated[str | None, typer.Option(help="An OpenAI-compatible server.")] = None,
    per_query: Annotated[bool, typer.Option(help="Also give every query's values.")] = False,
    resamples: Annotated[int, typer.Option(min=100, help="Of the bootstrap and the randomisation test.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the same.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Score retrieval alone: TREC runs, trec_eval's measures, paired comparisons.

    nDCG@10 and the others are trec_eval's values over every judged query; a query without results counts 0.
    """
    from itertools import product

    from ragrounds.errors import UserError
    from ragrounds.evals.retrieval.comparison import compare
    from ragrounds.evals.retrieval.measures import USUAL, canonical, deepest, means
    from ragrounds.evals.retrieval.measures import measure as measured
    from ragrounds.evals.retrieval.query_sets import MEASURES as POOLED
    from ragrounds.evals.retrieval.search import leak_filter
    from ragrounds.evals.retrieval.trec import Judgements, read_judgements, read_run
    from ragrounds.ui.retrieval_tables import show

    if benchmark and benchmark.startswith("sts:"):
        from ragrounds.ui.retrieval_tables import show_similarity

        show_similarity(Path(benchmark[4:]).expanduser(), retriever or [], resamples=resamples, seed=seed, as_json=json)
        return
    pooled = benchmark is not None and benchmark.startswith(("rerank:", "cmedteb/"))
    names = [canonical(name) for name in measure or (POOLED if pooled else USUAL)]
    if benchmark is None and (retriever or not run or qrels is None):
        raise UserError("Nothing to score: give --benchmark with --retriever, or --run with --qrels.")
    if pooled and (guard or guard_near is not None or corpus):
        raise UserError(
            "A reranking set brings its own documents: --guard, --guard-near and --corpus do not go with it."
        )
    asked = _asked(benchmark, split, corpus) if benchmark else None
    judgements: Judgements = read_judgements(qrels) if qrels else asked.judgements if asked else {}
    depth = k or deepest(names)

    entries: list[dict[str, Any]] = []
    values: dict[str, dict[str, dict[str, float]]] = {}
    if asked is not None and (retriever or not run):
        keep = leak_filter(asked.queries, guard, guard_near)
        ways = [None, *(query_generation or [])]
        for spec, way, kept in product(retriever or ["bm25"], ways, [None, keep] if keep else [None]):
            generated = generated_queries(way, spec, asked, model, base_url) if way else None
            found = _search(spec, asked, depth, kept, generated)
            named = found.retriever + (f" after {way}" if way else "") + (" guarded" if kept else "")
            label = _unused(named, values)
            values[label] = measured(judgements, found.scores, names)
            entries.append(_entry(label, values[label], means(values[label]), found, judgements))
            if generated:
                entries[-1] |= {
                    "generation_failed": len(generated.failed),
                    "generation_usage": generated.usage,
                    "generation_spent": generated.cost_paid,
                    "generation_cold": generated.cost_uncached,
                }
            if write_runs:
                _write(write_runs, label, found, entries[-1])
    for path in run or ():
        scores = read_run(path)
        label = _unused(path.name, values)
        values[label] = measured(judgements, scores, names)
        entry = _entry(label, values[label], means(values[label]), None, judgements)
        entry["unjudged_queries"] = len(scores.keys() - judgements.keys())
        entry["queries_without_results"] = len(judgements.keys() - scores.keys())
        entries.append(entry)
    if not per_query:
        for entry in entries:
            del entry["per_query"]
    comparisons: list[RetrievalComparison] = compare(
        {label: each[names[0]] for label, each in values.items()}, names[0], resamples=resamples, seed=seed
    )
    show(entries, comparisons, names, as_json=json)


def _asked(benchmark: str, split: str, corpus: str | None) -> QuerySet:
    from ragrounds.evals.retrieval.query_sets import pool_set, query_set
    from ragrounds.settings import read_settings

    if benchmark.startswith("rerank:"):
        return pool_set(Path(benchmark.removeprefix("rerank:")).expanduser(), read_settings().home)
    return query_set(benchmark, split=split, corpus=corpus)


def _search(
    spec: str, asked: QuerySet, depth: int, keep: Keep | None, generated: GeneratedQueries | None = None
) -> Retrieved:
    import asyncio
    from dataclasses import replace

    from ragrounds.cli.progress import counting
    from ragrounds.evals.retrieval.query_sets import completed, rerank_pools, unknown_documents
    from ragrounds.evals.retrieval.search import retrieve as run_queries
    from ragrounds.settings import read_settings
    from ragrounds.specs import parse
    from ragrounds.tools.retriever import open_searcher
    from ragrounds.tools.retrievers.rerank import scorer_of

    chosen = parse(spec)
    if asked.pools and chosen.name == "rerank" and "of" not in chosen.parameters:
        return rerank_pools(str(chosen), scorer_of(chosen), asked)
    if asked.pools:
        depth = max(map(len, asked.pools.values()))

        def keep(query: str, passage: Passage) -> bool:
            return passage.document in asked.pools[query]

    with counting() as told:
        searcher = open_searcher(chosen, asked.corpus, read_settings().home, progress=told)
        written = generated.queries if generated else {}
        searching = run_queries(
            searcher, asked.queries, depth, written=written, keep=keep, progress=partial(told, "searching")
        )
        found = asyncio.run(searching)
    if asked.pools:
        return replace(found, run=completed(found.run, asked.pools), left_out=0)
    return replace(found, unknown=len(unknown_documents(asked.judgements, searcher)))


def _entry(
    label: str,
    values: dict[str, dict[str, float]],
    averages: dict[str, float],
    found: Retrieved | None,
    judgements: Any,
) -> dict[str, Any]:
    entry: dict[str, Any] = {"retriever": label, **averages, "queries": len(judgements)}
    if found is not None:
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
    entry["per_query"] = values
    return entry


def _write(folder: Path, label: str, found: Retrieved, entry: dict[str, Any]) -> None:
    from ragrounds.evals.retrieval.trec import write_run

    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() or letter in ".=-" else "_" for letter in label).strip("_")
    path = folder / f"{name[:150]}.run"
    write_run(path, found.run, label)
    entry["run"] = str(path)


def _unused(label: str, taken: dict[str, Any]) -> str:
    """The label, told apart where it is there already."""
    candidate, number = label, 2
    while candidate in taken:
        candidate, number = f"{label} ({number})", number + 1
    return candidate


def generated_queries(
    way: str, retriever: str, asked: QuerySet, model: str | None, base_url: str | None
) -> GeneratedQueries:
    """Let a model write the queries, journaled in the user's store; LameR reads what the retriever itself finds first.

    Raises:
        UserError: no model was named, or no such way.
    """
    import asyncio

    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.cli.progress import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.retrieval.query_generation import QueryGenerator, generate
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.models.prices import read_prices
    from ragrounds.models.providers import open_model, with_defaults
    from ragrounds.tools.retriever import open_searcher

    chosen = settings()
    named = model or chosen.model
    if named is None:
        raise UserError("--query-generation needs a model. Name one with --model, such as openai:gpt-4o-mini.")
    text = with_defaults(named, {"base_url": base_url or chosen.base_url})
    with open_store(chosen) as store, counting() as told:
        opened = open_model(text, read_prices(chosen.home / "prices.toml"))
        journal = StoreJournal(store)
        searcher = open_searcher(retriever, asked.corpus, chosen.home, progress=told)
        rewriter = QueryGenerator(way, {"model": opened}, searcher, journal)

        async def go() -> GeneratedQueries:
            try:
                return await generate(
                    rewriter, asked.queries, concurrency=chosen.concurrency, progress=partial(told, f"writing, {way}")
                )
            finally:
                await opened.close()
                journal.close()

        made = asyncio.run(go())
    say(
        f"{way}: {journal.made:,} calls made, {journal.reused:,} from the journal, {len(made.failed):,} queries failed."
    )
    return made
