"""Scorer ``robust``: an option read as a careful person would read it.

A JSON field, a box or a tag is searched first, then the option that the prose commits itself to
(:mod:`ragrounds.evals.scorers.stated_choice`), by its label or its text. If two options fit, or none, nothing is
guessed: a wrong letter is worse than an answer that is shown as unreadable.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ragrounds.base.records import Question, blank
from ragrounds.base.replies import even_text, json_objects, read_reply
from ragrounds.base.text import normalized, without_invisible
from ragrounds.evals.scorers.answer_status import ERROR, THOUGHT, AnswerRead, abstains, failure, without_answer
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.option_marks import MOST_OPTIONS, mentions, plain
from ragrounds.evals.scorers.option_text import by_beginning, by_text, same_text
from ragrounds.evals.scorers.stated_choice import Committed, committed

_STRONG_FIELDS = (
    "final_answer|answer_choice|selected_option|correct_answer|correct_option|chosen_option|selected_answer|"
    "answer_letter|final_choice|answer|答案|正确答案|最终答案|정답|答え|正解|ответ|الإجابة|respuesta|réponse|resposta|risposta|"
    "antwort|jawaban|cevap|đáp án"
)
"""Names of fields that state the answer. Those of :data:`_WEAK_FIELDS` often describe an option that is not chosen."""
_WEAK_FIELDS = "prediction|choice|option|label"
_WEAK_NAMES = frozenset(_WEAK_FIELDS.split("|"))
_NAMES = _WEAK_NAMES | {*_STRONG_FIELDS.split("|")}
_WORD_ENDS = re.compile(r"[\s-]{1,9}|(?<=[a-z])(?=[A-Z])")
_PARTS = ("letter", "label", "option", "choice", "answer", "key", "id", "value", "text")
"""Fields by which an object states an option if it is the value of such a field, first the preferred."""
_ELEMENT = re.compile(r"(?:\[|\},)\s{0,9}$")
_DEEPEST = 20
"""Largest depth of JSON in which fields are searched."""
# Every repetition is bounded or cannot backtrack: a reply may be hostile, or a model's endless loop.
_FIELD = re.compile(
    rf"""["'](?:(?P<strong>{_STRONG_FIELDS})|(?:{_WEAK_FIELDS}))["']\s{{0,9}}:\s{{0,9}}"""
    r"""(?:\[\s{0,9}([^\]\[{}]{0,300})\]|"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*)|([^\s",}\]]+))""",
    re.IGNORECASE,
)
_BOX = re.compile(
    r"\\(?:boxed|fbox)(?:\s{0,3}\{\s{0,9}(?:\\(?:text|mathrm|textbf|mathbf)\s{0,3}\{([^{}]{0,300})\}\s{0,9}\}"
    r"|(?:\\rm\s)?((?:[^{}]|\{[^{}]{0,200}\}){0,300})\})|\s([A-Z])\b)"
)
_ANY_LETTER = re.compile(r"\W{0,9}(?:option |choice )?[A-Z]\W{0,9}", re.IGNORECASE)
"""Stated answer that is a letter, also if no option has it."""
_TOGETHER = re.compile(r"[$\s,/)(\\]{0,9}(?:(?:and|or|or also|和|或)[$\s(\\]{1,9})?")
_TAG = re.compile(
    r"<(?:final_?)?answer(?:_choice)?>(.*?)(?:</(?:final_?)?answer(?:_choice)?>|\Z)", re.DOTALL | re.IGNORECASE
)
_SEARCHES = re.compile(r"<(search|information)>(?:[^<]|<(?!/?(?:search|information)\b)){0,200000}</\1>", re.IGNORECASE)
"""Query of a search agent, or what its search returned: neither is its answer."""
_LONGEST = 200_000
"""Largest number of characters of a text that are read; of a longer text the middle is skipped."""
_HEAD, _TAIL = 2_000, 6_000
"""Numbers of characters that are read at the beginning and the end of a text without a field, box or tag."""
_LAST = 400
"""Number of characters at the end of a text without a stated answer that count as its answer."""
_LONGEST_STATED = 2_000


def read_robustly(text: str, question: Question) -> AnswerRead:
    """Read the label of one option, or return the reason why none can be read."""
    read = read_reply(text, question.text)
    if blank(read.text):
        return AnswerRead("unreadable", reason=THOUGHT) if read.is_thought else AnswerRead("empty")
    raw = _SEARCHES.sub(" – ", read.text)
    if len(raw) > _LONGEST:
        raw = f"{raw[: _LONGEST // 4]} {raw[-_LONGEST // 4 * 3 :]}"
    reply = _even(raw)
    stated, prose = _json_fields(raw)
    if not stated:
        # Fields of JSON that cannot be parsed, best first.
        strong, weak = list[str](), list[str]()
        for match in _FIELD.finditer(reply):
            value = next((group for group in reversed(match.groups()[1:]) if group is not None), "").strip()
            (strong if match["strong"] else weak).append(value)
        stated = [*strong[-1:], *(weak[-1:] if len(set(weak)) == 1 else ())]
        prose = _FIELD.sub(" ", reply)
    unread: AnswerRead | None = None
    for pattern in (None, _BOX, _TAG):
        if pattern is not None:
            stated, prose = _last_marked(pattern, prose), pattern.sub(" ", prose)
        for candidate in stated:
            reading = _read_field(candidate, reply, question)
            if reading.prediction or _is_final(reading, candidate):
                return reading
            unread = unread or reading
    if unread is None:
        failure_read = failure(reply)
        if failure_read and failure_read.reason == ERROR and not by_text(reply[:_LONGEST_STATED], question):
            return failure_read
        return _read_prose(reply, question)
    # A field, box or tag without an option states no answer. The text around it may state one.
    reading = AnswerRead("empty") if blank(prose) else _read_prose(prose.strip(), question)
    return reading if reading.prediction else unread


