"""Status of an answer: answered, or the reason why no answer can be read.

A text without a readable answer is an abstention, a refusal, or unreadable; an error that was recorded as if it were a
reply is unreadable too. ``empty`` is the empty text alone (:func:`ragrounds.base.records.blank`). Every scorer uses
these patterns, so that an answer has the same status under all scorers that read it in the same way. The way an attempt
*ended* is the attempt's status, not its answer's: see :func:`ragrounds.base.records.outcome`.

The wordings are patterns in English and Chinese. They are searched in the stated answer, not in the reasoning before
it, where "cannot be determined" often refers to a single option on the way.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ragrounds.base.records import AnswerStatus, Attempt, Question, blank
from ragrounds.base.replies import read_reply

FILTER = "the provider's content filter"
ERROR = "an error was recorded in place of a reply"
THOUGHT = "reasoning without an answer"
_LONGEST_ERROR = 1_000
"""Largest number of characters of an error; a longer text is prose that mentions an error."""
_LONGEST_ANSWER = 300
"""Largest number of characters of a stated answer; of a longer text, which is reasoning, only the last sentence is
searched."""


class AnswerRead(NamedTuple):
    """Answer read from a text. `prediction` is empty unless the status is ``answered``."""

    status: AnswerStatus
    prediction: str = ""
    reason: str = ""


_FILTERED = re.compile(
    r"content[ _-](?:management )?(?:policy|filter)|response was filtered|ResponsibleAIPolicyViolation|"
    r"flagged (?:as|by) .{0,40}(?:polic|safety|moderation)|content_policy_violation|data may contain inappropriate",
    re.IGNORECASE,
)
_DECLINED = re.compile(
    r"^\W*(?:i(?:['’]m| am) (?:very |so |really )?sorry,? (?:but )?|sorry,? (?:but )?|unfortunately,? )?"
    r"(?:as an ai|i(?:['’]m| am) an ai|"
    r"i (?:cannot|can['’]t|can not|am not able to|['’]m not able to|am unable to|won['’]t|will not|must decline to) "
    r"(?:assist|help|provide|answer|give|offer|respond|comply|fulfil|discuss|do that))"
    r"|(?:抱歉|对不起)[，,]?\s*(?:我|作为).{0,12}(?:无法|不能)|作为(?:一个|一名)?(?:AI|人工智能)",
    re.IGNORECASE,
)
_STATUS = r"(?:40[0134589]|413|422|429|50[0234]|52[0-9])"
_STATUS_WORDS = (
    r"too many requests|internal server error|bad gateway|service (?:is )?(?:temporarily |currently )?unavailable|"
    r"gateway time-?out|bad request|unauthori[sz]ed|forbidden|(?:client|server) error|request time-?out|"
    r"unprocessable entity|payload too large|not found"
)
_ENDS = r"(?=\W*$|\s?[.:;,!({\[-]| for url)"
_ERROR_PHRASES = (
    rf"(?:HTTP(?:/\d(?:\.\d)?)?|(?:HTTP |server |client |API )?(?:error(?: code)?|status code))[\s:#]{{0,3}}{_STATUS}\b"
    rf"|{_STATUS}(?:(?=\W*$)|\W{{1,3}}(?:{_STATUS_WORDS}|error\b){_ENDS})"
    rf"|(?:{_STATUS_WORDS}){_ENDS}"
    r"|(?-i:(?:\w{1,40}\.){0,6}[A-Z]\w{1,40}(?:Error|Exception|Timeout)\b)(?=\W*$|\s?[:({\[])"
    r"|Traceback \(most recent call last\)|HTTPS?ConnectionPool\("
    r"|(?:this model'?s )?maximum context length (?:is|of) \d"
    r"|(?:api |remote |upstream |read |connect )?(?:connection|server|time-?out|rate ?limit|authentication|gateway|"
    rf"network) ?(?:error|exception){_ENDS}"
    r"|rate ?limit (?:was |has been )?(?:reached|exceeded)|max retries exceeded|remote ?disconnected"
    rf"|(?:the )?(?:connection|request|response|read|operation) (?:was |has been |has )?(?:timed out|aborted|refused|"
    rf"reset(?: by peer)?|cancell?ed by the server){_ENDS}"
    r"|(?:an )?(?:\w{1,20} )?error (?:has )?(?:occurred|communicating with)\b"
    r"|(?:请求|连接)(?:超时|失败)|服务(?:器错误|不可用)|网络错误"
)
_ERROR = re.compile(
    r"\W*(?:(?:[^.:\n]{0,60}\b)?(?:error|exception|fail(?:ed|ure)?|fatal)\b[^.:\n]{0,40}:\s?){0,2}"
    rf"(?:{_ERROR_PHRASES})|\s*\{{\s*[\"']error[\"']\s*:",
    re.IGNORECASE,
)
"""Beginning of a text that is an error as a whole: a status alone or with its words, or a client's known phrase."""
_KEY_ERROR = re.compile(r"^'(?:content|choices|message|text)'$")
"""Text of a printed ``KeyError``: the response had no such field."""
_ABSTAINED = re.compile(
    r"\bnone (?:of|among) (?:the|these|those|them)\b|^\W*(?:none|null)\W*$|\bno (?:option|choice)s? (?:is|are|seems?)\b"
    r"|\b(?:can ?not|can['’]?t|could not|couldn['’]t|unable to|impossible to) (?:be )?(?:\w+ly )?"
    r"(?:determine|answer|conclude|decide|infer|identif|ascertain|say|choose|select|tell)"
    r"|\b(?:not enough|insufficient|inadequate|lack of|no) (?:\w+ )?(?:information|data|evidence|context|details?)\b"
    r"|\bno (?:\w+ )?(?:passage|document|source|snippet)s? (?:was|were|is|are|has been|have been) "
    r"(?:given|provided|found|retrieved|available|supplied)\b"
    r"|\bunknown\b|^\W*n ?/ ?a\b|\bnot (?:applicable|available|provided|listed|mentioned|specified|stated|given|found|"
    r"clear|determinable|determined|sure|known|present|included|possible to|in the (?:options|list)|among the)"
    r"|\bno (?:\w+ )?(?:definit\w+|correct|clear|right|single|suitable|appropriate|valid)?\s*answer\b"
    r"|\binconclusive\b|\buncertain\b|\bundetermin\w+|\bindetermina\w+|\bunclear\b|\banswer (?:is )?not\b"
    r"|\bi (?:do not|don['’]t) know\b"
    r"|无法(?:确定|判断|回答|得出)|不能(?:确定|判断)|以上(?:都|均|皆)?(?:不是|不对|错误|不正确)|信息不足|未提(?:供|及)|"
    r"不(?:知道|确定|清楚)|没有(?:正确|合适)?的?(?:选项|答案)",
    re.IGNORECASE,
)


