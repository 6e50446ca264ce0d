"""Benchmarks made by pipelines, and retrievers that are trained."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from ragrounds.api.run import RunListener
from ragrounds.api.workspace import JournalMode, Progress, closing, open_store, unheard, user_prices, user_settings
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from ragrounds.build.card import BuiltCard
    from ragrounds.build.committee import Committee
    from ragrounds.build.files import Finish
    from ragrounds.build.items import ItemSet
    from ragrounds.build.judged_sets import Corpus
    from ragrounds.build.pipeline import Pipeline
    from ragrounds.contracts import Searcher
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.settings import Settings
    from ragrounds.specs import Value
    from ragrounds.train.evaluation import PairTable
    from ragrounds.train.loop import StageCost
    from ragrounds.train.material import MaterialCounts
    from ragrounds.train.pipeline import TrainingListeners, TrainingRun


class BuildRequest(Struct, frozen=True, kw_only=True):
    """What a pipeline is carried out on, and with what."""

    pipeline: Pipeline
    item_set: ItemSet
    finish: Finish
    out: Path
    """The folder that the benchmark is written to: new, or made before."""
    model: str | None = None
    """For every stage that none is named for; ``None``: the settings'."""
    models: Mapping[str, str] = MappingProxyType({})
    """Those of named roles."""
    base_url: str | None = None
    """An OpenAI-compatible server; ``None``: the settings'."""
    parameters: Mapping[str, Value] = MappingProxyType({})
    searcher: Searcher | None = None


class BuildResult(Struct, frozen=True, kw_only=True):
    """What came of :func:`build`."""

    card: BuiltCard
    following: tuple[str, ...]
    """Commands that go on from here; ``{out}`` stands for the folder."""
    ended: str
    """Why no further item was begun; empty: all were."""
    failed: bool
    """Whether an item failed; the same call tries it again."""
    made: int
    """Calls that were made."""
    reused: int
    """Calls that were answered from the journal."""


def build(
    request: BuildRequest,
    *,
    concurrency: int | None = None,
    budget: Budget | None = None,
    journal: JournalMode = "reuse",
    new: bool = False,
    listener: RunListener | None = None,
    settings: Settings | None = None,
) -> BuildResult:
    """Run a pipeline over its items, and write the benchmark with its card.

    Args:
        request: the pipeline, its items and models.
        concurrency: items in flight; ``None``: the settings'.
        budget: what this call may use; ``None``: whatever it takes.
        journal: what is done with recorded calls.
        new: begin another run where there is one of the same identity.
        listener: hears what happens.

    Raises:
        UserError: no model, a folder that is not ours, or another process that is making the same.
    """
    from ragrounds.build.card import BuiltCard, count, provenance
    from ragrounds.build.files import check_folder, not_listed, write_built
    from ragrounds.build.pipeline import plan_build, results, run_build
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.engine.progress import ReplayProgress
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.leases import Lease
    from ragrounds.ui.text import safe

    chosen, heard = settings or user_settings(), listener or RunListener()
    pipeline, items = request.pipeline, request.item_set
    check_folder(request.out, pipeline.name)
    with open_store(chosen) as store, ExitStack() as held:
        planned = plan_build(
            store,
            pipeline,
            items,
            parameters=request.parameters,
            model=request.model or chosen.model,
            models=request.models,
            searcher=request.searcher,
            prices=user_prices(chosen),
            defaults={"base_url": request.base_url or chosen.base_url},
            new=new,
        )
        named = ", ".join(sorted({model.spec for model in planned.models.values()}))
        heard.message(f"{planned.run.id}: {len(items.items):,} items of {safe(items.items.name)}, {safe(named)}")
        lease = held.enter_context(Lease(store.engine, [planned.run.id], heard.message))
        recorded = StoreJournal(store, journal)

        async def carry_out() -> str:
            async with closing(list(planned.models.values()), recorded):
                with heard.progress(ReplayProgress(store, [planned])) as hear:
                    return await run_build(
                        store,
                        recorded,
                        planned,
                        items,
                        concurrency=concurrency or chosen.concurrency,
                        budget=budget or Budget(),
                        stops=[lease],
                        listener=hear,
                    )

        ended = asyncio.run(carry_out())
        heard.message(f"{recorded.made:,} calls made, {recorded.reused:,} answered from the journal.")
        if ended:
            heard.message(f"Ended early: {ended}. The same command resumes.")
        found = results(store, planned.run, items, ended)
        product = request.finish(found)
        made = provenance(
            store,
            planned.run,
            pipeline,
            items,
            [*count(pipeline.stages, items, found), *product.stages],
            figures=product.figures,
            notes=[*product.notes, *not_listed(items)],
        )
        card = BuiltCard(benchmark=product.benchmark, made=made)
        card = write_built(request.out, product.files, card, product.sets)
    return BuildResult(
        card=card,
        following=tuple(product.following),
        ended=ended,
        failed=any(result.status == "failed" for result in found),
        made=recorded.made,
        reused=recorded.reused,
    )


