"""Attempts inside the page: an index of all of them, and their texts in chunks that are unpacked when opened.

Everything is JSON, compressed (gzip) and written as base64 into data blocks, which no browser interprets; the page's
script unpacks them with the browser's DecompressionStream. A chunk stores each long text once, in a table.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote

import msgspec

from ragrounds.base.records import COUNTED, OUTCOMES, Question, Score, Usage, outcome
from ragrounds.base.replies import read_reply
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.causes import cause_of
from ragrounds.evals.trace.filter_fields import ALIASES, BY_NAME
from ragrounds.evals.trace.hops import Hop, hops_of
from ragrounds.evals.trace.run_rows import subject
from ragrounds.evals.trace.traces import Trace, TracedCall, TracedStep, calls_of
from ragrounds.models.model_names import other_name
from ragrounds.recorder.redaction import Redactor
from ragrounds.ui.call_words import hop_signs, made_words, search_words, terms_of
from ragrounds.ui.report.assets import asset
from ragrounds.ui.signs import outcome_sign

_CHUNK = 400_000
"""Characters of text after which a chunk ends: small enough to unpack at a click."""
_LONG = 60
"""Characters from which a text is stored in its chunk's table."""
_SNIPPET = 200
"""Characters of a question in the index."""
_FACTS = {
    "steps": "steps", "hops": "hops", "repeated": "repeated",
    "failed_calls": "failed_calls", "failed_searches": "failed_searches", "faults": "faults", "gold_known": "gold",
    "gold_found": "gold_found", "gold_seen": "gold_seen", "gold_cut": "gold_cut", "gold_rank": "gold_rank",
    "gold_hop": "gold_hop",
}  # fmt: skip
"""Figures of the index: name in the filter language → attribute of the attempt's facts."""
_WORDS = {
    word: (one.name, "count" if one.counts else one.kind)
    for word in (*BY_NAME, *ALIASES)
    if (one := BY_NAME[ALIASES.get(word, word)])
}
"""Words of the filter language → field and its kind."""


def packed(value: object, hide: Callable[[str], str]) -> str:
    """Return a value as compressed JSON in base64, with keys redacted."""
    text = hide(msgspec.json.encode(value).decode("utf-8"))
    # Level 9 takes 1.7 times as long, and saves one percent.
    return base64.b64encode(gzip.compress(text.encode("utf-8"), 6, mtime=0)).decode("ascii")


def _sound(text: str) -> str:
    """Return a text without lone surrogates, which JSON cannot represent."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class _Texts:
    """Table of a chunk's long texts."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self.size = 0
        self._indices: dict[str, int] = {}

    def __call__(self, text: str) -> str | int:
        """Return a short text itself; for a long one return its number in the table, below 0: -1 is the first."""
        text = _sound(text)
        if len(text) < _LONG:
            self.size += len(text) + 20
            return text
        if text not in self._indices:
            self._indices[text] = len(self.all)
            self.all.append(text)
            self.size += len(text)
        return -1 - self._indices[text]


class Payload:
    """Index of the attempts, built while their chunks are written."""

    def __init__(self, order: Mapping[str, int], numbers: Mapping[str, int], hide: Callable[[str], str]) -> None:
        """Prepare an empty index.

        Args:
            order: question id → its position in the benchmark.
            numbers: run id → its number, from 0.
            hide: redacts keys in a text.
        """
        self._order, self._numbers, self._hide = order, numbers, hide
        self._questions: dict[str, int] = {}
        self._question_rows: list[list[object]] = []
        self._rows: list[tuple[tuple[int, int, int], dict[str, object]]] = []
        """Position of each attempt in the benchmark's order, and its row."""
        self._headlines: dict[tuple[str, ...], str] = {}
        """Benchmark, kind and scorers of a question → the headline scorer."""
        self.attempts = 0

    def chunks(self, traces: Iterable[Trace]) -> Iterator[str]:
        """Yield the packed chunks. Take all of them before asking for the index."""
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
        """Return questions, and one row per attempt in the benchmark's order, for the list to show, filter and sort."""
        rows = [row for _, row in sorted(self._rows, key=itemgetter(0))]
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        index = {
            "questions": self._question_rows,
            "outcomes": list(OUTCOMES),
            "signs": [outcome_sign(name) for name in OUTCOMES],
            "columns": columns,
            "words": _WORDS,
        }
        return packed(index, self._hide)

    def _note(
        self,
        trace: Trace,
        calls: Sequence[TracedCall],
        hops: Sequence[Hop],
        score: Score | None,
        where: Mapping[str, object],
    ) -> None:
        question, attempt = trace.question, trace.attempt.with_unknowns()
        if question.id not in self._questions:
            self._questions[question.id] = len(self._question_rows)
            text = _sound(" ".join(question.text.split()))
            snippet = text if len(text) <= _SNIPPET else f"{text[:_SNIPPET]}…"
            gold = trace.gold.answer if question.kind == "choice" else ""
            self._question_rows.append([question.id, question.benchmark, subject(question), snippet, gold])
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
            **{name: facts[field] for name, field in _FACTS.items()},
            "signs": " ".join(hop_signs(hop).signs for hop in hops),
            **where,
        }
        self._rows.append(((self._order[question.id], attempt.epoch, run), row))
        self.attempts += 1

    def _shown_score(self, question: Question, scores: Sequence[Score]) -> Score | None:
        """Return the score that the list shows: that of the question's headline scorer.

        If that scorer had no basis for a score, another scorer's is shown. A judge's score without a value is a
        failure, and is shown.
        """
        by_scorer = {
            score.scorer: score for score in scores if score.value is not None or described(score.scorer).needs_judge
        }
        scored = (question.benchmark, question.kind, *sorted(by_scorer))
        if scored not in self._headlines:
            self._headlines[scored] = next((headline.scorer for headline in headline_of([question], by_scorer)), "")
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
    question, attempt, gold = trace.question, trace.attempt.with_unknowns(), trace.gold
    not_read = read_reply(attempt.text, question.text).remark
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
        **({"not_read": not_read} if not_read else {}),
        "made": made_words(attempt),
        "usage": _usage(attempt.usage),
        "cost_paid": attempt.cost_paid,
        "cost_uncached": attempt.cost_uncached,
        "seconds": attempt.seconds if attempt.seconds or attempt.at else None,
        "cause": texts(cause.description) if cause else "",
        "no_hops": search_words(attempt, calls),
        # Query, number of passages, number of new ones, repeated earlier hop, error, and gold as rank and fate.
        "hops": [
            [
                texts(hop.query),
                len(hop.found),
                hop.new,
                hop.repeats,
                texts(hop.error),
                [[passage.rank, passage.fate] for passage in hop.found if passage.gold],
            ]
            for hop in hops
        ],
        "scores": [[s.scorer, s.value, s.answer_status, texts(s.prediction), texts(s.reason)] for s in trace.scores],
        "steps": [_step(step, texts, passages) for step in trace.steps],
    }