def answer_text(attempt: Attempt, question: Question | None = None) -> str:
    """Return the text that scorers and judges read as an attempt's answer, without thoughts and later turns."""
    return read_reply(attempt.text, question.text if question else "").text


def no_text(attempt: Attempt) -> AnswerRead | None:
    """Return ``empty`` for an attempt whose text is empty, or that was not run; ``None`` if there is a text to read."""
    if attempt.status == "not_run":
        return AnswerRead("empty", reason=attempt.reason or "not run")
    return AnswerRead("empty", reason=attempt.reason or "empty reply") if blank(attempt.text) else None


def read_long(attempt: Attempt, question: Question | None = None) -> AnswerRead:
    """Return the status of a long answer: empty, refused, abstained, or unreadable (an error or a thought in place of a
    reply).

    Every other text is an answer.
    """
    reading = no_text(attempt)
    if reading is not None:
        return reading
    answer = answer_text(attempt, question)
    if blank(answer):
        return AnswerRead("unreadable", reason=THOUGHT)
    reading = without_answer(answer, answer)
    return AnswerRead("answered") if reading.status == "unreadable" and reading.reason != ERROR else reading


def failure(text: str) -> AnswerRead | None:
    """Return the status of a provider's refusal or a client's error recorded in place of a reply; ``None`` for other
    texts."""
    if len(text) > _LONGEST_ERROR:
        return None
    if _FILTERED.search(text):
        return AnswerRead("refused", reason=FILTER)
    if _KEY_ERROR.match(text.strip()) or _ERROR.match(text):
        return AnswerRead("unreadable", reason=ERROR)
    return None


def without_answer(text: str, candidate: str) -> AnswerRead:
    """Return the status of a text from which no answer was read.

    `candidate` is the part that states the answer; the whole text if no part does.
    """
    if blank(text):
        return AnswerRead("empty", reason="empty reply")
    failure_read = failure(text) if candidate.strip() == text.strip() else None
    if failure_read:
        return failure_read
    stated = candidate.strip().strip("\"'`{}[]() \n\t.。")
    if not stated:
        return AnswerRead("abstained", reason="the stated answer is empty")
    if len(stated) > _LONGEST_ANSWER:
        if _DECLINED.search(stated):
            return AnswerRead("refused", reason="the model declined")
        parts = [part for part in re.split(r"(?<=[.!?。！？])\s*|\n", stated) if part.strip()]
        stated = parts[-1][-_LONGEST_ANSWER:] if parts else ""
    if _DECLINED.search(stated):
        return AnswerRead("refused", reason="the model declined")
    if abstains(stated):
        return AnswerRead("abstained", reason="no option was chosen")
    return AnswerRead("unreadable", reason="no option can be read from the answer")


def abstains(answer: str) -> bool:
    """Return True if a stated answer says that none of the options can be chosen."""
    return bool(_ABSTAINED.search(answer))
