"""The attempts inside the page: an index of all of them, and their texts in chunks that are unpacked when looked at.

Everything is JSON, deflated (gzip) and written as base64 into data blocks, which no browser interprets; the page's
script unpacks them with the browser's own DecompressionStream. Long texts of a chunk stand once, in a table.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote

import msgspec

from ragrounds.base.records import COUNTED, OUTCOMES, Question, Score, Usage, outcome
from ragrounds.base.redaction import Redactor
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.causes import cause_of
from ragrounds.evals.trace.filter_fields import ALIASES, BY_NAME
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.run_rows import subject
from ragrounds.evals.trace.traces import Trace, TracedCall, TracedStep, calls_of
from ragrounds.models.model_names import other_name
from ragrounds.ui.call_words import hop_signs, made_words, search_words, terms_of
from ragrounds.ui.report.assets import asset

_CHUNK = 400_000
"""Characters of text after which a chunk ends: small enough to unpack at a click."""
_LONG = 60
"""Characters from which a text stands in its chunk's table."""
_SNIPPET = 200
"""Characters of a question that the index holds."""
_FACTS = {
    "steps": "steps", "hops": "hops", "repeated": "repeated",
    "failed_calls": "failed_calls", "failed_searches": "failed_searches", "faults": "faults", "gold_known": "gold",
    "gold_found": "gold_found", "gold_seen": "gold_seen", "gold_cut": "gold_cut", "gold_rank": "gold_rank",
    "gold_hop": "gold_hop",
}  # fmt: skip
"""Figures of the index, by their names in the filter language → the facts of an attempt."""
_WORDS = {
    word: (one.name, "count" if one.counts else one.kind)
    for word in (*BY_NAME, *ALIASES)
    if (one := BY_NAME[ALIASES.get(word, word)])
}
"""Words of the filter language → the field that is meant, and its kind."""


def packed(value: object, hide: Callable[[str], str]) -> str:
    """JSON, without keys, deflated, as base64."""
    text = hide(msgspec.json.encode(value).decode("utf-8"))
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 9, mtime=0)).decode("ascii")


def _sound(text: str) -> str:
    """A text without lone surrogates, which no JSON can carry."""
    return text.encode("utf-8", "replace").decode("utf-8")


