"""Two answers to a question on one page: who chose what, likely causes, and both texts from where they diverge."""

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
    """Return the name of a side: its agent, with the epoch if the run has several."""
    epoch = f" #{summary.epoch}" if summary.run.epochs > 1 else ""
    return agent_cell(agents, summary.run.id, _NAME).strip() + epoch


def parting_blocks(pair: Pair, names: Sequence[str], choices: Mapping[str, Sequence[str]]) -> list[TextBlock]:
    """Return the blocks of the page.

    Args:
        pair: both attempts at one question.
        names: names of both sides.
        choices: option → names of those that chose it.
    """
    summary, (left, right) = pair[0].summary, pair
    question = summary.question
    blocks = [TextBlock(f"{question.id}  {question.text}", fold=_FOLD), *option_blocks(summary, choices)]
    blocks += [] if question.options else [TextBlock(f"★ {summary.gold.answer}", "gold")]
    blocks += [TextBlock(""), _columns(_outcome(left, names[0]), _outcome(right, names[1]))]
    left_replies, right_replies = _replies(left), _replies(right)
    if left_replies[-1].split() == right_replies[-1].split():
        blocks += [TextBlock("\nreasoning of both", "heading"), TextBlock(left_replies[-1], markdown=True)]
    else:
        columns = _diverging_columns(left_replies[-1], right_replies[-1])
        blocks += [TextBlock("\nreasoning, from where they part", "heading"), _columns(*columns)]
    if left.hops or right.hops:
        searches = _columns(_searches(left, right.hops), _searches(right, left.hops))
        blocks += [TextBlock("\nsearches, with what only this side found", "heading"), searches]
    if len(left_replies) > 1 or len(right_replies) > 1:
        earlier = [
            [TextBlock(text, markdown=True, fold=_FOLD) for text in texts[:-1]] or [TextBlock("none", "dim")]
            for texts in (left_replies, right_replies)
        ]
        blocks += [TextBlock("\nreplies before the last", "heading"), _columns(*earlier)]
    return blocks


def _columns(left: Iterable[TextBlock], right: Iterable[TextBlock]) -> TextBlock:
    return TextBlock("", beside=(tuple(left), tuple(right)))


def _outcome(loaded: LoadedAttempt, name: str) -> list[TextBlock]:
    """Return ``✗ name: B``, the likely cause, and the cost."""
    summary, (sign, style) = loaded.summary, mark(loaded.summary)
    answer = summary.outcome.replace("_", " ")
    if summary.question.options and summary.prediction:
        counted = "counted as " if summary.outcome == "unreadable" else ""
        answer = counted + one_line(summary.prediction, 40) if counted or answer == "answered" else answer
    blocks = [TextBlock(f"{sign}{name}: {answer}", style if style != "dim" else "plain")]
    if loaded.attempt is None:
        return [*blocks, TextBlock(loaded.damage or "Not run yet.", "dim")]
    if cause := cause_in(loaded):
        blocks.append(TextBlock(cause.description, "note"))
    cost = "cost unknown" if summary.cost_uncached is None else dollars(summary.cost_uncached)
    spent = "" if summary.tokens is None else f"{tokens(summary.tokens)} tokens"
    took = "" if summary.seconds is None else duration(summary.seconds)
    return [*blocks, TextBlock(" · ".join(filter(None, (cost, spent, took))), "dim")]


def _replies(loaded: LoadedAttempt) -> list[str]:
    """Return the model's replies, call by call, as prose; if they are not recorded, the answer."""
    replies = [
        "\n\n".join(filter(None, (call.reply.reasoning, call.reply.text))) for call in loaded.traced if call.reply
    ]
    texts = [prose for text in replies if (prose := _prose(text).strip())]
    return texts or [_prose(loaded.attempt.text if loaded.attempt else "").strip() or "(no text)"]


def _prose(text: str) -> str:
    value = json_in(text)
    if not isinstance(value, dict):
        return text
    fields = {name: value_text(part) for name, part in value.items()}
    return "\n\n".join(
        part if " " in part.strip() else f"{name.replace('_', ' ')}: {part}" for name, part in fields.items()
    )


def _diverging_columns(left: str, right: str) -> tuple[list[TextBlock], list[TextBlock]]:
    """Return both texts: the common beginning folded, later paragraphs that both have dimmed."""
    sentences = [
        [(match.end(), " ".join(match[0].split())) for match in _SENTENCE.finditer(text)] for text in (left, right)
    ]
    same = 0
    while all(same < len(side) for side in sentences) and sentences[0][same][1] == sentences[1][same][1]:
        same += 1
    ends = [side[same - 1][0] if same else 0 for side in sentences]
    rests = [_GAP.split(text[end:].strip()) for text, end in zip((left, right), ends, strict=True)]
    paragraphs = [{" ".join(part.split()) for part in parts} for parts in rests]
    common_start = TextBlock(f"⋯ {number_of(same, 'sentence')} that both begin with: {left[: ends[0]]}", "dim", fold=1)
    sides = []
    for parts, other_paragraphs in zip(rests, reversed(paragraphs), strict=True):
        blocks = [common_start] if same else []
        for part in parts:
            blocks += [TextBlock("")] if blocks else []
            style = "plain" if part and " ".join(part.split()) not in other_paragraphs else "dim"
            blocks.append(TextBlock(part or "(ends here)", style, markdown=True))
        sides.append(blocks)
    return sides[0], sides[1]


def _searches(loaded: LoadedAttempt, other_hops: Sequence[Hop]) -> Iterator[TextBlock]:
    """Yield the queries, their results, and the passages that the other side never found."""
    other_ids = {hit.passage.id for hop in other_hops for hit in hop.found}
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
        only_here = sorted((hit for hit in hop.found if hit.passage.id not in other_ids), key=lambda hit: not hit.gold)
        for hit in only_here[:_TITLES]:
            title = one_line(hit.passage.title or hit.passage.text or hit.passage.id, 80)
            yield TextBlock(f"{'★' if hit.gold else ' '} {hit.rank}. {title}", "gold" if hit.gold else "plain", 2)
        if len(only_here) > _TITLES:
            yield TextBlock(f"and {len(only_here) - _TITLES} more only here", "dim", 4)
