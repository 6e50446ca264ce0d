"""Detail of a node: request, results and answer, scores, errors with their tries.

The fate of passages is derived from the recorded prompts (:mod:`ragrounds.evals.trace.hops`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import DRAWN, Call, Noted, Score, Step, Usage
from ragrounds.base.replies import read_reply
from ragrounds.evals.scorers import described
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.trace.causes import Cause, cause_of
from ragrounds.evals.trace.hops import FATES, SYSTEMS_OWN, Hop, searches_unknown
from ragrounds.evals.trace.summaries import AttemptSummary
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.models.model_names import other_name
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.call_words import made_words
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, number_of, one_line, tokens
from ragrounds.ui.trace.attempt_list import mark
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.model_details import exchange
from ragrounds.ui.trace.replies import json_in, reply_blocks, value_text
from ragrounds.ui.trace.row_text import fault_words, given_text
from ragrounds.ui.trace.search_details import found_blocks, has_later_prompt
from ragrounds.ui.trace.tree import Node, measured

_GOLD = 5
"""Gold documents that are named."""
_TITLE = 80
"""Columns of a document's title."""
_USUAL = frozenset({"tool"})
"""Notes on normal events: the result of a tool."""


def detail(loaded: LoadedAttempt, node: Node, *, rows: bool = True) -> list[TextBlock]:
    """Return the detail of a node, in blocks of text; `rows` includes the rows of a step's and a round's children."""
    children = _child_rows(node) if rows else ()
    if node.call is not None:
        return [*_call(loaded, node), *(_step_context(node.step) if node.step else ())]
    if node.step is not None:
        return [_step_heading(node), *children, *_step_context(node.step)]
    if node.kind == "round":
        return [TextBlock(f"{node.label}  {_spent_words(node)}", "heading"), *children]
    return list(_attempt(loaded))


