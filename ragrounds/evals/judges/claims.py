"""Judging of answers by claims and by citations: :mod:`ragrounds.evals.scorers.ragchecker`,
:mod:`ragrounds.evals.scorers.citations`.

A judge splits the answer and the reference into claims, one call each (a benchmark's statements need none). A verifier
decides which texts entail which claims, all claims on one text together. An unreadable reply is requested once more and
is then missing. Without a judge, by ``--verifier lexical`` or ``nli`` alone, sentences are the claims.

The meaning of ``[3]`` in an answer is read from the prompts as they were sent: the passage whose text follows this
number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.records import Attempt, Gold, Left, Passage, Question, Score, Verdict, blank
from ragrounds.evals.benchmarks.benchmark import has_judged_facts, must_have, nice_to_have
from ragrounds.evals.judges.attempts import JudgedAnswer, judge_code
from ragrounds.evals.judges.labels import LabelAgreement
from ragrounds.evals.judges.methods import JudgeResources
from ragrounds.evals.judges.verifiers import BY_NAME, ENTAILED, AskedVerifier, confusion, stated_sentences
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.citations import (
    FABRICATED_CITATIONS,
    OVER_CITING,
    CitationFigures,
    CitationMethod,
    CitedSentence,
    published_citations,
    read_citations,
    weigh_citations,
)
from ragrounds.evals.scorers.claim_record import ClaimRecord, ClaimScorer, VerifiedMethod
from ragrounds.evals.scorers.judged import Said
from ragrounds.evals.trace.traces import TracedCall, calls, traced_calls
from ragrounds.graphs.shapes import sentences
from ragrounds.tools.index.embedders import joined

_HEAD = 80
"""Number of first characters by which a passage is located in a prompt that may have cut it."""
_LABEL = re.compile(
    r"^\W*(?:(?:document|doc|passage|source|context|reference)s?\b)?\s*[\[(#]?\s*(\d{1,3})\b[^\n]{0,12}\n?\s*\Z",
    re.I | re.M,
)
_FIRST_PMID = 1_000
"""Smallest number of a citation that is no number of a prompt."""
Sources = tuple[tuple[Passage, ...], Mapping[int, int] | None]
"""Passages that an attempt retrieved, and number → index of the passage that a prompt showed under it, or ``None`` if
not known."""


def sources_of(traced: Sequence[TracedCall]) -> Sources:
    """Return the passages of an attempt's calls, each once, and their numbers in its prompts. The last prompt
    counts."""
    passages: dict[str, Passage] = {}
    index_by_number: dict[int, int] = {}
    for traced_call in traced:
        passages |= {passage.id: passage for passage in traced_call.passages if passage.id not in passages}
        prompt = "\n".join(message.content for message in traced_call.asked.messages) if traced_call.asked else ""
        for index, passage in enumerate(passages.values() if prompt else ()):
            title, text = passage.title.strip(), passage.text.strip() or passage.title.strip()
            head, is_complete = text[:_HEAD], text in prompt
            for match in re.finditer(re.escape(head), prompt) if head else ():
                if is_complete and not prompt.startswith(text, match.start()):
                    continue  # another passage with the same beginning
                before = prompt[max(0, match.start() - len(title) - 60) : match.start()]
                before = re.sub(r"\(Title:\s*\)", "", before.replace(title, "") if title else before)
                label = _LABEL.search(before[-_HEAD:])  # a short text only: on blanks the time grows with their cube
                if label:
                    index_by_number[int(label[1])] = index
    is_known = bool(index_by_number) or (len(traced) > 0 and not passages)
    return tuple(passages.values()), index_by_number if is_known else None


def imported_passages(attempt: Attempt) -> list[Passage]:
    """Return the contexts that an imported answer came with, in order."""
    left = [event.changes for event in attempt.events if isinstance(event, Left)]
    rows = left[-1].get("passages") if left else None
    contexts = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [
        Passage(
            id=str(row.get("id") or number),
            document=str(row.get("id") or number),
            title=str(row.get("title") or ""),
            text=str(row.get("text") or ""),
            corpus="imported",
        )
        for number, row in enumerate(contexts, 1)
    ]


def reference_of(question: Question, gold: Gold) -> tuple[str, tuple[str, ...]]:
    """Return the reference text of a question, and the statements that it consists of if they are known."""
    statements = (*must_have(gold), *nice_to_have(gold)) if has_judged_facts(question) else ()
    return gold.answer if gold.answer.strip() else "\n".join(statements), statements


def _pmids(passages: Sequence[Passage]) -> dict[int, int]:
    """Return PMID → index of the passage whose id or document names it."""
    return {
        int(pmid): index
        for index, passage in enumerate(passages)
        for pmid in re.findall(r"(?<!\d)\d{4,9}(?!\d)", f"{passage.document} {passage.id}")
    }


class AttemptVerification:
    """AttemptVerification of one attempt: its verifier and the verdicts so far."""

    def __init__(self, asked_verifier: AskedVerifier, verifier: str) -> None:
        self.asked_verifier, self._verify = asked_verifier, BY_NAME.get(verifier, asked_verifier)
        self.verdicts: list[tuple[str, Said]] = []
        """Each claim with its verdict, once for every text that it was compared with."""

    async def entails(self, text: str, claims: Sequence[str]) -> tuple[bool | None, ...]:
        """Return whether a text entails each claim. An empty text entails nothing and is not shown to a verifier."""
        if not claims or blank(text):
            return (False,) * len(claims)
        labels = await self._verify(text, claims)
        self.verdicts += zip(claims, labels, strict=True)
        return tuple(label == ENTAILED if label else None for label, _ in labels)


def passages_together(premises: Sequence[str]) -> str:
    """Return passages as one text, the best last."""
    return "\n\n".join(reversed(premises))


class ClaimJudge(Struct, frozen=True, kw_only=True):
    """Judge of attempts by entailment of claims (contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`)."""

    method: VerifiedMethod
    traced: Callable[[Attempt], Sequence[TracedCall]]
    """Function that returns the calls of an attempt."""
    verifier: str = "llm"

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the method's scorers."""
        return tuple(scorer.name for scorer in self.method.scorers)

    @property
    def spec(self) -> str:
        """Name of the verifier, for use as a judge that asks no model."""
        return self.verifier

    async def close(self) -> None:
        """Do nothing; there is nothing to close."""

    @property
    def code(self) -> str:
        """Digest of the method, its prompts, the parser and the verifier."""
        return judge_code(self.method, verifier=self.verifier)

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Split texts into claims, verify the claims and compute the scores."""
        if attempt.status == "not_run":
            reading = read_long(attempt)
            missing = (
                scorer.scored(attempt, None, reading, reason=reading.reason or "not run")
                for scorer in self.method.scorers
            )
            return JudgedAnswer(scores=tuple(missing))
        verifying = AttemptVerification(AskedVerifier(judge, journal, prompts, question), self.verifier)
        compute_scores = self._by_citations if isinstance(self.method, CitationMethod) else self._by_claims
        scores = await compute_scores(attempt, question, gold, verifying)
        verdicts = tuple(
            Verdict(
                question_id=question.id, judge=judge.spec, axis=claim, first=attempt.run, outcome=label, reason=reason
            )
            for claim, (label, reason) in verifying.verdicts
        )
        asked_verifier = verifying.asked_verifier
        return JudgedAnswer(
            scores=tuple(scores), verdicts=verdicts, calls=tuple(asked_verifier.calls), failed=asked_verifier.failed
        )

    async def against_people(self, path: Path, judge: Model, journal: Journal, prompts: Prompts) -> LabelAgreement:
        """Return the agreement of the verifier's labels with people's
        (:func:`ragrounds.evals.judges.verifiers.confusion`)."""
        empty_question = Question(id="", benchmark="", text="", kind="long")
        return await confusion(
            path, BY_NAME.get(self.verifier) or AskedVerifier(judge, journal, prompts, empty_question)
        )

    def _sources(self, attempt: Attempt) -> Sources:
        """Return the passages of an attempt and their numbers.

        Numbers in an imported answer mean the contexts of its row, in order; without contexts they are not known.
        """
        traced = self.traced(attempt)
        if not traced or any(traced_call.call.key for traced_call in traced):
            return sources_of(traced)
        passages = tuple(imported_passages(attempt))
        return passages, {number: number - 1 for number in range(1, len(passages) + 1)} if passages else None

    async def _by_claims(
        self, attempt: Attempt, question: Question, gold: Gold, verifying: AttemptVerification
    ) -> list[Score]:
        """Return every score of the record of claims, against the reference and every retrieved passage."""
        (passages, index_by_number), asked_verifier = self._sources(attempt), verifying.asked_verifier
        answer = answer_text(attempt, question)
        reference, statements = reference_of(question, gold)
        if not any(scorer.reference for scorer in self.method.scorers if isinstance(scorer, ClaimScorer)):
            statements, reference = (), ""  # no call is spent on what no figure needs
        marked_claims, unsplit = await asked_verifier.split(answer)
        gold_claims, unsplit_gold = (statements, "") if statements else await asked_verifier.split(reference)
        split_results = (("the answer's claims", unsplit), ("the reference's claims", unsplit_gold))
        verifying.verdicts += [(name, ("", reason)) for name, reason in split_results if reason]
        shown_numbers = {**_pmids(passages), **(index_by_number or {})}
        cited_claims = [read_citations(claim, shown_numbers) for claim in marked_claims]
        claims = tuple(cited_claim.text for cited_claim in cited_claims)
        premises = [joined(passage.title, passage.text, "sentence") for passage in passages]
        if self.method.together and premises:
            premises = [passages_together(premises)]
        by_text = [await verifying.entails(text, (*claims, *gold_claims)) for text in premises]
        rows = tuple(zip(*by_text, strict=True)) if by_text else ((),) * len((*claims, *gold_claims))
        record = ClaimRecord(
            claims=claims,
            cites=tuple(cited_claim.places for cited_claim in cited_claims),
            gold=gold_claims,
            by_gold=await verifying.entails(reference, claims),
            by_answer=await verifying.entails(answer, gold_claims),
            by_passages=rows[: len(claims)],
            gold_by_passages=rows[len(claims) :],
        )
        details = {
            "claim-precision": ("not in the reference", claims, record.by_gold),
            "claim-recall": ("not in the answer", gold_claims, record.by_answer),
            **dict.fromkeys(
                ("supported-claims", "supported-claims-together"),
                ("in no passage", claims, [True in row or None in row for row in record.by_passages]),
            ),
        }
        scores, missing = list[Score](), sum(not label for _, (label, _) in verifying.verdicts)
        for scorer in (scorer for scorer in self.method.scorers if isinstance(scorer, ClaimScorer)):
            reason = f"judge: {unsplit or unsplit_gold}" if unsplit or (scorer.reference and unsplit_gold) else ""
            if scorer.reference and not reference.strip():
                reason = "the question has no reference answer"
            elif scorer.passages and not passages:
                reason = "the attempt retrieved no passages, or the journal does not hold them"
            value = None if reason else scorer.figure(record)
            if value is None and not reason:
                without_verdicts = (
                    f"judge: no verdict on {missing} of {len(verifying.verdicts)} pairs of text and claim"
                )
                reason = without_verdicts if missing else "the answer claims nothing"
            if value is not None and scorer.name in details:
                description, listed, verdicts = details[scorer.name]
                failing = [text for text, verdict in zip(listed, verdicts, strict=True) if verdict is False]
                reason = f"{description}: {'; '.join(failing)}" if failing else ""
            record_json = msgspec.json.encode(record).decode() if scorer is self.method.scorers[-1] else ""
            scores.append(scorer.scored(attempt, value, read_long(attempt, question), record_json, reason))
        return scores

    async def _by_citations(
        self, attempt: Attempt, question: Question, gold: Gold, verifying: AttemptVerification
    ) -> list[Score]:
        """Return ALCE's figures, the share of unneeded citations, and the number of citations of passages that were
        never shown."""
        passages, index_by_number = self._sources(attempt)
        shown_numbers = {**_pmids(passages), **(index_by_number or {})}
        published = isinstance(self.method, CitationMethod) and self.method.published
        cited_sentences = [
            published_citations(sentence, len(passages)) if published else read_citations(sentence, shown_numbers)
            for sentence in (sentences(attempt.text) if published else stated_sentences(answer_text(attempt, question)))
        ]
        fabricated = [number for cited_sentence in cited_sentences for number in cited_sentence.fabricated]
        unread = [mark for cited_sentence in cited_sentences for mark in cited_sentence.unread]
        unread_marks = f"not read as citations: {len(unread):,}, such as {unread[0]}" if unread else ""
        reading, missing_reason = (
            read_long(attempt, question),
            "judge: a verdict is missing" if cited_sentences else "there is no sentence",
        )
        if index_by_number is None and not published and any(number < _FIRST_PMID for number in fabricated):
            missing_reason = "which passages the numbers mean is not known: no prompt in the journal shows them"
            return [scorer.scored(attempt, None, reading, reason=missing_reason) for scorer in self.method.scorers]
        texts = [joined(passage.title, passage.text, "sentence") for passage in passages]
        figures = await _weigh(cited_sentences, texts, verifying)
        empty_value = None if published else 0.0  # ALCE's mean is over answers that have a sentence, this one over all
        unneeded = None if cited_sentences and figures.precision is None else figures.unneeded / max(1, figures.cited)
        values = {OVER_CITING.name: unneeded, FABRICATED_CITATIONS.name: float(len(fabricated))}
        scores = []
        for scorer in self.method.scorers:
            figure = figures.recall if "recall" in scorer.name else figures.precision
            value = values.get(scorer.name, figure if cited_sentences else empty_value)
            never_shown = f"never shown: {', '.join(f'[{number}]' for number in fabricated)}" if fabricated else ""
            reasons = [never_shown, unread_marks] if scorer is FABRICATED_CITATIONS else [unread_marks]
            reason = missing_reason if value is None else "; ".join(filter(None, reasons))
            scores.append(scorer.scored(attempt, value, reading, reason=reason))
        return scores


async def _weigh(
    cited: Sequence[CitedSentence], texts: Sequence[str], verifying: AttemptVerification
) -> CitationFigures:
    """Return ALCE's figures; each pair of sentence and passages is verified once."""
    verdicts: dict[tuple[int, tuple[int, ...]], bool | None] = {}
    weighing, verdict = weigh_citations(cited), None
    try:
        while True:
            number, indices = pair = weighing.send(verdict)
            if pair not in verdicts:
                premise = "\n".join(texts[index] for index in indices)
                (verdicts[pair],) = await verifying.entails(premise, (cited[number].text,))
            verdict = verdicts[pair]
    except StopIteration as done:
        figures: CitationFigures = done.value
        return figures


def open_judge(method: VerifiedMethod, means: JudgeResources) -> ClaimJudge:
    """Return the judge of attempts for this method."""

    def traced(attempt: Attempt) -> Sequence[TracedCall]:
        """Return the calls of an attempt, with prompts and passages."""
        return traced_calls(means.store, list(calls(attempt.events)))

    return ClaimJudge(method=method, traced=traced, verifier=means.verifier)
