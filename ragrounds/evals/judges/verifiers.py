"""What says whether a text entails claims: a judge model, the overlap of words, or a model of natural language
inference (extra ``local``). Each gives one of three labels a claim, or none with the reason; how often each is right is
counted on pairs that people labelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ragrounds.base.contracts import Journal, Model, Prompts, Request
from ragrounds.base.errors import UserError
from ragrounds.base.files import broken, read_sheet, shown
from ragrounds.base.records import Call, Question, blank
from ragrounds.base.text import words
from ragrounds.evals.judges.corrected import PeopleAgreement
from ragrounds.evals.judges.verdict import CUT, EMPTY, FAILED, REFUSED, ask, call, objects, spoken
from ragrounds.evals.scorers.citations import marks_inside
from ragrounds.evals.scorers.judged import Said, VerdictForm, fenced
from ragrounds.evals.stats.agreement import compare_with_human
from ragrounds.graphs.shapes import sentences
from ragrounds.models.faults import CallFailed

ENTAILED, NEUTRAL, CONTRADICTED = LABELS = ("entailment", "neutral", "contradiction")
NLI_MODEL = "cross-encoder/nli-deberta-v3-base"
TRIES = 2
"""How often a judge is asked: what it does not say the second time is missing."""
_MOST = 200
"""Claims of a text; a reply with more is not usable."""
_BATCH = 20
"""Claims of one call; all calls on a text begin alike, so that a server can keep what it has read of it."""
_OVERLAP = 0.75
"""Share of a claim's words from which it counts as entailed by overlap."""
_PIECE = 250
"""Words of a text that a model of inference reads at a time; its window holds 512 tokens."""
_ALIKE = {
    **dict.fromkeys(("entailment", "entails", "entail", "support", "supports", "supported"), ENTAILED),
    **dict.fromkeys(("contradiction", "contradict", "contradicts", "refute", "refutes", "refuted"), CONTRADICTED),
    **dict.fromkeys(("neutral", "nei", "not enough info", "noinfo"), NEUTRAL),
}
"""What sheets of labels call the three."""
_ONE = threading.Lock()


class ClaimVerifier(Protocol):
    """Says whether a text entails claims."""

    async def __call__(self, text: str, claims: Sequence[str]) -> list[Said]:
        """The label of each claim, or an empty text and why there is none."""


def stated_sentences(text: str) -> list[str]:
    """The sentences of a text that can state something, with their marks of citation: no rule, and no line that leads
    to another with a colon (``Answer:``)."""
    split = sentences(marks_inside(text))
    return [one for one in split if any(map(str.isalnum, one)) and not one.rstrip("*_ ").endswith((":", "："))]


class AskedVerifier:
    """The judge: it splits texts into claims, and says what entails them. It is shown no id and no number of a
    passage."""

    def __init__(self, judge: Model, journal: Journal, prompts: Prompts, question: Question) -> None:
        self._judge, self._journal, self._prompts, self._question = judge, journal, prompts, question
        self.calls: list[Call] = []
        self.failed = False

    async def __call__(self, text: str, claims: Sequence[str]) -> list[Said]:
        """By calls of at most `_BATCH` claims, each asked again once."""
        said: list[Said] = []
        for start in range(0, len(claims), _BATCH):
            batch = claims[start : start + _BATCH]
            form = VerdictForm(tuple(f"c{number}" for number in range(1, len(batch) + 1)), LABELS)
            listed = [f"{axis}:\n<<<\n{fenced(one)}\n>>>" for axis, one in zip(form.axes, batch, strict=True)]
            texts = {"text": fenced(text), "claims": "\n\n".join(listed), "form": form.example}
            messages = self._prompts.render("judge/supports", self._question.language, **texts)
            made = await ask(self._judge, self._journal, messages, form, tries=TRIES, node="claims/verify")
            self.calls += made.calls
            self.failed = self.failed or made.failed
            said += [(made.values.get(axis, ""), made.reasons.get(axis, "")) for axis in form.axes]
        return said

    async def split(self, text: str) -> tuple[tuple[str, ...], str]:
        """The claims of a text, with their marks of citation, or why there are none that can be read. Without a judge
        these are its sentences."""
        if blank(text) or not hasattr(self._judge, "complete"):
            return tuple(stated_sentences(text)), ""
        fences = {"question": fenced(self._question.text), "text": fenced(text)}
        messages, why = self._prompts.render("judge/claims", self._question.language, **fences), EMPTY
        for occurrence in range(TRIES):
            request = Request(messages=messages, occurrence=occurrence)
            try:
                reply = await call(self._judge, self._journal, request, "claims/split", self.calls)
            except CallFailed:
                self.failed = True
                return (), FAILED
            found = [one["claims"] for one, _ in objects(spoken(reply.text)) if isinstance(one.get("claims"), list)]
            if found and len(found[-1]) <= _MOST and all(isinstance(one, str) for one in found[-1]):
                return tuple(one.strip() for one in found[-1] if one.strip()), ""
            why = {"length": CUT, "content_filter": REFUSED}.get(reply.finish, "no list of claims in the reply")
        return (), why


