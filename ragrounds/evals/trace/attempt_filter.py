"""The language that selects attempts: ``wrong and hops>3 and gold not seen``.

    or          lowest; `and` binds closer, `not` closest; adjacent conditions mean `and`
    right       a flag needs no value: `right`, `wrong`, `failed`, `marked` …
    hops>3      a number is compared with < <= > >= = != (`:` is `=`); `cost=unknown` if it is not known
    agent:x     a name: the one that equals x if there is one, else all that contain x
    "two words" full text of everything; `query:`, `passage:`, `reply:`, `answer:` search one part alone
    gold …      `gold found`, `gold not seen`, `gold rank<=5`, `gold hop=1`

An unknown figure satisfies neither a condition nor its opposite, and so does gold of a question without known gold
documents. Every word is in :data:`ragrounds.evals.trace.filter_fields.FIELDS`. An error names its position, what was
expected, and a likely correction. Nothing that is typed becomes SQL or a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.evals.trace.filter_fields import (
    ALIASES,
    BY_NAME,
    GOLD_PHRASES,
    TEXTS,
    FilterField,
    how_written,
    read_figure,
)

Comparison = Literal["<", "<=", ">", ">=", "=", "!="]

LONGEST = 4000
"""Largest number of characters of an expression."""
_DEEPEST = 8
"""Largest depth of nested brackets. SQLite's parser has a stack of 100, and each bracket takes several entries."""


class FilterError(UserError):
    """An expression that cannot be understood. `position` and `length` locate the characters that are meant."""

    def __init__(self, message: str, position: int = 0, length: int = 0) -> None:
        super().__init__(message)
        self.position, self.length = position, length


class AllOf(Struct, frozen=True, tag=True):
    """Conjunction of conditions."""

    parts: tuple[Wanted, ...]


class AnyOf(Struct, frozen=True, tag=True):
    """Disjunction of conditions."""

    parts: tuple[Wanted, ...]


class Unless(Struct, frozen=True, tag=True):
    """Opposite of a condition. If the condition is unknown for an attempt, so is its opposite."""

    part: Wanted


class FlagTest(Struct, frozen=True, tag=True):
    """Word without a value, such as ``wrong``."""

    field: str


class NumberTest(Struct, frozen=True, tag=True):
    """Comparison of a figure with a number. With ``None`` it tests that the figure is unknown (``=``) or known
    (``!=``).
    """

    field: str
    comparison: Comparison
    value: float | None


class ValueTest(Struct, frozen=True, tag=True):
    """Name that has to match; `position` is its position in the expression."""

    field: str
    value: str
    exactly: bool = False
    position: int = 0


class TextTest(Struct, frozen=True, tag=True):
    """Words that the attempt's texts must contain. Words in quotes must be adjacent."""

    text: str
    fields: tuple[str, ...] = ()
    position: int = 0


Test = FlagTest | NumberTest | ValueTest | TextTest
Wanted = AllOf | AnyOf | Unless | Test
"""Expression as plain records, which can be written as JSON and read again."""


def single_conditions(expression: Wanted | None) -> Iterator[Test]:
    """Yield the single conditions of an expression."""
    match expression:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from single_conditions(part)
        case Unless(part):
            yield from single_conditions(part)
        case FlagTest() | NumberTest() | ValueTest() | TextTest():
            yield expression


def parse(text: str) -> Wanted | None:
    """Parse an expression; ``None`` if it is empty, which selects all attempts.

    Raises:
        FilterError: it cannot be understood.
    """
    if len(text) > LONGEST:
        raise FilterError(f"The filter has {len(text):,} characters; at most {LONGEST:,} can be read.", LONGEST)
    return _Parser(text).parse()


def quoted(value: str) -> str:
    """Return a name or text as it can be typed after ``agent:``."""
    if re.fullmatch(r"[\w./@+\-]+(\[[\w./@+\-=,:]*\])?", value) and value.casefold() not in _CONNECTING:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def joined(*expressions: str) -> str:
    """Return an expression that selects the attempts which all of these select; empty ones select all."""
    non_empty = [expression.strip() for expression in expressions if expression.strip()]
    if len(non_empty) < 2:
        return "".join(non_empty)
    return " and ".join(f"({expression})" if _needs_brackets(expression) else expression for expression in non_empty)


