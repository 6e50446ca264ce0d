"""What is known of a whole run beside its attempts: their sums, the models that replies name, when live corpora were
searched, and which calls were not recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import compress

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import COUNTED, Attempt, Called, Event, Noted, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import SUMMARY, DamagedRecord, check_call, whole_attempts
from ragrounds.evals.store.database import autocommit, chunks
from ragrounds.evals.store.row_sums import summed_columns
from ragrounds.evals.store.servers import fingerprint_in, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.model_names import SERVED, other_models
from ragrounds.models.options import server_of
from ragrounds.tools.search_notes import LIVE


class AttemptTotals(Struct, frozen=True, kw_only=True):
    """What a run's attempts come to. A sum with an unknown part is ``None``."""

    statuses: dict[str, int]
    """How many attempts ended in which status; those not made are not counted."""
    input: int | None
    output: int | None
    cost_paid: float | None
    cost_uncached: float | None
    seconds: float
    """Of all attempts, one after the other."""
    counted: dict[str, int]
    """The sums of :data:`ragrounds.base.records.COUNTED`."""


def attempt_totals(store: Store, run: Run) -> AttemptTotals:
    """The sums over a run's attempts.

    Raises:
        DamagedRecord: an attempt does not match its checksum.
    """
    mine = sa.select(*SUMMARY).where(schema.attempts.c.run == store.number(run))
    with autocommit(store.engine) as connection:
        rows = list(whole_attempts(run, connection.execute(mine)))
    columns = dict(zip((column.name for column in SUMMARY), zip(*rows, strict=True), strict=False))
    made = [status != "not_run" for status in columns.get("status", ())]

    def _sum(name: str) -> float | None:
        values = list(compress(columns.get(name, ()), made))
        return None if None in values else math.fsum(values)  # the same in whatever order a database gives them

    tokens = [_sum(name) for name in ("input", "output")]
    return AttemptTotals(
        statuses=dict(Counter(columns.get("status", ()))),
        input=None if tokens[0] is None else int(tokens[0]),
        output=None if tokens[1] is None else int(tokens[1]),
        cost_paid=_sum("cost_paid"),
        cost_uncached=_sum("cost_uncached"),
        seconds=_sum("seconds") or 0.0,
        counted={name: sum(columns.get(name, ())) for name in COUNTED},
    )


ReplyModels = Mapping[str, Mapping[str, int]]
"""The model asked, as its canonical text → the name in replies → in how many calls."""


def reply_models(store: Store, runs: Sequence[Run]) -> dict[str, ReplyModels]:
    """Run id → which models the replies of its attempts name."""
    table, numbered = schema.attempts, schema.runs
    statement = (
        sa.select(numbered.c.id, table.c.models, sa.func.count())
        .join(numbered, numbered.c.number == table.c.run)
        .where(numbered.c.id.in_([run.id for run in runs]), table.c.models.is_not(None))
        .group_by(numbered.c.id, table.c.models)
    )
    found: dict[str, dict[str, Counter[str]]] = {run.id: {} for run in runs}
    with store.engine.connect() as connection:
        for run, models, attempts in connection.execute(statement):
            try:
                told = msgspec.json.decode(models, type=list[tuple[str, str, int]])
            except (msgspec.MsgspecError, TypeError) as error:
                raise DamagedRecord(f"which models answered in {run} does not match its checksum") from error
            for asked, name, calls in told:
                found[run].setdefault(asked, Counter())[name] += calls * attempts
    return {run: {asked: dict(names) for asked, names in counts.items()} for run, counts in found.items()}


def said_of_models(store: Store, run: Run, answered: ReplyModels) -> list[str]:
    """What is to be said of a run whose replies name other models than were asked, or several."""
    if not other_models(answered):
        return []
    facts = {asked: _facts(store, run, server_of(asked)) for asked in answered}
    return other_models(
        answered, {asked: [told[name] for name in SERVED if name in told] for asked, told in facts.items()}
    )


def _facts(store: Store, run: Run, server: str) -> Mapping[str, str]:
    """What a run's server told when it began, or, where it was not asked then, at another time."""
    if server in run.servers:
        return run.servers[server]
    mark = fingerprint_in(run, server)
    return next((one.facts for one in known_servers(store.engine, server) if one.fingerprint == mark), {})


_SAID = (
    ("search_refused", "{} had a query that was refused"),
    ("query_cut", "{} had a query cut to the provider's length"),
)


