"""The language by which attempts are chosen: ``wrong and hops>3 and gold not seen``.

    or          lowest; `and` binds closer, `not` closest; conditions side by side mean `and`
    right       a flag stands alone: `right`, `wrong`, `failed`, `marked` …
    hops>3      a number is compared with < <= > >= = != (`:` is `=`); `cost=unknown` where it is not known
    agent:x     a name: this one where there is one by exactly this name, else all that hold it
    "two words" full text of everything; `query:`, `passage:`, `reply:`, `answer:` look in one part alone
    gold …      `gold found`, `gold not seen`, `gold rank<=5`, `gold hop=1`

A figure that is not known, and gold of a question whose gold documents are not known, fit neither a condition nor its
opposite. Every word is in :data:`ragrounds.evals.trace.filter_fields.FIELDS`. An error says where it is, what was
expected and what is meant perhaps. Nothing of what is typed becomes SQL or a pattern.
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
"""Characters of an expression."""
_DEEPEST = 8
"""Brackets in brackets. SQLite's parser has a stack of 100, of which each takes several."""


class FilterError(UserError):
    """An expression that cannot be understood. `at` and `length` say which of its characters are meant."""

    def __init__(self, message: str, at: int = 0, length: int = 0) -> None:
        super().__init__(message)
        self.at, self.length = at, length


class AllOf(Struct, frozen=True, tag=True):
    """Every one of some conditions."""

    parts: tuple[Wanted, ...]


class AnyOf(Struct, frozen=True, tag=True):
    """At least one of some conditions."""

    parts: tuple[Wanted, ...]


class Unless(Struct, frozen=True, tag=True):
    """The opposite of a condition; what it cannot say, its opposite cannot either."""

    part: Wanted


class FlagTest(Struct, frozen=True, tag=True):
    """A word that stands alone."""

    field: str


class NumberTest(Struct, frozen=True, tag=True):
    """A figure compared with a number; with ``None``: whether it is not known (``=``) or is (``!=``)."""

    field: str
    comparison: Comparison
    value: float | None


class ValueTest(Struct, frozen=True, tag=True):
    """A name that has to fit; `at` is its place in the expression."""

    field: str
    value: str
    exactly: bool = False
    at: int = 0


class TextTest(Struct, frozen=True, tag=True):
    """Words that the attempt's texts have to hold, in quotes those that stand side by side."""

    text: str
    fields: tuple[str, ...] = ()
    at: int = 0


Test = FlagTest | NumberTest | ValueTest | TextTest
Wanted = AllOf | AnyOf | Unless | Test
"""An expression as plain records: it can be written as JSON, and read again."""


def single_conditions(wanted: Wanted | None) -> Iterator[Test]:
    """The single conditions in an expression."""
    match wanted:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from single_conditions(part)
        case Unless(part):
            yield from single_conditions(part)
        case FlagTest() | NumberTest() | ValueTest() | TextTest():
            yield wanted


def parse(text: str) -> Wanted | None:
    """What an expression chooses; ``None``: it is empty, all attempts are meant.

    Raises:
        FilterError: it cannot be understood.
    """
    if len(text) > LONGEST:
        raise FilterError(f"The filter has {len(text):,} characters; at most {LONGEST:,} can be read.", LONGEST)
    return _Parser(text).whole()


def quoted(value: str) -> str:
    """A name or text as it can be typed behind ``agent:``."""
    if re.fullmatch(r"[\w./@+\-]+(\[[\w./@+\-=,:]*\])?", value) and value.casefold() not in _CONNECTING:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def joined(*expressions: str) -> str:
    """An expression that chooses what every one of these does; empty ones choose all."""
    given = [one.strip() for one in expressions if one.strip()]
    if len(given) < 2:
        return "".join(given)
    return " and ".join(f"({one})" if _needs_brackets(one) else one for one in given)


def hint(text: str) -> str:
    """What may be amiss in an expression that can be read: a bare word that is nearly one of the language; empty:
    nothing."""
    try:
        wanted = parse(text)
    except FilterError:
        return ""
    for test in single_conditions(wanted):
        for word in test.text.split() if isinstance(test, TextTest) and not test.fields else ():
            if '"' not in word and (near := nearest(word, [*BY_NAME, *ALIASES])) and len(word) > _SHORT:
                return f"{word!r} is searched for as text.{near}"
    return ""