class _Texts:
    """The table of a chunk's long texts."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.size = 0
        self._places: dict[str, int] = {}

    def __call__(self, text: str) -> str | int:
        """The text itself where it is short, else its place as a number below 0: -1 is the first."""
        text = _sound(text)
        if len(text) < _LONG:
            self.size += len(text) + 20
            return text
        if text not in self._places:
            self._places[text] = len(self.all)
            self.all.append(text)
            self.size += len(text)
        return -1 - self._places[text]


class Payload:
    """Builds the index while giving out the chunks one after the other."""

    def __init__(self, order: Mapping[str, int], numbers: Mapping[str, int], hide: Callable[[str], str]) -> None:
        """
        Args:
            order: question id → its place in the benchmark.
            numbers: run id → its number, from 0.
            hide: takes keys out of a text.
        """
        self._order, self._numbers, self._hide = order, numbers, hide
        self._questions: dict[str, int] = {}
        self._shown: list[list[object]] = []
        self._rows: list[tuple[tuple[int, int, int], dict[str, object]]] = []
        """The place of each attempt in the benchmark's order, and its row."""
        self._headlines: dict[tuple[str, ...], str] = {}
        """Benchmark, kind and the scorers that scored a question → the headline of them."""
        self.attempts = 0

    def chunks(self, traces: Iterable[Trace]) -> Iterator[str]:
        """The chunks, packed; take them all before asking for the index."""
        number, texts, attempts, passages = 0, _Texts(), list[object](), dict[tuple[str, str], list[object]]()
        for trace in traces:
            calls = calls_of(trace)
            hops = hops_of(calls, trace.gold, only_gold=True)
            score = self._shown_score(trace.question, trace.scores)
            self._note(trace, calls, hops, score, {"chunk": number, "place": len(attempts)})
            attempts.append(_attempt(trace, calls, hops, score, texts, passages))
            if texts.size >= _CHUNK:
                yield packed(_chunk(attempts, passages, texts), self._hide)
                number, texts, attempts, passages = number + 1, _Texts(), [], {}
        if attempts:
            yield packed(_chunk(attempts, passages, texts), self._hide)

    def index(self) -> str:
        """Questions, and a row an attempt, in the benchmark's order: what the list shows, filters and sorts by."""
        rows = [row for _, row in sorted(self._rows, key=itemgetter(0))]
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        index = {"questions": self._shown, "outcomes": list(OUTCOMES), "columns": columns, "words": _WORDS}
        return packed(index, self._hide)

    def _note(
        self,
        trace: Trace,
        calls: Sequence[TracedCall],
        hops: Sequence[Hop],
        score: Score | None,
        where: Mapping[str, object],
    ) -> None:
        question, attempt = trace.question, trace.attempt
        if question.id not in self._questions:
            self._questions[question.id] = len(self._shown)
            text = _sound(" ".join(question.text.split()))
            shown = text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…"
            gold = trace.gold.answer if question.kind == "choice" else ""
            self._shown.append([question.id, question.benchmark, subject(question), shown, gold])
        usage, run = attempt.usage, self._numbers[trace.run.id]
        facts = facts_row(attempt, calls, trace.gold, 0, hops)[1]
        row: dict[str, object] = {
            "question": self._questions[question.id],
            "run": run,
            "epoch": attempt.epoch,
            "outcome": list(OUTCOMES).index(outcome(attempt.status, score.answer_status if score else None)),
            "score": score.value if score else None,
            "prediction": _sound(score.prediction[:40]) if score else "",
            "cost": attempt.cost_uncached,
            "paid": attempt.cost_paid,
            "input": usage.input if usage else None,
            "output": usage.output if usage else None,
            **{name: getattr(attempt, name) for name in COUNTED},
            "time": round(attempt.seconds, 3) if attempt.seconds or attempt.at else None,
            **{name: facts[of] for name, of in _FACTS.items()},
            "signs": " ".join(hop_signs(hop).signs for hop in hops),
            **where,
        }
        self._rows.append(((self._order[question.id], attempt.epoch, run), row))
        self.attempts += 1

    def _shown_score(self, question: Question, scores: Sequence[Score]) -> Score | None:
        """The score that the list shows: the headline's of the question. Where a scorer had nothing to score by,
        another's is shown; a judge's score without a value is a failure, and shown."""
        by_scorer = {one.scorer: one for one in scores if one.value is not None or described(one.scorer).needs_judge}
        scored = (question.benchmark, question.kind, *sorted(by_scorer))
        if scored not in self._headlines:
            self._headlines[scored] = next((one.scorer for one in headline_of([question], by_scorer)), "")
        return by_scorer.get(self._headlines[scored], next(iter([*by_scorer.values(), *scores]), None))


def _chunk(
    attempts: list[object], passages: Mapping[tuple[str, str], list[object]], texts: _Texts
) -> dict[str, object]:
    return {"attempts": attempts, "passages": list(passages.values()), "texts": texts.all}


def _attempt(
    trace: Trace,
    calls: Sequence[TracedCall],
    hops: Sequence[Hop],
    score: Score | None,
    texts: _Texts,
    passages: dict[tuple[str, str], list[object]],
) -> dict[str, object]:
    question, attempt, gold = trace.question, trace.attempt, trace.gold
    cause = (
        cause_of(attempt, calls, question, gold, trace.scores, score.scorer if score else "", hops) if calls else None
    )
    return {
        "question": texts(question.text),
        "options": {label: texts(text) for label, text in question.options.items()},
        "gold": texts(gold.answer),
        "documents": gold.documents,
        "facts": gold.facts,
        "run": trace.run.id,
        "id": question.id,
        "epoch": attempt.epoch,
        "status": attempt.status,
        "reason": texts(attempt.reason),
        "text_of": texts(attempt.text),
        "made": made_words(attempt),
        "usage": _usage(attempt.usage),
        "cost_paid": attempt.cost_paid,
        "cost_uncached": attempt.cost_uncached,
        "seconds": attempt.seconds if attempt.seconds or attempt.at else None,
        "cause": texts(cause.said) if cause else "",
        "no_hops": search_words(attempt, calls),
        "hops": [_hop(hop, texts) for hop in hops],
        "scores": [[s.scorer, s.value, s.answer_status, texts(s.prediction), texts(s.reason)] for s in trace.scores],
        "steps": [_step(step, texts, passages) for step in trace.steps],
    }