def _usage(usage: Usage | None) -> list[int] | None:
    return [usage.input, usage.output, usage.cached, usage.reasoning] if usage else None


def _step(step: TracedStep, texts: _Texts, passages: dict[tuple[str, str], list[object]]) -> dict[str, object]:
    changes = (
        (key, value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8"))
        for key, value in step.changes.items()
    )
    return {
        "node": step.node,
        "seconds": step.seconds,
        "error": texts(step.error),
        "calls": [_call(call, texts, passages) for call in step.calls],
        "notes": [[note.what, texts(note.text)] for note in step.notes],
        "changes": {key: texts(value) for key, value in changes},
    }


def _call(traced: TracedCall, texts: _Texts, passages: dict[tuple[str, str], list[object]]) -> dict[str, object]:
    call = traced.call
    references = []
    for passage in traced.passages:
        key = (passage.id, passage.text)
        if key not in passages:
            fields = [passage.id, passage.document, texts(passage.title), texts(passage.text), passage.corpus]
            passages[key] = [len(passages), *fields]
        references.append([passages[key][0], passage.rank, round(passage.score, 4), passage.retriever])
    entry: dict[str, object] = {
        "kind": call.kind,
        "role": call.role,
        "actor": texts(call.actor),
        "seconds": call.seconds,
        "cached": call.cached,
        "usage": _usage(call.usage),
        "cost_uncached": call.cost_uncached,
    }
    if other := other_name(call.actor, call.model):
        entry["model"] = texts(other)
    if call.error:
        entry["error"] = texts(call.error)
    if call.faults:
        entry["faults"] = [[fault.kind, texts(fault.message), fault.status] for fault in call.faults]
    if traced.searched:
        entry["query"] = texts(traced.searched.query)
    if references:
        entry["found"] = references
    if traced.asked:
        prefix = [["prefix", texts(traced.asked.prefix)]] if traced.asked.prefix else []
        terms = [["asked for", texts(request_terms)]] if (request_terms := terms_of(traced.asked)) else []
        messages = [[message.role, texts(message.content)] for message in traced.asked.messages]
        entry["messages"] = [*terms, *messages, *prefix]
    if traced.reply:
        entry["reply"] = texts(traced.reply.text)
        entry["finish"] = traced.reply.finish
        if traced.reply.reasoning:
            entry["reasoning"] = texts(traced.reply.reasoning)
    return entry


def attempt_part(
    traces: Iterable[Trace],
    order: Mapping[str, int],
    runs: Sequence[tuple[str, str]],
    hide: Redactor,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield the section of attempts, piece by piece.

    The page also needs the script and the style of :mod:`ragrounds.ui.tables.html_tables`.

    Args:
        traces: attempts of these runs, in any order; the page is smaller if those of one question are adjacent.
        order: question id → its position in the list.
        runs: run id and name, in the order of the page.
        hide: redacts keys in texts.
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
    """Return the fragment that opens an attempt in a page: ``#a=RUN/QUESTION``, followed by any epoch but the first."""
    parts = [run, question_id, *([str(epoch)] if epoch else [])]
    return "#a=" + "/".join(quote(part, safe="") for part in parts)


def _block(name: str, payload: str) -> str:
    return f'<script type="text/plain" id="{name}">{payload}</script>\n'
