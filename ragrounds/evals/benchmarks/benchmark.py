"""A benchmark in memory: questions in order, what is right, and a version that changes with either."""

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
from ragrounds.base.files import broken, shown
from ragrounds.base.records import Gold, Question
from ragrounds.base.text import normalized
from ragrounds.evals.benchmarks.cards import Card

_LONGEST_ID = 500
STATEMENTS = "statements"
"""The value of a question's metadata ``facts`` where its gold facts are statements for a judge."""
RUBRIC = "rubric"
"""The same, where they are criteria of a rubric: text, points, tags."""
NICE = "nice to have"
"""Behind such a statement: an answer may leave it out but must not contradict it."""


class Item(NamedTuple):
    """A question with what is right, as a loader makes it."""

    question: Question
    gold: Gold


class Selection(Struct, frozen=True, kw_only=True):
    """How a part of a benchmark was drawn; the same values draw the same questions."""

    seed: int
    limit: int | None = None
    per_dataset: int | None = None
    of: int = 0
    """Questions it was drawn from."""
    ids: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Where questions were named: these, of which the others were drawn."""


class Benchmark(Struct, frozen=True, kw_only=True, eq=False):
    """Questions in a fixed order with their golds. Equal versions mean equal content."""

    name: str
    """``family`` or ``family/dataset``."""
    card: Card
    questions: tuple[Question, ...]
    golds: Mapping[str, Gold]
    """By question id. Only scorers, the oracle agent and the analyses may see it."""
    version: str
    """Content hash of questions and golds in order (SHA-256, hexadecimal)."""
    path: str = ""
    """The file or folder it was read from; empty where it is shipped."""
    selection: Selection | None = None
    absent: tuple[str, ...] = ()
    """Of a suite: what it lacks, since it is not registered, with how to get it; a sentence each."""

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Canonical dataset names, in order of appearance."""
        return tuple(dict.fromkeys(question.benchmark for question in self.questions))

    @property
    def counts(self) -> dict[str, int]:
        """Questions of each dataset."""
        return dict(Counter(question.benchmark for question in self.questions))

    @property
    def guard_words(self) -> str:
        """What its leak guard keeps from the searches of these questions, in a sentence; empty: nothing."""
        withheld = [len(found) for question in self.questions if (found := self.golds[question.id].withheld)]
        if not withheld:
            return ""
        return (
            f"The benchmark's guard.jsonl withholds {sum(withheld):,} documents from the searches of "
            f"{len(withheld):,} questions; AGENT[guard=false] turns this off."
        )


def assemble(name: str, card: Card, items: Iterable[Item], path: Path | None = None) -> Benchmark:
    """Check what every benchmark must keep, write labels of options as answers are read, mark duplicates as clusters,
    and compute the version.

    Raises:
        UserError: no questions, a duplicate id, a gold that is not among the options, an empty text.
    """
    where = path or Path(name)
    golds: dict[str, Gold] = {}
    questions: list[Question] = []
    for question, gold in items:
        record = f"question {shown(question.id)}"
        if not question.id.isprintable() or len(question.id) > _LONGEST_ID:
            raise broken(where, f"an id has no control characters and at most {_LONGEST_ID} characters", record)
        if question.id in golds:
            raise broken(where, "this id is not unique", record)
        if not question.text.strip():
            raise broken(where, "the question is empty", record)
        if question.kind == "choice":
            question, gold = _plain_labels(question, gold, where, record)
            _check_options(question, gold, where, record)
        golds[question.id] = gold
        questions.append(question)
    if not questions:
        raise broken(where, "it contains no questions")
    clustered = with_clusters(questions)
    return Benchmark(
        name=name,
        card=card,
        questions=clustered,
        golds=MappingProxyType(golds),
        version=content_version(clustered, golds),
        path=str(path) if path else "",
    )


def _plain_labels(question: Question, gold: Gold, path: Path, record: str) -> tuple[Question, Gold]:
    """With labels in the form that answers are read in: a full-width letter (usual in Chinese files) is that letter.

    Raises:
        UserError: two labels are the same then.
    """
    if all(label.isascii() for label in (*question.options, gold.answer)):
        return question, gold
    options = {normalized("NFKC", label): text for label, text in question.options.items()}
    if len(options) < len(question.options):
        raise broken(path, f"two of its labels are one letter ({', '.join(map(shown, question.options))})", record)
    answer = normalized("NFKC", gold.answer)
    return msgspec.structs.replace(question, options=options), msgspec.structs.replace(gold, answer=answer)


def _check_options(question: Question, gold: Gold, path: Path, record: str) -> None:
    if len(question.options) < 2:
        raise broken(path, f"it has {len(question.options)} options, and a choice needs two or more", record)
    blank = [label for label, text in question.options.items() if not text.strip()]
    if blank:
        raise broken(path, f"the option {shown(blank[0])} is empty", record)
    if gold.answer not in question.options:
        known = ", ".join(shown(label) for label in list(question.options)[:30])
        raise broken(path, f"the answer {shown(gold.answer)} is not among the options ({known})", record)


