"""What the pairs are worth: nDCG@10 with paired tests, and how fast their query encoders are.

The pairs are opened and searched as any dense retriever is (:mod:`ragrounds.tools`). Speed is measured in one go, the
encoders taking turns: what else the machine does falls on all of them.
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
from ragrounds.evals.retrieval.comparison import RetrievalComparison, compare
from ragrounds.evals.retrieval.measures import means, measure
from ragrounds.evals.retrieval.query_sets import query_set
from ragrounds.evals.retrieval.search import retrieve
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
    """What speed is measured of."""

    def encode(self, texts: list[str], *, batch_size: int, show_progress_bar: bool) -> object:
        """Vectors of texts."""
        ...


class RetrievalQuality(Struct, frozen=True, kw_only=True):
    """One benchmark: every pair's value, and their paired comparisons."""

    benchmark: str
    split: str
    selection: bool
    """It chose something: no result."""
    queries: int
    transductive: bool
    """Some of its documents, or sentences of them, were trained on."""
    queries_trained: int
    """So many of its queries were training texts, word for word."""
    values: dict[str, float]
    """Row → mean nDCG@10."""
    comparisons: list[RetrievalComparison]


class EncodingSpeed(Struct, frozen=True, kw_only=True):
    """How fast a row's query encoder is."""

    single: float
    """Queries per second, one at a time: the median over the rounds."""
    ratio: float
    """To the teacher: the median of the rounds' ratios."""


class PairRow(Struct, frozen=True, kw_only=True):
    """One pair."""

    name: str
    retriever: str
    """As `ragrounds retrieve` takes it."""
    query_parameters: int
    document_parameters: int
    speed: EncodingSpeed | None
    seconds: float
    """Of its training, wall time, over all its stages."""
    processor: float
    """Processor time of the same."""
    peak: int
    """Largest memory of the process that trained it, bytes."""


class PairTable(Struct, frozen=True, kw_only=True):
    """What `ragrounds train evaluate` prints."""

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
    progress: Callable[[str, int], None] = lambda what, done: None,
) -> PairTable:
    """Measure the teacher and the pairs of `states`.

    Args:
        run: Its file says what on.
        states: Recipe → what it ended with.
        rounds: Of the measurement of speed; 0: none.
        progress: Called with what is being done and how much of it is done.

    Raises:
        UserError: a benchmark cannot be read, or a retriever not be opened.
    """

    training = run.training
    if not training.evaluate:
        raise UserError("Nothing to measure: the training file has no [[evaluate]].")
    specs = {TEACHER: teacher_spec(run), **{name: pair_spec(run, state) for name, state in states.items()}}
    quality = [_quality(run, entry, specs, progress) for entry in training.evaluate]
    encoders: dict[str, SentenceTransformer] = {TEACHER: run.open_document(run.start)}
    encoders |= {name: run.open_query(state) for name, state in states.items()}
    speeds = measure_speed(encoders, _speed_queries(training.evaluate), rounds) if rounds else {}
    rows = []
    for name in specs:
        state = states.get(name)
        taken = list(run.spent(state).values()) if state else []
        document = encoders[name] if state is None or state.symmetric else run.open_document(state)
        rows.append(
            PairRow(
                name=name,
                retriever=specs[name],
                query_parameters=_parameters(encoders[name]),
                document_parameters=_parameters(document),
                speed=speeds.get(name),
                seconds=round(sum(each.seconds for each in taken), 1),
                processor=round(sum(each.processor for each in taken), 1),
                peak=max((each.peak for each in taken), default=0),
            )
        )
    return PairTable(name=training.name, rows=rows, quality=quality, threads=torch.get_num_threads(), rounds=rounds)


def teacher_spec(run: TrainingRun) -> str:
    """The document encoder in both places, as a retriever's text."""
    return str(Spec("dense", _document(run, run.start, "model")))


