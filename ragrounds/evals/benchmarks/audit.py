"""Audit of a benchmark: hints in its questions, duplicates, and copies in a corpus. Pure functions of a benchmark.

* questions that occur more than once;
* what can be guessed from the options alone: letters that are right too often, long right answers;
* whether possible replies of agents are read as they are meant;
* whether a corpus contains the questions themselves, or the documents that they were made from.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.records import Gold, Question
from ragrounds.base.text import fold, words
from ragrounds.evals.benchmarks.benchmark import Benchmark


class ExactDuplicates(Struct, frozen=True, kw_only=True):
    """Questions with the same content."""

    questions: tuple[str, ...]
    """Ids, in the benchmark's order."""
    groups: tuple[str, ...]
    """Datasets of the questions, with their subjects if they have one; sorted, without repeats."""
    golds_differ: bool


def exact(questions: Sequence[Question], golds: dict[str, str]) -> tuple[ExactDuplicates, ...]:
    """Return sets of questions with equal text and options, ignoring case and spacing.

    Args:
        questions: questions of one benchmark.
        golds: the text of each question's right answer, by question id.
    """
    questions_by_content: dict[tuple[str, ...], list[Question]] = defaultdict(list)
    for question in questions:
        questions_by_content[fold(question.text), *(fold(option) for option in question.options.values())].append(
            question
        )
    return tuple(
        ExactDuplicates(
            questions=tuple(question.id for question in duplicates),
            groups=tuple(sorted({dataset_label(question) for question in duplicates})),
            golds_differ=len({fold(golds[question.id]) for question in duplicates}) > 1,
        )
        for duplicates in questions_by_content.values()
        if len(duplicates) > 1
    )


def dataset_label(question: Question) -> str:
    """Return a question's dataset, with its subject if it has one."""
    return f"{question.benchmark} ({question.group})" if question.group else question.benchmark


SHINGLE = 8
"""Number of words of a shingle, a run of words that is searched for."""
COPIED = 0.5
"""Share of a question's shingles from which a document counts as a near copy of it."""


class CorpusCopy(Struct, frozen=True, kw_only=True):
    """A document that holds most of a question's text."""

    question: str
    document: str
    share: float
    """Share of the question's shingles that occur in the document."""


class CorpusAudit(Struct, frozen=True, kw_only=True):
    """Questions and gold documents of a benchmark that a corpus contains."""

    documents: int
    sources: tuple[str, ...]
    """Ids of questions with a gold document in the corpus."""
    without_source: tuple[str, ...]
    """Ids of questions that name gold documents, none of which is in the corpus: no retriever can find them."""
    copies: tuple[CorpusCopy, ...]
    """The document with the largest share for each question that is (nearly) copied."""
    short: int
    """Number of questions of fewer than eight words, which are not searched for."""


def in_corpus(
    questions: Sequence[Question], golds: Mapping[str, Gold], documents: Iterable[tuple[str, str]]
) -> CorpusAudit:
    """Look for questions in (document id, text) pairs. Passages of one document may come in any order.

    The corpus is read once and not kept in memory. Copies are counted over a whole document, not over single passages.
    """
    ids_by_shingle: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = {}
    for question in questions:
        question_shingles = shingles(question.text)
        sizes[question.id] = len(question_shingles)
        for shingle in question_shingles:
            ids_by_shingle[shingle].append(question.id)
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    present = set()
    for document, text in documents:
        present.add(document)
        for shingle in shingles(text):
            for id in ids_by_shingle.get(shingle, ()):
                seen[id, document].add(shingle)
    best: dict[str, CorpusCopy] = {}
    for (id, document), question_shingles in seen.items():
        share = len(question_shingles) / sizes[id]
        if share >= COPIED and (id not in best or share > best[id].share):
            best[id] = CorpusCopy(question=id, document=document, share=share)
    ids_with_source = [question.id for question in questions if golds[question.id].documents]
    sources = {id for id in ids_with_source if present.intersection(golds[id].documents)}
    return CorpusAudit(
        documents=len(present),
        sources=tuple(id for id in ids_with_source if id in sources),
        without_source=tuple(id for id in ids_with_source if id not in sources),
        copies=tuple(best[question.id] for question in questions if question.id in best),
        short=sum(size == 0 for size in sizes.values()),
    )


