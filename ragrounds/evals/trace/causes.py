"""Likely causes of wrong attempts, as far as the recording shows them.

A cause is derived, not known: from the queries, from their results, from the prompts that followed, and from the
parsing of the answer. So :attr:`Cause.said` says *likely*, and each sentence names its evidence. The causes are checked
in this order, and the first that holds is the attempt's:

how it ended · how the answer was read · whether a search was made · whether gold was found · whether it reached the
prompt of the answering call · whether the answer follows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Noted, Question, Score
from ragrounds.base.text import normalized
from ragrounds.evals.trace.hops import Hop, hops_of, searches_unknown
from ragrounds.evals.trace.option_signs import sign_of
from ragrounds.evals.trace.traces import TracedCall

CauseWord = Literal[
    "not ended",
    "no score",
    "misjudged",
    "misread",
    "unreadable",
    "no search",
    "not known",
    "search failed",
    "gold unknown",
    "wrong letter",
    "turned away",
    "named",
    "never named",
    "drifted",
    "repeated",
    "never found",
    "found in part",
    "not recorded",
    "cut away",
    "not shown",
    "not passed on",
    "ignored",
]
CAUSES: dict[CauseWord, str] = {
    "not ended": "the attempt failed, or was capped, blocked or paused",
    "no score": "the scorer gave no score: a judge that failed, or was not asked",
    "misjudged": "the score and the words of the answer do not agree: a judge's error, perhaps",
    "misread": "another scorer reads the right option from the same answer",
    "unreadable": "no answer could be read from the text",
    "no search": "no search is among its calls",
    "not known": "whether it searched is not recorded",
    "search failed": "a search failed, and no other found gold",
    "gold unknown": "no gold document is known for the question, and the gold option is no telling word",
    "wrong letter": "no gold document is known; the reasoning ends at the gold option, and another was chosen",
    "turned away": "no gold document is known; an earlier reply ended at the gold option, and the answer does not",
    "named": "no gold document is known; a passage names the gold option, and the answer does not follow it",
    "never named": "no gold document is known; no passage names the gold option",
    "drifted": "gold was never found, and the queries share ever less with the question",
    "repeated": "gold was never found, and queries were repeated",
    "never found": "no search found a gold document",
    "found in part": "some gold documents were found, others never",
    "not recorded": "gold was found; the prompts that followed are not recorded",
    "cut away": "gold was found, and what did not fit was cut away with it",
    "not shown": "gold was found, and stands in no later prompt",
    "not passed on": "a prompt held gold, and that of the answer did not",
    "ignored": "the prompt of the answer held gold, and the answer does not follow it",
}
"""Meaning of every cause: the legend of screens and docs."""


class Cause(Struct, frozen=True, kw_only=True):
    """Likely cause of an attempt that is not right."""

    word: CauseWord
    text: str
    """Sentence with the evidence. It may contain texts of models and servers, which are not yet safe to show."""
    hop: int | None = None
    """Number of the hop that it points to, from 1."""

    @property
    def said(self) -> str:
        """Return the cause as every screen shows it: ``likely never found: gold was never found (2 searches, 9
        different passages)``.

        A word that is a fact, and explains nothing, has no *likely*.
        """
        return f"{'' if self.word in _FACTS else 'likely '}{self.word}: {self.text}"


_FACTS: frozenset[CauseWord] = frozenset(("not ended", "no score", "gold unknown", "not recorded", "not known"))
_NOT_FOLLOWED = "the answer does not follow it"
_DRIFTED = 0.5
"""Drift threshold. A query has drifted if it shares at most this part of the words that the first query shared with the
question.
"""
_LEAST_DRIFT = 2
"""Number of words that the first query must share with the question before a later one can have drifted."""
_SHORTEST_REFERENCE = 4
"""Length in letters of a reference answer below which finding it in a text says nothing (two for Chinese)."""
_COMMON = frozenset(
    "a an and are as at be by can did do does for from had has have how if in into is it its not of on or than that "
    "the their then there these this to was were what when where which who why will with".split()
)


def cause_of(
    attempt: Attempt,
    calls: Sequence[TracedCall],
    question: Question,
    gold: Gold,
    scores: Sequence[Score],
    scorer: str = "",
    hops: Sequence[Hop] | None = None,
) -> Cause | None:
    """Return the likely cause why an attempt is not right; ``None`` if it is right and nothing contradicts that.

    Args:
        attempt: with its events.
        calls: its calls in their order, with their recorded requests and responses.
        question: asked.
        gold: of the question.
        scores: of the attempt, by all scorers.
        scorer: whose score counts; empty: the first's.
        hops: as :func:`ragrounds.evals.trace.hops.hops_of` returns them; ``None``: they are derived here.
    """
    score = next((candidate for candidate in scores if candidate.scorer == scorer or not scorer), None)
    if attempt.status != "completed" and not (score and score.value is not None and score.value >= 1):
        failed = _failed_search(hops_of(calls, gold, only_gold=True) if hops is None else hops)
        return failed or Cause(word="not ended", text=f"{attempt.status}: {attempt.reason or 'no reason was given'}")
    if score is None:
        return None
    if (score_doubt := _doubted(attempt, gold, question, score, scores)) is not None:
        return score_doubt
    if score.value is None:
        return Cause(word="no score", text=f"{score.scorer} gave no score: {score.reason or 'no reason was given'}")
    if score.value >= 1:
        return None
    if score.answer_status in ("unreadable", "empty"):
        explanation = (
            "the text is empty" if score.answer_status == "empty" else f"{score.scorer} could not read an answer"
        )
        return Cause(word="unreadable", text=f"{explanation}" + (f" ({score.reason})" if score.reason else ""))
    searches = hops_of(calls, gold, only_gold=True) if hops is None else hops
    cause = _of_searches(attempt, calls, searches, question, gold, score)
    if cause.word == "ignored" and score.value > 0:
        cause = replace(cause, text=cause.text.replace(_NOT_FOLLOWED, "the answer follows only a part of it"))
    if score.answer_status in ("abstained", "refused"):
        return Cause(word=cause.word, text=f"it {score.answer_status}; {cause.text}", hop=cause.hop)
    return cause


def _doubted(attempt: Attempt, gold: Gold, question: Question, score: Score, scores: Sequence[Score]) -> Cause | None:
    """Return a cause if the words of the answer, or another scorer's reading of them, contradict the score."""
    wrong = score.value is None or score.value < 1
    if question.options:
        gold_readers = [
            other for other in scores if other.prediction == gold.answer and other.prediction != score.prediction
        ]
        if wrong and gold_readers:
            read = (
                f"{score.scorer} reads {score.prediction or 'no option'}, {gold_readers[0].scorer} reads {gold.answer}"
            )
            return Cause(word="misread", text=f"{read}, the gold option")
        return None
    wordings = gold.facts or (((gold.answer,),) if _telling(gold.answer) else ())
    if not wordings or question.metadata.get("facts") or not attempt.text.strip():  # facts for a judge are no wordings
        return None
    matched_wordings = [
        next((wording for wording in fact if _stands_in(wording, attempt.text)), None) for fact in wordings
    ]
    reason = f" It says: {score.reason}" if score.reason else ""
    # A figure between 0 and 1 measures how much of the wording is present, so a full match does not contradict it.
    if all(matched_wordings) and score.value is not None and score.value <= 0:
        words = ", ".join(repr(wording) for wording in matched_wordings[:3])
        return Cause(
            word="misjudged",
            text=f"{score.scorer} gives {score.value:g}, and the answer holds {words}, "
            f"the words of the reference.{reason}",
        )
    if not wrong and gold.facts and not any(matched_wordings):
        return Cause(
            word="misjudged",
            text=f"{score.scorer} gives {score.value:g}, and the answer holds none of the required facts.{reason}",
        )
    return None