def fold(text: str) -> str:
    """A text without differences of case and spacing."""
    return " ".join(text.split()).casefold()


def with_clusters(questions: Iterable[Question]) -> tuple[Question, ...]:
    """Give questions with the same text and the same options (case and spacing apart) one cluster: the id of the
    first. A cluster that the loader has set (same source, same patient) is kept."""
    kept = tuple(questions)
    first: dict[tuple[str, ...], str] = {}
    same: dict[str, str] = {}
    for question in kept:
        content = (fold(question.text), *(fold(option) for option in question.options.values()))
        same[question.id] = first.setdefault(content, question.id)
    members = Counter(same.values())
    return tuple(
        msgspec.structs.replace(question, cluster=same[question.id])
        if not question.cluster and members[same[question.id]] > 1
        else question
        for question in kept
    )


def content_version(questions: Iterable[Question], golds: Mapping[str, Gold]) -> str:
    """SHA-256 of all that can change an answer or its score: ids, texts, options, golds, in order. Groups and
    clusters are left out: they are labels of tables and statistics."""
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
    """Draw questions without replacement: `per_dataset` of each dataset, then `limit` of what is left, every question
    with the same chance. The order of the benchmark is kept. With `ids`, of those alone that they name.

    The draw goes by a hash of seed and question id, so a smaller limit is a subset of a larger one, and the same
    question is drawn on every machine and whatever else stands in the file.

    Raises:
        UserError: a number below 1; an id that names no question, or several.
    """
    for name, number in (("limit", limit), ("number per dataset", per_dataset)):
        if number is not None and number < 1:
            raise UserError(f"The {name} is {number}; give 1 or more, or leave it out for all questions.")
    if limit is None and per_dataset is None and not ids:
        return benchmark
    named = tuple(dict.fromkeys(question_named(benchmark.questions, id, benchmark.name).id for id in ids))
    asked = [question for question in benchmark.questions if not ids or question.id in named]
    drawn = sorted(asked, key=lambda question: lot(seed, question.id))
    if per_dataset is not None:
        taken: Counter[str] = Counter()
        kept: list[Question] = []
        for question in drawn:
            if taken[question.benchmark] < per_dataset:
                taken[question.benchmark] += 1
                kept.append(question)
        drawn = kept
    chosen = {question.id for question in drawn[:limit]}
    questions = tuple(question for question in benchmark.questions if question.id in chosen)
    golds = {question.id: benchmark.golds[question.id] for question in questions}
    return msgspec.structs.replace(
        benchmark,
        questions=questions,
        golds=MappingProxyType(golds),
        version=content_version(questions, golds),
        selection=Selection(
            seed=seed, limit=limit, per_dataset=per_dataset, of=len(benchmark), ids=named or msgspec.UNSET
        ),
    )


def question_named(questions: Sequence[Question], reference: str, place: str) -> Question:
    """The question that a reference names: by its id, or by the end of it after a slash (``c01`` for ``sample/c01``).

    Args:
        questions: to find it in.
        reference: what was typed.
        place: what they are of, for messages.

    Raises:
        UserError: none, or several whose ids end so.
    """
    found = [one for one in questions if one.id == reference]
    found = found or [one for one in questions if one.id.endswith(f"/{reference}")]
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(one.id for one in found[:5])
        raise UserError(f"{reference!r} matches {len(found):,} ids of {place}: {some}. Give the whole id.")
    known = [name for one in questions for name in (one.id, one.id.rpartition("/")[2])]
    raise UserError(f"There is no question {reference!r} in {place}.{nearest(reference, known)}")


def must_have(gold: Gold) -> tuple[str, ...]:
    """Statements that a good answer must entail."""
    return tuple(fact[0] for fact in gold.facts if fact[1:] != (NICE,))


def nice_to_have(gold: Gold) -> tuple[str, ...]:
    """Statements that an answer may leave out but must not contradict."""
    return tuple(fact[0] for fact in gold.facts if fact[1:] == (NICE,))


def for_a_judge(question: Question) -> bool:
    """Whether a question's facts are statements or criteria that a judge sets the answer against (K-QA)."""
    return question.metadata.get("facts") in (STATEMENTS, RUBRIC)


def cluster_of(question: Question) -> str:
    """What a question is drawn together with: its cluster, or itself alone."""
    return question.cluster or question.id


def lot(seed: int, *texts: str) -> bytes:
    """What is sorted by where some are drawn, by a question's id or other texts: as good as random, the same
    everywhere."""
    return hashlib.sha256("\n".join((str(seed), *texts)).encode()).digest()
