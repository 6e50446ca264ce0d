"""`ragrounds retrieve`: score retrieval alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragrounds.api.results import Result
from ragrounds.api.retrieval_bench import retrieval_bench
from ragrounds.api.retrieve import retrieve as retrieve_all
from ragrounds.api.similarity import similarity
from ragrounds.cli import options
from ragrounds.cli.options import Options, PlotOptions, ServerOptions, grouped, journal_mode
from ragrounds.cli.output import draw_picture, print_json, say
from ragrounds.errors import UserError
from ragrounds.ui.tables import results_console

app = typer.Typer()


class SearchOptions(Options, frozen=True, kw_only=True):
    """What is searched, and with what."""

    benchmark: Annotated[
        list[str] | None,
        typer.Option(
            help="Queries and judgements: beir:FOLDER or r2med:FOLDER, or a copy by its name, such as beir/scifact; "
            "rerank:FILE for pools to rerank, sts:FILE for pairs of sentences. Give several for one table of all.",
            show_default=False,
        ),
    ] = None
    retriever: Annotated[
        list[str] | None,
        typer.Option(help="A retriever's spec, such as 'bm25[k1=0.9,b=0.4]'. Give several to compare them."),
    ] = None
    corpus: Annotated[
        str | None, typer.Option(help="What is searched, if not the benchmark's own corpus: an index or a source.")
    ] = None
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder: qrels/SPLIT.tsv.")] = "test"
    measure: Annotated[
        list[str] | None, typer.Option(help="A measure, such as nDCG@10. The first one is what is compared.")
    ] = None
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", min=1, help="Documents a query; by default as deep as the measures look."),
    ] = None
    run: Annotated[
        list[Path] | None,
        typer.Option(help="A TREC run file to score, instead of or beside searching; of several sets SET=FILE."),
    ] = None
    published: Annotated[
        list[Path] | None,
        typer.Option(help="A result file of MTEB, or a folder of them: means of others, shown beside."),
    ] = None
    qrels: Annotated[Path | None, typer.Option(help="Judgements for --run, where there is no --benchmark.")] = None
    write_runs: Annotated[Path | None, typer.Option(help="Folder for TREC run files of the searches.")] = None
    guard: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines {query, documents}: what a query may not find. Shown beside the unguarded results. "
            "A set's own guard.jsonl is applied without it; none: not even that."
        ),
    ] = None
    guard_near: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Leave out passages that hold this share of the query's own wording."),
    ] = None
    query_generation: Annotated[
        list[str] | None,
        typer.Option(help="Let a model write what is searched for: hyde, query2doc, lamer or answer[agent=NAME]."),
    ] = None


@app.command("retrieve")
@grouped
def retrieve(
    search: SearchOptions,
    server: ServerOptions,
    plot: PlotOptions,
    model: options.Model = None,
    journal: options.Journal = "reuse",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Searches side by side; by default as many as there are cores.")
    ] = None,
    differences: Annotated[
        int, typer.Option(min=0, help="How many of the queries that the two best differ on most are shown.")
    ] = 5,
    per_query: Annotated[bool, typer.Option("--per-query", help="Also give every query's values.")] = False,
    resamples: options.Resamples = 10_000,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Score retrieval alone: TREC runs, trec_eval's measures, paired comparisons.

    nDCG@10 and the others are trec_eval's values over every judged query; a query without results counts 0. --model
    writes the queries of --query-generation.
    """
    sets = search.benchmark or []
    if sets and sets[0].startswith("sts:"):
        _similarity(plot, Path(sets[0][4:]).expanduser(), search.retriever or [], resamples, seed, as_json)
        return
    if len(sets) > 1:
        _bench(search, plot, threads, differences, resamples, seed, as_json)
        return
    found = retrieve_all(
        sets[0] if sets else None,
        search.retriever or (),
        corpus=search.corpus,
        split=search.split,
        measures=search.measure or (),
        k=search.k,
        trec_runs=search.run or (),
        qrels=search.qrels,
        write_runs=search.write_runs,
        guard=search.guard,
        guard_near=search.guard_near,
        query_generation=search.query_generation or (),
        published=search.published or (),
        differences=differences,
        at_once=threads,
        model=model,
        journal=journal_mode(journal),
        **server.arguments(),
        per_query=per_query,
        resamples=resamples,
        seed=seed,
        message=say,
    )
    _show(found, _plain(found.entries, found.comparisons), plot, as_json)


def _show(found: Result, plain: object, plot: PlotOptions, as_json: bool) -> None:
    """The result as JSON has it or as text, and its picture."""
    if as_json:
        print_json(plain)
    else:
        found.draw(results_console())
    draw_picture(found, plot)


def _bench(
    search: SearchOptions,
    plot: PlotOptions,
    threads: int | None,
    differences: int,
    resamples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Several sets in one table."""
    alone = {"--corpus": search.corpus, "--qrels": search.qrels, "--query-generation": search.query_generation}
    for option, given in alone.items():
        if given:
            raise UserError(f"{option} goes with one --benchmark: of several, each is searched in its own corpus.")
    found = retrieval_bench(
        search.benchmark or [],
        search.retriever or (),
        measures=search.measure or (),
        k=search.k,
        split=search.split,
        trec_runs=search.run or (),
        published=search.published or (),
        write_runs=search.write_runs,
        guard=search.guard,
        guard_near=search.guard_near,
        differences=differences,
        at_once=threads,
        resamples=resamples,
        seed=seed,
        message=say,
    )
    _show(found, found.fields(), plot, as_json)


def _similarity(plot: PlotOptions, path: Path, retrievers: list[str], resamples: int, seed: int, as_json: bool) -> None:
    """How well embedders' cosines follow graded pairs of sentences."""
    options.no_picture(plot, "of graded pairs of sentences")
    found = similarity(path, retrievers, resamples=resamples, seed=seed)
    if as_json:
        print_json(_plain(found.entries, found.comparisons))
        return
    found.draw(results_console())
    say("Pairs with the same first sentence are drawn together; both sides are embedded as queries.")


def _plain(entries: Sequence[object], comparisons: Sequence[object]) -> object:
    return entries[0] if len(entries) == 1 else {"runs": entries, "comparisons": comparisons}