def _of_searches(
    attempt: Attempt, calls: Sequence[TracedCall], hops: Sequence[Hop], question: Question, gold: Gold, score: Score
) -> Cause:
    if not hops:
        unknown = searches_unknown(attempt, calls)
        return Cause(word="not known" if unknown else "no search", text=unknown or "no search is among its calls")
    golden = set(gold.documents)
    failed = _failed_search(hops)
    if not golden:
        if failed is not None:
            return failed
        if question.options and _telling(question.options.get(gold.answer, "")) and score.prediction:
            word, explanation, hop = sign_of(
                gold.answer, question.options, score.prediction, attempt.text, calls, hops, _folded
            )
            return Cause(word=word, text=f"{explanation} (a sign, no proof: no gold document is known)", hop=hop)
        return Cause(word="gold unknown", text="no gold document is known: whether it was found cannot be said")
    found_names = {
        name
        for hop in hops
        for passage in hop.found
        if passage.gold
        for name in (passage.passage.document, passage.passage.id)
    }
    missing = sorted(golden - found_names)
    if len(missing) == len(golden):
        return _never_found(hops, question, failed)
    reached = _reached(attempt, calls, hops)
    if missing and reached.word == "ignored":
        n = len(golden) - len(missing)
        return Cause(
            word="found in part",
            text=f"{n} of {len(golden)} gold documents were found and shown; never found: {', '.join(missing[:5])}",
            hop=reached.hop,
        )
    return reached


def _failed_search(hops: Sequence[Hop]) -> Cause | None:
    failed = next((hop for hop in hops if hop.error), None)
    if failed is None or any(hop.gold_ranks for hop in hops):
        return None
    query_words = f" for {failed.query!r}" if failed.query else ""
    return Cause(
        word="search failed",
        text=f"search {failed.number}{query_words} failed ({failed.error}), and no other found gold",
        hop=failed.number,
    )