def shingles(text: str) -> set[str]:
    """Return every run of eight words, without case and punctuation."""
    tokens = words(text)
    return {" ".join(tokens[start : start + SHINGLE]) for start in range(len(tokens) - SHINGLE + 1)}


class OptionAudit(Struct, frozen=True, kw_only=True):
    """The options of one dataset's multiple-choice questions."""

    dataset: str
    questions: int
    letters: dict[str, int]
    """Label → number of questions whose right option has it."""
    best_constant: float
    """Accuracy of always answering the most frequent label."""
    longest: float
    """Share of questions whose right option is the single longest one."""


def options(dataset: str, questions: Sequence[Question], golds: Sequence[Gold]) -> OptionAudit | None:
    """Audit one dataset's options; ``None`` if it has no multiple-choice question."""
    choices = [(question, gold) for question, gold in zip(questions, golds, strict=True) if question.kind == "choice"]
    if not choices:
        return None
    letters = Counter(gold.answer for _, gold in choices)
    labels = dict.fromkeys(label for question, _ in choices for label in question.options)
    longest = 0
    for question, gold in choices:
        lengths = {label: len(text) for label, text in question.options.items()}
        longest_labels = [label for label, length in lengths.items() if length == max(lengths.values())]
        longest += longest_labels == [gold.answer]
    return OptionAudit(
        dataset=dataset,
        questions=len(choices),
        letters={label: letters[label] for label in labels},
        best_constant=max(letters.values()) / len(choices),
        longest=longest / len(choices),
    )


_SAMPLE = 20
"""Number of questions of a dataset whose options are tried as replies."""
_FORMS = ('{"answer_choice": "%s"}', "%s", "The answer is %s.", "答案是%s。")
Read = Callable[[Question, str], str]
"""Function from a question and a reply to the label that is read; empty if none is read."""


class ReadForm(Struct, frozen=True, kw_only=True):
    """Number of replies of one form that are read as they are meant."""

    dataset: str
    example: str
    """Example of the form, preferably one that is misread."""
    read: int
    of: int


def replies(dataset: str, questions: Sequence[Question], read: Read) -> tuple[ReadForm, ...]:
    """Check how replies are read: each option of the first questions of a dataset, in the forms that agents answer
    in."""
    intended, forms = [(question, label) for question in questions[:_SAMPLE] for label in question.options], []
    for form in _FORMS if intended else ():
        misread = [form % label for question, label in intended if read(question, form % label) != label]
        example = misread[0] if misread else form % intended[0][1]
        forms.append(ReadForm(dataset=dataset, example=example, read=len(intended) - len(misread), of=len(intended)))
    return tuple(forms)


class Audit(Struct, frozen=True, kw_only=True):
    """Results of an audit."""

    benchmark: str
    version: str
    questions: int
    duplicates: tuple[ExactDuplicates, ...]
    options: tuple[OptionAudit, ...]
    replies: tuple[ReadForm, ...] = ()
    """One entry for each dataset with options and each form; empty if no reader is given."""
    corpus: CorpusAudit | None = None
    """Result for the corpus; ``None`` if no corpus was given."""


def audit(benchmark: Benchmark, documents: Iterable[tuple[str, str]] | None = None, read: Read | None = None) -> Audit:
    """Audit a benchmark; with `documents` (id, text) also the contents of a corpus, with `read` also the reading of
    replies."""
    golds = benchmark.golds
    answers = {q.id: q.options.get(golds[q.id].answer, golds[q.id].answer) for q in benchmark.questions}
    datasets = {
        name: [question for question in benchmark.questions if question.benchmark == name]
        for name in benchmark.datasets
    }
    audited = [options(name, members, [golds[q.id] for q in members]) for name, members in datasets.items()]
    forms = [form for name, members in datasets.items() for form in replies(name, members, read)] if read else []
    return Audit(
        benchmark=benchmark.name,
        version=benchmark.version,
        questions=len(benchmark),
        duplicates=exact(benchmark.questions, answers),
        options=tuple(option_audit for option_audit in audited if option_audit is not None),
        replies=tuple(forms),
        corpus=None if documents is None else in_corpus(benchmark.questions, golds, documents),
    )
