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

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import listed
from ragrounds.evals.trace.expressions import SIGNS, Comparison, Token, TokenReader
from ragrounds.evals.trace.filter_fields import (
    ALIASES,
    BY_NAME,
    GOLD_PHRASES,
    HOW_WRITTEN,
    TEXTS,
    FilterField,
    read_figure,
)

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


def hint(text: str, *, is_typing: bool = False) -> str:
    """Return a hint about a bare word that is nearly a word of the language; empty if there is no such word.

    While the user `is_typing`, a last word that begins a word of the language has no hint.
    """
    try:
        expression = parse(text)
    except FilterError:
        return ""
    names = [*BY_NAME, *ALIASES]
    for test in single_conditions(expression):
        for word in test.text.split() if isinstance(test, TextTest) and not test.fields else ():
            if is_typing and text.endswith(word) and any(name.startswith(word) for name in names):
                continue
            if '"' not in word and (near := nearest(word, names)) and len(word) > _SHORT:
                return f"{word!r} is searched for as text.{near}"
    return ""


_SHORT = 3
"""Number of letters up to which a word is too short for a spelling hint."""
_CONNECTING = frozenset({"and", "or", "not"})
_WIDE = str.maketrans("：＜＞＝（）！　", ":<>=()! ")
"""Signs that mean the same. Each replaces exactly one character, so that positions stay valid."""
_QUOTED = r"""(?P<quoted>"(?:[^"\\]|\\.)*"\*?|[“”„«»](?:[^“”„«»\\]|\\.)*[“”„«»]\*?)|(?P<unclosed>["“”„«»])"""
_TOKEN = re.compile(
    rf"\s*(?:(?P<bracket>[()])|{_QUOTED}|(?P<sign><=|>=|!=|==|[<>=:])"
    r"|(?P<phrase>gold\s+(?:not\s+)?(?:(?:all\s+)?(?:found|seen|cut|known)|rank|hop)(?=[\s()<>=:!]|$)"
    r"|not\s+run(?=[\s()]|$))"
    r"|(?P<word>[^\s()\"“”„«»<>=:!]+|!))",
    re.DOTALL | re.IGNORECASE,
)
_VALUE = re.compile(rf"\s*(?:{_QUOTED}|(?P<word>(?:\[[^\]\s]*\]|[^\s()\"“”„«»])+))", re.DOTALL)
"""Value after a sign. A name may have brackets with signs in them, ``vanilla_rag[top_k=8]``."""
_GOLD = {words: replacement for words, replacement, _ in GOLD_PHRASES}
_ALONE = {"noted": "noted", "error": "troubled"}
"""Words that are flags if no sign follows them."""


def _error(token: Token, message: str) -> FilterError:
    return FilterError(message, token.position, len(token.text))


def _needs_brackets(expression: str) -> bool:
    try:
        return isinstance(parse(expression), AnyOf)
    except FilterError:
        return True


