"""How answers are judged by claims and by citations: :mod:`ragrounds.evals.scorers.ragchecker`,
:mod:`ragrounds.evals.scorers.citations`.

A judge splits the answer and the reference into claims, one call each (a benchmark's statements need none), and a
verifier says which texts entail which claims, all claims on one text together. What cannot be read is asked for once
more, and is then missing. Without a judge, by ``--verifier lexical`` or ``nli`` alone, sentences are the claims.

What ``[3]`` in an answer means is read from the prompts as they were sent: the passage whose text stands there behind
this number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.records import Attempt, Gold, Passage, Question, Score, Verdict, blank
from ragrounds.evals.benchmarks.benchmark import for_a_judge, must_have, nice_to_have
from ragrounds.evals.judges.attempts import JudgedAnswer, judge_code
from ragrounds.evals.judges.labels import LabelAgreement
from ragrounds.evals.judges.methods import JudgeMeans
from ragrounds.evals.judges.verifiers import BY_NAME, ENTAILED, AskedVerifier, confusion, stated_sentences
from ragrounds.evals.scorers.answer_status import read_long
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
"""Letters of a passage's text by which it is found in a prompt, which may have cut it."""
_LABEL = re.compile(
    r"^\W*(?:(?:document|doc|passage|source|context|reference)s?\b)?\s*[\[(#]?\s*(\d{1,3})\b[^\n]{0,12}\n?\s*\Z",
    re.I | re.M,
)
Sources = tuple[tuple[Passage, ...], Mapping[int, int] | None]
"""The passages that an attempt found, and number → place of the passage that a prompt showed under it; ``None``: it is
not known."""


def sources_of(traced: Sequence[TracedCall]) -> Sources:
    """The passages of an attempt's calls, each once, and their numbers in its prompts; the last prompt counts."""
    found: dict[str, Passage] = {}
    shown: dict[int, int] = {}
    for one in traced:
        found |= {passage.id: passage for passage in one.passages if passage.id not in found}
        prompt = "\n".join(message.content for message in one.asked.messages) if one.asked else ""
        for place, passage in enumerate(found.values() if prompt else ()):
            title, text = passage.title.strip(), passage.text.strip() or passage.title.strip()
            head, whole = text[:_HEAD], text in prompt
            for at in re.finditer(re.escape(head), prompt) if head else ():
                if whole and not prompt.startswith(text, at.start()):
                    continue  # another passage that begins alike
                before = prompt[max(0, at.start() - len(title) - 60) : at.start()]
                before = re.sub(r"\(Title:\s*\)", "", before.replace(title, "") if title else before)
                label = _LABEL.search(before[-_HEAD:])  # nothing long: of blanks its time grows with their cube
                if label:
                    shown[int(label[1])] = place
    known = bool(shown) or (len(traced) > 0 and not found)
    return tuple(found.values()), shown if known else None


class _Verifying:
    """One attempt before a verifier: what was asked, what was said."""

    def __init__(self, asked: AskedVerifier, verifier: str) -> None:
        self.asked, self._verify = asked, BY_NAME.get(verifier, asked)
        self.said: list[tuple[str, Said]] = []
        """Each claim with what was said of it, once for every text that it was set against."""

    async def entails(self, text: str, claims: Sequence[str]) -> tuple[bool | None, ...]:
        """Whether a text entails each claim; an empty text entails nothing, and is put to nobody."""
        if not claims or blank(text):
            return (False,) * len(claims)
        said = await self._verify(text, claims)
        self.said += zip(claims, said, strict=True)
        return tuple(label == ENTAILED if label else None for label, _ in said)


