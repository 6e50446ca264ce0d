"""Scorer ``robust``: an option read as a careful person would read it.

A JSON field, a box or a tag is looked for first; then what the prose commits itself to
(:mod:`ragrounds.evals.scorers.stated_choice`), by an option's label or its text. Where two options fit, or none,
nothing is guessed: a wrong letter is worse than an answer that is shown as unreadable.
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
"""Characters of a text: of a longer one the middle is not read."""
_HEAD, _TAIL = 2_000, 6_000
"""Characters of a text without a field, box or tag that are read: its beginning and its end."""
_LAST = 400
"""Characters at the end of a text without a stated answer that are taken as its answer."""
_LONGEST_STATED = 2_000


def read_robustly(text: str, question: Question) -> AnswerRead:
    """Read the label of one option, or tell why none can be read."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 4]} {text[-_LONGEST // 4 * 3 :]}"
    said = normalized("NFKC", _THOUGHT_ENDS.split(text)[-1]).strip()
    if not said:
        return (
            AnswerRead("unreadable", reason="reasoning without an answer") if not blank(text) else AnswerRead("empty")
        )
    explicit = _explicit(said)
    if explicit is not None:
        return _of_field(explicit, said, question)
    failed = failure(said)
    if failed:
        return failed
    return _of_prose(said, question)


def _explicit(text: str) -> str | None:
    """What the last JSON field states as the answer, or else the last box or boxes, or the last tag."""
    for pattern in (_FIELD, _BOX, _TAG):
        found = deque(pattern.finditer(text), maxlen=2)
        if found and pattern is _BOX and len(found) > 1 and _TOGETHER.fullmatch(text, found[0].end(), found[1].start()):
            return f"{found[0].group(1)} or {found[1].group(1)}"
        if found:
            return next((group for group in reversed(found[-1].groups()) if group is not None), "").strip()
    return None


def _of_field(stated: str, said: str, question: Question) -> AnswerRead:
    """What a field, a box or a tag states: a label, an option's text, or a sentence."""
    stated = stated[:_LONGEST_STATED]
    found = Committed(alone(stated, tuple(question.options)) or same_text(stated, question))
    for words in (stated, f"The answer is: {stated}"):
        found = found if found.label or found.several else _committed(words, question)
    label = found.label or ("" if found.several else by_text(stated, question))
    return AnswerRead("answered", label) if label else _unread(found, said, stated)


def _of_prose(said: str, question: Question) -> AnswerRead:
    found = Committed(alone(said, tuple(question.options)) if len(said) < _LAST else "")
    if not found.label:
        ends = said[:_HEAD].rpartition(" ")[0], said[-_TAIL:].partition(" ")[2]
        found = _committed(said if len(said) <= _HEAD + _TAIL else "\n".join(ends), question)
    if found.label:
        # The label of one option may be the text of another: then two fit.
        both = sorted({found.label, same_text(found.label, question) or found.label})
        return (
            AnswerRead("answered", both[0]) if len(both) == 1 else _unread(Committed(several=tuple(both)), said, said)
        )
    if not found.several and (label := by_text(said[:_LONGEST_STATED], question)):
        return AnswerRead("answered", label)
    return _unread(found, said, said)


def _committed(text: str, question: Question) -> Committed:
    return Committed() if len(question.options) > MOST_OPTIONS else committed(mentions(plain(text), question))


def _unread(found: Committed, said: str, stated: str) -> AnswerRead:
    if found.several and not abstains(stated[-_LAST:]):
        return AnswerRead("unreadable", reason=f"names several options: {', '.join(found.several)}")
    return without_answer(said, stated)


def alone(candidate: str, labels: tuple[str, ...]) -> str:
    """The label that a stated answer is, with nothing but marks and "option", "the answer is" around it."""
    match = _alone(labels).fullmatch(candidate)
    if match is None:
        return ""
    label = match.group(1)
    return label if label in labels else label.upper()


@lru_cache(maxsize=256)
def _alone(labels: tuple[str, ...]) -> re.Pattern[str]:
    one = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    mark = r"[\s\"'`*_(\[{<]{0,9}"
    end = r"[\s\"'`*_)\]}>.,;:!?。，；：！？、]{0,20}"
    word = r"(?:the )?(?:(?:final|correct|best) )?(?:option|choice|answer|选项|答案)? ?(?:is|:|是|为)?"
    letters = all(len(label) == 1 for label in labels)
    return re.compile(f"{mark}{word}{mark}({one}){end}", re.IGNORECASE if letters else 0)


ROBUST = ChoiceScorer(
    name="robust",
    accuracy=True,
    summary="lenient reading: what a sentence commits itself to, repaired JSON, option text",
    method="a lenient reader of option letters and texts, which reads none where two fit",
    read=read_robustly,
    usual=True,
)
