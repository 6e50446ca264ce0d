"""Numbers in text, read by value: separators, sign, comparison, range, exponent, ratio and unit.

"1,500 mg", "1500mg" and "1.5 g" are one quantity; "0.5 mg", "5 mg", "-5 mg", "<5 mg", "5-10 mg" and "5 mg/kg" are six.
"1.500" is one and a half unless the text writes decimal commas: its other numbers say so, or else its language.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from ragrounds.base.text import ONE_WIDTH, UNSPACED, without_entities

_LETTER = rf"[^\W\d_\u00b2\u00b3\u00b9\u2070-\u209f{UNSPACED}]"
"""A letter of a script that separates words."""
_GROUP = "'\u2019\u00a0\u2007\u2009\u202f\u066c"
"""Separators of thousands in every language, besides the ambiguous point, comma and blank."""
_RUN = re.compile(
    rf"(?<!\d)(?<!\d[.,])(?<!{_LETTER})(?:(?<![\w.])\.)?"
    rf"\d+(?:[.,\u00b7\u066b{_GROUP}]\d+|[ ]\d{{3}}(?!\d))*[\u00bc-\u00be\u2150-\u215e]?"
)
_VULGAR = re.compile(r"(?<!\d)[\u00bc-\u00be\u2150-\u215e]")
_COUNTED = re.compile(r"\s?(?:\w+ )?(?:tablet|capsule|pill|dose|vial|ampoule|bolus|puff|bag|injection|infusion)", re.I)
_NUMBERED = re.compile(
    r"\b(?:day|week|month|hour|type|stage|grade|group|phase|cycle|step|dose|part|class|table|figure|visit|arm|age|aged|"
    r"[x\u00d7]) ?$",
    re.I,
)
_COMMA = re.compile(
    r"(?<![\d.,])(?:0,\d|\d+,(?:\d\d?|\d{4,})(?![\d,])|\d{1,3}(?:\.\d{3})+,\d|\d{1,3}(?:\.\d{3}){2,}(?!\d))"
)
_POINT = re.compile(
    r"(?<![\d.,])(?:0?\.\d|\d+\.(?:\d\d?|\d{4,})(?![\d.])|\d{1,3}(?:,\d{3})+\.\d|\d{1,3}(?:,\d{3}){2,}(?!\d))"
)
_ENGLISH = re.compile(r"\b(?:the|of|and|is|with|for|what|which|should)\b", re.I)
_COMMA_WORDS = re.compile(
    r"\b(?:und|der|die|das|ist|mit|beträgt|täglich|eine[rn]?|les?|la|est|une|des|par|jour|el|los|las|una|por|día|"
    r"del|es|di|il|è|giorno|uma|dia|não|com|het|een|och|är|og|günde|bir|ve|dan|yang|adalah|và|là|của|mỗi)\b|[\u0400-\u04ff]{2,}"
)
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_SUPERSCRIPTS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a\u2212\u2013", "0123456789-+--"
)
_SUP = "\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b\u207a"
_POWER = re.compile(
    rf"([\u207b\u207a]?[{_SUP}]{{1,3}})(?![{_SUP}])|\s?\^\s?\{{?([-+\u2212\u2013]?\d{{1,3}})\}}?|\*\*([-+]?\d{{1,3}})|\*(\d{{1,2}})(?=\s?/)"
)
_TIMES = re.compile(r"\s?(?:\u00d7|x|\*|\u00b7|\u22c5|\\times|\\cdot)\s?(?=10(?:[\^*]|\s\^|\{|[" + _SUP + "]))", re.I)
_E = re.compile(r"[eE]([-+\u2212]?\d{1,3})(?![\w.])")
_SCALE_WORD = re.compile(
    r"[ -]?(thousand|million|mio\.?|billion|millionen|millions|millones|milhões|milioni)\b|\s?([千万萬亿億])", re.I
)
_SCALES = {"t": 3, "m": 6, "b": 9, "千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8}
_BULLET = re.compile(r"\s{0,8}[-\u2013]")
_MOST_DIGITS = 40
"""Digits of a number that are read; longer runs are names."""

_BEFORE = re.compile(
    r"(?:(?P<sign>(?<![\w)\]])[-\u2212\u2013+]|\bminus |\u00b1\s?)"
    r"|(?P<symbol>(?<![-=\u2013])(?:<=|>=|[<>\u2264\u2265\u2a7d\u2a7e])=?)\s?"
    r"|\b(?P<word>(?:no |not )?(?:less|fewer|lower|smaller|more|greater|higher|larger) than|at least|at most|up to|"
    r"below|above|exceeding|minimum of|maximum of) )+$",
    re.I,
)
_WORDS = {
    "less": "<", "fewer": "<", "lower": "<", "smaller": "<", "below": "<",
    "more": ">", "greater": ">", "higher": ">", "larger": ">", "above": ">", "exceeding": ">",
    "at least": "\u2265~", "minimum": "\u2265~", "at most": "\u2264~", "up to": "\u2264~", "maximum": "\u2264~",
}  # fmt: skip
"""Comparisons in words. A soft one (``~``) is also the number itself: "up to 4 g" is a dose of 4 g."""
_NEGATED = {"<": "\u2265~", ">": "\u2264~"}
_SYMBOLS = str.maketrans("\u2a7d\u2a7e", "\u2264\u2265")
_RANGE = re.compile(
    r"[^\S\n]?(?:[-\u2010\u2011\u2013\u2014\u2212~\u301c至到]|\.\.\.?)[^\S\n]?|\s(?:to|bis|à|a|until|through)\s"
)
_RATIO = re.compile(r"\s?/\s?|:")

_NAMES = """
mg: milligrams? milligrammes? mgs 毫克 мг ملغ
g: grams? grammes? gms? 克 г
kg: kilograms? kilos? kgs 千克 公斤 кг
μg: mcgs? micrograms? microgrammes? 微克 мкг
ng: nanograms?
l: lit(?:er|re)s? 升 л
dl: decilit(?:er|re)s? 分升
ml: millilit(?:er|re)s? ccs? cm[3³] mls 毫升 мл
μl: microlit(?:er|re)s? mm[3³] 微升 мкл
mmol: millimoles? 毫摩尔
μmol: micromoles?
iu: i\\.u\\. international\\sunits? ie ui ме
unit: units? u 单位 ед
mmhg: mm\\shg 毫米汞柱
%: percent per\\scent pct ％
°c: °\\s?c degrees\\scelsius ℃
°f: °\\s?f degrees\\sfahrenheit ℉
day: d days? daily tage? 天 日
h: hrs? hours? stunden? 小时
min: mins? minutes? 分钟
week: wks? weeks? 周
month: months? 个月
year: yrs? years?
m2: m²
mm2: mm²
cm2: cm²
bpm: beats\\sper\\sminute beats/min(?:ute)?
mm: millimet(?:er|re)s?
cm: centimet(?:er|re)s?
kcal:
meq:
"""
_CANONICAL = [
    (re.compile(alias, re.I), name)
    for name, _, aliases in (line.partition(":") for line in _NAMES.split("\n") if line)
    for alias in (re.escape(name), *aliases.split())
]
_PREFIXES = {"k": 3, "d": -1, "c": -2, "m": -3, "μ": -6, "u": -6, "n": -9, "p": -12, "f": -15}
_PREFIXED = re.compile(r"([kdcmμunpf]?)(g|l|mol|eq|iu|unit|u|m|pa)")
_MINUTES = {"h": 60, "day": 1440, "week": 10_080}
_TIMES_OF_DAY = r"(?:/(?:day|h|min|week|month|dose))?"
_ALIASES = "|".join(sorted((pattern.pattern for pattern, _ in _CANONICAL), key=len, reverse=True))
_UNIT_NAME = rf"(?:{_ALIASES}|[kdcmμunpf]?(?:g|l|mol|eq|iu|pa)|[mμ]u|[cmkμn]m|dose)"
_NO_LETTER = rf"(?!{_LETTER}|\d|['\u2019]\w)"
_UNIT = re.compile(rf"[*_]{{0,3}}[ \t\u00a0\u2009\u202f-]?({_UNIT_NAME}){_NO_LETTER}", re.I)
_PER = re.compile(
    rf"[*_]{{0,3}}(?:\s?/\s?|\s?\bper\s|\sa(?=\sday)\s|\s(?=daily\b))(\d+(?:\.\d+)?)?\s?({_UNIT_NAME}){_NO_LETTER}",
    re.I,
)
_MARKUP = (
    (re.compile(r"\\(?:text|mathrm|mathbf|rm)\s?\{([^{}]{0,99})\}|(?<=\d)\{(,)\}|\\(%)"), r"\1\2\3"),
    (re.compile(r"\\[dt]?frac\{(\d{1,3})\}\{(\d{1,3})\}"), r"\1/\2"),
    (re.compile(r"\\(?:[,;: ]|q?quad\b)|(?<=\d)~(?=[^\W\d])"), " "),
    (re.compile(r"(?<!\d)\*\*|\*\*(?!\d)|\$|</?(?:b|i|em|strong)>"), ""),
)
"""LaTeX and other markup in and around a number, and what replaces it."""
OPEN, CLOSE = "\u27e6", "\u27e7"
"""Marks around a quantity in :func:`mark_quantities`."""
_TOKEN = re.compile(f"{OPEN}([<>\u2264\u2265]?~?)([^|{CLOSE}]*)\\|([^{CLOSE}]*){CLOSE}")


class Quantity(NamedTuple):
    """Number of a text with its unit, between two positions."""

    start: int
    end: int
    value: Decimal | str
    """Value as written; the text itself for a name made of digits ("12.05.2023")."""
    comparison: str = ""
    """``<``, ``>``, ``≤`` or ``≥``; with ``~`` if words say it and the number itself is meant too ("up to 4 g")."""
    to: Decimal | None = None
    """Upper end of a range."""
    unit: str = ""
    """Unit in its base form (mg, ml, mmol …), a quotient with ``/``."""
    factor: Decimal = Decimal(1)
    """Number of base units in the written unit."""
    tolerance: bool = False
    """True if it follows ``±``."""

    def token(self) -> str:
        """Return its text between marks: equal for equal quantities."""
        sign = "\u00b1" if self.tolerance else ""
        if isinstance(self.value, str):
            return f"{OPEN}{self.comparison}{self.value}|{self.value} {self.unit}{CLOSE}"
        ends = [end for end in (self.value, self.to) if end is not None]
        written = "..".join(_plain(end) for end in ends)
        scaled = "..".join(_plain(end * self.factor) for end in ends)
        return f"{OPEN}{self.comparison}{sign}{written}|{sign}{scaled} {self.unit}{CLOSE}"


def decimal_mark(text: str) -> str:
    """Return the decimal mark that a text writes, ``.`` or ``,``; empty if its numbers and words do not show it."""
    point, comma = bool(_POINT.search(text)), bool(_COMMA.search(text))
    if point != comma:
        return "." if point else ","
    foreign, english = len(set(_COMMA_WORDS.findall(text))), len(set(_ENGLISH.findall(text)))
    if foreign == english or max(foreign, english) < 2:
        return "," if not text.isascii() and _CYRILLIC.search(text) else ""
    return "," if foreign > english else "."


def read_quantities(text: str, mark: str = "") -> list[Quantity]:
    """Return the quantities of a text in their order.

    Args:
        text: a text with its superscripts; compatibility forms would make 10⁹ into 109.
        mark: the decimal mark of ambiguous numbers; by default that of the text, and else the point.
    """
    text = _one_width(text)
    mark = mark or decimal_mark(text) or "."
    quantities: list[Quantity] = []
    done = 0
    for run in _RUN.finditer(text):
        if run.start() < done:
            continue
        for quantity in _numbers(text, run.start(), run[0], mark):
            if quantity.start >= done and (whole := _with_unit(text, quantity)) is not None:
                quantities.append(whole)
                done = whole.end
    for run in _VULGAR.finditer(text):
        single = Quantity(run.start(), run.end(), _vulgar(run[0]))
        if (whole := _with_unit(text, single)) is not None:
            quantities.append(whole)
    return _joined(text, sorted(quantities))


def mark_quantities(text: str, mark: str = "") -> str:
    """Return a text with every quantity as a token between :data:`OPEN` and :data:`CLOSE`; see `read_quantities`."""
    text = without_entities(text).replace(OPEN, "[").replace(CLOSE, "]")
    if any(sign in text for sign in "\\*$<{"):
        for pattern, replacement in _MARKUP:
            text = pattern.sub(replacement, text)
    parts, done = list[str](), 0
    for quantity in read_quantities(text, mark):
        parts += [text[done : quantity.start].rstrip("-\u2010\u2011\u2013"), f" {quantity.token()} "]
        done = quantity.end
    return "".join((*parts, text[done:]))


def quantity_pattern(marked: str) -> str:
    """Return a regular expression for a marked wording, whose quantities match those of the same value.

    A wording without unit matches any unit. A dose also matches a dose per time ("5 mg" in "5 mg/day"), and no other
    quotient ("5 mg/kg").
    """
    parts, done = list[str](), 0
    for token in _TOKEN.finditer(marked):
        parts += [re.escape(marked[done : token.start()]), _token_pattern(*token.groups())]
        done = token.end()
    return "".join((*parts, re.escape(marked[done:])))


def _token_pattern(comparison: str, written: str, scaled: str) -> str:
    strict = comparison.rstrip("~")
    before = f"{strict}~?" if strict else "(?:[\u2264\u2265]~)?"
    value, _, unit = scaled.partition(" ")
    if not unit:
        return rf"{OPEN}{before}{re.escape(written)}\|[^{CLOSE}]*{CLOSE}"
    per_time = "" if "/" in unit else _TIMES_OF_DAY
    return rf"{OPEN}{before}[^|<>\u2264\u2265~{CLOSE}]*\|{re.escape(f'{value} {unit}')}{per_time}{CLOSE}"


def _one_width(text: str) -> str:
    """Return a text of the same length with ASCII digits, single-width characters and one letter μ."""
    if text.isascii():
        return text
    text = text.translate(ONE_WIDTH).replace("\u00b5", "μ")
    return re.sub(r"[^\x00-\x7f]", lambda match: str(unicodedata.decimal(match[0], match[0])), text)


def _plain(number: Decimal) -> str:
    number = number.normalize()
    written = f"{number:f}" if -30 < number.adjusted() < 30 else str(number).lower()
    return written.replace("-", "\u00ac")  # a hyphen would be folded with those of words


def _vulgar(letter: str) -> Decimal:
    return Decimal(repr(round(unicodedata.numeric(letter), 6)))


def _numbers(text: str, start: int, run: str, mark: str) -> list[Quantity]:
    """Return the numbers of a run of digits and separators: one, or the elements of a list."""
    end = start + len(run)
    is_mixed = not run[-1].isdecimal()
    digits = run[:-1] if is_mixed else run
    if len(digits) > _MOST_DIGITS:
        return [Quantity(start, end, digits)]
    head, blank, rest = digits.partition(" ")
    if blank:
        if not re.fullmatch(r"[1-9]\d{0,2}", head) or _is_counted(text, start, end):
            return _numbers(text, start, head, mark) + _numbers(text, start + len(head) + 1, run[len(head) + 1 :], mark)
        digits = head + rest.replace(" ", "")
    digits = re.sub(rf"[{_GROUP}](?=\d{{3}}(?!\d))", "", digits)
    value = _value(digits.replace("\u00b7", ".").replace("\u066b", "."), mark)
    if value is not None:
        return [Quantity(start, end, value + _vulgar(run[-1]) if is_mixed else value)]
    if "," not in digits:
        return [Quantity(start, end, digits)]
    return [
        Quantity(start + part.start(), start + part.end(), Decimal(part[0]) if part[0].isdecimal() else part[0])
        for part in re.finditer(r"[^,]+", run)
    ]


def _is_counted(text: str, start: int, end: int) -> bool:
    """Return True if a blank separates two numbers: "2 500 mg tablets", "on day 1 500 mg"."""
    unit = _UNIT.match(text, end)
    has_form = unit is not None and _COUNTED.match(text, unit.end())
    return bool(has_form or _NUMBERED.search(text[max(0, start - 10) : start]))


def _value(digits: str, mark: str) -> Decimal | None:
    """Return the value of digits with points and commas; ``None`` if they are no number."""
    if digits.isdecimal() or re.fullmatch(r"\.\d+", digits):
        return Decimal(digits)
    if not re.fullmatch(r"[\d.,]+", digits):
        return None
    last = max(digits.rfind("."), digits.rfind(","))
    separator = digits[last]
    other = "," if separator == "." else "."
    head, tail = digits[:last], digits[last + 1 :]
    if other in head:  # 1,234.56 or 1.234,56
        is_grouped = separator not in head and _is_grouped(head, other)
        return Decimal(f"{head.replace(other, '')}.{tail}") if is_grouped else None
    if separator in head:  # 1,234,567
        return Decimal(digits.replace(separator, "")) if _is_grouped(digits, separator) else None
    if len(tail) == 3 and separator != mark and re.fullmatch(r"[1-9]\d{0,2}", head):
        return Decimal(head + tail)
    return Decimal(f"{head}.{tail}")


def _is_grouped(digits: str, separator: str) -> bool:
    """Return True for groups of three digits, or of two before the last three as in India."""
    return bool(re.fullmatch(rf"[1-9]\d{{0,2}}(?:\{separator}\d{{3}})+|[1-9]\d?(?:,\d\d)+,\d{{3}}", digits))


def _with_unit(text: str, quantity: Quantity) -> Quantity | None:
    """Return a number with its exponent, unit, sign and comparison; ``None`` if it is the beginning of a word (5th)."""
    value, end = quantity.value, quantity.end
    if isinstance(value, Decimal):
        value, end = _with_exponent(text, value, end)
    units, factor, matched = list[str](), Decimal(1), False
    unit = _UNIT.match(text, end)
    if unit and unit[1].lower() != "daily":
        name, scale = _base_unit(unit[1])
        name, scale = ("min", Decimal(_MINUTES[name])) if name in _MINUTES else (name, scale)
        units, factor, end, matched = [name], scale, unit.end(), True
    while (per := _PER.match(text, end)) and (matched or not per[1]):
        name, scale = _base_unit(per[2])
        units = [*(units or [""]), name]
        factor, end, matched = factor / scale / Decimal(per[1] or 1), per.end(), True
    if not matched and re.match(_LETTER, text[end : end + 1]):
        return None
    comparison, is_negative, tolerance, start = _prefix(text, quantity.start)
    if is_negative and isinstance(value, Decimal):
        value = -value
    return Quantity(start, end, value, comparison, unit="/".join(units), factor=factor, tolerance=tolerance)


def _with_exponent(text: str, value: Decimal, end: int) -> tuple[Decimal, int]:
    if value == 10 and (power := _POWER.match(text, end)):
        return _power(Decimal(1), power), power.end()
    if times := _TIMES.match(text, end):
        power = _POWER.match(text, times.end() + 2)
        return (_power(value, power), power.end()) if power else (value, end)
    if exponent := _E.match(text, end):
        return value.scaleb(int(exponent[1].translate(_SUPERSCRIPTS))), exponent.end()
    if word := _SCALE_WORD.match(text, end):
        return value.scaleb(_SCALES[(word[1] or word[2])[0].lower()]), word.end()
    return value, end


def _power(value: Decimal, power: re.Match[str]) -> Decimal:
    digits = next(group for group in power.groups() if group).translate(_SUPERSCRIPTS)
    return value.scaleb(int(digits)) if re.fullmatch(r"[-+]?\d{1,3}", digits) else value


def _prefix(text: str, start: int) -> tuple[str, bool, bool, int]:
    """Return comparison, sign and tolerance before a number, and their start."""
    before = text[max(0, start - 24) : start]
    match = _BEFORE.search(before)
    if match is None or (match["symbol"] and re.search(r"</?[a-zA-Z][^<>\s]{0,20}$", before[: match.start("symbol")])):
        return "", False, False, start
    if match["sign"] and _is_bullet(text, start):
        return "", False, False, start
    symbol = (match["symbol"] or "").translate(_SYMBOLS)
    comparison = {"<=": "\u2264", ">=": "\u2265"}.get(symbol, symbol)
    if word := (match["word"] or "").lower():
        negation, rest = re.fullmatch(r"(no |not )?(.*)", word).groups()  # type: ignore[union-attr]
        comparison = next(sign for name, sign in _WORDS.items() if rest.startswith(name))
        comparison = _NEGATED[comparison] if negation else comparison
    sign = (match["sign"] or "").strip().lower()
    return comparison, sign in ("-", "\u2212", "\u2013", "minus"), sign == "\u00b1", start - len(before) + match.start()


def _is_bullet(text: str, start: int) -> bool:
    """Return True if a hyphen before a number begins one of several lines of a list."""
    line_start = text.rfind("\n", max(0, start - 9), start) + 1
    if (not line_start and start > 8) or text[line_start : start - 1].strip():
        return False
    previous_line = text.rfind("\n", 0, max(0, line_start - 1)) + 1
    return any(
        _BULLET.match(text, other) for other in (previous_line, text.find("\n", start) + 1) if other != line_start
    )


@cache
def _base_unit(name: str) -> tuple[str, Decimal]:
    """Return the base form of a unit, and how much of it the unit is."""
    if name in ("mM", "MU"):
        return ("mmol/ml", Decimal("0.001")) if name == "mM" else ("unit", Decimal(10) ** 6)
    canonical = next((unit for pattern, unit in _CANONICAL if pattern.fullmatch(name)), name.lower())
    prefixed = _PREFIXED.fullmatch(canonical)
    if prefixed is None or canonical in ("min", "m"):
        return canonical, Decimal(1)
    prefix, base = prefixed.groups()
    scale = Decimal(10) ** _PREFIXES.get(prefix, 0)
    base, shift = {"g": ("mg", 3), "l": ("ml", 3), "mol": ("mmol", 3), "u": ("unit", 0), "m": ("mm", 3)}.get(
        base, (base, 0)
    )
    return base, scale.scaleb(shift)


def _joined(text: str, quantities: list[Quantity]) -> list[Quantity]:
    """Return the quantities with ranges ("5-10 mg") and ratios ("120/80", "1:1,000") as one each."""
    joined: list[Quantity] = []
    for quantity in quantities:
        previous = joined[-1] if joined else None
        between = text[previous.end : quantity.start] if previous else ""
        if previous and _RATIO.fullmatch(between) and not previous.unit and previous.to is None:
            joined[-1] = _ratio(previous, quantity, between.strip())
        elif previous and (whole := _range(text, previous, quantity)) is not None:
            joined[-1] = whole
        else:
            joined.append(quantity)
    return joined


def _ratio(left: Quantity, right: Quantity, sign: str) -> Quantity:
    low, high = left.value, right.value
    value: Decimal | str = sign.join(_plain(end) if isinstance(end, Decimal) else end for end in (low, high))
    if sign == "/" and value in ("1/2", "1/4", "3/4"):
        value = Decimal({"1/2": "0.5", "1/4": "0.25", "3/4": "0.75"}[str(value)])
    return left._replace(value=value, end=right.end, unit=right.unit, factor=right.factor)


def _range(text: str, left: Quantity, right: Quantity) -> Quantity | None:
    """Return the range of two quantities; ``None`` if they are two."""
    low, high, between = left.value, right.value, text[left.end : right.start]
    before = text[max(0, left.start - 40) : left.start].lower()
    if not between and isinstance(high, Decimal) and high < 0 and text[right.start] in "-\u2212\u2013":
        between, high = text[right.start], -high  # "5 mg-10 mg"
    if isinstance(low, str) or isinstance(high, str) or left.to is not None or left.comparison or right.comparison:
        return None
    if between.strip() == "and":
        if not re.search(r"\bbetween $", before):
            return None
    elif not _RANGE.fullmatch(between):
        return None
    elif between.strip() == "to" and re.search(r"\bfrom $", before) and not re.search(r"rang|var(?:y|ies)", before):
        return None  # "increase from 5 to 10 mg" ends at 10 mg
    unit, factor = (left.unit, left.factor) if left.unit else (right.unit, right.factor)
    if unit != right.unit or low * factor >= high * right.factor:
        return None
    return right._replace(start=left.start, value=low * factor / right.factor, to=high)
