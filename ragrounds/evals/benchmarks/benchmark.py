"""A benchmark in memory: questions in order, their golds, and a version that changes with either."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.files import broken, quote_value
from ragrounds.base.records import Gold, Question
from ragrounds.base.text import fold, normalized
from ragrounds.evals.benchmarks.cards import Card

_LONGEST_ID = 500
STATEMENTS = "statements"
"""Value of a question's metadata ``facts`` if its gold facts are statements for a judge."""
RUBRIC = "rubric"
"""Value of a question's metadata ``facts`` if its gold facts are criteria of a rubric: text, points, tags."""
NICE = "nice to have"
"""Mark of a gold statement that an answer may leave out but must not contradict."""


class Item(NamedTuple):
    """A question with its gold, as a loader returns it."""

    question: Question
    gold: Gold


class Selection(Struct, frozen=True, kw_only=True):
    """Settings of a random sample of a benchmark. Equal settings select the same questions."""

    seed: int
    limit: int | None = None
    per_dataset: int | None = None
    of: int = 0
    """Number of questions that the sample was taken from."""
    ids: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Ids of the questions that were named, if any were; the sample was taken from these."""


class Benchmark(Struct, frozen=True, kw_only=True, eq=False):
    """Questions in a fixed order with their golds. Equal versions mean equal content."""

    name: str
    """``family`` or ``family/dataset``."""
    card: Card
    questions: tuple[Question, ...]
    golds: Mapping[str, Gold]
    """Golds by question id. Only scorers, the oracle agent and the analyses may see them."""
    version: str
    """Content hash of questions and golds in order (SHA-256, hexadecimal)."""
    path: str = ""
    """File or folder that the benchmark was read from; empty if it is shipped with the package."""
    selection: Selection | None = None
    absent: tuple[str, ...] = ()
    """Datasets of a suite that are not registered, one sentence each on how to get them."""

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Canonical dataset names, in order of appearance."""
        return tuple(dict.fromkeys(question.benchmark for question in self.questions))

    @property
    def counts(self) -> dict[str, int]:
        """Number of questions of each dataset."""
        return dict(Counter(question.benchmark for question in self.questions))

    @property
    def is_sample(self) -> bool:
        """True if it is the built-in sample."""
        return self.name.partition("/")[0] == "sample"

    @property
    def own_corpus(self) -> str | None:
        """Name of the corpus that comes with the questions; ``None`` if none does."""
        return "sample" if self.is_sample else None

    @property
    def guard_words(self) -> str:
        """Sentence on the documents that the leak guard withholds from searches; empty if it withholds none."""
        withheld = [
            len(document_ids) for question in self.questions if (document_ids := self.golds[question.id].withheld)
        ]
        if not withheld:
            return ""
        return (
            f"The benchmark's guard.jsonl withholds {sum(withheld):,} documents from the searches of "
            f"{len(withheld):,} questions; AGENT[guard=false] turns this off."
        )


def assemble(name: str, card: Card, items: Iterable[Item], path: Path | None = None) -> Benchmark:
    """Assemble a benchmark from its items.

    Checks what every benchmark must satisfy, normalizes labels of options to the form that answers are read in, marks
    duplicates as clusters, and computes the version.

    Raises:
        UserError: no questions, a duplicate id, a gold that is not among the options, an empty text.
    """
    location = path or Path(name)
    golds: dict[str, Gold] = {}
    questions: list[Question] = []
    for question, gold in items:
        if not question.id.isprintable() or len(question.id) > _LONGEST_ID:
            raise broken(
                location, f"an id has no control characters and at most {_LONGEST_ID} characters", _record(question)
            )
        if question.id in golds:
            raise broken(location, "this id is not unique", _record(question))
        if not question.text.strip():
            raise broken(location, "the question is empty", _record(question))
        if question.kind == "choice":
            question, gold = _plain_labels(question, gold, location)
            _check_options(question, gold, location)
        golds[question.id] = gold
        questions.append(question)
    if not questions:
        raise broken(location, "it contains no questions")
    clustered = with_clusters(questions)
    return Benchmark(
        name=name,
        card=card,
        questions=clustered,
        golds=MappingProxyType(golds),
        version=content_version(clustered, golds),
        path=str(path) if path else "",
    )


def _record(question: Question) -> str:
    """Return the name of a question in messages about its file."""
    return f"question {quote_value(question.id)}"


def _plain_labels(question: Question, gold: Gold, path: Path) -> tuple[Question, Gold]:
    """Return the question and gold with normalized labels: a full-width letter (usual in Chinese files) becomes plain.

    Raises:
        UserError: two labels are equal after normalization.
    """
    if "".join((*question.options, gold.answer)).isascii():
        return question, gold
    options = {normalized("NFKC", label): text for label, text in question.options.items()}
    if len(options) < len(question.options):
        labels = ", ".join(map(quote_value, question.options))
        raise broken(path, f"two of its labels are one letter ({labels})", _record(question))
    answer = normalized("NFKC", gold.answer)
    return msgspec.structs.replace(question, options=options), msgspec.structs.replace(gold, answer=answer)


def _check_options(question: Question, gold: Gold, path: Path) -> None:
    if len(question.options) < 2:
        fault = f"it has {len(question.options)} options, and a choice needs two or more"
        raise broken(path, fault, _record(question))
    if not all(map(str.strip, question.options.values())):
        blank = next(label for label, text in question.options.items() if not text.strip())
        raise broken(path, f"the option {quote_value(blank)} is empty", _record(question))
    if gold.answer not in question.options:
        labels = ", ".join(quote_value(label) for label in list(question.options)[:30])
        fault = f"the answer {quote_value(gold.answer)} is not among the options ({labels})"
        raise broken(path, fault, _record(question))


