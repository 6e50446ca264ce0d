"""The frames that results give to pandas, with their columns. The site's page of frames is generated from this file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.base.records import COUNTED, Question
from ragrounds.ui.columns import Column, ColumnType
from ragrounds.ui.tables.comparison_columns import TOTALS

Row = tuple[object, ...]
"""Cells in the order of a frame's columns."""
Part = list[Row]


class Frame(Struct, frozen=True):
    """Kind of frame: its name, the meaning of a row, and its columns in their order."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names."""
        return tuple(column.name for column in self.columns)

    def cells(self, *records: Any, **overrides: object) -> tuple[object, ...]:
        """Return a row: each cell is given by its column's name, else read from the first record that has it, else
        null.
        """
        return tuple(
            overrides[column.name] if column.name in overrides else _read(column, records) for column in self.columns
        )


def _read(column: Column, records: Sequence[Any]) -> object:
    first = str(column.value or column.name).partition(".")[0]
    value = column.value_in(next((record for record in records if hasattr(record, first)), None))
    return value or None if column.null else value


def _columns_of(type: ColumnType, *, null: bool = False) -> Callable[..., Column]:
    """Return a function that describes columns of one type. If `null`, empty values of the columns are null."""

    def column(name: str, words: str, unit: str = "", value: str = "") -> Column:
        return Column(name, value, type=type, words=words, unit=unit, null=null)

    return column


_text_column, _optional_text_column = _columns_of("text"), _columns_of("text", null=True)
_whole, _real_column = _columns_of("whole"), _columns_of("real")
_truth_column, _time_column = _columns_of("truth"), _columns_of("time", null=True)
_TOTALS = {column.name: column for column in TOTALS if column.type}
_RUN = _text_column("run", "The run's id.")
_AGENT = _text_column("agent", "The agent's canonical text.")
_NAME = _text_column("name", "What it is called in tables: its own name, else the agent's text.")
_QUESTION = _text_column("question_id", "The question's id.")
_ATTEMPT_KEYS = (_RUN, _AGENT, _QUESTION, _whole("epoch", "Which time the question was asked, from 0."))
_TOKENS = (_TOTALS["input_tokens"], _TOTALS["output_tokens"])
_COSTS = (_TOTALS["cost_paid"], _TOTALS["cost_uncached"])
_USAGE = (
    *_TOKENS,
    _whole("cached_tokens", "Of the tokens given, those that the provider had cached.", "tokens", "usage.cached"),
    _whole("reasoning_tokens", "Of the tokens written, those of reasoning.", "tokens", "usage.reasoning"),
    *_COSTS,
)
_METADATA = _text_column(
    "metadata",
    "What else its benchmark says of it, such as `significance_type`, as a JSON object; null: nothing.",
)