class ClaimJudge(Struct, frozen=True, kw_only=True):
    """Judges attempts by what entails what (contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`)."""

    method: VerifiedMethod
    traced: Callable[[Attempt], Sequence[TracedCall]]
    """The calls of an attempt."""
    verifier: str = "llm"

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the method's scorers."""
        return tuple(scorer.name for scorer in self.method.scorers)

    @property
    def spec(self) -> str:
        """Its name where it stands in a judge's place, since the verifier asks none."""
        return self.verifier

    async def close(self) -> None:
        """There is nothing to close."""

    @property
    def code(self) -> str:
        """The digest of the method, its prompts, the parser and the verifier."""
        return judge_code(self.method, verifier=self.verifier)

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Split, verify, count."""
        if attempt.status == "not_run":
            read = read_long(attempt)
            missing = (one.scored(attempt, None, read, reason=read.reason or "not run") for one in self.method.scorers)
            return JudgedAnswer(scores=tuple(missing))
        verifying = _Verifying(AskedVerifier(judge, journal, prompts, question), self.verifier)
        way = self._by_citations if isinstance(self.method, CitationMethod) else self._by_claims
        scores = await way(attempt, question, gold, verifying)
        verdicts = tuple(
            Verdict(question_id=question.id, judge=judge.spec, axis=claim, first=attempt.run, outcome=made, reason=why)
            for claim, (made, why) in verifying.said
        )
        asked = verifying.asked
        return JudgedAnswer(scores=tuple(scores), verdicts=verdicts, calls=tuple(asked.calls), failed=asked.failed)

    async def against_people(self, path: Path, judge: Model, journal: Journal, prompts: Prompts) -> LabelAgreement:
        """Its verifier's labels against people's (:func:`ragrounds.evals.judges.verifiers.confusion`)."""
        nothing = Question(id="", benchmark="", text="", kind="long")
        return await confusion(path, BY_NAME.get(self.verifier) or AskedVerifier(judge, journal, prompts, nothing))

    async def _by_claims(self, attempt: Attempt, question: Question, gold: Gold, verifying: _Verifying) -> list[Score]:
        """Every figure of the record of claims, against the reference and every passage that was found."""
        (passages, shown), asked = sources_of(self.traced(attempt)), verifying.asked
        stated = (*must_have(gold), *nice_to_have(gold)) if for_a_judge(question) else ()
        reference = gold.answer if gold.answer.strip() else "\n".join(stated)
        marked, why = await asked.split(attempt.text)
        wanted, lost = (stated, "") if stated else await asked.split(reference)
        lists = (("the answer's claims", why), ("the reference's claims", lost))
        verifying.said += [(name, ("", reason)) for name, reason in lists if reason]
        cited = [read_citations(claim, shown or {}) for claim in marked]
        claims = tuple(one.text for one in cited)
        by_text = [
            await verifying.entails(joined(passage.title, passage.text, "sentence"), (*claims, *wanted))
            for passage in passages
        ]
        rows = tuple(zip(*by_text, strict=True)) if by_text else ((),) * len((*claims, *wanted))
        record = ClaimRecord(
            claims=claims,
            cites=tuple(one.places for one in cited),
            gold=wanted,
            by_gold=await verifying.entails(reference, claims),
            by_answer=await verifying.entails(attempt.text, wanted),
            by_passages=rows[: len(claims)],
            gold_by_passages=rows[len(claims) :],
        )
        listed = {
            "claim-precision": ("not in the reference", claims, record.by_gold),
            "claim-recall": ("not in the answer", wanted, record.by_answer),
            "supported-claims": ("in no passage", claims, [True in row or None in row for row in record.by_passages]),
        }
        made, missing = list[Score](), sum(not label for _, (label, _) in verifying.said)
        for scorer in (one for one in self.method.scorers if isinstance(one, ClaimScorer)):
            lacks = f"judge: {why or lost}" if why or (scorer.reference and lost) else ""
            if scorer.reference and not reference.strip():
                lacks = "the question has no reference answer"
            elif scorer.passages and not passages:
                lacks = "the attempt retrieved no passages, or the journal does not hold them"
            value = None if lacks else scorer.figure(record)
            if value is None and not lacks:
                some = f"judge: no verdict on {missing} of {len(verifying.said)} pairs of text and claim"
                lacks = some if missing else "the answer claims nothing"
            if value is not None and scorer.name in listed:
                what, texts, held = listed[scorer.name]
                without = [text for text, there in zip(texts, held, strict=True) if there is False]
                lacks = f"{what}: {'; '.join(without)}" if without else ""
            whole = msgspec.json.encode(record).decode() if scorer is self.method.scorers[-1] else ""
            made.append(scorer.scored(attempt, value, read_long(attempt), whole, lacks))
        return made

    async def _by_citations(
        self, attempt: Attempt, question: Question, gold: Gold, verifying: _Verifying
    ) -> list[Score]:
        """ALCE's figures, what is cited in vain, and what was never shown."""
        passages, shown = sources_of(self.traced(attempt))
        published = isinstance(self.method, CitationMethod) and self.method.published
        cited = [
            published_citations(one, len(passages)) if published else read_citations(one, shown or {})
            for one in (sentences(attempt.text) if published else stated_sentences(attempt.text))
        ]
        fabricated = [number for one in cited for number in one.fabricated]
        read, lacks = read_long(attempt), "judge: a verdict is missing" if cited else "there is no sentence"
        if fabricated and shown is None and not published:
            lacks = "which passages the numbers mean is not known: no prompt in the journal shows them"
            return [scorer.scored(attempt, None, read, reason=lacks) for scorer in self.method.scorers]
        texts = [joined(passage.title, passage.text, "sentence") for passage in passages]
        made = await _weighed(cited, texts, verifying)
        silent = None if published else 0.0  # ALCE's mean is over answers that have a sentence, ours over all
        unneeded = None if cited and made.precision is None else made.unneeded / max(1, made.cited)
        values = {OVER_CITING.name: unneeded, FABRICATED_CITATIONS.name: float(len(fabricated))}
        scores = []
        for scorer in self.method.scorers:
            figure = made.recall if "recall" in scorer.name else made.precision
            value = values.get(scorer.name, figure if cited else silent)
            never = f"never shown: {', '.join(f'[{number}]' for number in fabricated)}" if fabricated else ""
            why = lacks if value is None else never if scorer is FABRICATED_CITATIONS else ""
            scores.append(scorer.scored(attempt, value, read, reason=why))
        return scores


async def _weighed(cited: Sequence[CitedSentence], texts: Sequence[str], verifying: _Verifying) -> CitationFigures:
    """ALCE's figures, each pair of sentence and passages verified once."""
    known: dict[tuple[int, tuple[int, ...]], bool | None] = {}
    weighing, said = weigh_citations(cited), None
    try:
        while True:
            number, places = wanted = weighing.send(said)
            if wanted not in known:
                premise = "\n".join(texts[place] for place in places)
                (known[wanted],) = await verifying.entails(premise, (cited[number].text,))
            said = known[wanted]
    except StopIteration as done:
        figures: CitationFigures = done.value
        return figures


def open_judge(method: VerifiedMethod, means: JudgeMeans) -> ClaimJudge:
    """What judges attempts by this method."""

    def traced(attempt: Attempt) -> Sequence[TracedCall]:
        """The calls of an attempt, with prompts and passages."""
        return traced_calls(means.store, list(calls(attempt.events)))

    return ClaimJudge(method=method, traced=traced, verifier=means.verifier)