def with_clusters(questions: Iterable[Question]) -> tuple[Question, ...]:
    """Give questions with the same text and options (ignoring case and spacing) one cluster, the id of the first.

    A cluster that the loader has set (same source, same patient) is not changed.
    """
    all_questions = tuple(questions)
    first: dict[tuple[str, ...], str] = {}
    cluster_by_question: dict[str, str] = {}
    for question in all_questions:
        content = tuple(map(fold, (question.text, *question.options.values())))
        cluster_by_question[question.id] = first.setdefault(content, question.id)
    members = Counter(cluster_by_question.values())
    if len(members) == len(all_questions):  # no two are the same
        return all_questions
    return tuple(
        msgspec.structs.replace(question, cluster=cluster_by_question[question.id])
        if not question.cluster and members[cluster_by_question[question.id]] > 1
        else question
        for question in all_questions
    )


def content_version(questions: Iterable[Question], golds: Mapping[str, Gold]) -> str:
    """Return the SHA-256 of all that can change an answer or its score: ids, texts, options, golds, in order. Groups
    and clusters are left out: they only label tables and statistics."""
    digest = hashlib.sha256()
    for question in questions:
        gold = golds[question.id]
        content = [
            *(question.id, question.benchmark, question.kind, question.language, question.text),
            *(list(question.options.items()), gold.answer, gold.documents, gold.facts),
            *([gold.withheld] if gold.withheld else []),
        ]
        digest.update(msgspec.json.encode(content) + b"\n")
    return digest.hexdigest()


def select(
    benchmark: Benchmark,
    *,
    limit: int | None = None,
    per_dataset: int | None = None,
    seed: int = 0,
    ids: Sequence[str] = (),
) -> Benchmark:
    """Sample questions without replacement, keeping the benchmark's order.

    First `per_dataset` questions of each dataset are sampled, then `limit` of the rest, every question with the same
    chance. With `ids`, only the questions that they name are candidates.

    The sample depends on a hash of seed and question id. A smaller limit thus gives a subset of a larger one, and a
    question is sampled on every machine and whatever else the file contains.

    Raises:
        UserError: a number below 1; an id that names no question, or several.
    """
    for name, number in (("limit", limit), ("number per dataset", per_dataset)):
        if number is not None and number < 1:
            raise UserError(f"The {name} is {number}; give 1 or more, or leave it out for all questions.")
    if limit is None and per_dataset is None and not ids:
        return benchmark
    requested_ids = tuple(dict.fromkeys(question_named(benchmark.questions, id, benchmark.name).id for id in ids))
    candidates = [question for question in benchmark.questions if not ids or question.id in requested_ids]
    sample = sorted(candidates, key=lambda question: lot(seed, question.id))
    if per_dataset is not None:
        counts: Counter[str] = Counter()
        balanced: list[Question] = []
        for question in sample:
            if counts[question.benchmark] < per_dataset:
                counts[question.benchmark] += 1
                balanced.append(question)
        sample = balanced
    sampled_ids = {question.id for question in sample[:limit]}
    questions = tuple(question for question in benchmark.questions if question.id in sampled_ids)
    golds = {question.id: benchmark.golds[question.id] for question in questions}
    return msgspec.structs.replace(
        benchmark,
        questions=questions,
        golds=MappingProxyType(golds),
        version=content_version(questions, golds),
        selection=Selection(
            seed=seed, limit=limit, per_dataset=per_dataset, of=len(benchmark), ids=requested_ids or msgspec.UNSET
        ),
    )


def question_named(questions: Sequence[Question], reference: str, location: str) -> Question:
    """Return the question that a reference names: by its id, or by the end of it after a slash (``c01`` for
    ``sample/c01``).

    Args:
        questions: the questions to search.
        reference: the text that was typed.
        location: name of the collection of questions, for messages.

    Raises:
        UserError: no question matches, or several do.
    """
    matches = [question for question in questions if question.id == reference]
    matches = matches or [question for question in questions if question.id.endswith(f"/{reference}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        examples = ", ".join(question.id for question in matches[:5])
        raise UserError(f"{reference!r} matches {len(matches):,} ids of {location}: {examples}. Give the whole id.")
    known_names = [name for question in questions for name in (question.id, question.id.rpartition("/")[2])]
    raise UserError(f"There is no question {reference!r} in {location}.{nearest(reference, known_names)}")


def must_have(gold: Gold) -> tuple[str, ...]:
    """Return the statements that a good answer must entail."""
    return tuple(fact[0] for fact in gold.facts if fact[1:] != (NICE,))


def nice_to_have(gold: Gold) -> tuple[str, ...]:
    """Return the statements that an answer may leave out but must not contradict."""
    return tuple(fact[0] for fact in gold.facts if fact[1:] == (NICE,))


def has_judged_facts(question: Question) -> bool:
    """Return True if a question's facts are statements or criteria for a judge (K-QA)."""
    return question.metadata.get("facts") in (STATEMENTS, RUBRIC)


def cluster_of(question: Question) -> str:
    """Return the unit of resampling of a question: its cluster, or the question alone."""
    return question.cluster or question.id


def lot(seed: int, *texts: str) -> bytes:
    """Return a sort key for a deterministic random sample, from a seed and a question's id or other texts."""
    return hashlib.sha256("\n".join((str(seed), *texts)).encode()).digest()