class _Parser(TokenReader):
    """Parser of an expression, from left to right."""

    def __init__(self, text: str) -> None:
        source = text.replace("\0", "\ufffd")
        super().__init__(source.translate(_WIDE), _TOKEN, source)
        self.depth = 0

    def match(self, pattern: re.Pattern[str]) -> tuple[Token, int]:
        """Return the token that follows and the position after it. Quoted text is kept as it was typed.

        Raises:
            FilterError: a quote is not closed.
        """
        token, end = super().match(pattern)
        if token.kind == "unclosed":
            raise FilterError(f"The quote at {token.position + 1} is not closed.", token.position, 1)
        return token, end

    def parse(self) -> Wanted | None:
        """Parse the whole expression."""
        if self.peek().kind == "end":
            return None
        expression = self._either()
        rest = self.peek()
        if rest.kind != "end":
            raise FilterError(f"There is no ( for the ) at {rest.position + 1}.", rest.position, 1)
        return expression

    def _either(self) -> Wanted:
        parts = [self._both()]
        while self.skip("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _both(self) -> Wanted:
        parts = [self.single()]
        while self.skip("and") or self.peek().plain not in ("", ")", "or"):
            part, last = self.single(), parts[-1]
            if isinstance(part, TextTest) and isinstance(last, TextTest) and part.fields == last.fields == ():
                # Adjacent words without a field are one search.
                parts[-1] = TextTest(f"{last.text} {part.text}", (), last.position)
            else:
                parts.append(part)
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def single(self) -> Wanted:
        """Parse one condition, with an optional `not` before it."""
        opposite = False
        while self.skip("not"):
            opposite = not opposite
        condition = self._positive(self.take())
        return Unless(condition) if opposite else condition

    def _positive(self, token: Token) -> Wanted:
        if token.text == "(":
            return self._bracketed(token)
        if token.kind == "quoted":
            return TextTest(_as_phrase(token), (), token.position)
        if token.kind in ("word", "phrase") and token.plain not in _CONNECTING and token.text != "!":
            return self._word(token)
        if token.kind == "end":
            raise FilterError("A condition is missing at the end: wrong, hops>3, agent:direct …", token.position, 1)
        needs = f"{token.text!r} at {token.position + 1} needs a condition before it"
        raise _error(token, f"{needs}: wrong, hops>3, agent:direct …")

    def _bracketed(self, opened: Token) -> Wanted:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FilterError(f"More than {_DEEPEST} brackets in brackets.", opened.position, 1)
        expression = self._either()
        if self.take().text != ")":
            raise FilterError(f"The ( at {opened.position + 1} has no ).", opened.position, 1)
        self.depth -= 1
        return expression

    def _word(self, token: Token) -> Wanted:
        words, ahead = " ".join(token.plain.split()), self.peek()
        if words.startswith("gold not "):
            return Unless(self._word(Token("phrase", words.replace(" not", "", 1), token.position)))
        if ahead.kind != "sign" and (expression := _GOLD.get(words)):
            return _Parser(expression).single()
        if words == "gold":
            raise _error(
                token,
                "gold needs found, seen, cut, known, rank or hop: gold found, gold not seen, gold rank<=5. "
                'As text: "gold".',
            )
        name = ALIASES.get(words, words.replace(" ", "_"))
        field = BY_NAME.get(name)
        if field is None:
            if ahead.kind != "sign":
                return TextTest(token.text, (), token.position)
            raise _error(
                token,
                f"There is no field {token.text!r}.{nearest(name, [*BY_NAME, *ALIASES])} "
                f'Put a text that contains a sign in quotes: "{token.text}{ahead.text}…".',
            )
        if ahead.kind == "sign":
            return self._compared(field, self.take())
        if field.kind == "flag":
            return FlagTest(field.name)
        if field.name in _ALONE:
            return FlagTest(_ALONE[field.name])
        if field.counts:
            return NumberTest(field.name, ">", 0)
        raise _error(
            token,
            f"{token.text!r} needs something to compare with: {field.example}. "
            f'The word itself as text: "{token.text}".',
        )

    def _compared(self, field: FilterField, sign: Token) -> Wanted:
        value = self.take(_VALUE)
        if value.kind == "end":
            raise _error(sign, f"{field.name}{sign.text} needs a value: {field.example}.")
        if field.kind == "flag":
            raise _error(sign, f"{field.name!r} takes no value: leave {sign.text!r} out.")
        if field.kind == "number":
            return self._number(field, sign, value)
        if sign.text not in (":", "=", "==", "!="):
            raise _error(sign, f"{field.name!r} is no number: {field.example}.")
        if field.kind == "text":
            fields = () if field.name == "text" else (TEXTS.get(field.name, field.name),)
            test: Wanted = TextTest(_as_phrase(value), fields, value.position)
        else:
            name = _known_value(field, _unquoted(value), value.position)
            test = ValueTest(field.name, name, sign.text != ":", value.position)
        return Unless(test) if sign.text == "!=" else test

    def _number(self, field: FilterField, sign: Token, value: Token) -> NumberTest:
        comparison, text = SIGNS[sign.text], _unquoted(value)
        ahead = self.peek()
        if ahead.kind == "word" and text[-1:].isdigit() and read_figure(text + ahead.text, field.unit) is not None:
            text += self.take().text  # 10 s
        if text.casefold() in ("unknown", "none", "?") and comparison in ("=", "!="):
            return NumberTest(field.name, comparison, None)
        figure = read_figure(text, field.unit)
        if figure is None:
            expected = f"expected {HOW_WRITTEN[field.unit]}, as in {field.example}"
            raise _error(value, f"{field.name}{sign.text}{text}: {expected}.")
        return NumberTest(field.name, comparison, figure)


def _unquoted(token: Token) -> str:
    if token.kind != "quoted":
        return token.text
    return re.sub(r"\\(.)", r"\1", token.text.removesuffix("*")[1:-1], flags=re.DOTALL)


def _as_phrase(token: Token) -> str:
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
    candidates = [name.partition("[")[0] for name in existing_names] if "[" not in test.value else existing_names
    known_names = f" There are: {listed(existing_names, _SHOWN)}." if existing_names else f" No {field} is known here."
    return FilterError(
        f"No {field} is called or holds {test.value!r}.{nearest(test.value, candidates)}{known_names}",
        test.position,
        len(test.value),
    )


_SHOWN = 8
"""Number of names that an error lists."""
