"""Two attempts side by side, without a terminal: their searches, model calls and answers aligned, differences marked.

What belongs together is found as for texts that are compared: the pairing of both sequences, in their order, whose
parts are most alike. Searches are alike by the words of their queries, model calls by role and node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.store.hop_reading import HopsOfAttempt
from ragrounds.evals.store.hops import FoundPassage, Hop, plain_query
from ragrounds.evals.store.traces import TracedCall
from ragrounds.records import Score
from ragrounds.ui.call_words import FATE_SIGNS
from ragrounds.ui.text import duration, number_of, one_line, percent, tokens
from ragrounds.ui.trace.attempt_list import mark
from ragrounds.ui.trace.hop_lines import fate_words
from ragrounds.ui.trace.layout import Cells, TextBlock, fit

_MOST = 250_000
"""Pairs of moves that are weighed; longer attempts are aligned place by place."""
_SAME_ROLE, _SAME_NODE, _SAME_QUERY = 0.8, 0.4, 2.0
_WORD = re.compile(r"\w+|[^\w\s]")

Difference = Literal["same", "differs", "left only", "right only"]
SIGNS: dict[Difference, str] = {"same": "=", "differs": "≠", "left only": "<", "right only": ">"}
"""How a line of two attempts differs, as it is written between them."""


class Move(Struct, frozen=True, kw_only=True):
    """One thing that an attempt did: a search, a call of a model or tool, its answer."""

    kind: Literal["search", "call", "answer"]
    place: int
    """Of its call among the calls of the attempt; of the answer the number of calls."""
    hop: Hop | None = None
    call: TracedCall | None = None


class AlignedMoves(Struct, frozen=True, kw_only=True):
    """What two attempts did beside each other; ``None``: this one did nothing of that kind there."""

    left: Move | None
    right: Move | None
    difference: Difference


def moves(read: HopsOfAttempt) -> tuple[Move, ...]:
    """What an attempt did, in order, its answer last."""
    by_place = {hop.call: hop for hop in read.hops}
    made = [
        Move(kind="search" if place in by_place else "call", place=place, hop=by_place.get(place), call=call)
        for place, call in enumerate(read.calls)
    ]
    return (*made, Move(kind="answer", place=len(read.calls)))


def align(left: HopsOfAttempt, right: HopsOfAttempt) -> list[AlignedMoves]:
    """Two attempts, line by line, the answers last."""
    ones, others = moves(left), moves(right)
    pairs = _paired(ones[:-1], others[:-1])
    pairs.append((ones[-1], others[-1]))
    return [
        AlignedMoves(left=one, right=other, difference=_difference(left, one, right, other)) for one, other in pairs
    ]


def _paired(ones: Sequence[Move], others: Sequence[Move]) -> list[tuple[Move | None, Move | None]]:
    if len(ones) * len(others) > _MOST:
        longest = max(len(ones), len(others))
        return [
            (ones[at] if at < len(ones) else None, others[at] if at < len(others) else None) for at in range(longest)
        ]
    # The best sum of likenesses of all that may still follow, from the ends backwards.
    best = [[0.0] * (len(others) + 1) for _ in range(len(ones) + 1)]
    alike = [[_alike(one, other) for other in others] for one in ones]
    for row in range(len(ones) - 1, -1, -1):
        for column in range(len(others) - 1, -1, -1):
            together = alike[row][column] + best[row + 1][column + 1] if alike[row][column] else 0.0
            best[row][column] = max(together, best[row + 1][column], best[row][column + 1])
    pairs: list[tuple[Move | None, Move | None]] = []
    row = column = 0
    while row < len(ones) or column < len(others):
        if row == len(ones):
            pairs.append((None, others[column]))
            column += 1
        elif column == len(others):
            pairs.append((ones[row], None))
            row += 1
        elif alike[row][column] and best[row][column] == alike[row][column] + best[row + 1][column + 1]:
            pairs.append((ones[row], others[column]))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row + 1][column]:
            pairs.append((ones[row], None))
            row += 1
        else:
            pairs.append((None, others[column]))
            column += 1
    return pairs


def _alike(one: Move, other: Move) -> float:
    """How much two moves are alike; 0: they do not belong beside each other."""
    if one.hop is not None and other.hop is not None:
        mine, theirs = _words(one.hop.query), _words(other.hop.query)
        shared = len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0
        return 1.0 + _SAME_QUERY * shared
    if one.kind != other.kind or one.call is None or other.call is None:
        return 0.0
    first, second = one.call.call, other.call.call
    if first.kind != second.kind:
        return 0.0
    return 0.1 + _SAME_ROLE * (first.role == second.role) + _SAME_NODE * (first.node == second.node)


def _difference(left: HopsOfAttempt, one: Move | None, right: HopsOfAttempt, other: Move | None) -> Difference:
    if one is None:
        return "right only"
    if other is None:
        return "left only"
    return "same" if _content(left, one) == _content(right, other) else "differs"


def _content(read: HopsOfAttempt, move: Move) -> object:
    if move.hop is not None:
        return move.hop.query, bool(move.hop.error), [one.passage.id for one in move.hop.found]
    if move.call is not None:
        reply = move.call.reply
        return move.call.call.error, reply.text if reply else move.call.gave
    return read.summary.prediction or (read.attempt.text if read.attempt else "")


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text) if word[0].isalnum()}


def move_cells(read: HopsOfAttempt, move: Move | None, width: int) -> Cells:
    """One side of a line, in exactly `width` cells."""
    if move is None:
        return [(" " * width, "plain")]
    if move.hop is not None:
        return _hop_cells(read, move.hop, width)
    if move.call is not None:
        call = move.call.call
        name = one_line(call.node[:80] or call.kind, max(4, width // 2)) + ": "
        said = call.error or (move.call.reply.text if move.call.reply else "")
        quoted = one_line(said[: width * 4], max(4, width - len(name)))
        return [(fit(name + quoted, width), "trouble" if call.error else "dim")]
    sign, style = mark(read.summary)
    answer = _answer(read)
    return [(fit(f"{sign}answer: {one_line(answer, width)}", width), style if style != "dim" else "plain")]


def _hop_cells(read: HopsOfAttempt, hop: Hop, width: int) -> Cells:
    if hop.error:
        signs, style = "!", "trouble"
    else:
        gold = next((one for one in hop.found if one.gold), None)
        known = bool(read.summary.gold.documents)
        rank = f"★{gold.rank}{FATE_SIGNS[gold.fate]}" if gold else "·" if known else ""
        signs, style = f"{len(hop.found)}{'↻' if hop.repeats is not None else ''}{rank}", "gold" if gold else "key"
    asked = _asked(read, hop)
    query = one_line(asked[: width * 2], max(4, width - len(signs) - 5)) if hop.query else "(query not kept)"
    return [(fit(f"{hop.number:>2} {query}", width - len(signs) - 1) + " ", "plain"), (signs, style)]


def _asked(read: HopsOfAttempt, hop: Hop) -> str:
    """The query of a search; one that is the question, which stands above, is said to be it."""
    same = bool(hop.query.strip()) and plain_query(hop.query) == plain_query(read.summary.question.text)
    return "(the question)" if same else hop.query


def side_title(read: HopsOfAttempt, name: str) -> str:
    """A side in a line: its sign and name, what it answered, the gold option and the likely cause."""
    sign, summary = mark(read.summary)[0], read.summary
    if read.attempt is None or not summary.question.options:
        return sign + name + (f" · likely {read.cause.word}" if read.cause else "")
    given = one_line(summary.prediction, 20) if summary.outcome == "answered" else summary.outcome.replace("_", " ")
    if summary.outcome == "unreadable" and summary.prediction:
        given = f"counted as {one_line(summary.prediction, 20)}"
    parts = [f"{sign}{name}: {given}", f"gold {one_line(summary.gold.answer, 20)}" if summary.wrong else ""]
    return " · ".join(filter(None, (*parts, read.cause.word if read.cause else "")))


def _answer(read: HopsOfAttempt) -> str:
    if read.summary.prediction and read.summary.outcome == "answered" and read.summary.question.options:
        return read.summary.prediction
    text = read.attempt.text if read.attempt else ""
    return text[:400] or read.summary.outcome.replace("_", " ")


def side_blocks(read: HopsOfAttempt, move: Move | None, against: HopsOfAttempt, other: Move | None) -> list[TextBlock]:
    """One side of a line in full, with what only this side has marked."""
    if read.attempt is None:
        return [TextBlock("Not made yet.", "dim")]
    if move is None:
        what = {"search": "search", "call": "call"}.get(other.kind if other else "", "step")
        return [TextBlock(f"No such {what} here.", "dim")]
    if move.hop is not None:
        return list(_hop_blocks(read, move.hop, other.hop if other else None))
    if move.call is not None:
        return list(_call_blocks(move.call))
    return list(_answer_blocks(read))


def _hop_blocks(read: HopsOfAttempt, hop: Hop, other: Hop | None) -> Iterator[TextBlock]:
    parts = [f"search {hop.number}", *([f"the same as search {hop.repeats}"] if hop.repeats is not None else [])]
    yield TextBlock(", ".join(parts), "heading")
    mine, theirs = hop.query or "(the query is not recorded)", other.query if other else ""
    whole = bool(other is None or not new_words(mine, theirs))
    if whole and _asked(read, hop) != hop.query:
        yield TextBlock("(the question)")
    else:
        yield TextBlock(mine, spans=new_words(mine, theirs) if other else ())
    if other is not None and (left_out := _left_out(mine, theirs)):
        yield TextBlock(f"without: {' '.join(left_out)}", "note")
    if hop.error:
        yield TextBlock(f"failed: {hop.error}", "trouble")
        return
    there = {one.passage.id: one.rank for one in other.found} if other else {}
    only = sum(one.passage.id not in there for one in hop.found)
    beside = f", {only} only here" if other else ""
    gold = f", gold at {', '.join(map(str, hop.gold_ranks))}" if hop.gold_ranks else ""
    none = ", no gold" if read.summary.gold.documents and not hop.gold_ranks else ""
    yield TextBlock(f"{number_of(len(hop.found), 'passage')}{gold}{none}{beside}", "key")
    for one in hop.found:
        yield _passage(one, read, there if other else None)


def _passage(one: FoundPassage, read: HopsOfAttempt, there: dict[str, int] | None) -> TextBlock:
    star = "★" if one.gold else " "
    title = one_line(one.passage.title or one.passage.text[:200], 80)
    if there is None:
        beside = ""
    else:
        rank = there.get(one.passage.id)
        beside = "only here" if rank is None else "same rank" if rank == one.rank else f"there {rank}"
    words = ", ".join(part for part in (beside, fate_words(one, read.calls)) if part)
    text = f"{star} {one.rank}. {title}  [{words}]"
    at = text.rfind("[only here")
    spans = ((at + 1, at + 10, "new"),) if beside == "only here" else ()
    return TextBlock(text, "gold" if one.gold else "plain", spans=spans)


def _call_blocks(traced: TracedCall) -> Iterator[TextBlock]:
    call = traced.call
    yield TextBlock(f"{call.kind} call in {call.node or 'no node'}, role {call.role}", "heading")
    used = f", {tokens(call.usage.input)} tokens in, {tokens(call.usage.output)} out" if call.usage else ""
    yield TextBlock(f"{call.actor}, {duration(call.seconds)}{used}", "dim")
    if call.error:
        yield TextBlock(f"error: {call.error}", "trouble")
    if traced.reply is not None:
        if traced.reply.reasoning:
            yield TextBlock(traced.reply.reasoning, "note")
        yield TextBlock(traced.reply.text or "(no text)", markdown=True)
        for wish in traced.reply.calls:
            yield TextBlock(f"calls {wish.name}({wish.arguments})", "note")
    elif traced.gave is not None:
        yield TextBlock(str(traced.gave))
    elif not call.error:
        yield TextBlock("The journal does not hold what was answered.", "dim")


def _answer_blocks(read: HopsOfAttempt) -> Iterator[TextBlock]:
    attempt, summary = read.attempt, read.summary
    assert attempt is not None
    if attempt.status != "completed":
        yield TextBlock(f"{attempt.status}: {attempt.reason or 'no reason was given'}", "trouble")
    first = [score for score in read.scores if score.scorer == summary.scorer]
    others = [score for score in read.scores if score.scorer != summary.scorer]
    for score in first:
        yield from _score_blocks(score)
    if not read.scores:
        yield TextBlock("not scored", "dim")
    if read.cause is not None:
        yield TextBlock(read.cause.said, "trouble")
    yield TextBlock("", "plain")
    yield TextBlock(attempt.text or "(no text)", markdown=True)
    if others:
        yield TextBlock("\nby other scorers" if first else "", "heading")
    for score in others:
        yield from _score_blocks(score)


def _score_blocks(score: Score) -> Iterator[TextBlock]:
    said = f"read as {one_line(score.prediction, 60)}" if score.prediction else score.answer_status
    value = "no score" if score.value is None else f"{percent(score.value, 0)} %"
    style = "dim" if score.value is None else "right" if score.value >= 1 else "wrong" if score.value <= 0 else "key"
    yield TextBlock(f"{score.scorer}: {value}, {said}", style)
    if score.reason:
        yield TextBlock(score.reason, "note", 2)


def new_words(text: str, other: str) -> tuple[tuple[int, int, str], ...]:
    """Where the words of `text` stand that `other` lacks, in the style ``new``; words beside each other as one."""
    known = _words(other)
    spans: list[tuple[int, int, str]] = []
    for match in _WORD.finditer(text):
        if match[0][0].isalnum() and match[0].casefold() not in known:
            if spans and not text[spans[-1][1] : match.start()].strip():
                spans[-1] = (spans[-1][0], match.end(), "new")
            else:
                spans.append((match.start(), match.end(), "new"))
    return tuple(spans)


def _left_out(text: str, other: str) -> list[str]:
    """The words that only the other query has, in its order."""
    known = _words(text)
    return list(
        dict.fromkeys(word for word in _WORD.findall(other) if word[0].isalnum() and word.casefold() not in known)
    )


def question_blocks(left: HopsOfAttempt, right: HopsOfAttempt) -> list[TextBlock]:
    """The question once, with its options, the gold one and what each side chose; both, where they are two."""
    if left.summary.question.id != right.summary.question.id:
        return [*_question(left, ("left",)), *_question(right, ("right",))]
    return _question(left, ("left", "right"), right)


def _question(read: HopsOfAttempt, sides: Sequence[str], other: HopsOfAttempt | None = None) -> list[TextBlock]:
    question, gold = read.summary.question, read.summary.gold
    name = question.id if other is not None else f"{sides[0]}: {question.id}"
    blocks = [TextBlock(f"{name}  {question.text}")]
    chosen = [read.summary.prediction, *([other.summary.prediction] if other else [])]
    for letter, text in question.options.items():
        by = [side for side, prediction in zip(sides, chosen, strict=True) if prediction == letter]
        said = f"  ← {', '.join(by)}" if by else ""
        right = letter == gold.answer
        blocks.append(TextBlock(f"{'★' if right else ' '} {letter}. {text}{said}", "gold" if right else "plain"))
    if not question.options:
        blocks.append(TextBlock(f"★ {gold.answer}", "gold"))
    return blocks