_SHORT = 3
"""Letters of a word that is too short to be nearly another."""
_CONNECTING = frozenset({"and", "or", "not"})
_WIDE = str.maketrans("：＜＞＝（）！　", ":<>=()! ")
"""Signs that mean the same, one for one, so that places stay."""
_QUOTED = r"""(?P<quoted>"(?:[^"\\]|\\.)*(?P<closed>"\*?)?|[“”„«»](?:[^“”„«»\\]|\\.)*(?P<ended>[“”„«»]\*?)?)"""
_TOKEN = re.compile(
    rf"\s*(?:(?P<bracket>[()])|{_QUOTED}|(?P<sign><=|>=|!=|==|[<>=:])|(?P<word>[^\s()\"“”„«»<>=:!]+|!))", re.DOTALL
)
_VALUE = re.compile(rf"\s*(?:{_QUOTED}|(?P<word>(?:\[[^\]\s]*\]|[^\s()\"“”„«»])+))", re.DOTALL)
"""What stands behind a sign: a name may have brackets with signs in them, ``vanilla_rag[top_k=8]``."""
_KINDS: dict[str, Literal["bracket", "sign", "word"]] = {"bracket": "bracket", "sign": "sign", "word": "word"}
_GOLD = {words: meant for words, meant, _ in GOLD_PHRASES if meant}
_ALONE = {"noted": "noted", "error": "troubled"}
"""Words that are flags where nothing is behind them."""
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
    at: int

    @property
    def plain(self) -> str:
        """A word without case; empty for anything else."""
        return self.text.casefold() if self.kind == "word" else ""


