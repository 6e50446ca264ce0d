"""Mentions of options in a text: each becomes one private character, so that one grammar reads labels and texts.

A label counts as a mention only if the surrounding text allows it: "B cells", "A patient", "vitamin C" and "C.
difficile" name no option. Characters of three ranges encode which option is mentioned and how.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from ragrounds.base.quantities import quantity_pattern, read_quantities
from ragrounds.base.records import Question
from ragrounds.base.replies import plain_text
from ragrounds.base.text import UNSPACED

LABEL, SMALL, TEXT = 0xE000, 0xE400, 0xE800
"""First characters of the ranges for labels, for labels in lower case, and for options' texts."""
_MOST = 0x400
REJECTED = "\uf000"
"""Mark of a mention that the text denies."""
MOST_OPTIONS = 40
"""Largest number of options for which sentences are analysed. Questions with more are read by their labels and whole
texts alone."""

_PRIVATE = re.compile("[\ue000-\uf8ff]")
_QUOTED = re.compile(r"(?<!\w)'(\w{1,5})'(?!\w)")

_AFTER_A = (
    "because|since|as|due|given|is|was|would|seems?|looks?|appears?|fits|must|should|makes|and|or|nor|over|rather|"
    "instead|"
    "here|for|in|i|i'd|but|it|wins|can|could|cannot|does|does|doesn't|isn't|can't|has|all|the best|the most|"
    "the correct|the right|sounds|best|plus|versus|vs|based|explains"
)
_AFTER = (
    rf"{_AFTER_A}|are|were|not|though|although|based|might|may|will|won't|wasn't|aren't|do|don't|have|with|which|who|that|"
    "than|then|on|from|the|most|probably|definitely|certainly|possibly|final|if|when|where|to|by|at|after|before|so|"
    "hence|therefore|also|only|alone|too|again|says?|refers"
)
_EDGE = (
    "[^\\S\n]{0,9}(?:$|\n)|[\"')\\]}>]|[^\\S\n]?[.!?]{1,3}(?![\\w.])|[,;:、。/&=]|\\s?[-–—]{1,2}\\s|\\s?[=(]|\\s[&/]|"
    "\\s?[\ue000-\uebff]"
)
_LETTER = rf"[^\W{UNSPACED}\uac00-\ud7a3]"
_NO_WORD = f"(?<!{_LETTER})"
"""Start of a label: not inside a word, but directly after Chinese, Japanese and Korean characters."""
_CJK = (
    "|\\s?[项選选正是对错不因和或及与都均也更最符为可并但而]|입니다|이다|이며|번|[이가은]\\s|です|である|[だがをでにの]"
)
_ENDS_A = re.compile(rf"(?={_EDGE}{_CJK}|\s+(?:{_AFTER_A})\b)", re.IGNORECASE)
_ENDS = re.compile(rf"(?={_EDGE}{_CJK}|\s+(?:{_AFTER})\b)", re.IGNORECASE)
_ENDS_SMALL = re.compile(r"(?=[\"')\]}]|[.!?,](?!\w)|\s*(?:$|\n))")
_KINDS_OF = re.compile(
    r"(?:vitamins?|hepatitis|groups?|types?|factors?|proteins?|class|stage|grade|plan|phase|influenza|coenzyme|"
    r"serotype|"
    r"immunoglobulin|ig|complement|chain|strain|subtype|category|arm|cohort|part|section|figure|table|appendix|level|"
    r"interferon|amphotericin|toxin|receptor|subunit|zone|blood|cytochrome|polymyxin|penicillin|hemoglobin|haemoglobin|"
    r"apolipoprotein|cyclosporin|virus|anti|dr|mr|mrs)[\s-]$",
    re.IGNORECASE,
)
_BEFORE_TEXT = re.compile("\\s([\ue800-\uebff])")
_ABBREVIATION = re.compile(r"\.\s{0,2}[a-z]")
_PLAIN = frozenset(
    "yes no maybe none both all true false possibly probably likely unlikely unknown not neither either unclear never "
    "always correct incorrect right wrong increase decrease increased decreased it this that other yes. no.".split()
)
"""Options' texts that occur in any sentence. They are a mention only if they begin or end a statement."""
_BEFORE_PLAIN = re.compile(
    r"(?:^|\n|[\"():,/]\s?|\s[-–—]\s|\b(?:is|be|say|so|concludes|answer|think|answers|guess|choose|pick|or|and|likely|"
    r"probably|definitely|clearly|certainly|simply|with|it's)\s|[.!?]\s)$",
    re.IGNORECASE,
)
_AFTER_PLAIN = re.compile(
    r"[\")]|\s\(|[.,;:!?](?!\w)|\s*(?:$|\n)|\s*[-–—]\s|\s+(?:because|since|as|based|given|or|and)\b"
)
_AFTER_TEXT = re.compile(
    rf"{_EDGE}|\s?[项选正是对错不因和或及与都均也可并但而]|\s+(?:{_AFTER}|as|he|she)\b", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]")
_CJK_WORD = re.compile("[\u3400-\u9fff]")


