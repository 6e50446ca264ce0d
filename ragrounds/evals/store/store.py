"""The store: runs, attempts, scores and recorded calls in one database, and their reads and writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Attempt, Call, Gold, Question, Run, Score
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import (
    SCORED,
    SUMMARY,
    DamagedRecord,
    StoredQuestion,
    attempt_of,
    attempt_rows,
    check_call,
    compress,
    decompress,
    grading_rows,
    run_of,
    run_row,
    score_rows,
    scores_of,
    stored_blob,
    summaries_of,
    unpack,
)
from ragrounds.evals.store.database import (
    RECONNECT_SECONDS,
    again,
    autocommit,
    chunks,
    dialect_of,
    insert_new,
    lost,
    open_engine,
    shown,
    snapshot,
    stream,
    upsert,
    write,
    writing_failed,
)
from ragrounds.evals.store.dialect import Say
from ragrounds.evals.store.row_sums import is_whole, summed, summed_columns
from ragrounds.evals.store.run_names import best_fitting, chosen_line, find_runs, kept_names, made_attempts
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.sqlite import is_writable
from ragrounds.evals.store.writer import Writer, group

T = TypeVar("T")
AttemptKey = tuple[str, int]
"""Question id and epoch."""
_CHUNK = 500
_PASSAGE = 4000
"""Characters up to which a text is kept in memory."""
_KEPT = 8192
"""Texts kept in memory: some 10 MB of passages."""


class Store:
    """Runs, attempts, scores, questions and recorded calls in one database.

    Args:
        home: the folder of the store and of what belongs to it.
        url: of a store on a server; ``None``: ``home/store.sqlite``.
        timeout: seconds for which a server that was reached and does not answer any more is waited for.
        say: called with a line when that happens, in any thread, and when a name that fits several runs is taken for
            one of them.
    """

    def __init__(
        self, home: Path, url: str | None = None, *, timeout: float = RECONNECT_SECONDS, say: Say = lambda text: None
    ) -> None:
        self.home = home
        self.engine = open_engine(home, url)
        self._say = say
        self._stop_waiting = dialect_of(self.engine).reconnect(self.engine, self.place, timeout, say)
        self._reading: sa.Connection | None = None
        self._writer: Writer | None = None
        self._texts: dict[bytes, str] = {}
        self._questions: tuple[str, list[StoredQuestion]] = ("", [])
        """The set that was read last, by its digest: runs that are compared share one."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """Where the store is, for messages: a file's path, or a URL without its password."""
        return shown(self.engine)

    @property
    def writable(self) -> bool:
        """Whether anything can be kept in it: a file may be one that this user can only read."""
        return self.engine.dialect.name != "sqlite" or is_writable(Path(self.place))

    @property
    def writer(self) -> Writer:
        """The group-committing writer, which starts at its first use."""
        if self._writer is None:
            self._writer = Writer(self.engine)
        return self._writer

    def close(self) -> None:
        """Commit what the writer still holds and close the connections."""
        self._stop_waiting()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        self.engine.dispose()

    def add_run(self, run: Run, questions: Sequence[Question], golds: Mapping[str, Gold]) -> Run:
        """Write a new run and, where they are new, its questions.

        Returns:
            The run; or the one with its fingerprint, where another process has written that in the same moment.

        Raises:
            StopRun: the store cannot be written.
        """
        rows = [
            {
                "set": run.questions,
                "position": position,
                "question_id": question.id,
                "body": compress(msgspec.msgpack.encode(StoredQuestion(question, golds[question.id]))),
            }
            for position, question in enumerate(questions)
        ]
        row = run_row(run)

        def write_run() -> None:
            with self.engine.begin() as connection:
                known = sa.select(sa.func.count()).where(schema.questions.c.set == run.questions)
                if connection.execute(known).scalar() != len(rows) and rows:
                    connection.execute(insert_new(self.engine, schema.questions), rows)
                connection.execute(sa.insert(schema.runs), row)

        try:
            again(write_run)
        except sa.exc.SQLAlchemyError as error:
            other = self.latest(run.fingerprint) if isinstance(error, sa.exc.IntegrityError) else None
            if other is None:
                raise writing_failed(self.engine, error) from error
            return other
        return run

    def runs(self, *, counterfactuals: bool = False) -> list[Run]:
        """All runs, oldest first, without counterfactuals where these are not asked for. Which models a system of
        somebody's own asks is known from what it has asked."""
        rows = self._read(sa.select(schema.runs.c.number, schema.runs.c.body).order_by(schema.runs.c.number)).all()
        table, asked = schema.reads, dict[int, dict[str, str]]()
        named = sa.select(table.c.run, table.c.name).where(table.c.kind == "model").order_by(table.c.at, table.c.name)
        for row in self._read(named):
            models = asked.setdefault(row.run, {})
            models[f"model {len(models) + 1}" if models else "model"] = row.name
        found = [(row.number, run_of(row.body)) for row in rows]
        for number, run in found:
            if number in asked and not run.identity.get("models"):
                run.identity["models"] = asked[number]
        return [run for _, run in found if counterfactuals or run.origin != "counterfactual"]

    def counterfactuals(self, run: Run) -> list[Run]:
        """The counterfactuals of a run, oldest first."""
        changed = (one for one in self.runs(counterfactuals=True) if one.origin == "counterfactual")
        return [one for one in changed if one.identity["counterfactual"]["run"] == run.id]

    def count_runs(self) -> int:
        """How many runs there are."""
        return int(self._read(sa.select(sa.func.count()).select_from(schema.runs)).scalar_one())

    def latest(self, fingerprint: str) -> Run | None:
        """The newest run with this fingerprint."""
        statement = (
            sa.select(schema.runs.c.body)
            .where(schema.runs.c.fingerprint == fingerprint)
            .order_by(schema.runs.c.number.desc())
            .limit(1)
        )
        row = self._read(statement).first()
        return run_of(row.body) if row else None

    def run(self, reference: str, *, newest: bool = False) -> Run:
        """A run by its id, the beginning of its id, its agent's text, or the name that was kept for it. Of several that
        fit the one that :func:`ragrounds.evals.store.run_names.best_fitting` says, and a line says which.

        Args:
            reference: one of these.
            newest: of several the newest is meant, complete or not.

        Raises:
            UserError: none, or runs of several agents whose ids begin like this.
        """
        return self.named([reference], newest=newest)[0]

    def named(
        self, references: Iterable[str], *, newest: bool = False, suits: Callable[[Store, Run], bool] | None = None
    ) -> list[Run]:
        """Runs as :meth:`run` finds each, those of names that are given together on the same questions where there are
        such; all are read once. Where a name has several runs, those that suit are meant, if any does.

        Raises:
            UserError: a reference to none, or to runs of several agents whose ids begin like this.
        """
        names = list(references)
        known = [run for run in self.runs(counterfactuals=True) if run.origin != "counterfactual" or run.id in names]
        fitting = find_runs(names, known, self.place, kept_names(self.engine))
        if all(len(found) == 1 for found in fitting):
            return [found[0] for found in fitting]
        if suits is not None:
            fitting = [[run for run in found if suits(self, run)] or found for found in fitting]
        with self.engine.connect() as connection:
            made = made_attempts(connection, [run for found in fitting for run in found])
        meant = [found[-1] for found in fitting] if newest else best_fitting(fitting, made)
        for name, run, found in zip(names, meant, fitting, strict=True):
            if len(found) > 1:
                self._say(chosen_line(name, run, found, made))
        return meant

    def remove(self, run: Run) -> None:
        """Remove a run with its attempts and scores. Recorded calls stay until `gc`."""
        number = self.number(run)
        with self.engine.begin() as connection:  # what belongs to it goes with it, by its key
            connection.execute(sa.delete(schema.runs).where(schema.runs.c.number == number))
            connection.execute(sa.delete(schema.meta).where(schema.meta.c.key == f"{schema.RUN_NAME}{run.id}"))

    def questions(self, run: Run) -> tuple[list[Question], dict[str, Gold]]:
        """The questions of a run in their order, and the golds by question id."""
        items = self._questions[1]
        if run.questions != self._questions[0]:
            statement = (
                sa.select(schema.questions.c.body)
                .where(schema.questions.c.set == run.questions)
                .order_by(schema.questions.c.position)
            )
            decode = msgspec.msgpack.Decoder(StoredQuestion).decode
            items = [decode(decompress(row.body)) for row in self._read(statement)]
            self._questions = (run.questions, items)
        return [item.question for item in items], {item.question.id: item.gold for item in items}

    def questions_named(self, run: Run, wanted: str) -> list[StoredQuestion]:
        """The questions of a run whose id is this, or is this behind the name of the dataset."""
        table = schema.questions
        fits = (table.c.question_id == wanted) | table.c.question_id.endswith(f"/{wanted}", autoescape=True)
        rows = self._read(sa.select(table.c.question_id, table.c.body).where(table.c.set == run.questions, fits)).all()
        # LIKE is blind to case, and a dataset's name has no stroke behind it.
        fitting = [row.body for row in rows if wanted in (row.question_id, row.question_id.rpartition("/")[2])]
        return [msgspec.msgpack.decode(decompress(body), type=StoredQuestion) for body in fitting]

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Write rows in one transaction."""
        self._write(list(rows))

    def add_attempts(self, run: Run, attempts: Iterable[Attempt], scores: Iterable[Score] = ()) -> None:
        """Write many attempts in one transaction, as an import does; existing ones are replaced."""
        number = self.number(run)
        rows = [row for attempt in attempts for row in attempt_rows(attempt, number)]
        rows += score_rows(scores, number)
        self._write(rows)

    def done(self, run: Run) -> dict[AttemptKey, str]:
        """(question id, epoch) → status of the attempts of a run, read without their bodies."""
        table = schema.attempts
        statement = sa.select(table.c.question_id, table.c.epoch, table.c.status).where(table.c.run == self.number(run))
        rows: Sequence[Any] = self._read(statement).all()
        return {(question_id, epoch): status for question_id, epoch, status in rows}

    def settled(self, run: Run) -> dict[AttemptKey, str]:
        """Question id and epoch → status of the attempts that are not made again when the run is resumed: those that
        ended for good and are what was written."""
        statement = sa.select(*SUMMARY).where(schema.attempts.c.run == self.number(run))
        rows = (row for row in self._read(statement) if row.status in FINAL and is_whole(row))
        return {(row.question_id, row.epoch): row.status for row in rows}

    def summaries(self, run: Run) -> list[Attempt]:
        """All attempts of a run without text and events, which is enough for tables."""
        return summaries_of(run, self._read(sa.select(*SUMMARY).where(schema.attempts.c.run == self.number(run))).all())

    def attempts(self, run: Run, skip_damaged: bool = False, among: Sequence[str] | None = None) -> Iterator[Attempt]:
        """All attempts of a run, or those `among` some hundred questions, with text and events, by question id and
        epoch; hundreds at a time are in memory.

        Raises:
            DamagedRecord: one does not match its checksum; with `skip_damaged` it is left out.
        """
        table = schema.attempts
        few = sa.true() if among is None else table.c.question_id.in_(among)
        mine = sa.and_(table.c.run == self.number(run), few)
        after: tuple[str, int] = ("", -1)
        while True:
            statement = (
                sa.select(table)
                .where(mine, sa.tuple_(table.c.question_id, table.c.epoch) > after)
                .order_by(table.c.question_id, table.c.epoch)
                .limit(_CHUNK)
            )
            rows = self._read(statement).all()
            for row in rows:
                try:
                    attempt = attempt_of(run, row, self.texts)
                except DamagedRecord:
                    if not skip_damaged:
                        raise
                else:
                    yield attempt
            if len(rows) < _CHUNK:
                return
            after = (rows[-1].question_id, rows[-1].epoch)

    def attempt(self, run: Run, question_id: str, epoch: int = 0) -> Attempt | None:
        """One attempt, complete."""
        return next((one for one in self.attempts(run, among=[question_id]) if one.epoch == epoch), None)

    def add_scores(self, run: Run, scores: Iterable[Score], calls: Iterable[Call] = (), payer: bytes = b"") -> None:
        """Write scores; one of the same scorer, question and epoch is replaced.

        `calls` are the judges' calls that they rest on: the ledger counts these, `gc` keeps them, an export takes them
        along. What `payer` paid for them is settled by that.
        """
        number = self.number(run)
        made = list(calls)
        judged = grading_rows(made, number, self.graded(run)) if made else []
        self._write([*score_rows(scores, number), *judged], settled=(payer, {call.key for call in made if call.key}))

    def scores(self, run: Run, scorer: str | None = None, question: str | None = None) -> list[Score]:
        """The scores of a run, of one scorer or of all, at one question (its id) or at all."""
        table = schema.scores
        statement = sa.select(*SCORED).where(table.c.run == self.number(run))
        if scorer is not None:
            statement = statement.where(table.c.scorer == scorer)
        if question is not None:
            statement = statement.where(table.c.question_id == question)
        return list(scores_of(run, self._read(statement).all()))

    def scored(self, run: Run, scorer: str) -> set[tuple[str, int]]:
        """(question id, epoch) of the attempts of a run that have a score of this scorer, whatever it is."""
        table = schema.scores
        wanted = sa.select(table.c.question_id, table.c.epoch)
        statement = wanted.where(table.c.run == self.number(run), table.c.scorer == scorer)
        rows: Sequence[Any] = self._read(statement).all()
        return {(question_id, epoch) for question_id, epoch in rows}

    def scored_by(self, run: Run, question_id: str, epoch: int, scorers: Iterable[str]) -> list[str]:
        """Those of these scorers that have scored an attempt. They are named because the index goes by them."""
        table = schema.scores
        wanted = [table.c.run == self.number(run), table.c.scorer.in_(sorted(scorers))]
        wanted += [table.c.question_id == question_id, table.c.epoch == epoch]
        return [row.scorer for row in self._read(sa.select(table.c.scorer).where(*wanted))]

    def stream_scores(self, run: Run) -> Iterator[Score]:
        """All scores of a run by scorer, question id and epoch; hundreds at a time are in memory."""
        table = schema.scores
        statement = sa.select(*SCORED).where(table.c.run == self.number(run))
        with snapshot(self.engine) as connection:
            rows = stream(connection, statement.order_by(table.c.scorer, table.c.question_id, table.c.epoch), 500)
            yield from scores_of(run, rows)

    def score_codes(self, run: Run) -> dict[str, set[str]]:
        """Scorer → the digests of the code that made its scores of a run; an empty digest: not known."""
        table = schema.scores
        statement = sa.select(table.c.scorer, table.c.code).where(table.c.run == self.number(run)).distinct()
        found: dict[str, set[str]] = {}
        for row in self._read(statement):
            found.setdefault(row.scorer, set()).add(row.code or "")
        return found

    def judges(self, run: Run) -> list[str]:
        """The models whose replies the run's scores rest on, by their canonical texts."""
        calls, used = schema.calls, schema.gradings
        columns = summed_columns(calls)
        statement = sa.select(*columns).join(used, used.c.key == calls.c.key).where(used.c.run == self.number(run))
        found: set[str] = set()
        for row in self._read(statement):
            check_call(row)
            found |= {row.actor} if row.kind == "model" else set()
        return sorted(found)

    def graded(self, run: Run) -> frozenset[str]:
        """Keys of the judges' calls that the scores of a run rest on."""
        used = schema.gradings
        found = self._read(sa.select(used.c.key).where(used.c.run == self.number(run)))
        return frozenset(bytes(row.key).hex() for row in found)

    def recalled(self, payer: bytes) -> frozenset[str]:
        """Keys of the calls that `payer` made by ``--journal fresh``, and that are in no bill."""
        found = self._read(sa.select(schema.recalls.c.key).where(schema.recalls.c.payer == payer))
        return frozenset(bytes(row.key).hex() for row in found)

    def stops(self, run: Run) -> list[bytes]:
        """What is kept of the claims that a run was followed for (`ragrounds run --until`), as it was written."""
        table = schema.stoppings
        rows = self._read(sa.select(table.c.body).where(table.c.run == self.number(run)))
        return [decompress(row.body) for row in rows]

    def write_stop(self, runs: Iterable[str], claim: str, seed: int, body: bytes) -> None:
        """Keep with each of `runs` (ids) how a claim stands; one of the same claim and seed is replaced."""
        known = {run.id: run for run in self.runs(counterfactuals=True)}
        row = summed(schema.stoppings, {"claim": claim, "seed": str(seed), "body": compress(body)})
        self._write([(schema.stoppings, {"run": self.number(known[id]), **row}) for id in runs])

    def texts(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        """Long texts by their hashes. Texts of a passage's size are kept in memory: they are read again and again."""
        wanted = list(dict.fromkeys(hashes))
        found = {hash: self._texts[hash] for hash in wanted if hash in self._texts}
        missing = [hash for hash in wanted if hash not in found]
        for chunk in chunks(missing):
            statement = sa.select(schema.blobs).where(schema.blobs.c.hash.in_(chunk))
            for row in self._read(statement):
                hash, text = bytes(row.hash), decompress(row.data).decode()
                found[hash] = text
                if len(text) <= _PASSAGE:
                    self._texts[hash] = text
        while len(self._texts) > _KEPT:
            del self._texts[next(iter(self._texts))]
        return found

    def call(self, key: str, request: type[T], response: type[Any]) -> tuple[T, Any] | None:
        """Request and response of a recorded call; ``None``: the journal does not hold it."""
        statement = sa.select(schema.calls.c.request, schema.calls.c.response).where(
            schema.calls.c.key == bytes.fromhex(key)
        )
        row = self._read(statement).first()
        if row is None:
            return None
        return unpack(row.request, request, self.texts), unpack(row.response, response, self.texts)

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """Key → request (``None`` without `requests`) and response of recorded calls, packed; those that the journal
        does not hold are left out."""
        return packed_calls(self._read, keys, requests)

    def number(self, run: Run) -> int:
        """The number of a run in this store.

        Raises:
            UserError: the run is not here.
        """
        number = self._read(sa.select(schema.runs.c.number).where(schema.runs.c.id == run.id)).scalar()
        if number is None:
            raise UserError(f"The run {run.id} is not in {self.place} (any more).")
        return int(number)

    def _read(self, statement: sa.Executable) -> sa.CursorResult[Any]:
        def read() -> sa.CursorResult[Any]:
            if self._reading is None:
                self._reading = autocommit(self.engine)
            try:
                return self._reading.execute(statement)
            except sa.exc.DBAPIError as error:
                if lost(error):
                    self._reading = None
                raise

        return again(read)

    def _write(self, rows: Sequence[Row], settled: tuple[bytes, Collection[str]] = (b"", ())) -> None:
        payer, keys = settled[0], [bytes.fromhex(key) for key in settled[1]]
        recalled = schema.recalls
        by_table = group(rows, {})

        def work(connection: sa.Connection) -> None:
            for table, keyed in by_table.values():
                build = insert_new if table in (schema.blobs, schema.gradings, schema.regradings) else upsert
                written = map(stored_blob, keyed.values()) if table is schema.blobs else keyed.values()
                connection.execute(build(self.engine, table), list(written))
            for part in chunks(keys if payer else []):
                mine = sa.and_(recalled.c.payer == payer, recalled.c.key.in_(part))
                connection.execute(sa.delete(recalled).where(mine))

        write(self.engine, work)


def packed_calls(
    read: Callable[[sa.Executable], sa.CursorResult[Any]], keys: Iterable[str], requests: bool
) -> dict[str, tuple[bytes | None, bytes]]:
    """As :meth:`Store.packed_calls`, by whatever carries statements out."""
    table = schema.calls
    asked = table.c.request if requests else sa.null().label("request")
    found: dict[str, tuple[bytes | None, bytes]] = {}
    for chunk in chunks([bytes.fromhex(key) for key in dict.fromkeys(keys)]):
        for row in read(sa.select(table.c.key, asked, table.c.response).where(table.c.key.in_(chunk))):
            found[bytes(row.key).hex()] = (row.request, row.response)
    return found


def now() -> float:
    """Wall-clock seconds since the epoch; durations are measured on the monotonic clock instead."""
    return round(time.time(), 3)