RUNS = Frame(
    "runs",
    "a run",
    (
        _RUN,
        _AGENT,
        _text_column("benchmark", "The benchmark's canonical name."),
        _text_column("models", "The models, each once, with commas between them."),
        _whole("questions", "Questions that it is asked."),
        _whole("epochs", "How often each is asked."),
        _whole("completed", "Attempts that ended by themselves, also those with an empty text."),
        _whole("blocked", "Attempts that a provider's filter blocked."),
        _whole("failed", "Attempts that failed; the next call of the same tries them again."),
        _whole("capped", "Attempts that reached a cap of their agent."),
        _whole("paused", "Attempts whose agent asked a person."),
        _whole("not_run", "Attempts that are still to be made."),
        *_TOKENS,
        *_COSTS,
        _real_column("seconds", "Mean time of an attempt; null for imported runs.", "seconds"),
        _time_column("created", "When it was begun."),
        _text_column("origin", "`replayed` or `imported`."),
        _text_column("fingerprint", "Hash of all that determines its results."),
        _NAME,
        *(_whole(name, f"{about}.") for name, about in COUNTED.items()),
    ),
)
ATTEMPTS = Frame(
    "attempts",
    "a run's question in one epoch, in the benchmark's order; also those still to be made",
    (
        *_ATTEMPT_KEYS,
        _text_column("dataset", "The question's own benchmark, such as `mirage/pubmedqa`.", value="benchmark"),
        _optional_text_column("subject", "The question's subject or specialty; null: it has none.", value="group"),
        _text_column("kind", "`choice`, `long` or `extraction`."),
        _text_column("gold", "The letter of the right option, or the reference answer."),
        _text_column("status", "`completed`, `blocked`, `failed`, `capped`, `paused` or `not_run`."),
        _optional_text_column("reason", "Why the status is not `completed`; null: it is."),
        _text_column("text", "The answer as the agent gave it; null: not run."),
        *_USAGE,
        _real_column("seconds", "Of the clock, from its first step to its last; null for imported runs.", "seconds"),
        _time_column("at", "When it began."),
        _METADATA,
        _optional_text_column(
            "choice", "The letter of an option that the system gave apart from its text; null: it gave none."
        ),
        *(_whole(name, f"{about}; null: not run.") for name, about in COUNTED.items()),
        _text_column("marks", "Readers' marks, with spaces between them; null: none."),
        _text_column("notes", "Readers' notes, a line each: `author: text`; null: none."),
        _real_column("waited", "Of its seconds, those in which servers did not work on its calls; null: not reported."),
    ),
)
CALLS = Frame(
    "calls",
    "a call of an attempt: to a model, a search or a tool, in order",
    (
        *_ATTEMPT_KEYS,
        _whole("call", "Its place in the attempt, from 0."),
        _text_column("kind", "`model`, `search` or `tool`."),
        _text_column("role", "Whose cost it is: `answering`, `reading`, `querying`, `searching`, `judging` …"),
        _text_column("node", "The graph's node that made it."),
        _text_column("actor", "The model's or the searcher's canonical text."),
        _truth_column("cached", "Whether the journal answered it."),
        *_USAGE,
        _real_column("seconds", "How long it took, tries and waiting included.", "seconds"),
        _time_column("at", "When it began."),
        _whole("passages", "Passages that a search returned; null: no search."),
        _whole("faults", "Tries that gave no reply."),
        _optional_text_column("error", "Why it gave no reply at all; null: it gave one."),
        _optional_text_column("key", "Its key in the journal."),
        _optional_text_column("answered_by", "The model that the reply names; null: it names none.", value="model"),
        _real_column("worked", "Of its seconds, those in which the server worked; null: it does not report them."),
    ),
)
SCORES = Frame(
    "scores",
    "a score of an attempt by one scorer",
    (
        *_ATTEMPT_KEYS,
        _text_column("scorer", "The scorer's name."),
        _real_column("value", "The score; null: missing (a judge that failed).", "the scorer's"),
        _text_column("answer_status", "`answered`, `abstained`, `refused`, `unreadable` or `empty`."),
        _optional_text_column("prediction", "The letter or the parsed answer that the scorer went by; null: none."),
        _optional_text_column("reason", "What the scorer says of it; null: nothing."),
    ),
)
PASSAGES = Frame(
    "passages",
    "a passage that a search of an attempt returned",
    (
        *_ATTEMPT_KEYS,
        _whole("search", "The search's place among the attempt's searches, from 1."),
        _text_column("query", "What was searched for."),
        _whole("rank", "From 1, best first."),
        _text_column("passage", "The passage's id.", value="id"),
        _text_column("document", "The id of its document."),
        _optional_text_column("title", "The document's title; null: it has none."),
        _real_column("score", "The retriever's score.", "the retriever's"),
        _truth_column("gold", "Whether the document holds the answer; null: the benchmark does not say."),
        _text_column("corpus", "Where it was found."),
        _optional_text_column("retriever", "By what."),
        _optional_text_column(
            "chunk", "Of a whole document: the id of the chunk that it was found by; null: the passage was found."
        ),
    ),
)
JUDGEMENTS = Frame(
    "judgements",
    "what one judge said of one thing: an answer, or a statement about it",
    (
        *_ATTEMPT_KEYS,
        _text_column("kind", "The way of judging: `equivalence`, `equivalence-published` or `statements`."),
        _text_column("judge", "The judge's canonical text."),
        _text_column("item", "What was judged: the question's id, or a statement's (`ID#1`)."),
        _text_column("verdict", "The label; null: it was asked and gave none."),
    ),
)
_FIRST = ("model_calls", "input_tokens", "output_tokens", "cost_paid", "cost_uncached", "seconds")
"""Totals that come before the others."""
FIGURES = Frame(
    "figures",
    "a run under one scorer: those that tables show come first, then the others that `pairs` has too",
    (
        _RUN,
        _AGENT,
        _text_column("scorer", "The scorer's name."),
        _truth_column("headline", "Whether it is the headline scorer of the benchmark, or was asked for."),
        _real_column(
            "value", "The score: of several datasets their unweighted mean.", "the scorer's; a share, not percent"
        ),
        _real_column("error", "The ± of MIRAGE's tables, sqrt(p(1-p)/n); no interval.", "as value"),
        _real_column("low", "Lower end of the 95 % interval; null: too few questions for one.", "as value"),
        _real_column("high", "Upper end of the 95 % interval; null likewise.", "as value"),
        _real_column(
            "best", "The value if every open attempt (failed, capped, not run) had the best score.", "as value"
        ),
        _whole("n", "Questions with a score."),
        _whole("missing", "Questions whose score is missing."),
        *(column for name, column in _TOTALS.items() if name in _FIRST),
        _real_column("pooled", "The mean over all questions alike, whatever dataset they are of.", "as value"),
        _NAME,
        *(column for name, column in _TOTALS.items() if name not in _FIRST),
    ),
)
PAIRS = Frame(
    "pairs",
    "two runs under one scorer",
    (
        _text_column("scorer", "The scorer's name."),
        _text_column("first", "A run's id."),
        _text_column("second", "A run's id."),
        _real_column("difference", "The second's value minus the first's.", "the scorer's; a share, not percent"),
        _real_column("low", "Lower end of the 95 % interval; null: too few questions for one.", "as difference"),
        _real_column("high", "Upper end of the 95 % interval; null likewise.", "as difference"),
        _whole("n", "Questions that both have."),
        _whole("first_only", "Questions that only the first has right."),
        _whole("second_only", "Questions that only the second has right."),
        _real_column("p_mcnemar", "Exact McNemar test; over several datasets, an exact test of their mean."),
        _real_column("p_holm", "The same after Holm's correction over all pairs."),
        _real_column("p_always", "Of runs that ended by their own results: p at any number of questions."),
        _real_column("mde", "Minimum detectable effect, 80 % power.", "as difference"),
        _text_column("first_name", "What the first is called in tables."),
        _text_column("second_name", "What the second is called in tables."),
    ),
)
MEASURES = Frame(
    "measures",
    "a retriever, or a TREC run, by one measure",
    (
        _text_column("retriever", "The retriever's text, or the file's name."),
        _text_column("measure", "As trec_eval's, such as `nDCG@10`."),
        _real_column("value", "Mean over every judged query."),
        _whole("queries", "Judged queries."),
        _whole("without_results", "Of these, queries without a result; they count 0."),
        _real_column("queries_per_second", "Searches a second; null: a TREC run."),
        _real_column("p95_seconds", "The time that 95 % of the searches stay below.", "seconds"),
        _text_column("set", "The set of queries; null: one set alone."),
    ),
)
STUDY_CELLS = Frame(
    "cells",
    "a cell of a study's table",
    (
        _text_column("study", "The study's name."),
        _text_column("row", "The row's name."),
        _text_column("column", "The column's name."),
        _text_column("measure", "The scorer, the measure or the axis."),
        _real_column("value", "Our figure, in the paper's unit: percents are from 0 to 100."),
        _real_column("low", "Lower end of its 95 % interval."),
        _real_column("high", "Upper end."),
        _real_column("spread", "The value after ±: sqrt(p(1-p)/n), or the standard deviation over epochs."),
        _whole("n", "Questions or queries with a value."),
        _whole("missing", "Questions without one; they are in no mean."),
        _whole("failed", "Attempts that an error ended; they count as 0, but for `failed_right`."),
        _whole("failed_right", "Of these, those with a text that the scorer yet reads as right."),
        _real_column("published", "The paper's figure."),
        _real_column("published_spread", "What the paper prints after ±."),
        _real_column("deviation", "Ours minus the paper's."),
        _real_column("difference", "This row minus the study's baseline row, on the same questions."),
        _real_column("difference_low", "Lower end of its 95 % interval."),
        _real_column("difference_high", "Upper end."),
        _text_column("state", "`done`, `part`, `to do`, `lacks`, `failed`, or `published`: the paper's figure alone."),
        _text_column("why", "What it lacks and how to get it, or how much of it is there."),
        _text_column("runs", "The ids of the runs that it shows, with commas between them."),
    ),
)
QUERIES = Frame(
    "queries",
    "a query by one retriever and one measure",
    (
        _text_column("retriever", "The retriever's text, or the file's name."),
        _text_column("measure", "As trec_eval's."),
        _text_column("query", "The query's id."),
        _real_column("value", "The measure of this query."),
        _text_column("set", "The set of queries; null: one set alone."),
    ),
)
RATINGS = Frame(
    "ratings",
    "a system on one axis of an arena",
    (
        _text_column("arena", "The arena's id."),
        _text_column("axis", "On what answers were compared."),
        _text_column("system", "Who played."),
        _whole("rank", "The best rank that its interval allows, from 1; null: ratings are withheld."),
        _whole("worst_rank", "The worst rank that its interval allows."),
        _real_column("rating", "Bradley-Terry on Elo's scale, mean 1000.", "Elo points"),
        _real_column("low", "Lower end of the interval.", "Elo points"),
        _real_column("high", "Upper end of the interval.", "Elo points"),
        _whole("matches", "Matches of all systems on this axis."),
        _text_column("withheld", "Why there are no ratings; null: there are."),
        _text_column("name", "What the system is called in tables: its own name, else as `system`."),
        _real_column("elo", "Online Elo, the mean over random orders; null: not requested.", "Elo points"),
        _real_column("elo_sd", "Its standard deviation over the orders.", "Elo points"),
    ),
)
MATCHES = Frame(
    "matches",
    "what one judge of an arena said of one pair of answers in one order, on one axis",
    (
        _text_column("arena", "The arena's id."),
        _whole("match", "The match's place in the order of play, from 0."),
        _QUESTION,
        _text_column("judge", "The judge's canonical text."),
        _text_column("axis", "On what they were compared."),
        _text_column("first", "The system whose answer was shown first."),
        _text_column("second", "The other system."),
        _text_column("outcome", "`first`, `second` or `tie`; null: no verdict."),
        _text_column("how", "`asked`; `cut` (to the judge's window); `empty` and `identical` need no judge."),
    ),
)
LEDGER = Frame(
    "ledger",
    "the calls that have these names in common",
    (
        _text_column("run", "A run's or an arena's id; here and below null: not split by it."),
        _text_column("role", "`answering`, `reading`, `querying`, `searching`, `judging` …"),
        _text_column("node", "The graph's node."),
        _text_column("model", "The model's or the searcher's canonical text."),
        _whole("model_calls", "Calls of models."),
        _whole("reused", "Of these, answered from the journal."),
        _whole("failed", "Of these, without a reply."),
        _whole("searches", "Searches, and uses of other tools."),
        *_TOKENS,
        *_COSTS,
    ),
)
QUESTIONS = Frame(
    "questions",
    "a question of a benchmark, in its order",
    (
        _QUESTION,
        _text_column("dataset", "Its own benchmark, such as `mirage/pubmedqa`."),
        _text_column("kind", "`choice`, `long` or `extraction`."),
        _text_column("text", "The question."),
        _text_column("options", "Letter → option as a JSON object; null: it has none."),
        _text_column("gold", "The letter of the right option, or the reference answer."),
        _text_column("subject", "Its subject or specialty; null: it has none."),
        _text_column("cluster", "Questions that are not independent share one; null: one of its own."),
        _text_column("split", "Which part of the benchmark it belongs to."),
        _text_column("language", "Its language."),
        _METADATA,
    ),
)

FRAMES: tuple[Frame, ...] = (
    RUNS, ATTEMPTS, CALLS, SCORES, PASSAGES, JUDGEMENTS, FIGURES, PAIRS, LEDGER, MEASURES, QUERIES, RATINGS,
    MATCHES, QUESTIONS, STUDY_CELLS,
)  # fmt: skip
"""All frames, those of stored runs first."""
OF_RUNS: tuple[Frame, ...] = (ATTEMPTS, CALLS, SCORES, PASSAGES, JUDGEMENTS, RUNS)
"""Frames of every result that represents stored runs."""


def question_metadata(question: Question) -> str | None:
    """Return a question's metadata as a JSON object; ``None`` if it has none."""
    return msgspec.json.encode(question.metadata).decode() if question.metadata else None


def columns_table(frames: Sequence[Frame] = FRAMES) -> str:
    """Return the frames and their columns as Markdown."""
    parts = []
    for frame in frames:
        lines = [f"### `{frame.name}`", "", f"A row is {frame.row}.", ""]
        lines += ["| column | type | unit | |", "|---|---|---|---|"]
        lines += [f"| `{column.name}` | {column.type} | {column.unit} | {column.words} |" for column in frame.columns]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