class Mentions(NamedTuple):
    """Text with its mentions as marks, and the labels of the options."""

    text: str
    labels: tuple[str, ...]

    def label(self, mark: str) -> str:
        """Return the label that a mark encodes."""
        return self.labels[(ord(mark) - LABEL) % _MOST]


class _Labels(NamedTuple):
    upper: re.Pattern[str]
    positions: dict[str, int]
    small: re.Pattern[str] | None


def plain(text: str) -> str:
    """Return a text without markup and marks of this module, of which "vs." ends no sentence."""
    return _QUOTED.sub(r'"\1"', _PRIVATE.sub(" ", plain_text(text)).replace(" vs. ", " versus "))


def mentions(text: str, question: Question) -> Mentions:
    """Mark every mention of an option in a plain text."""
    labels = tuple(question.options)
    marked = _mark_texts(text, question)
    patterns = _label_patterns(labels)

    def upper(match: re.Match[str]) -> str:
        option = patterns.positions[match.group()]
        return chr(LABEL + option) if _is_label(match, option) else match.group()

    def small(match: re.Match[str]) -> str:
        has_end = _ENDS_SMALL.match(match.string, match.end())
        is_kind = _KINDS_OF.search(match.string, max(0, match.start() - 20), match.start())
        return chr(SMALL + patterns.positions[match.group().upper()]) if has_end and not is_kind else match.group()

    marked = patterns.upper.sub(upper, marked)
    return Mentions(patterns.small.sub(small, marked) if patterns.small else marked, labels)


def _is_label(match: re.Match[str], option: int) -> bool:
    text, end = match.string, match.end()
    ends = _ENDS_A if match.group() in ("A", "I") else _ENDS
    if not ends.match(text, end) or _KINDS_OF.search(text, max(0, match.start() - 20), match.start()):
        return False
    if match.group() == "A" and (article := _BEFORE_TEXT.match(text, end)) and article.group(1) != chr(TEXT + option):
        return False
    return not _ABBREVIATION.match(text, end)  # "C. difficile"


@lru_cache(maxsize=256)
def _label_patterns(labels: tuple[str, ...]) -> _Labels:
    any_label = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    letters = "".join(label.lower() for label in labels if len(label) == 1 and label.isupper() and label != "I")
    small = re.compile(rf"{_NO_WORD}(?<!['.@&+/-])[{letters}](?![\w'@&+])") if letters else None
    index_by_label = {label: index for index, label in enumerate(labels)}
    return _Labels(
        re.compile(rf"{_NO_WORD}(?<!['@&+-])(?:{any_label})(?!{_LETTER}|(?!'[dt][ıiuü]r\b)['@&+]|-\w)"),
        index_by_label,
        small,
    )


@lru_cache(maxsize=512)
def _texts(options: tuple[str, ...], labels: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Return the options' texts as they are searched, longest first, with their indices.

    Texts that two options share, or that are a label, are left out.
    """
    plain_texts = [" ".join(plain(text).lower().split()).lstrip(" ,;:!?。").rstrip(" .,;:!?。") for text in options]
    lowered_labels = {label.lower() for label in labels}
    unique = [
        (text, index)
        for index, text in enumerate(plain_texts)
        if text and text not in lowered_labels and plain_texts.count(text) == 1
    ]
    return tuple(sorted(unique, key=lambda text_and_index: -len(text_and_index[0])))


def _mark_texts(text: str, question: Question) -> str:
    for option_text, option in _texts(tuple(question.options.values()), tuple(question.options)):
        lowered = text.lower()
        if len(lowered) != len(text):
            return text
        start, parts, done = lowered.find(option_text), list[str](), 0
        while start >= 0:
            end = start + len(option_text)
            if _is_text(text, start, end, option_text):
                parts += [text[done:start], chr(TEXT + option)]
                done = end
            start = lowered.find(option_text, end)
        if parts:
            text = "".join((*parts, text[done:]))
    return text


def _is_text(text: str, start: int, end: int, option_text: str) -> bool:
    """Return True if an option's text occurs there as whole words."""
    wordy = not _CJK_WORD.match(option_text[0]) and _WORD.match(option_text[0])
    if wordy and start and (_WORD.match(text[start - 1]) or text[start - 1] in "-'"):
        return False
    if option_text in _PLAIN:
        return bool(_BEFORE_PLAIN.search(text, max(0, start - 20), start) and _AFTER_PLAIN.match(text, end))
    return bool(_AFTER_TEXT.match(text, end)) and _has_its_quantities(text, start, end, option_text)


def _has_its_quantities(text: str, start: int, end: int, option_text: str) -> bool:
    """Return False if a number of the option is part of another quantity there: of "<5 mg", "1-5 mg", "5 mg/kg"."""
    quantities = read_quantities(option_text)
    begin = max(0, start - 24)
    around = read_quantities(text[begin : end + 24]) if quantities else []
    around = [number for number in around if begin + number.end > start and begin + number.start < end]
    return not around or (
        [number.comparison for number in around] == [quantity.comparison for quantity in quantities]
        and all(re.fullmatch(quantity_pattern(a.token()), b.token()) for a, b in zip(quantities, around, strict=True))
        and not re.match(r"\W{0,2}(?:or|to) (?:\d|more|less|high|low)", text[end : end + 9])
    )
