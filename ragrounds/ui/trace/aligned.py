"""Two attempts side by side, without a terminal: their searches, model calls and answers aligned, differences marked.

What belongs together is found as for texts that are compared: searches stand beside searches, model calls beside those
of the same role and node, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.store.hops import Hop, plain_query
from ragrounds.evals.store.traces import TracedCall
from ragrounds.ui.call_words import hop_signs
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import mark
from ragrounds.ui.trace.details import answer_blocks, cause_in, detail, option_blocks, search_blocks
from ragrounds.ui.trace.hop_lines import one_hop
from ragrounds.ui.trace.layout import Cells, TextBlock, fit
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree import walk

Difference = Literal["same", "differs", "left only", "right only"]
SIGNS: dict[Difference, str] = {"same": "=", "differs": "≠", "left only": "<", "right only": ">"}
"""How a line of two attempts differs, as it is written between them."""


class Move(Struct, frozen=True, kw_only=True):
    """One thing that an attempt did: a search, a call of a model or tool; without a call, its answer."""

    place: int
    """Of its call among the calls of the attempt; of the answer the number of calls."""
    hop: Hop | None = None
    traced: TracedCall | None = None


class AlignedMoves(Struct, frozen=True, kw_only=True):
    """What two attempts did beside each other; ``None``: this one did nothing of that kind there."""

    left: Move | None
    right: Move | None
    difference: Difference


def align(left: LoadedAttempt, right: LoadedAttempt) -> list[AlignedMoves]:
    """Two attempts, line by line, the answers last."""
    ones, others = _moves(left), _moves(right)
    pairs = [*_paired(ones[:-1], others[:-1]), (ones[-1], others[-1])]
    return [
        AlignedMoves(left=one, right=other, difference=_difference(left, one, right, other)) for one, other in pairs
    ]


def _moves(loaded: LoadedAttempt) -> list[Move]:
    """What an attempt did, in order, its answer last."""
    hops = {hop.call: hop for hop in loaded.hops}
    made = [Move(place=place, hop=hops.get(place), traced=one) for place, one in enumerate(loaded.traced)]
    return [*made, Move(place=len(made))]


def _paired(ones: Sequence[Move], others: Sequence[Move]) -> list[tuple[Move | None, Move | None]]:
    """Searches beside searches, calls beside those of the same role and node, in their order."""
    pairs: list[tuple[Move | None, Move | None]] = []
    kinds = SequenceMatcher(None, [_kind(one) for one in ones], [_kind(other) for other in others], autojunk=False)
    for how, begin, end, first, last in kinds.get_opcodes():
        if how == "equal":
            pairs += zip(ones[begin:end], others[first:last], strict=True)
        else:
            pairs += [(one, None) for one in ones[begin:end]]
            pairs += [(None, other) for other in others[first:last]]
    return pairs


def _kind(move: Move) -> tuple[str, ...]:
    if move.hop is not None or move.traced is None:
        return ("search",)
    call = move.traced.call
    return call.kind, call.role, call.node


def _difference(left: LoadedAttempt, one: Move | None, right: LoadedAttempt, other: Move | None) -> Difference:
    if one is None:
        return "right only"
    if other is None:
        return "left only"
    return "same" if _content(left, one) == _content(right, other) else "differs"


def _content(loaded: LoadedAttempt, move: Move) -> object:
    if move.hop is not None:
        return move.hop.query, bool(move.hop.error), [one.passage.id for one in move.hop.found]
    if move.traced is not None:
        reply = move.traced.reply
        return move.traced.call.error, reply.text if reply else move.traced.gave
    return loaded.summary.prediction or (loaded.attempt.text if loaded.attempt else "")


def move_cells(loaded: LoadedAttempt, move: Move | None, width: int) -> Cells:
    """One side of a line, in exactly `width` cells."""
    if move is None:
        return [(" " * width, "plain")]
    if move.hop is not None:
        # A query that is the question, which stands above, is said to be it.
        same = bool(move.hop.query.strip()) and plain_query(move.hop.query) == plain_query(loaded.summary.question.text)
        signs = hop_signs(move.hop)
        query = "(the question)" if same else signs.query
        return [(f"{move.hop.number:>2} ", "plain"), *one_hop(signs, width - 3, query)]
    if move.traced is not None:
        call, reply = move.traced.call, move.traced.reply
        name = one_line(call.node[:80] or call.kind, max(4, width // 2)) + ": "
        said = call.error or (reply.text if reply else "")
        quoted = one_line(said[: width * 4], max(4, width - len(name)))
        return [(fit(name + quoted, width), "trouble" if call.error else "dim")]
    sign, style = mark(loaded.summary)
    return [(fit(f"{sign}answer: {one_line(_answer(loaded), width)}", width), style if style != "dim" else "plain")]


def _answer(loaded: LoadedAttempt) -> str:
    summary = loaded.summary
    if summary.prediction and summary.outcome == "answered" and summary.question.options:
        return summary.prediction
    return (loaded.attempt.text if loaded.attempt else "")[:400] or summary.outcome.replace("_", " ")


def side_title(loaded: LoadedAttempt, name: str) -> str:
    """A side in a line: its sign and name, what it answered, the gold option and the likely cause."""
    sign, summary, cause = mark(loaded.summary)[0], loaded.summary, cause_in(loaded)
    if loaded.attempt is None or not summary.question.options:
        return sign + name + (f" · likely {cause.word}" if cause else "")
    given = one_line(summary.prediction, 20) if summary.outcome == "answered" else summary.outcome.replace("_", " ")
    if summary.outcome == "unreadable" and summary.prediction:
        given = f"counted as {one_line(summary.prediction, 20)}"
    parts = [f"{sign}{name}: {given}", f"gold {one_line(summary.gold.answer, 20)}" if summary.wrong else ""]
    return " · ".join(filter(None, (*parts, cause.word if cause else "")))


def side_blocks(loaded: LoadedAttempt, move: Move | None, other: Move | None) -> list[TextBlock]:
    """One side of a line in full; of a search, what the `other` one lacks is marked."""
    if loaded.attempt is None:
        return [TextBlock("Not made yet.", "dim")]
    if move is None:
        what = "step" if other is None or other.traced is None else "search" if other.hop else "call"
        return [TextBlock(f"No such {what} here.", "dim")]
    if move.hop is not None:
        title = f"search {move.hop.number}" + (f", the same as search {again}" if (again := move.hop.repeats) else "")
        failed = [TextBlock(f"failed: {move.hop.error}", "trouble")] if move.hop.error else []
        found = list(search_blocks(loaded, move.hop.traced, move.hop, other.hop if other else None))
        found = found[1:] if move.hop.traced.searched else found  # there is little room for what all searches share
        shown = (replace(block, text=block.text.lstrip("\n")) for block in found if not block.more)
        return [TextBlock(title, "heading"), *failed, *shown]
    node = next((node for node in walk(loaded.root) if node.place == move.place), None)
    if node is not None:
        return [block for block in detail(loaded, node) if not block.more]
    cause = cause_in(loaded)
    return [*([TextBlock(cause.said, "note")] if cause else []), *answer_blocks(loaded)]


def question_blocks(left: LoadedAttempt, right: LoadedAttempt) -> list[TextBlock]:
    """The question once, with its options, the gold one and what each side chose; both, where they are two."""
    if left.summary.question.id != right.summary.question.id:
        return [*_question({"left": left}), *_question({"right": right})]
    return _question({"left": left, "right": right})


def _question(sides: dict[str, LoadedAttempt]) -> list[TextBlock]:
    summary = next(iter(sides.values())).summary
    question, gold = summary.question, summary.gold
    name = question.id if len(sides) > 1 else f"{next(iter(sides))}: {question.id}"
    blocks = [TextBlock(f"{name}  {question.text}")]
    chosen: dict[str, list[str]] = {}
    for side, loaded in sides.items():
        chosen.setdefault(loaded.summary.prediction, []).append(side)
    blocks += option_blocks(summary, chosen)
    return blocks if question.options else [*blocks, TextBlock(f"★ {gold.answer}", "gold")]