def hint(text: str) -> str:
    """Return a hint about a bare word that is nearly a word of the language; empty if there is no such word."""
    try:
        expression = parse(text)
    except FilterError:
        return ""
    for test in single_conditions(expression):
        for word in test.text.split() if isinstance(test, TextTest) and not test.fields else ():
            if '"' not in word and (near := nearest(word, [*BY_NAME, *ALIASES])) and len(word) > _SHORT:
                return f"{word!r} is searched for as text.{near}"
    return ""


_SHORT = 3
"""Number of letters up to which a word is too short for a spelling hint."""
_CONNECTING = frozenset({"and", "or", "not"})
_WIDE = str.maketrans("：＜＞＝（）！　", ":<>=()! ")
"""Signs that mean the same. Each replaces exactly one character, so that positions stay valid."""
_QUOTED = r"""(?P<quoted>"(?:[^"\\]|\\.)*(?P<closed>"\*?)?|[“”„«»](?:[^“”„«»\\]|\\.)*(?P<ended>[“”„«»]\*?)?)"""
_TOKEN = re.compile(
    rf"\s*(?:(?P<bracket>[()])|{_QUOTED}|(?P<sign><=|>=|!=|==|[<>=:])|(?P<word>[^\s()\"“”„«»<>=:!]+|!))", re.DOTALL
)
_VALUE = re.compile(rf"\s*(?:{_QUOTED}|(?P<word>(?:\[[^\]\s]*\]|[^\s()\"“”„«»])+))", re.DOTALL)
"""Value after a sign. A name may have brackets with signs in them, ``vanilla_rag[top_k=8]``."""
_KINDS: dict[str, Literal["bracket", "sign", "word"]] = {"bracket": "bracket", "sign": "sign", "word": "word"}
_GOLD = {words: replacement for words, replacement, _ in GOLD_PHRASES if replacement}
_ALONE = {"noted": "noted", "error": "troubled"}
"""Words that are flags if no sign follows them."""
_COMPARISONS: dict[str, Comparison] = {
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "=": "=", "==": "=", ":": "=", "!=": "!=",
}  # fmt: skip


def _needs_brackets(expression: str) -> bool:
    try:
        return isinstance(parse(expression), AnyOf)
    except FilterError:
        return True


class _Token(Struct, frozen=True):
    kind: Literal["bracket", "quoted", "sign", "word", "end"]
    text: str
    position: int

    @property
    def plain(self) -> str:
        """Return a word without case; empty for any other token."""
        return self.text.casefold() if self.kind == "word" else ""


