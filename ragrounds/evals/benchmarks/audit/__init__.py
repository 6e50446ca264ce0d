"""The audit of a benchmark: what its questions give away, and what they count twice. Pure functions of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import median

from msgspec import Struct

from ragrounds.evals.benchmarks.audit.across import Shared, across
from ragrounds.evals.benchmarks.audit.corpus import InCorpus, in_corpus
from ragrounds.evals.benchmarks.audit.duplicates import Near, Twins, exact, near
from ragrounds.evals.benchmarks.audit.options import Options, options
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.records import Question

__all__ = ["Audit", "InCorpus", "Lengths", "Near", "Options", "Shared", "Twins", "across", "audit"]

_CHINESE = re.compile(r"[\u3400-\u9fff]")
_LATIN = re.compile(r"[A-Za-z]")


class Lengths(Struct, frozen=True, kw_only=True):
    """How long one dataset's questions are, in characters, options left out."""

    dataset: str
    questions: int
    shortest: int
    middle: float
    longest: int
    other_language: tuple[str, ...]
    """Ids of questions whose letters are mostly of another script than their language says."""


class Audit(Struct, frozen=True, kw_only=True):
    """All that was found."""

    benchmark: str
    version: str
    questions: int
    duplicates: tuple[Twins, ...]
    near: tuple[Near, ...]
    options: tuple[Options, ...]
    lengths: tuple[Lengths, ...]
    corpus: InCorpus | None = None
    """``None`` where no corpus was given."""


def audit(benchmark: Benchmark, documents: Iterable[tuple[str, str]] | None = None) -> Audit:
    """Audit a benchmark, and with (document id, text) pairs what a corpus holds of it."""
    golds = benchmark.golds
    answers = {q.id: q.options.get(golds[q.id].answer, golds[q.id].answer) for q in benchmark.questions}
    datasets = {
        name: [question for question in benchmark.questions if question.benchmark == name]
        for name in benchmark.datasets
    }
    audited = [options(name, found, [golds[q.id] for q in found]) for name, found in datasets.items()]
    return Audit(
        benchmark=benchmark.name,
        version=benchmark.version,
        questions=len(benchmark),
        duplicates=exact(benchmark.questions, answers),
        near=near(benchmark.questions),
        options=tuple(found for found in audited if found is not None),
        lengths=tuple(_lengths(name, found) for name, found in datasets.items()),
        corpus=None if documents is None else in_corpus(benchmark.questions, golds, documents),
    )


def _lengths(dataset: str, questions: list[Question]) -> Lengths:
    sizes = [len(question.text) for question in questions]
    return Lengths(
        dataset=dataset,
        questions=len(questions),
        shortest=min(sizes),
        middle=median(sizes),
        longest=max(sizes),
        other_language=tuple(question.id for question in questions if _other_script(question)),
    )


def _other_script(question: Question) -> bool:
    chinese, latin = len(_CHINESE.findall(question.text)), len(_LATIN.findall(question.text))
    # A Chinese character says about as much as several Latin letters.
    return (4 * chinese < latin) if question.language == "zh" else (chinese > latin)