class _Parser:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self.given = text.replace("\0", "\ufffd")
        self.text = self.given.translate(_WIDE)
        self.place = 0
        self.depth = 0

    def whole(self) -> Wanted | None:
        """The whole expression."""
        if self._peek().kind == "end":
            return None
        wanted = self._either()
        left = self._peek()
        if left.kind != "end":
            raise FilterError(f"There is no ( for the ) at {left.at + 1}.", left.at, 1)
        return wanted

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
                # Bare words side by side are one search.
                parts[-1] = TextTest(f"{last.text} {part.text}", (), last.at)
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def single(self) -> Wanted:
        """One condition, perhaps with `not` before it."""
        token, opposite = self._take(), False
        while token.plain == "not":
            if self._peek().plain == "run":
                self._take()
                return Unless(FlagTest("not_run")) if opposite else FlagTest("not_run")
            token, opposite = self._take(), not opposite
        wanted = self._positive(token)
        return Unless(wanted) if opposite else wanted

    def _positive(self, token: _Token) -> Wanted:
        if token.text == "(" and token.kind == "bracket":
            return self._bracketed(token)
        if token.kind == "quoted":
            return TextTest(_as_phrase(token), (), token.at)
        if token.kind == "word" and token.plain not in _CONNECTING and token.text != "!":
            return self._word(token)
        if token.kind == "end":
            raise FilterError("A condition is missing at the end: wrong, hops>3, agent:direct …", token.at, 1)
        raise FilterError(
            f"{token.text!r} at {token.at + 1} needs a condition before it: wrong, hops>3, agent:direct …",
            token.at,
            len(token.text),
        )

    def _bracketed(self, opened: _Token) -> Wanted:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FilterError(f"More than {_DEEPEST} brackets in brackets.", opened.at, 1)
        wanted = self._either()
        if self._take().text != ")":
            raise FilterError(f"The ( at {opened.at + 1} has no ).", opened.at, 1)
        self.depth -= 1
        return wanted

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
                    token.at,
                    len(token.text),
                )
            return self._compared(field, token, self._take())
        if field is None:
            return TextTest(token.text, (), token.at)
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
            token.at,
            len(token.text),
        )

    def _compared(self, field: FilterField, token: _Token, sign: _Token) -> Wanted:
        start, value = self._value(field, sign)
        if field.kind == "flag":
            raise FilterError(f"{field.name!r} takes no value: leave {sign.text!r} out.", sign.at, len(sign.text))
        if field.kind == "number":
            return self._number(field, sign, value)
        if sign.text not in (":", "=", "==", "!="):
            raise FilterError(f"{field.name!r} is no number: {field.example}.", sign.at, len(sign.text))
        if field.kind == "text":
            fields = () if field.name == "text" else (TEXTS.get(field.name, field.name),)
            found: Wanted = TextTest(_as_phrase(value), fields, start)
        else:
            found = ValueTest(field.name, _known(field, _unquoted(value), start), sign.text != ":", start)
        return Unless(found) if sign.text == "!=" else found

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
                value.at,
                len(value.text),
            )
        return NumberTest(field.name, comparison, figure)

    def _gold(self, token: _Token) -> Wanted:
        """``gold found``, ``gold not seen``, ``gold all found``, ``gold rank<=5``."""
        opposite, whole = self._skips("not"), self._skips("all")
        ahead = self._take()
        field, words = BY_NAME.get(f"gold_{ahead.plain}"), f"{'all ' if whole else ''}{ahead.plain}"
        if field is not None and not whole and self._peek().kind == "sign":
            found = self._compared(field, ahead, self._take())
        elif opposite and (exactly := _GOLD.get(f"gold not {words}")):
            return _Parser(exactly).single()
        elif meant := _GOLD.get(f"gold {words}"):
            found = _Parser(meant).single()
        elif field is not None and not whole:
            raise FilterError(f"gold {ahead.text} needs a number: {field.example}.", ahead.at, len(ahead.text))
        else:
            raise FilterError(
                "gold needs found, seen, cut, known, rank or hop: gold found, gold not seen, gold rank<=5. "
                'As text: "gold".',
                token.at,
                len(token.text),
            )
        return Unless(found) if opposite else found

    def _skips(self, word: str) -> bool:
        return self._peek().plain == word and bool(self._take())

    def _value(self, field: FilterField, sign: _Token) -> tuple[int, _Token]:
        found = _VALUE.match(self.text, self.place)
        if found is None:
            raise FilterError(f"{field.name}{sign.text} needs a value: {field.example}.", sign.at, len(sign.text))
        token = self._token(found)
        self.place = found.end()
        return token.at, token

    def _peek(self) -> _Token:
        found = _TOKEN.match(self.text, self.place)
        return _Token("end", "", len(self.text)) if found is None else self._token(found)

    def _take(self) -> _Token:
        token = self._peek()
        if found := _TOKEN.match(self.text, self.place):
            self.place = found.end()
        return token

    def _token(self, found: re.Match[str]) -> _Token:
        kind, (start, end) = found.lastgroup or "", found.span(found.lastgroup or 0)
        if kind == "quoted":
            if not (found["closed"] or found["ended"]):
                raise FilterError(f"The quote at {start + 1} is not closed.", start, 1)
            return _Token("quoted", self.given[start:end], start)  # what is quoted stays as it was typed
        return _Token(_KINDS[kind], self.text[start:end], start)


def _unquoted(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    return re.sub(r"\\(.)", r"\1", token.text.removesuffix("*")[1:-1], flags=re.DOTALL)


def _as_phrase(token: _Token) -> str:
    """Words for the full text: quoted ones in quotes without any inside."""
    if token.kind != "quoted":
        return token.text
    inside = " ".join(_unquoted(token).replace('"', " ").split())
    return f'"{inside}"' + ("*" if token.text.endswith("*") else "")


def _known(field: FilterField, value: str, at: int) -> str:
    if not field.values:
        return value
    plain = value.casefold().replace(" ", "_")
    if plain not in field.values:
        raise FilterError(
            f"{field.name}:{value} is unknown.{nearest(plain, field.values)} Known: {', '.join(field.values)}.",
            at,
            len(value),
        )
    return plain


def no_such(field: str, test: ValueTest, known: Sequence[str]) -> FilterError:
    """The error for a name that nothing has; `known` are those that there are."""
    shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
    near = [name.partition("[")[0] for name in known] if "[" not in test.value else known
    there = f" There are: {shown}." if known else f" No {field} is known here."
    return FilterError(
        f"No {field} is called or holds {test.value!r}.{nearest(test.value, near)}{there}", test.at, len(test.value)
    )


_SHOWN = 8
"""Names that an error lists."""
