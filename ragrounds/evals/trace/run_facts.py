"""Facts of a whole run: the models that replies name, the dates of live searches, and the calls that were not
recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.errors import UserError
from ragrounds.base.records import LEARNED_FROM, Attempt, Called, Event, Noted, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import DamagedRecord, check_call
from ragrounds.evals.store.database import fetch_rows
from ragrounds.evals.store.row_sums import summed_columns
from ragrounds.evals.store.servers import fingerprint_in, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.model_names import SERVED, other_models
from ragrounds.models.options import server_of
from ragrounds.models.reply_parts import CHOICE_IGNORED
from ragrounds.tools.search_notes import LIVE

ReplyModels = Mapping[str, Mapping[str, int]]
"""The requested model, as its canonical text → the name in replies → the number of calls."""


def reply_models(store: Store, runs: Sequence[Run]) -> dict[str, ReplyModels]:
    """Map each run id to the models that the replies of its attempts name."""
    table, numbered = schema.attempts, schema.runs
    statement = (
        sa.select(numbered.c.id, table.c.models, sa.func.count())
        .join(numbered, numbered.c.number == table.c.run)
        .where(numbered.c.id.in_([run.id for run in runs]), table.c.models.is_not(None))
        .group_by(numbered.c.id, table.c.models)
    )
    counts_by_run: dict[str, dict[str, Counter[str]]] = {run.id: {} for run in runs}
    for run, models, attempts in fetch_rows(store.engine, statement):
        try:
            named_models = msgspec.json.decode(models, type=list[tuple[str, str, int]])
        except (msgspec.MsgspecError, TypeError) as error:
            raise DamagedRecord(f"which models answered in {run} does not match its checksum") from error
        for requested, name, n_calls in named_models:
            counts_by_run[run].setdefault(requested, Counter())[name] += n_calls * attempts
    return {
        run: {requested: dict(names) for requested, names in models.items()} for run, models in counts_by_run.items()
    }


def said_of_models(store: Store, run: Run, answered: ReplyModels) -> list[str]:
    """Return messages about a run whose replies name other models than requested, or several."""
    if not other_models(answered):
        return []
    served: dict[str, list[str]] = {}
    for model in answered:
        facts = _server_facts(store, run, server_of(model))
        served[model] = [facts[name] for name in SERVED if name in facts]
    return other_models(answered, served)


def _server_facts(store: Store, run: Run, server: str) -> Mapping[str, str]:
    """Return the facts that a run's server reported when the run began, or at another time if it was not asked then."""
    if server in run.servers:
        return run.servers[server]
    fingerprint = fingerprint_in(run, server)
    return next(
        (candidate.facts for candidate in known_servers(store.engine, server) if candidate.fingerprint == fingerprint),
        {},
    )


_QUERY_NOTES = (
    ("search_refused", "{} had a query that was refused"),
    ("query_cut", "{} had a query cut to the provider's length"),
)