def pair_spec(run: TrainingRun, state: EncoderPair) -> str:
    """A state's pair as a retriever's text."""
    query = state.query or run.first_query()
    given: dict[str, Value] = {"model": query, "query_prefix": run.training.query.prefix}
    if state.symmetric:
        given |= {"document_model": query, "store": "faiss"}
    else:
        given |= _document(run, state, "document_model")
    return str(Spec("dense", {key: value for key, value in given.items() if value != ""}))


def _document(run: TrainingRun, state: EncoderPair, as_what: str) -> dict[str, Value]:
    encoder = run.training.document
    given: dict[str, Value] = {
        as_what: state.document or str(Path(encoder.model).expanduser()),
        "document_length": encoder.length,
        "document_prefix": encoder.prefix,
        "dimensions": run.dimensions,
        "store": "faiss",
    }
    if as_what == "model":
        given |= {"query_length": encoder.length, "query_prefix": run.training.query.prefix}
    return {key: value for key, value in given.items() if value not in ("", 0)}


def _quality(
    run: TrainingRun, entry: Evaluation, specs: Mapping[str, str], progress: Callable[[str, int], None]
) -> RetrievalQuality:
    asked = query_set(entry.benchmark, split=entry.split)
    trained = _trained(run)
    each: dict[str, dict[str, float]] = {}
    for name, spec in specs.items():
        label = f"{asked.name}: {name}"
        # Documents are encoded here, in the run's precision; queries, in a thread of their own, in full precision.
        with autocast(run.training.device, run.training.precision):
            searcher = open_searcher(spec, asked.corpus, run.out, progress=partial(_about, progress, label))
        found = asyncio.run(retrieve(searcher, asked.queries, 10))
        each[name] = measure(asked.judgements, found.scores, [MEASURE])[MEASURE]
    return RetrievalQuality(
        benchmark=asked.name,
        split=entry.split,
        selection=entry.selection,
        queries=len(asked.queries),
        transductive=_documents_trained(trained, asked.corpus),
        queries_trained=sum(" ".join(query.split()) in trained for query in asked.queries.values()),
        values={name: means({MEASURE: values})[MEASURE] for name, values in each.items()},
        comparisons=compare({label: {"": values} for label, values in each.items()}, MEASURE),
    )


def _about(progress: Callable[[str, int], None], label: str, what: str, done: int) -> None:
    progress(f"{label}, {what}", done)


def _trained(run: TrainingRun) -> set[str]:
    trained = set(run.material.texts)
    for example in run.material.examples:
        trained |= {example.query, example.positive, *example.negatives}
    return trained


def _documents_trained(trained: set[str], corpus: str) -> bool:
    """Whether a document of the corpus, or a sentence of one, is among the training texts."""
    for text in corpus_texts(corpus_source(corpus)):
        whole = " ".join(text.split())
        if whole in trained or any(" ".join(part.split()) in trained for part in sentences([text], (5, 1000))):
            return True
    return False


def _speed_queries(entries: Sequence[Evaluation]) -> list[str]:
    """The queries whose encoding is timed: those of the first benchmark that is no selection."""
    chosen = next((entry for entry in entries if not entry.selection), entries[0])
    return list(query_set(chosen.benchmark, split=chosen.split).queries.values())


def measure_speed(
    encoders: Mapping[str, QueryEncoder], queries: Sequence[str], rounds: int
) -> dict[str, EncodingSpeed]:
    """Queries per second of each encoder, one at a time. In every round each encodes all queries; who begins changes
    from round to round. The first round is a warm-up, and does not count."""
    taken: dict[str, list[float]] = {name: [] for name in encoders}
    names = list(encoders)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            began = time.perf_counter()
            for query in queries:
                encoders[name].encode([query], batch_size=1, show_progress_bar=False)
            if turn:
                taken[name].append(len(queries) / (time.perf_counter() - began))
    first = taken[names[0]]
    return {
        name: EncodingSpeed(
            single=round(statistics.median(speeds), 1),
            ratio=round(statistics.median(mine / theirs for mine, theirs in zip(speeds, first, strict=True)), 3),
        )
        for name, speeds in taken.items()
    }


def _parameters(encoder: SentenceTransformer) -> int:
    return sum(each.numel() for each in encoder.parameters())