def _attempt(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    summary, attempt = loaded.summary, loaded.attempt
    question, gold = summary.question, summary.gold
    default = summary.outcome == "unreadable"
    choosers = {summary.prediction: ["nothing was read: counted as this" if default else "chosen"]}
    answers = [summary, *loaded.other_answers]
    names = names_of_runs([answer.run for answer in answers], {answer.run.id: answer.given_name for answer in answers})
    epoch = f", epoch {summary.epoch}" if summary.epoch else ""
    yield TextBlock(f"{question.id}, {names[summary.run.id]}{epoch}", "heading")
    yield TextBlock(question.text)
    for other in loaded.other_answers if question.options else ():
        choosers.setdefault(other.prediction, []).append(names[other.run.id])
    yield from option_blocks(summary, choosers)
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
    attempt = attempt.with_unknowns()
    yield TextBlock(
        _usage_words(attempt.usage)
        + f" | paid {dollars(attempt.cost_paid)}, full price {dollars(attempt.cost_uncached)}"
        + f" | {made_words(attempt)}"
        + f" | {duration(measured(attempt.seconds, attempt.at))}",
        "dim",
    )
    yield from _course_of_attempt(loaded)
    yield from answer_blocks(loaded)
    yield from _arena_verdicts(loaded)


def option_blocks(summary: AttemptSummary, choices: Mapping[str, Sequence[str]]) -> Iterator[TextBlock]:
    """Yield the options, each with *gold* and who chose it: ``★ B. Vitamin K  ← gold · chosen``."""
    for letter, text in summary.question.options.items():
        right, choosers = letter == summary.gold.answer, choices.get(letter, ())
        remarks = " · ".join([*(["gold"] if right else []), *choosers])
        style = "gold" if right else "wrong" if choosers else "plain"
        yield TextBlock(f"{'★' if right else ' '} {letter}. {text}" + (f"  ← {remarks}" if remarks else ""), style)


def cause_in(loaded: LoadedAttempt) -> Cause | None:
    """Return the likely cause of an attempt that is not right; ``None`` if it is right or no cause is known."""
    if loaded.attempt is None:
        return None
    summary, question, gold = loaded.summary, loaded.summary.question, loaded.summary.gold
    return cause_of(loaded.attempt, loaded.traced, question, gold, loaded.scores, summary.scorer, loaded.hops)


def answer_blocks(loaded: LoadedAttempt) -> list[TextBlock]:
    """Return the scores of an attempt with the judges' replies, and its answer."""
    text = loaded.attempt.text if loaded.attempt else ""
    remark = read_reply(text, loaded.summary.question.text).remark
    return [
        TextBlock("\nscores", "heading"),
        *_score_lines(loaded),
        TextBlock("\nanswer", "heading"),
        *([TextBlock(remark, "dim")] if remark else []),
        *reply_blocks(text),
    ]


def hop_blocks(loaded: LoadedAttempt, number: int) -> list[TextBlock]:
    """Return the outcome of an attempt, and one of its searches in full.

    Args:
        loaded: the attempt.
        number: number of the search, from 0.
    """
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
        blocks.append(TextBlock(cause.description, "trouble"))
    if not loaded.hops:
        unknown = searches_unknown(loaded.attempt, loaded.traced)
        return [*blocks, TextBlock(f"No search to show: {unknown or 'none was made'}.", "dim")]
    hop = loaded.hops[min(number, len(loaded.hops) - 1)]
    where = f", in {hop.traced.call.node}" if hop.traced.call.node else ""
    blocks.append(TextBlock(f"search {hop.number} of {len(loaded.hops)}{where}", "heading"))
    return [*blocks, *_faults(hop.traced.call), *search_blocks(loaded, hop.traced, hop)]


def _course_of_attempt(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """Yield the likely cause of a wrong answer, and the fate of gold documents."""
    cause = cause_in(loaded)
    for event in loaded.attempt.events if loaded.attempt else ():
        if isinstance(event, Noted) and event.what == DRAWN:
            yield TextBlock(event.text.partition(":")[0], "note")
    if cause is not None and cause.word != "not ended":
        yield TextBlock(cause.description, "note")
    yield from _gold_lines(loaded)


def _unfinished(loaded: LoadedAttempt) -> TextBlock:
    return TextBlock(f"\n{loaded.damage}", "trouble") if loaded.damage else TextBlock("\nNot run yet.", "dim")


def _arena_verdicts(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    for verdict in loaded.answer_verdicts:
        yield TextBlock(
            f"\nagainst {verdict.against}, shown {verdict.shown}, judged by {verdict.judge} ({verdict.arena})",
            "heading",
        )
        for axis, outcome in verdict.axes.items():
            style = {"won": "right", "lost": "wrong", "tie": "plain"}.get(outcome, "trouble")
            reason = f"  {verdict.reasons[axis]}" if verdict.reasons.get(axis) else ""
            yield TextBlock(f"{axis}: {outcome}{reason}", style)
        if verdict.how != "asked":
            yield TextBlock(verdict.how, "note")
        for call in verdict.calls:
            reply = loaded.recorded(call).reply
            if call.error:
                yield TextBlock(f"error: {call.error}", "trouble")
            if reply is not None:
                yield from reply_blocks(reply.text, 2)


def _step_heading(node: Node) -> TextBlock:
    step = node.step
    assert step is not None
    took = duration(node.figures.seconds) + (", not left" if step.seconds is None else "")
    return TextBlock(f"step {step.index}: {node.label}  {took}", "heading")


def _step_context(step: Step) -> Iterator[TextBlock]:
    """Yield the error, the notes and the state changes of a step."""
    if step.error or step.notes:
        yield TextBlock("\nin this step", "heading")
    if step.error:
        yield TextBlock(f"error: {step.error}", "trouble")
    for note in step.notes:
        sign = "" if note.what in _USUAL else "! "
        yield TextBlock(f"{sign}{note.what}: {note.text}", "trouble" if note.what == "traceback" else "note")
    if step.changes:
        yield TextBlock("\nwrote to the state", "heading")
        yield TextBlock(json.dumps(step.changes, ensure_ascii=False, indent=2))


def _child_rows(node: Node) -> Iterator[TextBlock]:
    for child in node.children:
        row, style = child.folded or child.row, "trouble" if child.troubled else "plain"
        yield TextBlock(f"{row.plain}  {_spent_words(child)}", style, 2)


def _usage_words(used: Usage | None) -> str:
    return f"{tokens(used.input)} tokens in, {tokens(used.output)} out" if used else "tokens unknown"


def _spent_words(node: Node) -> str:
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
    yield TextBlock(" | ".join(_call_facts(call)), "dim")
    yield from _faults(call)
    try:
        recorded = loaded.recorded(call)
    except DamagedRecord as damaged:
        yield TextBlock(f"\n{damaged}", "trouble")
        return
    if recorded.searched is not None:
        yield from search_blocks(loaded, recorded, loaded.hop_of(node.call_number))
    if recorded.asked is not None:
        yield from exchange(loaded, recorded.asked, recorded.reply, node.call_number)
    if recorded.used is not None:
        yield TextBlock("\nasked", "heading")
        yield TextBlock(value_text(recorded.used))
        yield TextBlock("\nanswered", "heading")
        output = given_text(recorded.gave)
        yield TextBlock(value_text(json_in(output) or output if isinstance(output, str) else output))
    elif recorded.asked is None and recorded.searched is None:
        reason = "imported: the messages were not published with it" if not call.key else "the journal does not hold it"
        reason = "only calls that were answered are kept" if call.error else reason
        yield TextBlock(f"\nNo messages: {reason}.", "dim")


def _call_facts(call: Call) -> list[str]:
    worked = "" if call.worked is None else f" (the server worked {duration(call.worked)})"
    took = duration(measured(call.seconds, call.at)) + worked
    facts = [took, *(["from the journal: nothing paid"] if call.cached else [])]
    if call.kind == "model":
        used = call.usage
        facts += [_usage_words(used), f"{dollars(call.cost_uncached)} at full price"]
        if used and (used.cached or used.reasoning):
            facts.append(f"{tokens(used.cached)} of the input cached, {tokens(used.reasoning)} of the output reasoning")
    return facts


def _faults(call: Call) -> Iterator[TextBlock]:
    """Yield the failed tries: their number by kind, then each one; and the final error if the call failed."""
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
    """Yield the query of a search and the passages it found."""
    searched = recorded.searched
    if searched is None:
        yield TextBlock(hop.query if hop else "(the query is not recorded)", "strong")
    else:
        yield from _query(searched, hop, recorded.when)
    if hop is not None and not recorded.call.error:
        yield from found_blocks(loaded, hop)


def _query(searched: SearchRequest, hop: Hop | None, when: str) -> Iterator[TextBlock]:
    number = f" of hop {hop.number}" if hop else ""
    moment = f", searched {when[:16].replace('T', ' ')} UTC" if when else ""  # of a live corpus
    # Of a search inside a user's system only the result is known.
    source = "" if searched.corpus == SYSTEMS_OWN else f", {searched.k} wanted from {searched.corpus}"
    yield TextBlock(f"\nquery{number}{source}{moment}", "heading")
    yield TextBlock(searched.query, "strong")
    for text in searched.mean:
        yield TextBlock(f"and the vector of: {text}", "note")
    if hop is not None and hop.repeats is not None:
        yield TextBlock(f"hop {hop.repeats} asked the same", "trouble")


def _gold_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """Yield one line per gold document: ``gold: Rule 9, found at 3 by search 1, seen``.

    A document is named by its title if a search found it, else by its id.
    """
    documents = loaded.summary.gold.documents
    for name in documents[:_GOLD]:
        yield _gold_line(loaded, name)
    if len(documents) > _GOLD:
        yield TextBlock(f"and {number_of(len(documents) - _GOLD, 'more gold document')}", "dim")


def _gold_line(loaded: LoadedAttempt, name: str) -> TextBlock:
    hits = [
        (hop, passage)
        for hop in loaded.hops
        for passage in hop.found
        if name in (passage.passage.document, passage.passage.id)
    ]
    if not hits:
        unknown = loaded.attempt and not loaded.hops and searches_unknown(loaded.attempt, loaded.traced)
        became = "not known whether found" if unknown else "not found"
        return TextBlock(f"gold: {one_line(name, _TITLE)}, {became}", "trouble" if loaded.hops else "dim")
    first, best = hits[0]
    title = next((one_line(passage.passage.title, _TITLE) for _, passage in hits if passage.passage.title.strip()), "")
    fate = min((passage.fate for _, passage in hits), key=FATES.index)
    fate_text = f", {fate}" if has_later_prompt(loaded, first) else ""
    label = title or one_line(name, _TITLE)
    return TextBlock(f"gold: {label}, found at {best.rank} by search {first.number}{fate_text}", "gold")


def _score_lines(loaded: LoadedAttempt) -> Iterator[TextBlock]:
    """Yield a line for the score of the lists and for each that differs, followed by the replies of its judge."""
    scores = sorted(loaded.scores, key=lambda score: score.scorer != loaded.summary.scorer)
    if not scores:
        yield TextBlock("not scored", "dim")
    first, agreeing = scores[:1], []
    for score in scores:
        if (
            score in first
            or _score_key(score) != _score_key(first[0])
            or score.scorer in {reply.scorer for reply in loaded.judge_replies}
        ):
            yield _score_line(loaded, score)
            for line in score.prediction.split("\n")[1:]:  # its components
                yield TextBlock(line, "plain", 2)
        else:
            agreeing.append(score.scorer)
        for reply in loaded.judge_replies:
            if reply.scorer == score.scorer and not reply.told:
                yield TextBlock(f"judged by {reply.judge}; which of the replies is its own is not known", "dim", 2)
            elif reply.scorer == score.scorer:
                other = f", answered by {reply.model}" if reply.model and reply.model not in reply.judge else ""
                yield TextBlock(f"judged by {reply.judge}{other}; it replied:", "dim", 2)
                yield TextBlock(reply.text.strip() or "(no text)", "note", 4)
    if agreeing:
        yield TextBlock(f"the same by {', '.join(agreeing)}", "dim")


def _score_key(score: Score) -> tuple[object, ...]:
    return score.value, score.answer_status, score.prediction, score.reason


def _score_line(loaded: LoadedAttempt, score: Score) -> TextBlock:
    scorer_info = described(score.scorer)
    value = score.value
    if value is None:
        word = "no score"
    elif scorer_info.direction == "lower" or scorer_info.unit != "percent":
        word = ""
    else:
        word = "right" if value >= 1 else "partly" if value > 0 else "wrong"
    style = word if word in ("right", "wrong") else "dim"
    question, gold = loaded.summary.question, loaded.summary.gold
    read = f"read as {score.prediction!r}, gold {gold.answer!r}" if question.options else ""
    is_repeated = loaded.attempt is not None and score.reason == loaded.attempt.reason  # shown under the outcome
    reason = "" if is_repeated else score.reason
    parts = [
        f"{score.scorer}: {word}".rstrip(),
        in_scale(value, scorer_info.unit, 1),
        score.answer_status,
        read,
        reason,
    ]
    return TextBlock("  ".join(part for part in parts if part), style)