class _Parser:
    """Parser of an expression, from left to right."""

    def __init__(self, text: str) -> None:
        self.source_text = text.replace("\0", "\ufffd")
        self.text = self.source_text.translate(_WIDE)
        self.position = 0
        self.depth = 0

    def parse(self) -> Wanted | None:
        """Parse the whole expression."""
        if self._peek().kind == "end":
            return None
        expression = self._either()
        rest = self._peek()
        if rest.kind != "end":
            raise FilterError(f"There is no ( for the ) at {rest.position + 1}.", rest.position, 1)
        return expression

    def _either(self) -> Wanted:
        parts = [self._both()]
        while self._peek().plain == "or":
            self._take()
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _both(self) -> Wanted:
        parts = [self.single()]
        while True:
            ahead = self._peek()
            if ahead.plain == "and":
                self._take()
            elif ahead.kind == "end" or ahead.text == ")" or ahead.plain == "or":
                break
            part, last = self.single(), parts[-1]
            if isinstance(part, TextTest) and isinstance(last, TextTest) and part.fields == last.fields == ():
                # Adjacent words without a field are one search.
                parts[-1] = TextTest(f"{last.text} {part.text}", (), last.position)
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def single(self) -> Wanted:
        """Parse one condition, with an optional `not` before it."""
        token, opposite = self._take(), False
        while token.plain == "not":
            if self._peek().plain == "run":
                self._take()
                return Unless(FlagTest("not_run")) if opposite else FlagTest("not_run")
            token, opposite = self._take(), not opposite
        condition = self._positive(token)
        return Unless(condition) if opposite else condition

    def _positive(self, token: _Token) -> Wanted:
        if token.text == "(" and token.kind == "bracket":
            return self._bracketed(token)
        if token.kind == "quoted":
            return TextTest(_as_phrase(token), (), token.position)
        if token.kind == "word" and token.plain not in _CONNECTING and token.text != "!":
            return self._word(token)
        if token.kind == "end":
            raise FilterError("A condition is missing at the end: wrong, hops>3, agent:direct …", token.position, 1)
        raise FilterError(
            f"{token.text!r} at {token.position + 1} needs a condition before it: wrong, hops>3, agent:direct …",
            token.position,
            len(token.text),
        )

    def _bracketed(self, opened: _Token) -> Wanted:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FilterError(f"More than {_DEEPEST} brackets in brackets.", opened.position, 1)
        expression = self._either()
        if self._take().text != ")":
            raise FilterError(f"The ( at {opened.position + 1} has no ).", opened.position, 1)
        self.depth -= 1
        return expression

    def _word(self, token: _Token) -> Wanted:
        name = ALIASES.get(token.plain, token.plain)
        if name == "gold":
            return self._gold(token)
        field, ahead = BY_NAME.get(name), self._peek()
        if ahead.kind == "sign":
            if field is None:
                raise FilterError(
                    f"There is no field {token.text!r}.{nearest(name, [*BY_NAME, *ALIASES])} "
                    f'Put a text that contains a sign in quotes: "{token.text}{ahead.text}…".',
                    token.position,
                    len(token.text),
                )
            return self._compared(field, token, self._take())
        if field is None:
            return TextTest(token.text, (), token.position)
        return self._alone(field, token)

    def _alone(self, field: FilterField, token: _Token) -> Wanted:
        if field.kind == "flag":
            return FlagTest(field.name)
        if field.name in _ALONE:
            return FlagTest(_ALONE[field.name])
        if field.counts:
            return NumberTest(field.name, ">", 0)
        raise FilterError(
            f"{token.text!r} needs something to compare with: {field.example}. "
            f'The word itself as text: "{token.text}".',
            token.position,
            len(token.text),
        )

    def _compared(self, field: FilterField, token: _Token, sign: _Token) -> Wanted:
        start, value = self._value(field, sign)
        if field.kind == "flag":
            raise FilterError(f"{field.name!r} takes no value: leave {sign.text!r} out.", sign.position, len(sign.text))
        if field.kind == "number":
            return self._number(field, sign, value)
        if sign.text not in (":", "=", "==", "!="):
            raise FilterError(f"{field.name!r} is no number: {field.example}.", sign.position, len(sign.text))
        if field.kind == "text":
            fields = () if field.name == "text" else (TEXTS.get(field.name, field.name),)
            test: Wanted = TextTest(_as_phrase(value), fields, start)
        else:
            test = ValueTest(field.name, _known_value(field, _unquoted(value), start), sign.text != ":", start)
        return Unless(test) if sign.text == "!=" else test

    def _number(self, field: FilterField, sign: _Token, value: _Token) -> NumberTest:
        comparison, text = _COMPARISONS[sign.text], _unquoted(value)
        ahead = self._peek()
        if ahead.kind == "word" and text[-1:].isdigit() and read_figure(text + ahead.text, field.unit) is not None:
            text += self._take().text  # 10 s
        if text.casefold() in ("unknown", "none", "?") and comparison in ("=", "!="):
            return NumberTest(field.name, comparison, None)
        figure = read_figure(text, field.unit)
        if figure is None:
            raise FilterError(
                f"{field.name}{sign.text}{text}: expected {how_written(field.unit)}, as in {field.example}.",
                value.position,
                len(value.text),
            )
        return NumberTest(field.name, comparison, figure)

    def _gold(self, token: _Token) -> Wanted:
        """Parse ``gold found``, ``gold not seen``, ``gold all found`` or ``gold rank<=5``."""
        opposite, every = self._skips("not"), self._skips("all")
        ahead = self._take()
        field, words = BY_NAME.get(f"gold_{ahead.plain}"), f"{'all ' if every else ''}{ahead.plain}"
        if field is not None and not every and self._peek().kind == "sign":
            condition = self._compared(field, ahead, self._take())
        elif opposite and (exactly := _GOLD.get(f"gold not {words}")):
            return _Parser(exactly).single()
        elif replacement := _GOLD.get(f"gold {words}"):
            condition = _Parser(replacement).single()
        elif field is not None and not every:
            raise FilterError(f"gold {ahead.text} needs a number: {field.example}.", ahead.position, len(ahead.text))
        else:
            raise FilterError(
                "gold needs found, seen, cut, known, rank or hop: gold found, gold not seen, gold rank<=5. "
                'As text: "gold".',
                token.position,
                len(token.text),
            )
        return Unless(condition) if opposite else condition

    def _skips(self, word: str) -> bool:
        return self._peek().plain == word and bool(self._take())

    def _value(self, field: FilterField, sign: _Token) -> tuple[int, _Token]:
        match = _VALUE.match(self.text, self.position)
        if match is None:
            raise FilterError(f"{field.name}{sign.text} needs a value: {field.example}.", sign.position, len(sign.text))
        token = self._token(match)
        self.position = match.end()
        return token.position, token

    def _peek(self) -> _Token:
        match = _TOKEN.match(self.text, self.position)
        return _Token("end", "", len(self.text)) if match is None else self._token(match)

    def _take(self) -> _Token:
        token = self._peek()
        if match := _TOKEN.match(self.text, self.position):
            self.position = match.end()
        return token

    def _token(self, match: re.Match[str]) -> _Token:
        kind, (start, end) = match.lastgroup or "", match.span(match.lastgroup or 0)
        if kind == "quoted":
            if not (match["closed"] or match["ended"]):
                raise FilterError(f"The quote at {start + 1} is not closed.", start, 1)
            return _Token("quoted", self.source_text[start:end], start)  # quoted text is kept as it was typed
        return _Token(_KINDS[kind], self.text[start:end], start)


