"""Scorer ``robust``: an option read as a careful person would read it.

A JSON field, a box or a tag is searched first, then the option that the prose commits itself to
(:mod:`ragrounds.evals.scorers.stated_choice`), by its label or its text. If two options fit, or none, nothing is
guessed: a wrong letter is worse than an answer that is shown as unreadable.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache

from ragrounds.base.records import Question, blank
from ragrounds.base.text import normalized
from ragrounds.evals.scorers.answer_status import AnswerRead, abstains, failure, without_answer
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.option_marks import MOST_OPTIONS, mentions, plain
from ragrounds.evals.scorers.option_text import by_text, same_text
from ragrounds.evals.scorers.stated_choice import Committed, committed

# Every repetition is bounded or cannot backtrack: a reply may be hostile, or a model's endless loop.
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FIELD = re.compile(
    r"""["'](?:answer_choice|selected_option|final_answer|correct_answer|prediction|answer|choice|option|label|答案)["']\s{0,9}:\s{0,9}"""
    r"""(?:\[\s{0,9}([^\]\[{}]{0,300})\]|"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*)|([^\s",}\]]+))""",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\boxed\s{0,3}\{\s{0,9}(?:\\(?:text|mathrm|textbf|mathbf)\s{0,3}\{)?([^{}]{0,300})\}")
_TOGETHER = re.compile(r"[$\s,/)(\\]{0,9}(?:(?:and|or|or also|和|或)[$\s(\\]{1,9})?")
_TAG = re.compile(r"<(?:final_)?answer>(.*?)(?:</(?:final_)?answer>|\Z)", re.DOTALL | re.IGNORECASE)
_LONGEST = 200_000
"""Largest number of characters of a text that are read; of a longer text the middle is skipped."""
_HEAD, _TAIL = 2_000, 6_000
"""Numbers of characters that are read at the beginning and the end of a text without a field, box or tag."""
_LAST = 400
"""Number of characters at the end of a text without a stated answer that count as its answer."""
_LONGEST_STATED = 2_000


def read_robustly(text: str, question: Question) -> AnswerRead:
    """Read the label of one option, or return the reason why none can be read."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 4]} {text[-_LONGEST // 4 * 3 :]}"
    reply = normalized("NFKC", _THOUGHT_ENDS.split(text)[-1]).strip()
    if not reply:
        return (
            AnswerRead("unreadable", reason="reasoning without an answer") if not blank(text) else AnswerRead("empty")
        )
    explicit = _explicit(reply)
    if explicit is not None:
        return _read_field(explicit, reply, question)
    failure_read = failure(reply)
    if failure_read:
        return failure_read
    return _read_prose(reply, question)


def _explicit(text: str) -> str | None:
    """Return the text in the last JSON field that states the answer, or else in the last box or boxes, or the last
    tag."""
    for pattern in (_FIELD, _BOX, _TAG):
        matches = deque(pattern.finditer(text), maxlen=2)
        if (
            matches
            and pattern is _BOX
            and len(matches) > 1
            and _TOGETHER.fullmatch(text, matches[0].end(), matches[1].start())
        ):
            return f"{matches[0].group(1)} or {matches[1].group(1)}"
        if matches:
            return next((group for group in reversed(matches[-1].groups()) if group is not None), "").strip()
    return None


def _read_field(stated: str, reply: str, question: Question) -> AnswerRead:
    """Read a field, a box or a tag that states a label, an option's text, or a sentence."""
    stated = stated[:_LONGEST_STATED]
    commitment = Committed(alone(stated, tuple(question.options)) or same_text(stated, question))
    for candidate in (stated, f"The answer is: {stated}"):
        commitment = commitment if commitment.label or commitment.several else _committed(candidate, question)
    label = commitment.label or ("" if commitment.several else by_text(stated, question))
    return AnswerRead("answered", label) if label else _unread(commitment, reply, stated)


def _read_prose(reply: str, question: Question) -> AnswerRead:
    commitment = Committed(alone(reply, tuple(question.options)) if len(reply) < _LAST else "")
    if not commitment.label:
        ends = reply[:_HEAD].rpartition(" ")[0], reply[-_TAIL:].partition(" ")[2]
        commitment = _committed(reply if len(reply) <= _HEAD + _TAIL else "\n".join(ends), question)
    if commitment.label:
        # The label of one option may be the text of another. Then two options fit.
        candidates = sorted({commitment.label, same_text(commitment.label, question) or commitment.label})
        return (
            AnswerRead("answered", candidates[0])
            if len(candidates) == 1
            else _unread(Committed(several=tuple(candidates)), reply, reply)
        )
    if not commitment.several and (label := by_text(reply[:_LONGEST_STATED], question)):
        return AnswerRead("answered", label)
    return _unread(commitment, reply, reply)


def _committed(text: str, question: Question) -> Committed:
    return Committed() if len(question.options) > MOST_OPTIONS else committed(mentions(plain(text), question))


def _unread(commitment: Committed, reply: str, stated: str) -> AnswerRead:
    if commitment.several and not abstains(stated[-_LAST:]):
        return AnswerRead("unreadable", reason=f"names several options: {', '.join(commitment.several)}")
    return without_answer(reply, stated)


def alone(candidate: str, labels: tuple[str, ...]) -> str:
    """Return the label if a stated answer is only a label with marks or words such as "option" or "the answer is"
    around it."""
    match = _alone(labels).fullmatch(candidate)
    if match is None:
        return ""
    label = match.group(1)
    return label if label in labels else label.upper()


@lru_cache(maxsize=256)
def _alone(labels: tuple[str, ...]) -> re.Pattern[str]:
    any_label = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    mark = r"[\s\"'`*_(\[{<]{0,9}"
    end = r"[\s\"'`*_)\]}>.,;:!?。，；：！？、]{0,20}"
    word = r"(?:the )?(?:(?:final|correct|best) )?(?:option|choice|answer|选项|答案)? ?(?:is|:|是|为)?"
    letters = all(len(label) == 1 for label in labels)
    return re.compile(f"{mark}{word}{mark}({any_label}){end}", re.IGNORECASE if letters else 0)


ROBUST = ChoiceScorer(
    name="robust",
    accuracy=True,
    summary="lenient reading: what a sentence commits itself to, repaired JSON, option text",
    method="a lenient reader of option letters and texts, which reads none where two fit",
    read=read_robustly,
    usual=True,
)
