"""Two answers to a question on one page: who chose what, why one lost, and both from the sentence where they part."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragrounds.evals.trace.hops import Hop, plain_query, searches_unknown
from ragrounds.evals.trace.summaries import AttemptSummary
from ragrounds.ui.text import dollars, duration, number_of, one_line, tokens
from ragrounds.ui.trace.attempt_list import agent_cell, mark
from ragrounds.ui.trace.details import cause_in, option_blocks
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.replies import json_in, value_text

Pair = tuple[LoadedAttempt, LoadedAttempt]
_FOLD = 4
"""Lines of the question and of an earlier reply while long texts are folded."""
_NAME = 30
"""Cells of an agent's name."""
_TITLES = 3
"""Passages of a search that are named."""
_QUERY = 160
"""Columns of a query."""
_SENTENCE = re.compile(r"\S.*?(?:[.!?](?=\s)|$)", re.DOTALL | re.MULTILINE)
_GAP = re.compile(r"\n\s*\n")


def side_name(agents: Mapping[str, str], summary: AttemptSummary) -> str:
    """What a side is called: its agent, and where a run has several epochs which one."""
    epoch = f" #{summary.epoch}" if summary.run.epochs > 1 else ""
    return agent_cell(agents, summary.run.id, _NAME).strip() + epoch


def parting_blocks(pair: Pair, names: Sequence[str], chosen: Mapping[str, Sequence[str]]) -> list[TextBlock]:
    """The page.

    Args:
        pair: both attempts, at one question.
        names: what they are called.
        chosen: option → those that chose it.
    """
    summary, (left, right) = pair[0].summary, pair
    question = summary.question
    blocks = [TextBlock(f"{question.id}  {question.text}", fold=_FOLD), *option_blocks(summary, chosen)]
    blocks += [] if question.options else [TextBlock(f"★ {summary.gold.answer}", "gold")]
    blocks += [TextBlock(""), _columns(_outcome(left, names[0]), _outcome(right, names[1]))]
    one, other = _replies(left), _replies(right)
    said = _parted(one[-1], other[-1])
    blocks += [TextBlock("\nreasoning, from where they part", "heading"), _columns(*said)]
    if left.hops or right.hops:
        searches = _columns(_searches(left, right.hops), _searches(right, left.hops))
        blocks += [TextBlock("\nsearches, with what only this side found", "heading"), searches]
    if len(one) > 1 or len(other) > 1:
        earlier = [[TextBlock(text, markdown=True, fold=_FOLD) for text in texts[:-1]] for texts in (one, other)]
        blocks += [TextBlock("\nreplies before the last", "heading"), _columns(*earlier)]
    return blocks


def _columns(left: Iterable[TextBlock], right: Iterable[TextBlock]) -> TextBlock:
    return TextBlock("", beside=(tuple(left), tuple(right)))


def _outcome(loaded: LoadedAttempt, name: str) -> list[TextBlock]:
    """``✗ name: B``, the likely cause, and what it took."""
    summary, (sign, style) = loaded.summary, mark(loaded.summary)
    given = summary.outcome.replace("_", " ")
    if summary.question.options and summary.prediction:
        counted = "counted as " if summary.outcome == "unreadable" else ""
        given = counted + one_line(summary.prediction, 40) if counted or given == "answered" else given
    blocks = [TextBlock(f"{sign}{name}: {given}", style if style != "dim" else "plain")]
    if loaded.attempt is None:
        return [*blocks, TextBlock(loaded.damage or "Not run yet.", "dim")]
    if cause := cause_in(loaded):
        blocks.append(TextBlock(cause.said, "note"))
    cost = "cost unknown" if summary.cost_uncached is None else dollars(summary.cost_uncached)
    spent = "" if summary.tokens is None else f"{tokens(summary.tokens)} tokens"
    took = "" if summary.seconds is None else duration(summary.seconds)
    return [*blocks, TextBlock(" · ".join(filter(None, (cost, spent, took))), "dim")]


def _replies(loaded: LoadedAttempt) -> list[str]:
    """What its model wrote, call by call, as prose; where that is not recorded, its answer."""
    written = ["\n\n".join(filter(None, (one.reply.reasoning, one.reply.text))) for one in loaded.traced if one.reply]
    found = [prose for text in written if (prose := _prose(text).strip())]
    return found or [_prose(loaded.attempt.text if loaded.attempt else "").strip() or "(no text)"]


def _prose(text: str) -> str:
    value = json_in(text)
    if not isinstance(value, dict):
        return text
    said = {name: value_text(part) for name, part in value.items()}
    return "\n\n".join(part if " " in part.strip() else f"{name}: {part}" for name, part in said.items())


def _parted(left: str, right: str) -> tuple[list[TextBlock], list[TextBlock]]:
    """Both texts: what they share at the beginning folded, later paragraphs that both have quiet."""
    sentences = [
        [(match.end(), " ".join(match[0].split())) for match in _SENTENCE.finditer(text)] for text in (left, right)
    ]
    same = 0
    while all(same < len(ones) for ones in sentences) and sentences[0][same][1] == sentences[1][same][1]:
        same += 1
    ends = [ones[same - 1][0] if same else 0 for ones in sentences]
    rests = [_GAP.split(text[end:].strip()) for text, end in zip((left, right), ends, strict=True)]
    known = [{" ".join(part.split()) for part in parts} for parts in rests]
    begun = TextBlock(f"⋯ {number_of(same, 'sentence')} that both begin with: {left[: ends[0]]}", "dim", fold=1)
    sides = []
    for parts, others in zip(rests, reversed(known), strict=True):
        blocks = [begun] if same else []
        for part in filter(None, parts):
            blocks += [TextBlock("")] if blocks else []
            blocks.append(TextBlock(part, "dim" if " ".join(part.split()) in others else "plain", markdown=True))
        sides.append(blocks)
    return sides[0], sides[1]


def _searches(loaded: LoadedAttempt, others: Sequence[Hop]) -> Iterator[TextBlock]:
    """Its queries, what came of each, and the passages that the other side never found."""
    there = {one.passage.id for hop in others for one in hop.found}
    if not loaded.hops:
        unknown = searches_unknown(loaded.attempt, loaded.traced) if loaded.attempt else ""
        yield TextBlock(f"No search to show: {unknown or 'none was made'}.", "dim")
    for hop in loaded.hops:
        same = bool(hop.query.strip()) and plain_query(hop.query) == plain_query(loaded.summary.question.text)
        query = "the question" if same else f"“{one_line(hop.query, _QUERY)}”"
        ranks = f", gold at {' '.join(map(str, hop.gold_ranks))}" if hop.gold_ranks else ""
        yield TextBlock(f"{hop.number}. {query} → {len(hop.found)}{ranks}", "gold" if ranks else "key")
        if hop.error:
            yield TextBlock(f"failed: {hop.error}", "trouble", 3)
        alone = sorted((one for one in hop.found if one.passage.id not in there), key=lambda one: not one.gold)
        for one in alone[:_TITLES]:
            title = one_line(one.passage.title or one.passage.text or one.passage.id, 80)
            yield TextBlock(f"{'★' if one.gold else ' '} {one.rank}. {title}", "gold" if one.gold else "plain", 2)
        if len(alone) > _TITLES:
            yield TextBlock(f"and {len(alone) - _TITLES} more only here", "dim", 4)