def _unquoted(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    return re.sub(r"\\(.)", r"\1", token.text.removesuffix("*")[1:-1], flags=re.DOTALL)


def _as_phrase(token: _Token) -> str:
    """Return words for the full-text search. A quoted text stays in quotes, without quotes inside."""
    if token.kind != "quoted":
        return token.text
    inside = " ".join(_unquoted(token).replace('"', " ").split())
    return f'"{inside}"' + ("*" if token.text.endswith("*") else "")


def _known_value(field: FilterField, value: str, position: int) -> str:
    if not field.values:
        return value
    plain = value.casefold().replace(" ", "_")
    if plain not in field.values:
        raise FilterError(
            f"{field.name}:{value} is unknown.{nearest(plain, field.values)} Known: {', '.join(field.values)}.",
            position,
            len(value),
        )
    return plain


def no_such(field: str, test: ValueTest, existing_names: Sequence[str]) -> FilterError:
    """Return the error for a name that nothing has; `existing_names` are the existing names."""
    listed = ", ".join(existing_names[:_SHOWN]) + (
        f" and {len(existing_names) - _SHOWN} more" if len(existing_names) > _SHOWN else ""
    )
    candidates = [name.partition("[")[0] for name in existing_names] if "[" not in test.value else existing_names
    known_names = f" There are: {listed}." if existing_names else f" No {field} is known here."
    return FilterError(
        f"No {field} is called or holds {test.value!r}.{nearest(test.value, candidates)}{known_names}",
        test.position,
        len(test.value),
    )


_SHOWN = 8
"""Number of names that an error lists."""