def open_corpus(
    corpus: str, retrievers: Sequence[str], settings: Settings | None = None, progress: Progress = unheard
) -> tuple[Corpus, Committee]:
    """A corpus, and the committee of retrievers that searches it; none named: BM25.

    Raises:
        UserError: an unknown corpus or retriever, or one named twice.
    """
    from ragrounds.build.committee import open_committee
    from ragrounds.build.judged_sets import Corpus

    home = (settings or user_settings()).home
    searched = Corpus(corpus, home, progress=progress)
    return searched, open_committee(list(retrievers or ["bm25"]), corpus, home, progress=progress)


def distinct_models(option: str, models: Sequence[str]) -> tuple[str, ...]:
    """Models in their order, each as its canonical text.

    Raises:
        UserError: one is named twice: it would agree with itself.
    """
    from ragrounds.specs import parse

    texts = [str(parse(model)) for model in models]
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise UserError(f"{option} {twice!r} is named twice: it would count twice.")
    return tuple(texts)


class TrainedPair(Struct, frozen=True, kw_only=True):
    """A query encoder and a document encoder that were trained together."""

    recipe: str
    folder: str
    retriever: str
    """The spec that searches with them."""
    stages: Mapping[str, StageCost]
    """Stage → what it took."""


class TrainingResult(Struct, frozen=True, kw_only=True):
    """What came of :func:`train`."""

    name: str
    counts: MaterialCounts
    """What the training data came to."""
    pairs: tuple[TrainedPair, ...]


def train(
    file: Path,
    listeners: TrainingListeners,
    *,
    recipes: Sequence[str] = (),
    out: Path | None = None,
    changes: Sequence[str] = (),
    settings: Settings | None = None,
) -> TrainingResult:
    """Train the pairs that a file's recipes describe. What was interrupted resumes from its last checkpoint, and ends
    with the same weights.

    Args:
        file: the training, in TOML.
        listeners: hear what is done.
        recipes: only these; none: all.
        out: the folder of the results; ``None``: under the home folder.
        changes: ``KEY=VALUE`` over the file.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    from ragrounds.train.card import write_pair
    from ragrounds.train.evaluation import pair_spec

    run, names = open_training(file, listeners, recipes=recipes, out=out, changes=changes, settings=settings)
    made = []
    for name in names:
        state = run.recipe(name)
        folder = write_pair(run, name, state)
        stages = {Path(key).name: seconds for key, seconds in run.spent(state).items()}
        made.append(TrainedPair(recipe=name, folder=str(folder), retriever=pair_spec(run, state), stages=stages))
    return TrainingResult(name=run.training.name, counts=run.material.counts, pairs=tuple(made))


def evaluate_training(
    file: Path,
    listeners: TrainingListeners,
    *,
    recipes: Sequence[str] = (),
    out: Path | None = None,
    changes: Sequence[str] = (),
    rounds: int = 5,
    settings: Settings | None = None,
) -> PairTable:
    """Measure trained pairs beside the document encoder with itself: nDCG@10 with paired tests, and queries per second
    in one run of `rounds` rounds. What is not trained yet is trained first; the table is written beside the pairs.

    Raises:
        UserError: a file that cannot be read, or an unknown recipe.
    """
    import msgspec

    from ragrounds.tools.collection import write_whole
    from ragrounds.train.card import TABLE, write_pair
    from ragrounds.train.evaluation import evaluate

    run, names = open_training(file, listeners, recipes=recipes, out=out, changes=changes, settings=settings)
    states = {name: run.recipe(name) for name in names}
    table = evaluate(run, states, rounds=rounds, progress=listeners.doing)
    write_whole(run.out / TABLE, msgspec.json.format(msgspec.json.encode(table), indent=2))
    for name, state in states.items():
        write_pair(run, name, state)
    return table


def open_training(
    file: Path,
    listeners: TrainingListeners,
    *,
    recipes: Sequence[str] = (),
    out: Path | None = None,
    changes: Sequence[str] = (),
    settings: Settings | None = None,
) -> tuple[TrainingRun, list[str]]:
    """A training of a file, and the names of its recipes that are asked for.

    Raises:
        UserError: a file that cannot be read or has no recipe, or an unknown recipe.
    """
    from ragrounds.api.workspace import one_of
    from ragrounds.train.pipeline import TrainingRun
    from ragrounds.train.spec import read_training

    training = read_training(file, changes)
    names = [one_of("--recipe", name, list(training.recipe)) for name in recipes or training.recipe]
    if not names:
        raise UserError(f'{str(file)!r} has no [recipe]: name stages in order, care = ["align", "joint"].')
    home = (settings or user_settings()).home
    return TrainingRun(training, (out or home / "training" / training.name).expanduser(), home, listeners), names
