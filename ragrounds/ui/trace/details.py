"""The detail of a node: what was asked, found and answered, scores, errors with their tries.

What became of passages is derived from the recorded prompts (:mod:`ragrounds.evals.trace.hops`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import DRAWN, Call, Noted, Score, Step
from ragrounds.evals.scorers import described
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.trace.causes import Cause, cause_of
from ragrounds.evals.trace.hops import FATES, Hop, searches_unknown
from ragrounds.evals.trace.summaries import AttemptSummary
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.models.model_names import other_name
from ragrounds.ui.call_words import made_words
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, number_of, one_line, tokens
from ragrounds.ui.trace.attempt_list import agent_names, mark
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.model_details import exchange
from ragrounds.ui.trace.replies import json_in, reply_blocks, value_text
from ragrounds.ui.trace.row_text import call_row, fault_words, given_text
from ragrounds.ui.trace.search_details import fate_words, found_blocks, sources
from ragrounds.ui.trace.tree import Node, measured, walk

_GOLD = 5
"""Gold documents that are named."""
_TITLE = 80
"""Columns of a document's title."""
_HOPS = 30
"""Hops that the detail of an attempt lists."""
_USUAL = frozenset({"tool"})
"""Notes that say what happened as it should: what a tool gave."""


def detail(loaded: LoadedAttempt, node: Node) -> list[TextBlock]:
    """The detail of a node, in blocks of text."""
    if node.call is not None:
        return [*_call(loaded, node), *(_around(node.step, more=True) if node.step else ())]
    if node.step is not None:
        return list(_step(loaded, node))
    if node.kind == "round":
        return list(_round(loaded, node))
    return list(_attempt(loaded))


