"""Scorer ``robust``: an option read as a careful person would read it.

The stated answer is looked for first (a JSON field, a box, "the answer is …"), the last statement wins; then a label is
read from it, or the option whose text it is. Where it names several options, or none, nothing is guessed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from functools import lru_cache

from ragrounds.evals.scorers.answer_status import AnswerRead, abstains, failure, without_answer
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.records import Question, blank

# Every repetition is bounded or cannot backtrack: a reply may be hostile, or a model's endless loop.
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_FIELD = re.compile(
    r"""["'](?:answer_choice|final_answer|correct_answer|answer|choice|option|答案)["']\s{0,9}:\s{0,9}"""
    r"""(?:\[\s{0,9})?(?:"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*)|([^\s",}\]]+))""",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\boxed\s{0,3}\{\s{0,9}(?:\\(?:text|mathrm|textbf|mathbf)\s{0,3}\{)?([^{}]{0,300})\}")
_TAG = re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)
_SAID = re.compile(
    r"(?:\b(?:answer|choice|option)(?: choice| option)?(?: to (?:the|this) question)?\s{0,3}(?:\*\*)?\s{0,3}"
    r"(?:is|would be|should be|must be|:|=)"
    r"|\bi(?: would)? (?:choose|select|pick)|答案\s{0,3}(?:应?[该当]?[是为选]|:)|故选|应?选择?)[\s:]{0,9}",
    re.IGNORECASE,
)
_MOST_STATEMENTS = 20
"""Looked at from the end."""
_STATEMENT = 200
"""Characters after "the answer is" that are read as the statement."""
_LONGEST_LABELLED = 2_000
"""Characters of a stated answer that a label is looked for in."""
_LAST = 400
"""Characters at the end of a text without a stated answer that are taken as its answer."""
_PUNCTUATION = " \t\r\n\"'`*_.,;:!?()[]{}<>。，；：！？、-"


def read_robustly(text: str, question: Question) -> AnswerRead:
    """Read the label of one option, or tell why none can be read."""
    plain = unicodedata.normalize("NFKC", _THOUGHT_ENDS.split(text)[-1]).strip()
    if not plain:
        return (
            AnswerRead("unreadable", reason="reasoning without an answer") if not blank(text) else AnswerRead("empty")
        )
    explicit = _explicit(plain)
    failed = None if explicit else failure(plain)
    if failed:
        return failed
    stated = [explicit] if explicit is not None else _sentences(plain)
    # Only where nothing states the answer explicitly may it stand alone on the last line.
    last = [plain.splitlines()[-1]] if explicit is None else []
    for candidate in (*(stated or [plain]), *last):
        label = by_label(candidate, question) or by_text(candidate, question)
        if label:
            return AnswerRead("answered", label)
        if abstains(candidate[-_LAST:]):
            break
    candidate = stated[0] if stated else plain
    several = _mentions(candidate, tuple(question.options)) if len(candidate) <= _LAST else set()
    if len(several) > 1 and not abstains(candidate):
        return AnswerRead("unreadable", reason=f"names several options: {', '.join(sorted(several))}")
    return without_answer(plain, candidate)


def _explicit(text: str) -> str | None:
    """What the last JSON field states as the answer, or else the last box, or the last tag."""
    for pattern in (_FIELD, _BOX, _TAG):
        found = deque(pattern.finditer(text), maxlen=1)
        if found:
            return next((group for group in reversed(found[-1].groups()) if group is not None), "").strip()
    return None


def _sentences(text: str) -> list[str]:
    """What follows after each "the answer is …", the last one first."""
    said = deque(_SAID.finditer(text), maxlen=_MOST_STATEMENTS)
    return [text[match.end() : match.end() + _STATEMENT].split("\n")[0].strip() for match in reversed(said)]


def by_label(candidate: str, question: Question) -> str:
    """The label that a stated answer is, begins with, or names as "option B"; empty where it names several."""
    labels = tuple(question.options)
    alone, first, named, another = _label_patterns(labels)
    candidate = candidate[:_LONGEST_LABELLED]
    match = alone.fullmatch(candidate)
    if match:
        return _known(match.group(1), labels)
    match = first.match(candidate)
    if match:
        label, rest = match.group(1), candidate[match.end() :]
        if _folded(rest) == _folded(question.options[label]):
            return label
        return label if set(another.findall(rest)) <= {label} else ""
    mentioned = set(named.findall(candidate))
    return mentioned.pop() if len(mentioned) == 1 and set(another.findall(candidate)) <= mentioned else ""


def by_text(candidate: str, question: Question) -> str:
    """The label of the one option whose text the stated answer is, or begins with before a punctuation mark."""
    said = _folded(candidate)
    if not said:
        return ""
    options = {label: _folded(text) for label, text in question.options.items()}
    same = [label for label, text in options.items() if text == said]
    if not same:
        head = _folded(re.split(r"[.,;:!?\n。，；：！？]", candidate, maxsplit=1)[0])
        same = [label for label, text in options.items() if text == head and head]
    return same[0] if len(same) == 1 else ""


@lru_cache(maxsize=256)
def _label_patterns(labels: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    one = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    mark = r"[\s\"'`*_(\[{<]{0,9}"
    end = r"[\s\"'`*_)\]}>.,;:!?。，；：！？、]*"
    word = r"(?:the )?(?:(?:final|correct|best) )?(?:option|choice|answer|选项|答案)? ?(?:is|:|是|为)?"
    letters = all(len(label) == 1 for label in labels)
    alone = re.compile(f"{mark}{word}{mark}({one}){end}", re.IGNORECASE if letters else 0)
    # A label and then its text or a reason: "B. Rickets", "(B) Rickets", "B - Rickets", "B because". "A patient …" and
    # "B cells" are none.
    after = r"(?=[\"'`*_)\]}>.,;:、，。：]|\s+[-–—:]\s|\s+(?:because|since|due to|as the)\b|是|为|正确|选项|项)"
    first = re.compile(f"{mark}{word}{mark}({one}){after}")
    wrong = r"(?!\W*\s(?:is|was|are)\s+(?:not|in|un|wrong|false|less))"
    named = re.compile(rf"(?:[Oo]ptions?|[Cc]hoices?|选项|选)\s*[\"'(*]*({one})(?![A-Za-z0-9_]){wrong}")
    # A second label after the first: "A or B", "A. MMR and D. Influenza", "A/B". The B of "Anti-B" is none.
    joined = r"(?:^\W*|[,/;&]\s*|\b(?:or|and)\s+|[或和与及、]\s*)"
    ended = r"(?=[.):\]/,;]|\s*$|\s+(?:or|and)\b|[或和与及、。])"
    another = re.compile(rf"{joined}[\"'(\[]*({one}){ended}")
    return alone, first, named, another


def _mentions(text: str, labels: tuple[str, ...]) -> set[str]:
    """Labels that stand in a text as words of their own. "A" is an article too, so it counts only beside a mark."""
    found = set()
    for label in labels:
        edge = r"(?=[\s\"'`*_)\]}>.,;:/]|$)" if label != "A" else r"(?=[\"'`*_)\]}>.,;:/]|\s+(?:or|and)\b|\s*$)"
        if re.search(rf"(?<![A-Za-z0-9_]){re.escape(label)}{edge}", text):
            found.add(label)
    return found


def _known(label: str, labels: tuple[str, ...]) -> str:
    return label if label in labels else label.upper()


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return " ".join(plain.split()).casefold().strip(_PUNCTUATION)


ROBUST = ChoiceScorer(
    name="robust",
    accuracy=True,
    summary="lenient reading: repaired JSON, option text, full-width letters",
    method="a lenient reader of option letters and texts",
    read=read_robustly,
    usual=True,
)