def live_words(store: Store, run: Run) -> str:
    """When a run's live corpora were searched (UTC), and how many of its attempts had a query that was refused or cut;
    empty: it has none, or nothing was found yet."""
    tools = run.identity.get("tools")
    listed = [tool.get("corpus") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    named = dict.fromkeys(str(corpus) for corpus in (run.identity.get("corpus"), *listed) if LIVE in str(corpus))
    if not named:
        return ""
    corpus = ", ".join(named)
    keys: set[bytes] = set()
    kinds: Counter[str] = Counter()
    count = 0
    for attempt in store.attempts(run, skip_damaged=True):
        count += 1
        made = (call for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error)
        keys.update(bytes.fromhex(call.key) for call in made)
        kinds.update({event.what for event in attempt.events if isinstance(event, Noted)})
    dates = _days(store, keys)
    if not dates:
        return ""
    noted = [words.format(f"{kinds[what]:,}") for what, words in _SAID if kinds[what]]
    said = f" Of its {count:,} attempts, {' and '.join(noted)}." if noted else ""
    return f"{run.id} searched {corpus}, which changes by itself, on {dates} (UTC).{said}"


def _days(store: Store, keys: Iterable[bytes]) -> str:
    """The first and the last day of some calls: ``2026-11-23``, ``2026-11-23 to 2026-11-25``; empty: none is kept."""
    wanted, table, moments = sorted(keys), schema.calls, list[float]()
    with store.engine.connect() as connection:
        for chunk in chunks(wanted):
            for row in connection.execute(sa.select(*summed_columns(table)).where(table.c.key.in_(chunk))):
                check_call(row)
                moments.append(row.at)
    if not moments:
        return ""
    days = [datetime.fromtimestamp(moment, UTC).date().isoformat() for moment in (min(moments), max(moments))]
    return " to ".join(dict.fromkeys(days))


_LOOKED_AT = 20
"""How many attempts of a run are read to say what they did."""
_NAMED = 3


def not_recorded_words(store: Store, run: Run) -> str:
    """How many calls of a run are not recorded, and what they were; empty: all are, or none was seen to be missing."""
    table, missed = schema.attempts, schema.attempts.c.unrecorded
    counted = sa.select(sa.func.count(), sa.func.sum(missed)).where(table.c.run == store.number(run), missed > 0)
    with store.engine.connect() as connection:
        attempts, calls = connection.execute(counted).one()
    if not attempts:
        return ""
    kinds: Counter[str] = Counter()
    for one in _some_attempts(store, run, missed > 0):
        kinds.update(event.text for event in one.events if isinstance(event, Noted) and event.what == "not_recorded")
    what = ", ".join(name for name, _ in kinds.most_common(_NAMED)) + (" …" if len(kinds) > _NAMED else "")
    return (
        f"{run.id}: {calls:,} calls of {attempts:,} attempts are not recorded ({what}): their cost may be missing, a "
        "resumed run makes them again, and --journal replay refuses the run."
    )


def unheard_words(run: Run, attempts: Iterable[Attempt]) -> str:
    """In how many attempts of a system of one's own no call was recorded; empty: in none. Nothing is read for it."""
    done = [one for one in attempts if one.status == "completed"] if _is_own(run) else []
    count = sum(not (one.model_calls or one.tool_calls or one.unrecorded) for one in done)
    if not count:
        return ""
    return (
        f"{run.id}: no call of a model or tool was recorded in {count:,} of {len(done):,} completed attempts. The "
        "system makes none, or its client cannot be recorded: then the cost is unknown, and the calls are made again "
        "where the run is."
    )


OPTIONS_SEARCHED = "options_in_query"
"""The note of a search whose query holds options of the question."""
MIXED = "question_of_another"
"""The note of a call that holds the question of another attempt in flight; its text is that question's id."""
_NOTED = {
    OPTIONS_SEARCHED: "its own queries contained options of the question: retrieval saw more than the question.",
    MIXED: "a call contained the question of another attempt: the system shares state between questions, so answers "
    "depend on each other. `--concurrency 1 --new` repeats them, one at a time.",
}


def noted_words(store: Store, run: Run) -> Iterator[str]:
    """What notes say of a system of one's own, as far as its first attempts show: that it searches for options (one
    that takes the run's context searches without them), that attempts heard of each other."""
    found = [attempt.events for attempt in _some_attempts(store, run)] if _is_own(run) else []
    for what, said in _NOTED.items():
        if count := sum(any(isinstance(one, Noted) and one.what == what for one in each) for each in found):
            yield f"{run.id}: in {count:,} of the {len(found):,} attempts checked, {said}"


def _some_attempts(store: Store, run: Run, *which: sa.ColumnElement[bool]) -> Iterator[Attempt]:
    """The first of a run's attempts for which some conditions hold."""
    table = schema.attempts
    some = sa.select(table.c.question_id, table.c.epoch).where(table.c.run == store.number(run), *which)
    with store.engine.connect() as connection:
        keys = [(row.question_id, row.epoch) for row in connection.execute(some.limit(_LOOKED_AT))]
    yield from (attempt for key in keys if (attempt := store.attempt(run, *key)) is not None)


def _was_unheard(store: Store, now: Run) -> bool:
    """Whether attempts of a run's system, as its code is, were completed without a call that was seen, in any run: it
    makes none, or by a client that nobody hears."""
    table = schema.attempts
    silent = table.c.model_calls == 0, table.c.tool_calls == 0, table.c.status == "completed"
    code = now.identity.get("graph_code")
    same = (one for one in store.runs() if (one.agent, one.identity.get("graph_code")) == (now.agent, code))
    runs = [one for one in same if _is_own(one)]
    return any(True for run in runs for _ in _some_attempts(store, run, *silent))


def was_heard(events: Iterable[Event]) -> bool:
    """Whether an attempt made a call that was seen, beside searches inside its process."""
    return any(isinstance(event, Called) and event.call.kind != "search" for event in events)


UNHEARD = (
    "no call of it was recorded, and requests by native code in this process can be neither recorded nor blocked. "
    "Without --journal replay its calls are made again"
)
"""Why an attempt without a call that was seen is not replayed."""


def _is_own(run: Run) -> bool:
    return run.identity.get("tier") == "own"


def check_replayable(store: Store, run: Run, sealed: Callable[[], bool]) -> None:
    """Check that a replay of a run can be held back from sending what nobody hears. `sealed`: whether nothing that its
    system sends unheard leaves. What was heard and is not recorded ends the attempt that asks for it.

    Raises:
        UserError: calls may have been made that nobody heard.
    """
    if len(store.done(run)) < run.count * run.epochs and _was_unheard(store, run) and not sealed():
        raise UserError(f"{run.agent} cannot be replayed: {UNHEARD}.")