def _attempt(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    summary, attempt = loaded.summary, loaded.attempt
    question, gold = summary.question, summary.gold
    yield TextBlock(
        f"{question.id}, {summary.run.agent}" + (f", epoch {summary.epoch}" if summary.epoch else ""), "heading"
    )
    yield TextBlock(question.text)
    default = summary.outcome == "unreadable"
    chosen = {summary.prediction: ["nothing was read: counted as this" if default else "chosen"]}
    names = agent_names([summary.run, *(one.run for one in loaded.beside)])
    for one in loaded.beside if question.options else ():
        chosen.setdefault(one.prediction, []).append(names[one.run.id])
    yield from option_blocks(summary, chosen)
    if not question.options:
        yield TextBlock(f"reference: {gold.answer}", "gold")
        for fact in gold.facts:
            yield TextBlock(f"required: {' | '.join(fact)}", "gold", 2)
    if attempt is None:
        yield _unfinished(loaded)
        return
    yield TextBlock("\noutcome", "heading")
    style = "plain" if attempt.status == "completed" else "trouble"
    yield TextBlock(attempt.status + (f": {attempt.reason}" if attempt.reason else ""), style)
    used = attempt.usage
    yield TextBlock(
        (f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        + f" | paid {dollars(attempt.cost_paid)}, full price {dollars(attempt.cost_uncached)}"
        + f" | {made_words(attempt)}"
        + f" | {duration(measured(attempt.seconds, attempt.at))}",
        "dim",
    )
    yield from _what_happened(loaded)
    yield from answer_blocks(loaded)
    yield from _arena_verdicts(loaded)


def option_blocks(summary: AttemptSummary, chosen: Mapping[str, Sequence[str]]) -> Iterator[TextBlock]:
    """The options, each with *gold* and who chose it: ``★ B. Vitamin K  ← gold · chosen``."""
    for letter, text in summary.question.options.items():
        right, by = letter == summary.gold.answer, chosen.get(letter, ())
        said = " · ".join([*(["gold"] if right else []), *by])
        style = "gold" if right else "wrong" if by else "plain"
        yield TextBlock(f"{'★' if right else ' '} {letter}. {text}" + (f"  ← {said}" if said else ""), style)


def cause_in(loaded: LoadedAttempt) -> Cause | None:
    """The likely cause where an attempt is not right; ``None``: it is, or none is known."""
    if loaded.attempt is None:
        return None
    summary = loaded.summary
    return cause_of(
        loaded.attempt,
        loaded.traced,
        summary.question,
        summary.gold,
        loaded.scores,
        scorer=summary.scorer,
        hops=loaded.hops,
    )


def answer_blocks(loaded: LoadedAttempt) -> list[TextBlock]:
    """The scores of an attempt with what judges replied, and its answer."""
    text = loaded.attempt.text if loaded.attempt else ""
    return [
        TextBlock("\nscores", "heading"),
        *_score_lines(loaded),
        TextBlock("\nanswer", "heading"),
        *reply_blocks(text),
    ]


def hop_blocks(loaded: LoadedAttempt, number: int) -> list[TextBlock]:
    """What came of an attempt, and one of its searches in full; `number` is the search's, from 0."""
    summary = loaded.summary
    if loaded.attempt is None:
        return [_unfinished(loaded)]
    sign, style = mark(summary)
    gold = f", gold {one_line(summary.gold.answer, 60)}" if summary.gold.answer else ""
    answer = f"read as {one_line(summary.prediction, 60)}" if summary.prediction else summary.outcome.replace("_", " ")
    scorer = f" by {summary.scorer}" if summary.scorer else ""
    came = f"{sign}{summary.question.id}: {answer}{scorer}{gold}"
    blocks = [TextBlock(came, style if style != "dim" else "plain")]
    if (cause := cause_in(loaded)) is not None:
        blocks.append(TextBlock(cause.said, "trouble"))
    if not loaded.hops:
        unknown = searches_unknown(loaded.attempt, loaded.traced)
        return [*blocks, TextBlock(f"No search to show: {unknown or 'none was made'}.", "dim")]
    hop = loaded.hops[min(number, len(loaded.hops) - 1)]
    where = f", in {hop.traced.call.node}" if hop.traced.call.node else ""
    blocks.append(TextBlock(f"search {hop.number} of {len(loaded.hops)}{where}", "heading"))
    return [*blocks, *_faults(hop.traced.call), *search_blocks(loaded, hop.traced, hop)]


def _what_happened(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """The likely cause where it is not right, what became of gold, and its hops, a line each."""
    hops, cause = loaded.hops, cause_in(loaded)
    for event in loaded.attempt.events if loaded.attempt else ():
        if isinstance(event, Noted) and event.what == DRAWN:
            yield TextBlock(event.text.partition(":")[0], "note")
    if cause is not None and cause.word != "not ended":
        yield TextBlock(cause.said, "note")
    yield from _gold_lines(loaded)
    if hops:
        yield TextBlock("\nhops", "heading")
    for hop in hops[:_HOPS]:
        row = call_row(f"{hop.number}.", hop.traced, hop)
        fates = f"; {fate_words(hop.found)}" if hop.found else ""
        style = "trouble" if hop.error else "gold" if hop.gold_ranks else "plain"
        yield TextBlock(row.plain + fates, style, elsewhere=True)
    if len(hops) > _HOPS:
        yield TextBlock(f"and {len(hops) - _HOPS} more", "dim")


def _unfinished(loaded: LoadedAttempt) -> TextBlock:
    return TextBlock(f"\n{loaded.damage}", "trouble") if loaded.damage else TextBlock("\nNot run yet.", "dim")


def _arena_verdicts(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    for one in loaded.answer_verdicts:
        yield TextBlock(f"\nagainst {one.against}, shown {one.shown}, judged by {one.judge} ({one.arena})", "heading")
        for axis, said in one.axes.items():
            style = {"won": "right", "lost": "wrong", "tie": "plain"}.get(said, "trouble")
            why = f"  {one.reasons[axis]}" if one.reasons.get(axis) else ""
            yield TextBlock(f"{axis}: {said}{why}", style)
        if one.how != "asked":
            yield TextBlock(one.how, "note")
        for call in one.calls:
            reply = loaded.recorded(call).reply
            if call.error:
                yield TextBlock(f"error: {call.error}", "trouble")
            if reply is not None:
                yield from reply_blocks(reply.text, 2)


def _step(loaded: LoadedAttempt, node: Node) -> Iterator[TextBlock]:
    step = node.step
    assert step is not None
    took = duration(node.figures.seconds) + (", not left" if step.seconds is None else "")
    yield TextBlock(f"step {step.index}: {node.label}  {took}", "heading")
    for child in node.children:
        yield TextBlock(f"{child.row.plain}  {_took(child)}", "trouble" if child.troubled else "plain", elsewhere=True)
    yield from _inside(loaded, node)
    yield from _around(step, more=bool(node.children))


def _around(step: Step, more: bool) -> Iterator[TextBlock]:
    """What is known of a step beside its calls; what it wrote is needed at the first look where nothing else is."""
    if step.error or step.notes:
        yield TextBlock("\nin this step", "heading")
    if step.error:
        yield TextBlock(f"error: {step.error}", "trouble")
    for note in step.notes:
        sign = "" if note.what in _USUAL else "! "
        yield TextBlock(f"{sign}{note.what}: {note.text}", "trouble" if note.what == "traceback" else "note")
    if step.changes:
        yield TextBlock("\nwrote to the state", "heading", more=more)
        yield TextBlock(json.dumps(step.changes, ensure_ascii=False, indent=2), more=more)


def _round(loaded: LoadedAttempt, node: Node) -> Iterator[TextBlock]:
    yield TextBlock(f"{node.label}  {_took(node)}", "heading")
    for child in node.children:
        yield TextBlock(
            f"{child.folded.plain}  {_took(child)}", "trouble" if child.troubled else "plain", 2, elsewhere=True
        )
    yield from _inside(loaded, node)


def _inside(loaded: LoadedAttempt, node: Node) -> Iterator[TextBlock]:
    """What the calls below a node found and replied: what their own details show first."""
    hops = {hop.call: hop for hop in loaded.hops}
    for one in walk(node):
        if one.call is None or one.call.error:
            continue
        yield TextBlock(f"\n{one.row.plain}", "heading", elsewhere=True)
        if (hop := hops.get(one.place)) is not None:
            yield from (replace(block, elsewhere=True) for block in found_blocks(loaded, hop, brief=True))
        reply = loaded.traced[one.place].reply
        if reply is not None and reply.text.strip():
            yield from (replace(block, elsewhere=True) for block in reply_blocks(reply.text.strip()))


def _took(node: Node) -> str:
    figures = node.figures
    used = tokens(figures.tokens) if figures.tokens is not None else UNKNOWN
    cost = dollars(figures.cost) if figures.cost is not None else "cost unknown"
    return f"{duration(figures.seconds)}, {used} tokens, {cost}"


def _call(loaded: LoadedAttempt, node: Node) -> Iterator[TextBlock]:
    call = node.call
    assert call is not None
    yield TextBlock(f"{call.kind} call, role {call.role}, in {call.node or 'no node'}", "heading")
    other = other_name(call.actor, call.model)
    yield TextBlock(call.actor + (f", answered by {other}" if other else ""))
    yield TextBlock(" | ".join(_call_facts(node, call)), "dim")
    yield from _faults(call)
    try:
        recorded = loaded.recorded(call)
    except DamagedRecord as damaged:
        yield TextBlock(f"\n{damaged}", "trouble")
        return
    hop = next((one for one in loaded.hops if one.call == node.place), None) if call.kind == "search" else None
    if recorded.searched is not None:
        yield from search_blocks(loaded, recorded, hop)
    if recorded.asked is not None:
        yield from exchange(loaded, recorded.asked, recorded.reply, node.place)
    if recorded.used is not None:
        yield TextBlock("\nasked", "heading")
        yield TextBlock(value_text(recorded.used))
        yield TextBlock("\nanswered", "heading")
        given = given_text(recorded.gave)
        yield TextBlock(value_text(json_in(given) or given if isinstance(given, str) else given))
    elif recorded.asked is None and recorded.searched is None:
        why = "imported: the messages were not published with it" if not call.key else "the journal does not hold it"
        why = "only calls that were answered are kept" if call.error else why
        yield TextBlock(f"\nNo messages: {why}.", "dim")


def _call_facts(node: Node, call: Call) -> list[str]:
    facts = ["from the journal: nothing paid" if call.cached else duration(measured(call.seconds, call.at))]
    if call.kind == "model":
        used = call.usage
        facts.append(f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown")
        facts.append(f"{dollars(call.cost_uncached)} at full price")
        if used and (used.cached or used.reasoning):
            facts.append(f"{tokens(used.cached)} of the input cached, {tokens(used.reasoning)} of the output reasoning")
    return facts


def _faults(call: Call) -> Iterator[TextBlock]:
    """Tries that failed: how many of which kind, then each; and why the call failed, where it did."""
    if len(call.faults) > 1:
        waited = sum(fault.waited for fault in call.faults)
        yield TextBlock(f"{fault_words(call.faults)}; waited {duration(waited)} in all", "trouble")
    for number, fault in enumerate(call.faults, 1):
        status = f" (HTTP {fault.status})" if fault.status else ""
        waits = f"; waited {duration(fault.waited)}" if fault.waited else ""
        yield TextBlock(f"try {number} failed: {fault.kind}{status}: {fault.message}{waits}", "trouble")
    if call.error:
        yield TextBlock(f"error: {call.error}", "trouble")


def search_blocks(loaded: LoadedAttempt, recorded: TracedCall, hop: Hop | None) -> Iterator[TextBlock]:
    """What was searched for and found."""
    searched = recorded.searched
    if searched is None:
        yield TextBlock(hop.query if hop else "(the query is not recorded)", "strong")
    else:
        yield from _query(searched, hop, recorded.when)
    if hop is not None and not recorded.call.error:
        if source := sources(recorded):
            yield TextBlock(source, "dim")
        yield from found_blocks(loaded, hop)


def _query(searched: SearchRequest, hop: Hop | None, when: str) -> Iterator[TextBlock]:
    number = f" of hop {hop.number}" if hop else ""
    moment = f", searched {when[:16].replace('T', ' ')} UTC" if when else ""  # of a live corpus
    yield TextBlock(f"\nquery{number}, {searched.k} wanted from {searched.corpus}{moment}", "heading")
    yield TextBlock(searched.query, "strong")
    for text in searched.mean:
        yield TextBlock(f"and the vector of: {text}", "note")
    if hop is not None and hop.repeats is not None:
        yield TextBlock(f"hop {hop.repeats} asked the same", "trouble")


def _gold_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """``gold: Rule 9, found at 3 by search 1, seen``: a line a gold document, by its title where a search found it,
    else by its id."""
    documents = loaded.summary.gold.documents
    for name in documents[:_GOLD]:
        yield _gold_line(loaded, name)
    if len(documents) > _GOLD:
        yield TextBlock(f"and {number_of(len(documents) - _GOLD, 'more gold document')}", "dim")


def _gold_line(loaded: LoadedAttempt, name: str) -> TextBlock:
    found = [(hop, one) for hop in loaded.hops for one in hop.found if name in (one.passage.document, one.passage.id)]
    if not found:
        unheard = loaded.attempt and not loaded.hops and searches_unknown(loaded.attempt, loaded.traced)
        became = "not known whether found" if unheard else "not found"
        return TextBlock(f"gold: {one_line(name, _TITLE)}, {became}", "trouble" if loaded.hops else "dim")
    first, best = found[0]
    title = next((one_line(one.passage.title, _TITLE) for _, one in found if one.passage.title.strip()), "")
    fate = min((one.fate for _, one in found), key=FATES.index)
    # Only a recorded prompt after the search says what was seen.
    followed = first.untimed or any(one.asked is not None for one in loaded.traced[first.call + 1 :])
    said = f", {fate}" if followed else ""
    shown = title or one_line(name, _TITLE)
    return TextBlock(f"gold: {shown}, found at {best.rank} by search {first.number}{said}", "gold")


def _score_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """A line for the first score and for each that differs; below one that a judge gave, what the judge replied."""
    if not loaded.scores:
        yield TextBlock("not scored", "dim")
    first, agreeing = loaded.scores[:1], []
    for score in loaded.scores:
        if (
            score in first
            or _reading(score) != _reading(first[0])
            or score.scorer in {one.scorer for one in loaded.judged}
        ):
            yield _score_line(loaded, score)
            for line in score.prediction.split("\n")[1:]:  # what it is made of
                yield TextBlock(line, "plain", 2)
        else:
            agreeing.append(score.scorer)
        for said in loaded.judged:
            if said.scorer == score.scorer and not said.told:
                yield TextBlock(f"judged by {said.judge}; which of the replies is its own is not known", "dim", 2)
            elif said.scorer == score.scorer:
                other = f", answered by {said.model}" if said.model and said.model not in said.judge else ""
                yield TextBlock(f"judged by {said.judge}{other}; it replied:", "dim", 2)
                yield TextBlock(said.text.strip() or "(no text)", "note", 4)
    if agreeing:
        yield TextBlock(f"the same by {', '.join(agreeing)}", "dim")


def _reading(score: Score) -> tuple[object, ...]:
    return score.value, score.answer_status, score.prediction, score.reason


def _score_line(loaded: LoadedAttempt, score: Score) -> TextBlock:
    known = described(score.scorer)
    word = "no score" if score.value is None else "right" if score.value >= 1 else "wrong"
    style = {"right": "right", "wrong": "wrong"}.get(word, "dim")
    if score.value is not None and 0 < score.value < 1:
        word, style = "partly", "dim"
    if score.value is not None and (known.direction == "lower" or known.unit != "percent"):
        word, style = "", "dim"
    asked, gold = loaded.summary.question, loaded.summary.gold
    read = f"read as {score.prediction!r}, gold {gold.answer!r}" if asked.options else ""
    there = loaded.attempt is not None and score.reason == loaded.attempt.reason  # said under the outcome
    why = "" if there else score.reason
    parts = [f"{score.scorer}: {word}".rstrip(), in_scale(score.value, known.unit, 1), score.answer_status, read, why]
    return TextBlock("  ".join(part for part in parts if part), style)
