"""The audit of a benchmark: what its questions give away, and what they count twice. Pure functions of a benchmark.

* questions that stand in it more than once;
* what can be guessed from the options alone: letters that are right too often, long right answers;
* whether what agents could answer is read as it is meant;
* whether a corpus holds the questions themselves, or the documents that they were made from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.records import Gold, Question
from ragrounds.base.text import words
from ragrounds.evals.benchmarks.benchmark import Benchmark, fold


class ExactDuplicates(Struct, frozen=True, kw_only=True):
    """Questions with the same content."""

    questions: tuple[str, ...]
    """Ids, in the benchmark's order."""
    groups: tuple[str, ...]
    """Datasets, with the subject where there is one, that they stand in; sorted, each once."""
    golds_differ: bool


def exact(questions: Sequence[Question], golds: dict[str, str]) -> tuple[ExactDuplicates, ...]:
    """Sets of questions with equal text and options, case and spacing apart.

    Args:
        questions: of one benchmark.
        golds: the text of each question's right answer, by question id.
    """
    same: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in questions:
        same[fold(question.text), *(fold(option) for option in question.options.values())].append(question)
    return tuple(
        ExactDuplicates(
            questions=tuple(question.id for question in found),
            groups=tuple(sorted({place(question) for question in found})),
            golds_differ=len({fold(golds[question.id]) for question in found}) > 1,
        )
        for found in same.values()
        if len(found) > 1
    )


def place(question: Question) -> str:
    """Where a question stands: its dataset, and its subject where there is one."""
    return f"{question.benchmark} ({question.group})" if question.group else question.benchmark


SHINGLE = 8
"""Words in a row that are looked for."""
COPIED = 0.5
"""Share of a question's shingles from which a document is a near copy of it."""


class CorpusCopy(Struct, frozen=True, kw_only=True):
    """A document that holds most of a question's text."""

    question: str
    document: str
    share: float
    """Share of the question's shingles that stand in the document."""


class CorpusAudit(Struct, frozen=True, kw_only=True):
    """What a corpus holds of a benchmark."""

    documents: int
    sources: tuple[str, ...]
    """Questions of which a gold document stands in the corpus."""
    without_source: tuple[str, ...]
    """Questions that name gold documents, none of which is in the corpus: no retriever can find them."""
    copies: tuple[CorpusCopy, ...]
    """The document with the largest share for each question that is (nearly) copied."""
    short: int
    """Questions of fewer than eight words, which are not looked for."""


def in_corpus(
    questions: Sequence[Question], golds: Mapping[str, Gold], documents: Iterable[tuple[str, str]]
) -> CorpusAudit:
    """Look for questions in (document id, text) pairs, passages of one document one after the other or not.

    The corpus is read once and not held; a question's text counts as copied by a document, not by single passages.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = {}
    for question in questions:
        found = shingles(question.text)
        sizes[question.id] = len(found)
        for shingle in found:
            wanted[shingle].append(question.id)
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    present = set()
    for document, text in documents:
        present.add(document)
        for shingle in shingles(text):
            for id in wanted.get(shingle, ()):
                seen[id, document].add(shingle)
    best: dict[str, CorpusCopy] = {}
    for (id, document), found in seen.items():
        share = len(found) / sizes[id]
        if share >= COPIED and (id not in best or share > best[id].share):
            best[id] = CorpusCopy(question=id, document=document, share=share)
    named = [question.id for question in questions if golds[question.id].documents]
    sources = {id for id in named if present.intersection(golds[id].documents)}
    return CorpusAudit(
        documents=len(present),
        sources=tuple(id for id in named if id in sources),
        without_source=tuple(id for id in named if id not in sources),
        copies=tuple(best[question.id] for question in questions if question.id in best),
        short=sum(size == 0 for size in sizes.values()),
    )


def shingles(text: str) -> set[str]:
    """Every run of eight words, without case and punctuation."""
    found = words(text)
    return {" ".join(found[start : start + SHINGLE]) for start in range(len(found) - SHINGLE + 1)}


class OptionAudit(Struct, frozen=True, kw_only=True):
    """The options of one dataset's multiple-choice questions."""

    dataset: str
    questions: int
    letters: dict[str, int]
    """How often each label is right."""
    best_constant: float
    """Accuracy of always answering the most frequent label."""
    longest: float
    """Share of questions whose right option is the single longest one."""


def options(dataset: str, questions: Sequence[Question], golds: Sequence[Gold]) -> OptionAudit | None:
    """Audit one dataset's options; ``None`` where it has no multiple-choice question."""
    chosen = [(question, gold) for question, gold in zip(questions, golds, strict=True) if question.kind == "choice"]
    if not chosen:
        return None
    letters = Counter(gold.answer for _, gold in chosen)
    labels = dict.fromkeys(label for question, _ in chosen for label in question.options)
    longest = 0
    for question, gold in chosen:
        lengths = {label: len(text) for label, text in question.options.items()}
        top = [label for label, length in lengths.items() if length == max(lengths.values())]
        longest += top == [gold.answer]
    return OptionAudit(
        dataset=dataset,
        questions=len(chosen),
        letters={label: letters[label] for label in labels},
        best_constant=max(letters.values()) / len(chosen),
        longest=longest / len(chosen),
    )


_SAMPLE = 20
"""Questions of a dataset whose options are answered with."""
_FORMS = ('{"answer_choice": "%s"}', "%s", "The answer is %s.", "答案是%s。")
Read = Callable[[Question, str], str]
"""The label that a reply to a question is read as; empty: none."""


class ReadForm(Struct, frozen=True, kw_only=True):
    """How often replies of one form are read as they are meant."""

    dataset: str
    example: str
    """One of them; of those that are not, where there are any."""
    read: int
    of: int


def replies(dataset: str, questions: Sequence[Question], read: Read) -> tuple[ReadForm, ...]:
    """Answer the first questions of a dataset with each of their options, in the forms that agents answer in."""
    meant, made = [(one, label) for one in questions[:_SAMPLE] for label in one.options], []
    for form in _FORMS if meant else ():
        amiss = [form % label for question, label in meant if read(question, form % label) != label]
        example = amiss[0] if amiss else form % meant[0][1]
        made.append(ReadForm(dataset=dataset, example=example, read=len(meant) - len(amiss), of=len(meant)))
    return tuple(made)


class Audit(Struct, frozen=True, kw_only=True):
    """All that was found."""

    benchmark: str
    version: str
    questions: int
    duplicates: tuple[ExactDuplicates, ...]
    options: tuple[OptionAudit, ...]
    replies: tuple[ReadForm, ...] = ()
    """Of each dataset with options, a form each; none where nothing reads them."""
    corpus: CorpusAudit | None = None
    """``None`` where no corpus was given."""


def audit(benchmark: Benchmark, documents: Iterable[tuple[str, str]] | None = None, read: Read | None = None) -> Audit:
    """Audit a benchmark; with (document id, text) pairs also what a corpus holds, with `read` how replies are read."""
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
        options=tuple(found for found in audited if found is not None),
        replies=tuple(one for name, found in datasets.items() for one in replies(name, found, read)) if read else (),
        corpus=None if documents is None else in_corpus(benchmark.questions, golds, documents),
    )
