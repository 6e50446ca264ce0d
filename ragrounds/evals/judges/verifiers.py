"""Verifiers that decide whether a text entails claims: a judge model, the overlap of words, or a model of natural
language inference (extra ``local``).

Each gives one of three labels for a claim, or none with the reason. The accuracy of each is counted on pairs that
people labelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from ragrounds.base.chunks import chunks
from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.errors import UserError
from ragrounds.base.files import broken, quote_value, read_sheet
from ragrounds.base.records import Call, Question, Reply, blank
from ragrounds.base.replies import json_objects
from ragrounds.base.text import words
from ragrounds.evals.judges.corrected import PeopleAgreement
from ragrounds.evals.judges.verdict import CUT, FAILED, ask, ask_until_read, spoken
from ragrounds.evals.scorers.citations import marks_inside
from ragrounds.evals.scorers.judged import Said, VerdictForm, fenced
from ragrounds.evals.stats.agreement import compare_with_human
from ragrounds.graphs.shapes import sentences
from ragrounds.models.faults import CallFailed

ENTAILED, NEUTRAL, CONTRADICTED = LABELS = ("entailment", "neutral", "contradiction")
NLI_MODEL = "cross-encoder/nli-deberta-v3-base"
TRIES = 2
"""Number of times a judge is asked; a verdict that it does not give the second time is missing."""
_MOST = 200
"""Largest number of claims of a text; a reply with more is not usable."""
_BATCH = 20
"""Number of claims of one call; all calls on a text begin alike, so that a server can reuse its cached prefix."""
_OVERLAP = 0.75
"""Share of a claim's words from which it counts as entailed by overlap."""
_PIECE = 250
"""Number of words of a text that an inference model reads at a time; its window holds 512 tokens."""
_LABEL_NAMES = {
    **dict.fromkeys(("entailment", "entails", "entail", "support", "supports", "supported"), ENTAILED),
    **dict.fromkeys(("contradiction", "contradict", "contradicts", "refute", "refutes", "refuted"), CONTRADICTED),
    **dict.fromkeys(("neutral", "nei", "not enough info", "noinfo"), NEUTRAL),
}
"""Names of the three labels in sheets → label."""
_NLI_LOCK = threading.Lock()


class ClaimVerifier(Protocol):
    """Contract of a function that decides whether a text entails claims."""

    async def __call__(self, text: str, claims: Sequence[str]) -> list[Said]:
        """Return the label of each claim, or an empty label with the reason why it is missing."""


def stated_sentences(text: str) -> list[str]:
    """Return the sentences of a text that can state something, with their citation marks.

    Rules are left out, and so are lines that introduce another with a colon (``Answer:``).
    """
    candidates = sentences(marks_inside(text))
    return [
        sentence
        for sentence in candidates
        if any(map(str.isalnum, sentence)) and not sentence.rstrip("*_ ").endswith((":", "："))
    ]


