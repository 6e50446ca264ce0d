"""Measure trained pairs: nDCG@10 with paired tests, and the speed of their query encoders.

The pairs are opened and searched as any dense retriever is (:mod:`ragrounds.tools`). Speed is measured in one run with
the encoders taking turns, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Spec, Value
from ragrounds.extensions.retrieval.comparison import RetrievalComparison, compare
from ragrounds.extensions.retrieval.measures import means, measure
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.retrieval.search import retrieve
from ragrounds.extensions.training.data import corpus_texts, sentences
from ragrounds.extensions.training.libraries import torch
from ragrounds.extensions.training.loop import autocast
from ragrounds.extensions.training.pipeline import EncoderPair, TrainingRun
from ragrounds.extensions.training.spec import TEACHER, Evaluation
from ragrounds.tools.corpora import corpus_source
from ragrounds.tools.retriever import open_searcher

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

MEASURE = "nDCG@10"


class QueryEncoder(Protocol):
    """Encoder whose speed is measured."""

    def encode(self, texts: list[str], *, batch_size: int, show_progress_bar: bool) -> object:
        """Return the vectors of texts."""
        ...


class RetrievalQuality(Struct, frozen=True, kw_only=True):
    """Quality of all pairs on one benchmark: each pair's value, and their paired comparisons."""

    benchmark: str
    split: str
    selection: bool
    """True if the benchmark was used to choose something, so that its figures are no result."""
    queries: int
    transductive: bool
    """True if some of its documents, or sentences of them, were trained on."""
    queries_trained: int
    """Number of its queries that were training texts, word for word."""
    values: dict[str, float]
    """Mean nDCG@10 of each row."""
    comparisons: list[RetrievalComparison]


class EncodingSpeed(Struct, frozen=True, kw_only=True):
    """Speed of a row's query encoder."""

    single: float
    """Queries per second, one at a time: the median over the rounds."""
    ratio: float
    """Ratio to the teacher's speed: the median of the rounds' ratios."""


class PairRow(Struct, frozen=True, kw_only=True):
    """Row of the table: one pair."""

    name: str
    retriever: str
    """Spec of the retriever, as `ragrounds retrieve` takes it."""
    query_parameters: int
    speed: EncodingSpeed | None
    seconds: float
    """Wall time of its training, over all its stages."""


class PairTable(Struct, frozen=True, kw_only=True):
    """Table that `ragrounds train evaluate` prints."""

    name: str
    rows: list[PairRow]
    quality: list[RetrievalQuality]
    threads: int
    rounds: int


def evaluate(
    run: TrainingRun,
    states: Mapping[str, EncoderPair],
    *,
    rounds: int = 5,
    progress: Callable[[str, int], None] = lambda task, done: None,
) -> PairTable:
    """Measure the teacher and the pairs of `states`.

    Args:
        run: Training run; its file lists the benchmarks.
        states: Final encoder pair of each recipe.
        rounds: Rounds of the measurement of speed; 0: none.
        progress: Called with the current task and how much of it is done.

    Raises:
        UserError: a benchmark cannot be read, or a retriever cannot be opened.
    """
    training = run.training
    if not training.evaluate:
        raise UserError("Nothing to measure: the training file has no [[evaluate]].")
    specs = {TEACHER: teacher_spec(run), **{name: pair_spec(run, state) for name, state in states.items()}}
    quality = [_quality(run, entry, specs, progress) for entry in training.evaluate]
    encoders: dict[str, SentenceTransformer] = {TEACHER: run.open_document(run.start)}
    encoders |= {name: run.open_query(state) for name, state in states.items()}
    # Speed is measured on the queries of the first benchmark that is no selection.
    timed = next((entry for entry in training.evaluate if not entry.selection), training.evaluate[0])
    timed_queries = list(query_set(timed.benchmark, split=timed.split).queries.values()) if rounds else []
    speeds = measure_speed(encoders, timed_queries, rounds) if rounds else {}
    rows = []
    for name in specs:
        state = states.get(name)
        stage_costs = list(run.spent(state).values()) if state else []
        rows.append(
            PairRow(
                name=name,
                retriever=specs[name],
                query_parameters=_parameters(encoders[name]),
                speed=speeds.get(name),
                seconds=round(sum(cost.seconds for cost in stage_costs), 1),
            )
        )
    return PairTable(name=training.name, rows=rows, quality=quality, threads=torch.get_num_threads(), rounds=rounds)


