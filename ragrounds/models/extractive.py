"""Built-in baseline: no language model, no key, no network, no weights.

It reads the same prompts as a chat model and picks the option that the passages support best, by word overlap, as the
information-retrieval solvers did that were the baselines of multiple-choice science questions (Clark et al., 2016,
"Combining Retrieval, Statistics, and Inference to Answer Elementary Science Questions"). It answers long questions with
the passages' best sentences. It shows that a pipeline works and what retrieval alone brings; it says nothing about
what a language model can do.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.contracts import Continuation, Request
from ragrounds.base.digests import code_digest
from ragrounds.base.records import Fault, Reply, Usage
from ragrounds.models import tokens
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import FREE
from ragrounds.models.request_arguments import ARGUMENTS, refuse_arguments

SPEC = "baseline:extractive"
_CODE = code_digest(__name__)

_DOCUMENT = re.compile(r"^Document \[\d+\](?: \(Title: .*\))?$", re.MULTILINE)
_OPTION = re.compile(r"^([A-Z0-9]{1,3})\. (.*)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9])")
_TERM = re.compile(r"[a-z0-9]+")
_STOP = frozenset(
    "a an and are as at be been being but by can could did do does for from had has have he her his how if in into is "
    "it its may might more most no nor not of on or our she should so such than that the their them then there these "
    "they this those to was we were what when where which while who whom whose why will with would you your".split()
)
_NEGATIVE = frozenset("no not nor without never neither cannot fail failed fails absent lack lacks unlikely".split())
_DOUBTFUL = frozenset(
    "unclear uncertain mixed inconclusive inconsistent conflicting insufficient unproven debated unknown some "
    "whether".split()
)


class _Task(Struct, frozen=True):
    question: str
    options: dict[str, str]
    documents: tuple[str, ...]


class ExtractiveBaseline:
    """Model by interface only (contract: :class:`ragrounds.base.contracts.Model`). It is deterministic and free."""

    spec = SPEC
    window: int | None = None
    continues: Continuation = "prefix"
    """True, since it reads only the prompt."""

    @property
    def code(self) -> str:
        """Digest of this module's code, a part of the key of its calls."""
        return _CODE

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return tokens.count(text)

    def cut(self, text: str, size: int, /) -> str:
        """Return the longest beginning of a text that has at most `size` tokens."""
        return tokens.cut(text, size)

    def price(self, reply: Reply) -> float | None:
        """Return 0 dollars."""
        return FREE.dollars(reply.usage or Usage())

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Return the best supported option as JSON; for a long question, the best sentences of its passages.

        Raises:
            CallFailed: the prompt is not one of this package.
            StopRun: the request asks for sampling, a form or probabilities, which it does not support.
        """
        refuse_arguments(request, SPEC, ARGUMENTS)
        task = _read(request.messages[-1].content)
        if task.options:
            letter, reason = _choose(task)
            text = json.dumps({"step_by_step_thinking": reason, "answer_choice": letter}, ensure_ascii=False)
        else:
            text = _extract(task)
        prompt_tokens = sum(tokens.count(message.content) for message in request.messages)
        return Reply(text=text, usage=Usage(input=prompt_tokens, output=tokens.count(text)), model=SPEC)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _read(prompt: str) -> _Task:
    """Parse one of this package's prompts by its headings, from the end: documents may contain headings too."""
    start = ("\n" + prompt).rfind("\n### Question\n")
    if start < 0:
        raise CallFailed(
            "bad_request",
            f"{SPEC} reads only prompts with the heading '### Question' (and '### Documents', '### Options'), as in "
            "the package's prompts",
        )
    documents = prompt[:start].partition("### Documents\n")[2]
    question, _, options = prompt[start + len("### Question\n") :].partition("\n### Options\n")
    question, options = (part.partition("\n### Answer")[0].strip() for part in (question, options))
    passages = [part.strip() for part in _DOCUMENT.split(documents) if part.strip()]
    found = [] if documents.strip() == "(none found)" else passages
    return _Task(question, dict(_OPTION.findall(options)), tuple(found))