def _hop(hop: Hop, texts: _Texts) -> list[object]:
    """Query, passages found, of these new, the earlier hop that it repeats, error, and gold as rank and fate."""
    gold = [[one.rank, one.fate] for one in hop.found if one.gold]
    return [texts(hop.query), len(hop.found), hop.new, hop.repeats, texts(hop.error), gold]


def _usage(usage: Usage | None) -> list[int] | None:
    return [usage.input, usage.output, usage.cached, usage.reasoning] if usage else None


def _step(step: TracedStep, texts: _Texts, passages: dict[tuple[str, str], list[object]]) -> dict[str, object]:
    written = (
        (key, value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8"))
        for key, value in step.changes.items()
    )
    return {
        "node": step.node,
        "seconds": step.seconds,
        "error": texts(step.error),
        "calls": [_call(call, texts, passages) for call in step.calls],
        "notes": [[note.what, texts(note.text)] for note in step.notes],
        "changes": {key: texts(value) for key, value in written},
    }


def _call(traced: TracedCall, texts: _Texts, passages: dict[tuple[str, str], list[object]]) -> dict[str, object]:
    call = traced.call
    found = []
    for passage in traced.passages:
        key = (passage.id, passage.text)
        if key not in passages:
            written = [passage.id, passage.document, texts(passage.title), texts(passage.text), passage.corpus]
            passages[key] = [len(passages), *written]
        found.append([passages[key][0], passage.rank, round(passage.score, 4), passage.retriever])
    made: dict[str, object] = {
        "kind": call.kind,
        "role": call.role,
        "actor": texts(call.actor),
        "seconds": call.seconds,
        "cached": call.cached,
        "usage": _usage(call.usage),
        "cost_uncached": call.cost_uncached,
    }
    if other := other_name(call.actor, call.model):
        made["model"] = texts(other)
    if call.error:
        made["error"] = texts(call.error)
    if call.faults:
        made["faults"] = [[fault.kind, texts(fault.message), fault.status] for fault in call.faults]
    if traced.searched:
        made["query"] = texts(traced.searched.query)
    if found:
        made["found"] = found
    if traced.asked:
        prefix = [["prefix", texts(traced.asked.prefix)]] if traced.asked.prefix else []
        terms = [["asked for", texts(said)]] if (said := terms_of(traced.asked)) else []
        messages = [[message.role, texts(message.content)] for message in traced.asked.messages]
        made["messages"] = [*terms, *messages, *prefix]
    if traced.reply:
        made["reply"] = texts(traced.reply.text)
        made["finish"] = traced.reply.finish
        if traced.reply.reasoning:
            made["reasoning"] = texts(traced.reply.reasoning)
    return made


def attempt_part(
    traces: Iterable[Trace],
    order: Mapping[str, int],
    runs: Sequence[tuple[str, str]],
    hide: Redactor,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """The section of attempts, piece by piece. The page needs the script and the style of
    :mod:`ragrounds.ui.tables.html_tables` for it.

    Args:
        traces: of these runs, in any order; those of one question beside each other make a smaller page.
        order: question id → its place in the list.
        runs: run id and name, in the order of the page.
        hide: takes keys out of texts.
        on_progress: called with the number of attempts written so far.
    """
    yield asset("browser.html")
    payload = Payload(order, {run: number for number, (run, _) in enumerate(runs)}, hide)
    count = 0
    for chunk in payload.chunks(traces):
        yield _block(f"chunk-{count}", chunk)
        count += 1
        if on_progress:
            on_progress(payload.attempts)
    yield _block("index", payload.index())
    yield _block("about", packed({"runs": [list(run) for run in runs], "chunks": count}, hide))


def attempt_link(run: str, question_id: str, epoch: int = 0) -> str:
    """The fragment that opens an attempt in a page: ``#a=RUN/QUESTION``, with the epoch where it is not the first."""
    parts = [run, question_id, *([str(epoch)] if epoch else [])]
    return "#a=" + "/".join(quote(part, safe="") for part in parts)


def _block(name: str, data: str) -> str:
    return f'<script type="text/plain" id="{name}">{data}</script>\n'