class AskedVerifier:
    """Verifier by a judge: it splits texts into claims and decides which texts entail them.

    The judge sees no id and no number of a passage.
    """

    def __init__(self, judge: Model, journal: Journal, prompts: Prompts, question: Question) -> None:
        self._judge, self._journal, self._prompts, self._question = judge, journal, prompts, question
        self.calls: list[Call] = []
        self.failed = False

    async def __call__(self, text: str, claims: Sequence[str]) -> list[Said]:
        """Verify the claims by calls of at most `_BATCH` claims, each repeated once if needed."""
        labels: list[Said] = []
        for batch in chunks(claims, _BATCH):
            form = VerdictForm(tuple(f"c{number}" for number in range(1, len(batch) + 1)), LABELS)
            claim_texts = [f"{axis}:\n<<<\n{fenced(claim)}\n>>>" for axis, claim in zip(form.axes, batch, strict=True)]
            texts = {"text": fenced(text), "claims": "\n\n".join(claim_texts), "form": form.example}
            messages = self._prompts.render("judge/supports", self._question.language, **texts)
            judgement = await ask(self._judge, self._journal, messages, form, tries=TRIES, node="claims/verify")
            self.calls += judgement.calls
            self.failed = self.failed or judgement.failed
            labels += [(judgement.values.get(axis, ""), judgement.reasons.get(axis, "")) for axis in form.axes]
        return labels

    async def split(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return the claims of a text with their citation marks, or the reason why none can be read.

        Without a judge the claims are the text's sentences.
        """
        if blank(text) or not hasattr(self._judge, "complete"):
            return tuple(stated_sentences(text)), ""
        fences = {"question": fenced(self._question.text), "text": fenced(text)}
        messages = self._prompts.render("judge/claims", self._question.language, **fences)
        try:
            claims, reason = await ask_until_read(
                self._judge,
                self._journal,
                messages,
                _read_claims,
                self.calls,
                node="claims/split",
                tries=TRIES,
                occurrences=count(),
            )
        except CallFailed:
            self.failed = True
            return (), FAILED
        return claims or (), reason


def _read_claims(reply: Reply) -> tuple[tuple[str, ...] | None, str]:
    """Return the last list of claims in a reply, or the reason why it has none."""
    claim_lists = [
        parsed["claims"] for parsed, _, _ in json_objects(spoken(reply.text)) if isinstance(parsed.get("claims"), list)
    ]
    if claim_lists and len(claim_lists[-1]) <= _MOST and all(isinstance(claim, str) for claim in claim_lists[-1]):
        return tuple(claim.strip() for claim in claim_lists[-1] if claim.strip()), ""
    return None, CUT if reply.finish == "length" else "no list of claims in the reply"


async def lexical(text: str, claims: Sequence[str]) -> list[Said]:
    """Verify claims by their words.

    A claim is entailed if the text contains three quarters of its words and every number in it. This never finds a
    contradiction, and takes a denial for the claim.
    """
    text_words = set(words(text))
    return [(ENTAILED if _is_covered(set(words(claim)), text_words) else NEUTRAL, "") for claim in claims]


def _is_covered(claim_words: set[str], text_words: set[str]) -> bool:
    long_words = {word for word in claim_words if len(word) > 3 or not word.isascii()}
    numbers = {word for word in claim_words if any(letter.isdigit() for letter in word)}
    return numbers <= text_words and len(long_words & text_words) >= _OVERLAP * max(1, len(long_words))


async def nli(text: str, claims: Sequence[str]) -> list[Said]:
    """Verify claims by a model of natural language inference.

    A piece of the text that entails a claim decides, then one that contradicts it.

    Raises:
        UserError: the libraries are not installed, or the weights cannot be read.
    """
    return await asyncio.to_thread(_infer, text, claims)


def _infer(text: str, claims: Sequence[str]) -> list[Said]:
    text_words = text.split()
    pieces = [" ".join(text_words[start : start + _PIECE]) for start in range(0, max(1, len(text_words)), _PIECE // 2)]
    with _NLI_LOCK:
        model = _nli_model()
        names = {int(index): str(name).casefold() for index, name in model.model.config.id2label.items()}
        scores = model.predict([(piece, claim) for claim in claims for piece in pieces])
    best = [names[int(row.argmax())] for row in scores]
    labels_by_claim = [set(best[start : start + len(pieces)]) for start in range(0, len(best), len(pieces))]
    return [
        (next((label for label in (ENTAILED, CONTRADICTED) if label in labels), NEUTRAL), "")
        for labels in labels_by_claim
    ]


@cache
def _nli_model() -> Any:
    try:
        from sentence_transformers import CrossEncoder
    except ImportError:
        raise UserError("--verifier nli needs sentence-transformers: install ragrounds[local].") from None
    try:
        return CrossEncoder(NLI_MODEL)
    except (OSError, ValueError) as problem:
        message = " ".join(str(problem).split())[:200]
        raise UserError(f"--verifier nli cannot read the weights of {NLI_MODEL}: {message}") from None


BY_NAME: dict[str, ClaimVerifier] = {"lexical": lexical, "nli": nli}
"""Verifiers that ask no judge."""


async def confusion(path: Path, verify: ClaimVerifier) -> PeopleAgreement:
    """Compare a verifier with people's labels of pairs.

    The pairs are in a CSV file with the columns ``text``, ``claim`` and ``label`` (entailment, neutral, contradiction;
    also SciFact's and HealthVer's words for them). Claims of one text are a cluster.

    Raises:
        UserError: the file is broken; a label is unknown; the verifier gives no verdict at all.
    """
    by_text: dict[str, list[tuple[str, str]]] = {}
    for line, row in read_sheet(path, ("text", "claim", "label")):
        label = _LABEL_NAMES.get(row["label"].strip().casefold())
        if label is None:
            raise broken(path, f"the label {quote_value(row['label'])} is not one of {', '.join(LABELS)}", line)
        by_text.setdefault(row["text"], []).append((row["claim"], label))
    verifier_labels, people_labels, texts = list[str | None](), list[str](), list[str]()
    for text, pairs in by_text.items():
        verifier_labels += [label or None for label, _ in await verify(text, [claim for claim, _ in pairs])]
        people_labels += [label for _, label in pairs]
        texts += [text] * len(pairs)
    try:
        agreement = compare_with_human(verifier_labels, people_labels, texts)
    except ValueError:
        raise UserError(f"{path}: the verifier gave no verdict on any of its {len(people_labels):,} pairs.") from None
    return PeopleAgreement(judge=agreement, unmatched=0, undecided=0, human_kappa=None, human_alpha=None)