def _choose(task: _Task) -> tuple[str, str]:
    letters = list(task.options)
    # The fallback depends on the question alone: it is the same on every machine, and no letter is favoured.
    fallback_letter = letters[int(hashlib.sha256(task.question.encode()).hexdigest(), 16) % len(letters)]
    if not task.documents:
        return (
            fallback_letter,
            "No passages were given; this baseline knows nothing by itself, so the letter is chosen at random.",
        )
    sentences = [s for document in task.documents for s in _SENTENCE.split(document)]
    weight = _weights(sentences)
    question_terms = _terms(task.question)
    if {text.lower() for text in task.options.values()} <= {"yes", "no", "maybe"}:
        return _judge(task, sentences, weight, question_terms)
    scores = {letter: _support(text, task.documents, weight, question_terms) for letter, text in task.options.items()}
    pick = max(letters, key=lambda letter: scores[letter][0])
    if scores[pick][0] <= 0:
        return fallback_letter, "No passage supports any option, so the letter is chosen at random."
    return pick, f"Best supported by: {scores[pick][1]}"


def _support(
    option: str, documents: Sequence[str], weight: dict[str, float], question_terms: frozenset[str]
) -> tuple[float, str]:
    """Return how well the best pair of adjacent sentences covers the option and the question, and that pair."""
    option_terms = _terms(option) - question_terms or _terms(option)
    # Exact sums: a set's order differs between processes, and the last bit of a sum decides between equal options.
    whole_option = math.fsum(weight.get(term, _RARE) for term in option_terms) or 1.0
    whole_asked = math.fsum(weight.get(term, 0.0) for term in question_terms) or 1.0
    best, where = 0.0, ""
    for rank, document in enumerate(documents):
        sentences = _SENTENCE.split(document)
        context = _share(question_terms, _terms(document), weight) / whole_asked
        for start in range(len(sentences)):
            window = " ".join(sentences[start : start + 2])
            window_terms = _terms(window)
            covered = _share(option_terms, window_terms, weight) / whole_option
            near = _share(question_terms, window_terms, weight) / whole_asked
            score = covered * (0.2 + near + context) / (1 + 0.02 * rank)
            if score > best:
                best, where = score, window
    return best, where


_RARE = 3.0
"""Weight of an option's term that no passage holds: it counts against the option."""


def _judge(
    task: _Task, sentences: Sequence[str], weight: dict[str, float], question_terms: frozenset[str]
) -> tuple[str, str]:
    """Answer yes, no or maybe by the cue words of the sentence that is nearest to the question."""
    letters = {text.lower(): letter for letter, text in task.options.items()}
    best = max(sentences, key=lambda sentence: _share(question_terms, _terms(sentence), weight), default="")
    words = set(_TERM.findall(best.lower()))
    verdict = "maybe" if words & _DOUBTFUL and "maybe" in letters else "no" if words & _NEGATIVE else "yes"
    return letters.get(verdict, next(iter(task.options))), f"The nearest sentence reads as {verdict!r}: {best}"


def _extract(task: _Task) -> str:
    if not task.documents:
        return "No passages were given, and this baseline knows nothing by itself."
    sentences = [(s, rank) for rank, document in enumerate(task.documents) for s in _SENTENCE.split(document)]
    weight, question_terms = _weights([s for s, _ in sentences]), _terms(task.question)
    context = [_share(question_terms, _terms(document), weight) for document in task.documents]
    order = sorted(
        range(len(sentences)),
        key=lambda i: -(_share(question_terms, _terms(sentences[i][0]), weight) + context[sentences[i][1]]),
    )
    return " ".join(sentences[i][0] for i in sorted(order[:4]))


def _share(terms: frozenset[str], other_terms: frozenset[str], weight: dict[str, float]) -> float:
    return math.fsum(weight.get(term, 0.0) for term in terms & other_terms)


def _weights(sentences: Sequence[str]) -> dict[str, float]:
    counts = Counter(term for sentence in sentences for term in _terms(sentence))
    return {term: math.log(1 + len(sentences) / (0.5 + count)) for term, count in counts.items()}


@functools.lru_cache(maxsize=16384)
def _terms(text: str) -> frozenset[str]:
    words = [word for word in _TERM.findall(text.lower()) if word not in _STOP]
    return frozenset(_stemmer().stemWords(words))


@functools.lru_cache(maxsize=1)
def _stemmer():  # type: ignore[no-untyped-def]
    import Stemmer

    return Stemmer.Stemmer("english")