def _never_found(hops: Sequence[Hop], question: Question, failed: Cause | None) -> Cause:
    if failed is not None:
        return failed
    count_words = f"{len(hops)} {'search' if len(hops) == 1 else 'searches'}"
    shared = words_shared(hops, question)
    drifting = next((index for index in range(1, len(hops)) if _has_drifted(shared, index)), None)
    if drifting is not None:
        steps = ", ".join(str(number) for number in shared)
        return Cause(
            word="drifted",
            text=f"the queries drifted away from the question, and gold was never found in {count_words}; "
            f"words that they share with the question: {steps}",
            hop=drifting + 1,
        )
    repeated = [hop for hop in hops if hop.repeats is not None]
    if repeated:
        return Cause(
            word="repeated",
            text=f"{len(repeated)} of {count_words} asked what was asked before, and gold was never found",
            hop=repeated[0].number,
        )
    passages = sum(hop.new for hop in hops)
    return Cause(word="never found", text=f"gold was never found ({count_words}, {passages} different passages)")


def _reached(attempt: Attempt, calls: Sequence[TracedCall], hops: Sequence[Hop]) -> Cause:
    """Return the cause for gold that was found: how far it came on the way to the answer."""
    gold = [(hop, passage) for hop in hops for passage in hop.found if passage.gold]
    best_hop, best = min(gold, key=lambda pair: pair[1].rank)
    found_words = f"search {best_hop.number} found gold at rank {best.rank}"
    models = [call_index for call_index, call in enumerate(calls) if call.call.kind == "model" and not call.call.error]
    answering = [call_index for call_index in models if calls[call_index].call.role == "answering"] or models
    final = answering[-1] if answering else -1
    seen_whole = [(hop, passage) for hop, passage in gold if set(passage.prompts) - set(passage.cut_in)]
    for hop, passage in seen_whole:
        # An earlier reader may have passed the gold text on, but only the answering call's prompt shows what it saw.
        if final in passage.prompts and final not in passage.cut_in:
            ignored_words = f"search {hop.number} found gold at rank {passage.rank}"
            return Cause(
                word="ignored",
                text=f"{ignored_words}, it stood whole in the prompt of the answer, and {_NOT_FOLLOWED}",
                hop=hop.number,
            )
    if seen_whole:
        hop, passage = seen_whole[0]
        call_index = next(call_index for call_index in passage.prompts if call_index not in passage.cut_in)
        reader = calls[call_index].call.node or calls[call_index].call.role
        return Cause(
            word="not passed on",
            text=f"{found_words}, {reader} read it whole, and the prompt of the answer did not hold it",
            hop=hop.number,
        )
    cut = next(((hop, passage) for hop, passage in gold if passage.cut_in), None)
    if cut is not None:
        return Cause(
            word="cut away",
            text=f"search {cut[0].number} found gold at rank {cut[1].rank}, and only its beginning stood in "
            "a prompt: the rest was cut away",
            hop=cut[0].number,
        )
    later_calls = [call_index for call_index in models if call_index > best_hop.call]
    if (
        any(calls[call_index].asked is None for call_index in later_calls)
        or not later_calls
        or best.fate == "not known"
    ):
        return Cause(
            word="not recorded", text=f"{found_words}; which prompts followed is not recorded", hop=best_hop.number
        )
    note = next((event for event in attempt.events if isinstance(event, Noted) and event.what == "cut"), None)
    if note is not None:
        return Cause(
            word="cut away",
            text=f"{found_words}, and it was cut away before the prompt ({note.text})",
            hop=best_hop.number,
        )
    return Cause(word="not shown", text=f"{found_words}, and it stands in no later prompt", hop=best_hop.number)


def words_shared(hops: Sequence[Hop], question: Question) -> list[int]:
    """Count the question's words in the query of each hop, without common words."""
    question_words = _words(question.text)
    return [len(question_words & _words(hop.query)) for hop in hops]


def _has_drifted(shared: Sequence[int], index: int) -> bool:
    """Return True if the query at an index and all later queries share little with the question, compared with the
    first.
    """
    first = shared[0]
    return first >= _LEAST_DRIFT and all(later <= _DRIFTED * first for later in shared[index:])


def _words(text: str) -> set[str]:
    return set(_split(normalized("NFKC", text).casefold())) - _COMMON


def _split(text: str) -> Iterator[str]:
    for word in re.findall(r"\w+", text):
        if any(_chinese(letter) for letter in word):
            # In a script without spaces, pairs of letters serve as words.
            yield from (word[start : start + 2] for start in range(max(1, len(word) - 1)))
        elif len(word) > 1:
            yield word


def _chinese(letter: str) -> bool:
    return "\u3040" <= letter <= "\u9fff"


def _telling(reference: str) -> bool:
    """Return True if a reference is long enough that finding it in a text is informative."""
    letters = [letter for letter in reference if letter.isalnum()]
    return len(letters) >= (2 if any(map(_chinese, letters)) else _SHORTEST_REFERENCE)


def _stands_in(wording: str, text: str) -> bool:
    folded_wording, folded_text = _folded(wording), _folded(text)
    if not folded_wording:
        return False
    if any(map(_chinese, folded_wording)):
        return folded_wording in folded_text
    return re.search(rf"(?<!\w){re.escape(folded_wording)}(?!\w)", folded_text) is not None


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[-\u2010-\u2015\u2212]", " ", normalized("NFKC", text)).casefold().split())
