"""Likely causes of wrong attempts, as far as the recording shows them. There is one cause for each thing that a user
would change: the page "Find out why an agent was wrong" lists them.

A cause is derived, not known: from the queries, from their results, from the prompts that followed, and from the
parsing of the answer. So :attr:`Cause.said` says *likely*, and each sentence names its evidence. The causes are checked
in this order, and the first that holds is the attempt's:

how it ended · how the answer was read · whether a search was made · whether gold was found · whether it reached the
prompt of the answering call · whether the answer follows it.

If a question has an option as its gold answer and names no gold documents, mentions of that option in passages and
replies are signs, not proofs: a passage may name an option to rule it out, and a reply may mean it by another name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Noted, Question, Score
from ragrounds.base.replies import read_reply
from ragrounds.base.text import normalized
from ragrounds.evals.trace.hops import Hop, gold_names, hops_of, searches_unknown
from ragrounds.evals.trace.traces import TracedCall

CauseWord = Literal[
    "not ended",
    "misjudged",
    "unreadable",
    "no search",
    "search failed",
    "never found",
    "not shown",
    "ignored",
    "not known",
]
CAUSES: dict[CauseWord, str] = {
    "not ended": "the attempt failed, or was capped, blocked or paused",
    "misjudged": "the score may be wrong: the words of the answer, or another scorer, contradict it",
    "unreadable": "no answer could be read from the text, or it is empty, and it does not count as right",
    "no search": "no search is among its calls",
    "search failed": "a search failed, and no other found gold",
    "never found": "some gold was never found; if no gold document is known: no passage names the gold option",
    "not shown": "gold was found, and the prompt of the answer did not hold it whole",
    "ignored": "the answer does not follow gold in its prompt, or the gold option that a passage or a reply named",
    "not known": "its searches, prompts or score are missing, or the question names no gold document",
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
    def description(self) -> str:
        """Return the cause as every screen shows it: ``likely never found: no gold in 2 searches, 9 different
        passages``.

        A word that is a fact, and explains nothing, has no *likely*.
        """
        return f"{'' if self.word in ('not ended', 'not known') else 'likely '}{self.word}: {self.text}"


_SHORTEST_REFERENCE = 4
"""Length in letters of a reference answer below which finding it in a text says nothing (two for Chinese)."""
_AGAINST = re.compile(
    r"\b(?:not|no|never|against|unlikely|less likely|excludes?|excluded|rules? out|ruled out|rather than|unlike)\b"
)
"""Words before an option, in its clause, with which a reply rejects it."""
_DENIED = re.compile(r"\b(?:would|not|unlikely|less likely|excluded|ruled out)\b")
"""Words after an option, in its clause, that reject it."""
_CLAUSE = re.compile(r"[.;:!?\n,]| but ")


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
    value = score.value if score else None
    if attempt.status != "completed" and not (value is not None and value >= 1):
        failed = _failed_search(hops_of(calls, gold, only_gold=True) if hops is None else hops)
        return failed or Cause(word="not ended", text=f"{attempt.status}: {attempt.reason or 'no reason was given'}")
    if score is None:
        return None
    unread = score.answer_status in ("unreadable", "empty")
    if doubt := _doubt(attempt, gold, question, score, scores):
        return Cause(word="unreadable" if unread and question.options else "misjudged", text=doubt)
    if value is None:
        return Cause(word="not known", text=f"{score.scorer} gave no score: {score.reason or 'no reason was given'}")
    if value >= 1:
        return None
    if unread:
        explanation = (
            "the text is empty" if score.answer_status == "empty" else f"{score.scorer} could not read an answer"
        )
        return Cause(word="unreadable", text=explanation + (f" ({score.reason})" if score.reason else ""))
    searches = hops_of(calls, gold, only_gold=True) if hops is None else hops
    cause = _failed_search(searches) or _of_searches(attempt, calls, searches, question, gold, score)
    if score.answer_status in ("abstained", "refused"):
        return replace(cause, text=f"it {score.answer_status}; {cause.text}")
    return cause


def _doubt(attempt: Attempt, gold: Gold, question: Question, score: Score, scores: Sequence[Score]) -> str:
    """Return how the words of the answer, or another scorer's reading of them, contradict the score; empty if they do
    not.
    """
    wrong = score.value is None or score.value < 1
    if question.options:
        gold_reader = next(
            (other.scorer for other in scores if other.prediction == gold.answer != score.prediction and wrong), ""
        )
        reading = f"{score.scorer} reads {score.prediction or 'no option'}"
        return gold_reader and f"{reading}, {gold_reader} reads {gold.answer}, the gold option"
    wordings = gold.facts or (((gold.answer,),) if _telling(gold.answer) else ())
    answer = read_reply(attempt.text, question.text).text
    if not wordings or question.metadata.get("facts") or not answer.strip():  # facts for a judge are no wordings
        return ""
    text = _folded(answer)
    matched_wordings = [
        next((wording for wording in fact if _mentions(text, _folded(wording))), None) for fact in wordings
    ]
    reason = f" It says: {score.reason}" if score.reason else ""
    # A figure between 0 and 1 measures how much of the wording is present, so a full match does not contradict it.
    if all(matched_wordings) and score.value is not None and score.value <= 0:
        words = ", ".join(repr(wording) for wording in matched_wordings[:3])
        return (
            f"{score.scorer} gives {score.value:g}, and the answer holds {words}, the words of the reference.{reason}"
        )
    if not wrong and gold.facts and not any(matched_wordings):
        return f"{score.scorer} gives {score.value:g}, and the answer holds none of the required facts.{reason}"
    return ""


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


def _of_searches(
    attempt: Attempt, calls: Sequence[TracedCall], hops: Sequence[Hop], question: Question, gold: Gold, score: Score
) -> Cause:
    if not hops:
        unknown = searches_unknown(attempt, calls)
        return Cause(word="not known" if unknown else "no search", text=unknown or "none is among its calls")
    golden = set(gold.documents)
    if not golden:
        if question.options and _telling(question.options.get(gold.answer, "")) and score.prediction:
            cause = _of_option(attempt, calls, hops, question.options, gold.answer, score.prediction)
            return replace(cause, text=f"{cause.text} (a sign, no proof: no gold document is known)")
        return Cause(word="not known", text="no gold document is known: whether it was found cannot be said")
    missing = sorted(golden - gold_names(hops))
    if len(missing) == len(golden):
        count_words = f"{len(hops)} {'search' if len(hops) == 1 else 'searches'}"
        passages = sum(hop.new for hop in hops)
        return Cause(
            word="never found", text=f"no gold in {count_words}, {passages} different passage{'s' * (passages != 1)}"
        )
    reached = _reached(attempt, calls, hops, partly=bool(score.value))
    if missing and reached.word == "ignored":
        n = len(golden) - len(missing)
        text = f"{n} of {len(golden)} gold documents were found and shown; never found: {', '.join(missing[:5])}"
        return Cause(word="never found", text=text, hop=reached.hop)
    return reached


def _of_option(
    attempt: Attempt,
    calls: Sequence[TracedCall],
    hops: Sequence[Hop],
    options: Mapping[str, str],
    gold: str,
    prediction: str,
) -> Cause:
    """Return the cause that mentions of the gold option in replies and passages are signs of."""
    plain = {letter: _folded(option) for letter, option in options.items()}
    replies = [call.reply.text for call in calls if call.reply and call.call.kind == "model"]
    for number, reply in enumerate([*replies[:-1], attempt.text], 1):
        if ends_at(_folded(read_reply(reply).text), plain) == gold:
            words = f"reply {number} of {max(1, len(replies))} ended at option {gold}, and the answer is {prediction}"
            return Cause(word="ignored", text=words)
    passages = [(hop, passage) for hop in hops for passage in hop.found]
    naming = [
        (passage.rank, hop.number)
        for hop, passage in passages
        if _mentions(_folded(f"{passage.passage.title} {passage.passage.text}"), plain[gold])
    ]
    if not naming:
        return Cause(word="never found", text=f"none of {len(passages)} passages names the gold option")
    rank, number = min(naming)
    words = f"{len(naming)} of {len(passages)} passages name the gold option (search {number}, rank {rank})"
    return Cause(word="ignored", text=f"{words}, and the answer does not follow them", hop=number)


def _reached(attempt: Attempt, calls: Sequence[TracedCall], hops: Sequence[Hop], partly: bool) -> Cause:
    """Return the cause for gold that was found: how far it came on the way to the answer.

    Args:
        attempt: with its events.
        calls: of the attempt.
        hops: of the attempt.
        partly: True if the answer is partly right.
    """
    gold = [(hop, passage) for hop in hops for passage in hop.found if passage.gold]
    best_hop, best = min(gold, key=lambda pair: pair[1].rank)
    found_words = f"search {best_hop.number} found gold at rank {best.rank}"
    models = [call_index for call_index, call in enumerate(calls) if call.call.kind == "model" and not call.call.error]
    answering = [call_index for call_index in models if calls[call_index].call.role == "answering"] or models
    seen_whole = [
        (hop, passage, readers)
        for hop, passage in gold
        if (readers := [call_index for call_index in passage.prompts if call_index not in passage.cut_in])
    ]
    for hop, passage, readers in seen_whole:
        # An earlier reader may have passed the gold text on, but only the answering call's prompt shows what it saw.
        if answering[-1:] and answering[-1] in readers:
            followed = "follows only a part of it" if partly else "does not follow it"
            text = f"search {hop.number} found gold at rank {passage.rank}, it was whole in the prompt of the answer"
            return Cause(word="ignored", text=f"{text}, and the answer {followed}", hop=hop.number)
    for hop, _, readers in seen_whole:
        reader = calls[readers[0]].call.node or calls[readers[0]].call.role
        text = f"{found_words}, {reader} read it whole, and the prompt of the answer did not hold it"
        return Cause(word="not shown", text=text, hop=hop.number)
    for hop, passage in gold:
        if passage.cut_in:
            text = f"search {hop.number} found gold at rank {passage.rank}, and only its beginning was in a prompt"
            return Cause(word="not shown", text=f"{text}: the rest was cut away", hop=hop.number)
    later_calls = [calls[call_index] for call_index in models if call_index > best_hop.call]
    if not later_calls or any(call.asked is None for call in later_calls) or best.fate == "not known":
        text = f"{found_words}; which prompts followed is not recorded"
        return Cause(word="not known", text=text, hop=best_hop.number)
    note = next((event for event in attempt.events if isinstance(event, Noted) and event.what == "cut"), None)
    lost = f"it was cut away before the prompt ({note.text})" if note else "it is in no later prompt"
    return Cause(word="not shown", text=f"{found_words}, and {lost}", hop=best_hop.number)


def ends_at(text: str, options: Mapping[str, str]) -> str:
    """Return the option that a folded text names last without rejecting it; empty if it names none."""
    # If two options end at the same position, the longer is meant: "heart failure" is part of "congestive heart
    # failure".
    mentions = [
        (position + len(option), len(option), letter)
        for letter, option in options.items()
        for position in _mentions(text, option)
        if not _AGAINST.search(_CLAUSE.split(text[max(0, position - 120) : position])[-1])
        and not _DENIED.search(_CLAUSE.split(text[position + len(option) :][:120])[0])
    ]
    return max(mentions, default=(0, 0, ""))[2]


def _mentions(text: str, wording: str) -> list[int]:
    """Return the positions of a wording in a text, both folded: of whole words if its script has spaces."""
    edges = ("", "") if any(map(_chinese, wording)) else (r"(?<!\w)", r"(?!\w)")
    pattern = re.escape(wording).join(edges)
    return [match.start() for match in re.finditer(pattern, text)] if wording else []


def _chinese(letter: str) -> bool:
    return "\u3040" <= letter <= "\u9fff"


def _telling(reference: str) -> bool:
    """Return True if a reference is long enough that finding it in a text is informative."""
    letters = [letter for letter in reference if letter.isalnum()]
    return len(letters) >= (2 if any(map(_chinese, letters)) else _SHORTEST_REFERENCE)


def _folded(text: str) -> str:
    return " ".join(re.sub(r"[-\u2010-\u2015\u2212]", " ", normalized("NFKC", text)).casefold().split())