def teacher_spec(run: TrainingRun) -> str:
    """Return the spec of a retriever that uses the document encoder for queries and documents."""
    return str(Spec("dense", _document(run, run.start, "model")))


def pair_spec(run: TrainingRun, state: EncoderPair) -> str:
    """Return the spec of a retriever that uses a state's pair."""
    query = state.query or run.first_query()
    parameters: dict[str, Value] = {"model": query, "query_prefix": run.training.query.prefix}
    if state.symmetric:
        parameters |= {"document_model": query, "store": "faiss"}
    else:
        parameters |= _document(run, state, "document_model")
    return str(Spec("dense", {key: value for key, value in parameters.items() if value != ""}))


def _document(run: TrainingRun, state: EncoderPair, parameter: str) -> dict[str, Value]:
    encoder = run.training.document
    parameters: dict[str, Value] = {
        parameter: state.document or str(Path(encoder.model).expanduser()),
        "document_length": encoder.length,
        "document_prefix": encoder.prefix,
        "dimensions": run.dimensions,
        "store": "faiss",
    }
    if parameter == "model":
        parameters |= {"query_length": encoder.length, "query_prefix": run.training.query.prefix}
    return {key: value for key, value in parameters.items() if value not in ("", 0)}


def _quality(
    run: TrainingRun, entry: Evaluation, specs: Mapping[str, str], progress: Callable[[str, int], None]
) -> RetrievalQuality:
    queries_of_set = query_set(entry.benchmark, split=entry.split)
    trained = set(run.material.texts)
    for example in run.material.examples:
        trained |= {example.query, example.positive, *example.negatives}
    values_by_row: dict[str, dict[str, float]] = {}
    for name, spec in specs.items():
        label = f"{queries_of_set.name}: {name}"
        # Documents are encoded here, in the run's precision; queries, in a separate thread, in full precision.
        with autocast(run.training.device, run.training.precision):
            searcher = open_searcher(
                spec, queries_of_set.corpus, run.out, progress=partial(_report_labelled, progress, label)
            )
        results = asyncio.run(retrieve(searcher, queries_of_set.queries, 10))
        values_by_row[name] = measure(queries_of_set.judgements, results.scores, [MEASURE])[MEASURE]
    return RetrievalQuality(
        benchmark=queries_of_set.name,
        split=entry.split,
        selection=entry.selection,
        queries=len(queries_of_set.queries),
        transductive=_documents_trained(trained, queries_of_set.corpus),
        queries_trained=sum(" ".join(query.split()) in trained for query in queries_of_set.queries.values()),
        values={name: means({MEASURE: values})[MEASURE] for name, values in values_by_row.items()},
        comparisons=compare({label: {"": values} for label, values in values_by_row.items()}, MEASURE),
    )


def _report_labelled(progress: Callable[[str, int], None], label: str, task: str, done: int) -> None:
    progress(f"{label}, {task}", done)


def _documents_trained(trained: set[str], corpus: str) -> bool:
    """Return True if a document of the corpus, or a sentence of one, is among the training texts."""
    for text in corpus_texts(corpus_source(corpus)):
        normalised = " ".join(text.split())
        if normalised in trained or any(" ".join(part.split()) in trained for part in sentences([text], (5, 1000))):
            return True
    return False


def measure_speed(
    encoders: Mapping[str, QueryEncoder], queries: Sequence[str], rounds: int
) -> dict[str, EncodingSpeed]:
    """Measure the queries per second of each encoder, one query at a time.

    In every round each encoder encodes all queries, and the first encoder changes from round to round. Round 0 is a
    warm-up, and does not count.
    """
    rates: dict[str, list[float]] = {name: [] for name in encoders}
    names = list(encoders)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.perf_counter()
            for query in queries:
                encoders[name].encode([query], batch_size=1, show_progress_bar=False)
            if turn:
                rates[name].append(len(queries) / (time.perf_counter() - began))
    first = rates[names[0]]
    # Ratios are taken within a round, because load on the machine changes from round to round.
    return {
        name: EncodingSpeed(
            single=round(statistics.median(speeds), 1),
            ratio=round(
                statistics.median(rate / teacher_rate for rate, teacher_rate in zip(speeds, first, strict=True)), 3
            ),
        )
        for name, speeds in rates.items()
    }


def _parameters(encoder: SentenceTransformer) -> int:
    return sum(parameter.numel() for parameter in encoder.parameters())