def _even(text: str) -> str:
    return normalized("NFKC", even_text(text)).strip()


def _is_final(reading: AnswerRead, stated: str) -> bool:
    """Return True if a stated answer without an option ends the search.

    It names several options, says that none can be chosen, or is a letter that no option has.
    """
    if blank(stated) or stated == "null":
        return False
    return "several" in reading.reason or reading.status != "unreadable" or _ANY_LETTER.fullmatch(stated) is not None


def _json_fields(text: str) -> tuple[list[str], str]:
    """Return the values of the JSON fields that may state the answer, best first, and the text outside the objects;
    nothing if there is no such field."""
    text = without_invisible(text)
    objects = list(json_objects(text))
    fields = list[_Field]()
    for parsed, begin, _ in objects:
        fields += _walk(parsed, in_list=_ELEMENT.search(text, max(0, begin - 9), begin) is not None)
    values_by_name: dict[str, set[str]] = {}
    for field in fields:
        values_by_name.setdefault(field.name, set()).add(field.stated)
    ranked = list[tuple[bool, bool, int, int, str]]()
    for number, field in enumerate(fields):
        # The options that a list describes are no answers, and neither are several values of one name.
        values = values_by_name[field.name]
        if not field.is_weak or (not field.in_list and len(values) == 1):
            stated = " or ".join(sorted(values)) if field.in_list else field.stated
            ranked.append((field.in_list, field.is_weak, field.depth, -number, stated))
    if not ranked:
        return [], ""
    ranked.sort()
    outside, start = list[str](), 0
    for _, begin, end in objects:
        outside.append(text[start:begin])
        start = end
    return [stated for *_, stated in ranked], _even(" ".join((*outside, text[start:])))


class _Field(NamedTuple):
    """JSON field that may state the answer."""

    name: str
    stated: str
    depth: int
    in_list: bool
    is_weak: bool


def _walk(value: object, depth: int = 0, in_list: bool = False) -> Iterator[_Field]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for key, part in value.items():
            name = _WORD_ENDS.sub("_", key.strip()).casefold()
            if name in _NAMES:
                stated = part if isinstance(part, str) else _value_text(part)
                yield _Field(name, _even(stated), depth, in_list, name in _WEAK_NAMES)
            yield from _walk(part, depth + 1, in_list)
    elif isinstance(value, list) and depth < _DEEPEST:
        for part in value:
            yield from _walk(part, depth + 1, in_list=True)


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        by_name = {str(key).casefold(): part for key, part in value.items()}
        value = next((by_name[name] for name in _PARTS if isinstance(by_name.get(name), str | int)), "")
    elif isinstance(value, list):
        return _value_text(value[0]) if len(value) == 1 else json.dumps(value, ensure_ascii=False)[1:-1]
    return value if isinstance(value, str) else json.dumps(value)


def _last_marked(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the text in the last box or boxes, or in the last tag. The list is empty without a match."""
    matches = deque(pattern.finditer(text), maxlen=2)
    stated = [next((group for group in match.groups() if group is not None), "").strip() for match in matches]
    if pattern is _BOX and len(matches) > 1 and _TOGETHER.fullmatch(text, matches[0].end(), matches[1].start()):
        return [" or ".join(stated)]
    return stated[-1:]


def _read_field(stated: str, reply: str, question: Question) -> AnswerRead:
    """Read a field, a box or a tag that states a label, an option's text, or a sentence."""
    stated = (next(iter(_last_marked(_BOX, stated)), stated) if "{" in stated else stated)[:_LONGEST_STATED]
    commitment = Committed(alone(stated, tuple(question.options)) or same_text(stated, question))
    for candidate in (stated, f"The answer is: {stated}"):
        commitment = commitment if commitment.label or commitment.several else _committed(candidate, question)
    label = commitment.label or ("" if commitment.several else by_text(stated, question))
    return AnswerRead("answered", label) if label else _unread(commitment, reply, stated)


def _read_prose(reply: str, question: Question) -> AnswerRead:
    commitment = Committed(
        (alone(reply, tuple(question.options)) or same_text(reply, question)) if len(reply) < _LAST else ""
    )
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
    if not commitment.several and not commitment.retracted:
        label = by_text(reply[:_LONGEST_STATED], question) or by_beginning(reply[:_LONGEST_STATED], question)
        if label:
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
    summary="lenient letter extraction: prose, JSON, option text",
    method="a lenient reader of option letters and texts, which reads none where two fit",
    read=read_robustly,
    usual=True,
)