async def lexical(text: str, claims: Sequence[str]) -> list[Said]:
    """By words: entailed where the text holds three quarters of a claim's words, and every number in it. It never finds
    a contradiction, and takes a denial for the claim."""
    there = set(words(text))
    return [(ENTAILED if _held(set(words(claim)), there) else NEUTRAL, "") for claim in claims]


def _held(wanted: set[str], there: set[str]) -> bool:
    long = {word for word in wanted if len(word) > 3 or not word.isascii()}
    numbers = {word for word in wanted if any(letter.isdigit() for letter in word)}
    return numbers <= there and len(long & there) >= _OVERLAP * max(1, len(long))


async def nli(text: str, claims: Sequence[str]) -> list[Said]:
    """By a model of natural language inference: a piece of the text that entails a claim decides, then one that
    contradicts it.

    Raises:
        UserError: its libraries are not installed, or its weights cannot be read.
    """
    return await asyncio.to_thread(_inferred, text, claims)


def _inferred(text: str, claims: Sequence[str]) -> list[Said]:
    read = text.split()
    pieces = [" ".join(read[start : start + _PIECE]) for start in range(0, max(1, len(read)), _PIECE // 2)]
    with _ONE:
        model = _nli_model()
        names = {int(place): str(name).casefold() for place, name in model.model.config.id2label.items()}
        scores = model.predict([(piece, claim) for claim in claims for piece in pieces])
    best = [names[int(row.argmax())] for row in scores]
    found = [set(best[start : start + len(pieces)]) for start in range(0, len(best), len(pieces))]
    return [(next((label for label in (ENTAILED, CONTRADICTED) if label in one), NEUTRAL), "") for one in found]


@cache
def _nli_model() -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError:
        raise UserError("--verifier nli needs sentence-transformers: install ragrounds[local].") from None
    try:
        return CrossEncoder(NLI_MODEL)
    except (OSError, ValueError) as problem:
        said = " ".join(str(problem).split())[:200]
        raise UserError(f"--verifier nli cannot read the weights of {NLI_MODEL}: {said}") from None


BY_NAME: dict[str, ClaimVerifier] = {"lexical": lexical, "nli": nli}
"""Verifiers that ask no judge."""


async def confusion(path: Path, verify: ClaimVerifier) -> PeopleAgreement:
    """A verifier against people's labels of pairs: a CSV file with the columns ``text``, ``claim`` and ``label``
    (entailment, neutral, contradiction; also SciFact's and HealthVer's words for them). Claims of one text are a
    cluster.

    Raises:
        UserError: a broken file, a label that is none of these, or a verifier without any verdict.
    """
    by_text: dict[str, list[tuple[str, str]]] = {}
    for place, row in read_sheet(path, ("text", "claim", "label")):
        label = _ALIKE.get(row["label"].strip().casefold())
        if label is None:
            raise broken(path, f"the label {shown(row['label'])} is not one of {', '.join(LABELS)}", place)
        by_text.setdefault(row["text"], []).append((row["claim"], label))
    said, people, texts = list[str | None](), list[str](), list[str]()
    for text, pairs in by_text.items():
        said += [label or None for label, _ in await verify(text, [claim for claim, _ in pairs])]
        people += [label for _, label in pairs]
        texts += [text] * len(pairs)
    try:
        agreed = compare_with_human(said, people, texts)
    except ValueError:
        raise UserError(f"{path}: the verifier gave no verdict on any of its {len(people):,} pairs.") from None
    return PeopleAgreement(judge=agreed, unmatched=0, undecided=0, human_kappa=None, human_alpha=None)