def live_words(store: Store, run: Run) -> str:
    """Return the dates (UTC) on which a run's live corpora were searched, and the number of attempts with a refused or
    truncated query; empty if the run has no live corpus, or nothing was found yet.
    """
    tools = run.identity.get("tools")
    listed = [tool.get("corpus") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    corpora = dict.fromkeys(str(corpus) for corpus in (run.identity.get("corpus"), *listed) if LIVE in str(corpus))
    if not corpora:
        return ""
    corpus = ", ".join(corpora)
    keys: set[bytes] = set()
    kinds: Counter[str] = Counter()
    count = 0
    for attempt in store.attempts(run, skip_damaged=True):
        count += 1
        searches = (call for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error)
        keys.update(bytes.fromhex(call.key) for call in searches)
        kinds.update({event.what for event in attempt.events if isinstance(event, Noted)})
    dates = _days(store, keys)
    if not dates:
        return ""
    note_words = [template.format(f"{kinds[kind]:,}") for kind, template in _QUERY_NOTES if kinds[kind]]
    query_words = f" Of its {count:,} attempts, {' and '.join(note_words)}." if note_words else ""
    return f"{run.id} searched {corpus}, which changes by itself, on {dates} (UTC).{query_words}"


def _days(store: Store, keys: Iterable[bytes]) -> str:
    """Return the first and the last day of some calls: ``2026-11-23``, ``2026-11-23 to 2026-11-25``; empty if none is
    stored.
    """
    table, moments = schema.calls, list[float]()
    for chunk in chunks(sorted(keys)):
        for row in fetch_rows(store.engine, sa.select(*summed_columns(table)).where(table.c.key.in_(chunk))):
            check_call(row)
            moments.append(row.at)
    if not moments:
        return ""
    days = [datetime.fromtimestamp(moment, UTC).date().isoformat() for moment in (min(moments), max(moments))]
    return " to ".join(dict.fromkeys(days))


_LOOKED_AT = 20
"""Number of attempts of a run that are read to describe its notes."""
_NAMED = 3


def not_recorded_words(store: Store, run: Run, *, may_be_stale: bool = False) -> str:
    """Return the number of a run's calls that are not recorded, and their kinds; empty if all seen calls are.

    `may_be_stale`: say what that means for attempts that are used again, not for costs and replays.
    """
    table, n_unrecorded = schema.attempts, schema.attempts.c.unrecorded
    statement = sa.select(sa.func.count(), sa.func.sum(n_unrecorded)).where(
        table.c.run == store.number(run), n_unrecorded > 0
    )
    ((attempts, calls),) = fetch_rows(store.engine, statement)
    if not attempts:
        return ""
    kinds: Counter[str] = Counter()
    for attempt in _some_attempts(store, run, n_unrecorded > 0):
        kinds.update(
            event.text for event in attempt.events if isinstance(event, Noted) and event.what == "not_recorded"
        )
    names = ", ".join(name for name, _ in kinds.most_common(_NAMED)) + (" …" if len(kinds) > _NAMED else "")
    if may_be_stale:
        return (
            f"{run.id} may be stale: {calls:,} calls of {attempts:,} attempts are not recorded ({names}), and what "
            "they read may have changed since. --new makes the run again."
        )
    return (
        f"{run.id}: {calls:,} calls of {attempts:,} attempts are not recorded ({names}): their cost may be missing, a "
        "resumed run makes them again, and --journal replay refuses the run."
    )


def unheard_words(run: Run, attempts: Iterable[Attempt]) -> str:
    """Return the number of attempts of a user's system without a recorded call; empty if every one has a call. It reads
    nothing from the store.
    """
    completed = [attempt for attempt in attempts if attempt.status == "completed"] if _is_users_system(run) else []
    count = sum(not (attempt.model_calls or attempt.tool_calls or attempt.unrecorded) for attempt in completed)
    if not count:
        return ""
    return (
        f"{run.id}: no call of a model or tool was recorded in {count:,} of {len(completed):,} completed attempts. The "
        "system makes none, or its client cannot be recorded: then the cost is unknown, and the calls are made again "
        "where the run is."
    )


OPTIONS_SEARCHED = "options_in_query"
"""Note of a search whose query contains options of the question."""
MIXED = "question_of_another"
"""Note of a call that contains the question of another attempt in flight; its text is that question's id."""
MASKED = "masked"
"""Note of an attempt in whose texts keys were replaced."""
_NOTED = {
    CHOICE_IGNORED: "the server ignored tool_choice: a request required a tool call, and the reply has none.",
    LEARNED_FROM: "the router was learned from the question, so its score is too high: measure it on other questions.",
    MASKED: "texts of the system held keys, which were replaced by [key]: a system that shows its keys may send them, "
    "too.",
    OPTIONS_SEARCHED: "its own queries contained options of the question: retrieval saw more than the question.",
    MIXED: "a call contained the question of another attempt: the system shares state between questions, so answers "
    "depend on each other. `--concurrency 1 --new` repeats them, one at a time.",
}


def noted_words(store: Store, run: Run) -> Iterator[str]:
    """Yield messages about notes of a user's system, as far as its first attempts show: that its queries contain
    options of the question (a system that takes the run's context searches without them), that attempts share state, or
    that a server ignored `tool_choice`.
    A router's notes show that it was learned from these questions.
    """
    is_noted = _is_users_system(run) or run.identity.get("graph") == "router"
    events_by_attempt = [attempt.events for attempt in _some_attempts(store, run)] if is_noted else []
    for kind, message in _NOTED.items():
        if count := sum(
            any(isinstance(event, Noted) and kind in (event.what, event.text) for event in events)
            for events in events_by_attempt
        ):
            yield f"{run.id}: in {count:,} of the {len(events_by_attempt):,} attempts checked, {message}"


def _some_attempts(store: Store, run: Run, *conditions: sa.ColumnElement[bool]) -> Iterator[Attempt]:
    """Yield the first of a run's attempts for which some conditions hold."""
    table = schema.attempts
    statement = sa.select(table.c.question_id, table.c.epoch).where(table.c.run == store.number(run), *conditions)
    keys = fetch_rows(store.engine, statement.limit(_LOOKED_AT))
    yield from (attempt for key in keys if (attempt := store.attempt(run, *key)) is not None)


def _was_unrecorded(store: Store, run: Run) -> bool:
    """Return True if attempts of a run's system, with its present code, were completed without a recorded call, in any
    run.

    Such a system makes no calls, or its client cannot be recorded.
    """
    table = schema.attempts
    without_calls = table.c.model_calls == 0, table.c.tool_calls == 0, table.c.status == "completed"
    code = run.identity.get("graph_code")
    same_system = (
        other for other in store.runs() if (other.agent, other.identity.get("graph_code")) == (run.agent, code)
    )
    runs = [other for other in same_system if _is_users_system(other)]
    return any(True for earlier in runs for _ in _some_attempts(store, earlier, *without_calls))


def was_heard(events: Iterable[Event]) -> bool:
    """Return True if an attempt has a recorded call, apart from searches inside its process."""
    return any(isinstance(event, Called) and event.call.kind != "search" for event in events)


UNHEARD = (
    "no call of it was recorded, and requests by native code in this process can be neither recorded nor blocked. "
    "Without --journal replay its calls are made again"
)
"""Explanation why an attempt without a recorded call is not replayed."""


def _is_users_system(run: Run) -> bool:
    return run.identity.get("tier") == "own"


def check_replayable(store: Store, run: Run, sealed: Callable[[], bool]) -> None:
    """Check that a replay of a run can be prevented from sending calls that cannot be recorded.

    A recorded system needs no check: a call that is missing from the journal ends the attempt that makes it.

    Args:
        store: holds the run.
        run: to be replayed.
        sealed: returns True if no request of its system can leave the process without a record.

    Raises:
        UserError: calls may have been made that were not recorded.
    """
    if len(store.done(run)) < run.count * run.epochs and _was_unrecorded(store, run) and not sealed():
        raise UserError(f"{run.agent} cannot be replayed: {UNHEARD}.")
