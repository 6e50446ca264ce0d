"""The store: runs, attempts, scores and recorded calls in one database, and their reads and writes."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Attempt, AttemptKey, Call, Gold, Question, Run, Score
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import (
    SCORED,
    SUMMARY,
    DamagedRecord,
    StoredQuestion,
    attempt_rows,
    attempts_of,
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
    dialect_of,
    insert_new,
    lost,
    open_engine,
    snapshot,
    store_location,
    stream,
    upsert,
    write,
    writing_failed,
)
from ragrounds.evals.store.dialect import Say
from ragrounds.evals.store.row_sums import is_whole, summed, summed_columns, summed_meta
from ragrounds.evals.store.run_names import choose_runs, chosen_line, find_runs, kept_names, last_command, made_attempts
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.sqlite import is_writable
from ragrounds.evals.store.writer import Writer, group

T = TypeVar("T")
_CHUNK = 500
_READ_TOGETHER = 100
"""Number of attempts whose long texts are in memory together."""
_PASSAGE = 4000
"""Largest number of characters of a text that is kept in memory."""
_KEPT = 8192
"""Number of texts kept in memory: some 10 MB of passages."""

# Every table needs these statements for each of its runs, and building one takes longer than executing it.
_RUN: sa.BindParameter[Any] = sa.bindparam("run")
_SCORER: sa.BindParameter[Any] = sa.bindparam("scorer")
_RUN_NUMBER = sa.select(schema.runs.c.number).where(schema.runs.c.id == _RUN)
_RUNS = sa.select(schema.runs.c.number, schema.runs.c.body).order_by(schema.runs.c.number)
_RUN_MODELS = (
    sa.select(schema.reads.c.run, schema.reads.c.name)
    .where(schema.reads.c.kind == "model")
    .order_by(schema.reads.c.at, schema.reads.c.name)
)
_LATEST_RUN = (
    sa.select(schema.runs.c.body)
    .where(schema.runs.c.fingerprint == sa.bindparam("fingerprint"))
    .order_by(schema.runs.c.number.desc())
    .limit(1)
)
_QUESTIONS = (
    sa.select(schema.questions.c.body)
    .where(schema.questions.c.set == sa.bindparam("questions"))
    .order_by(schema.questions.c.position)
)
_STOPS = sa.select(schema.stoppings.c.body).where(schema.stoppings.c.run == _RUN)
_CALL = sa.select(schema.calls.c.request, schema.calls.c.response).where(schema.calls.c.key == sa.bindparam("key"))
_SUMMARIES = sa.select(*SUMMARY).where(schema.attempts.c.run == _RUN)
_SCORES = sa.select(*SCORED).where(schema.scores.c.run == _RUN)
_SCORE_CODES = sa.select(schema.scores.c.scorer, schema.scores.c.code).where(schema.scores.c.run == _RUN).distinct()
# One step in the index for each scorer: a query for all distinct names would scan all scores of the run.
_SCORERS = sa.text(
    "WITH RECURSIVE present (scorer) AS (SELECT min(scorer) FROM scores WHERE run = :run UNION ALL"
    " SELECT (SELECT min(scorer) FROM scores WHERE run = :run AND scorer > present.scorer) FROM present"
    " WHERE present.scorer IS NOT NULL) SELECT scorer FROM present WHERE scorer IS NOT NULL ORDER BY scorer"
)
_UNSCORED = sa.select(schema.attempts.c.question_id, schema.attempts.c.epoch).where(
    schema.attempts.c.run == _RUN,
    schema.attempts.c.status == "completed",
    ~sa.exists().where(
        schema.scores.c.run == _RUN,
        schema.scores.c.scorer == _SCORER,
        schema.scores.c.question_id == schema.attempts.c.question_id,
        schema.scores.c.epoch == schema.attempts.c.epoch,
    ),
)


def repetition_fingerprint(run: Run) -> str:
    """Return the fingerprint of a run's repetition, by which it is found."""
    return hashlib.sha256(f"repetition of {run.id} {run.created}".encode()).hexdigest()


class Store:
    """Runs, attempts, scores, questions and recorded calls in one database.

    Args:
        home: the folder of the store and of its files.
        url: of a store on a server; ``None``: ``home/store.sqlite``.
        timeout: seconds to wait for a server that was reached and no longer answers.
        say: called with a message when that happens, in any thread, and when a name that matches several runs is taken
            for one of them.
    """

    def __init__(
        self, home: Path, url: str | None = None, *, timeout: float = RECONNECT_SECONDS, say: Say = lambda text: None
    ) -> None:
        self.home = home
        self.engine = open_engine(home, url)
        self._say = say
        self._stop_waiting = dialect_of(self.engine).reconnect(self.engine, self.location, timeout, say)
        self._reading: sa.Connection | None = None
        self._writer: Writer | None = None
        self._texts: dict[bytes, str] = {}
        self._questions: tuple[str, tuple[list[Question], dict[str, Gold]]] = ("", ([], {}))
        """Set of questions that was read last, by its digest: runs that are compared share one."""
        self._scorers: defaultdict[str, set[str]] = defaultdict(set)
        """Run id → scorers that :meth:`scorer_rows` has returned."""

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def location(self) -> str:
        """Location of the store for messages: a file's path, or a URL without its password."""
        return store_location(self.engine)

    @property
    def writable(self) -> bool:
        """True if the store can be written; this user may only be allowed to read the file."""
        return self.engine.dialect.name != "sqlite" or is_writable(Path(self.location))

    @property
    def writer(self) -> Writer:
        """Group-committing writer, which starts at its first use."""
        if self._writer is None:
            self._writer = Writer(self.engine)
        return self._writer

    def close(self) -> None:
        """Commit the writer's remaining rows and close the connections."""
        self._stop_waiting()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        self.engine.dispose()

    def add_run(self, run: Run, questions: Sequence[Question], golds: Mapping[str, Gold]) -> Run:
        """Write a new run and, if they are new, its questions.

        Returns:
            The run; or the one with its fingerprint, if another process has written that at the same moment.

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
                n_stored = sa.select(sa.func.count()).where(schema.questions.c.set == run.questions)
                if connection.execute(n_stored).scalar() != len(rows) and rows:
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
        """Return all runs, oldest first, without counterfactuals and repetitions unless requested.

        The models of a user's system are those that it has called.
        """
        rows, models_by_run = self._read(_RUNS).all(), dict[int, dict[str, str]]()
        for row in self._read(_RUN_MODELS):
            models = models_by_run.setdefault(row.run, {})
            models[f"model {len(models) + 1}" if models else "model"] = row.name
        numbered_runs = [(row.number, run_of(row.body)) for row in rows]
        for number, run in numbered_runs:
            if number in models_by_run and not run.identity.get("models"):
                run.identity["models"] = models_by_run[number]
        return [run for _, run in numbered_runs if counterfactuals or not run.is_derived]

    def counterfactuals(self, run: Run) -> list[Run]:
        """Return the counterfactuals of a run, oldest first."""
        changed = (candidate for candidate in self.runs(counterfactuals=True) if candidate.origin == "counterfactual")
        return [candidate for candidate in changed if candidate.identity["counterfactual"]["run"] == run.id]

    def repetition(self, run: Run) -> Run | None:
        """Return the repetition of a run's last calls; ``None`` if there is none."""
        return self.latest(repetition_fingerprint(run))

    def latest(self, fingerprint: str) -> Run | None:
        """Return the newest run with this fingerprint."""
        row = self._read(_LATEST_RUN, fingerprint=fingerprint).first()
        return run_of(row.body) if row else None

    def run(self, reference: str, *, newest: bool = False) -> Run:
        """Return a run by its id, the beginning of its id, its agent's text, or its stored name.

        If several match, :func:`ragrounds.evals.store.run_names.choose_runs` selects one, and a message says which.

        Args:
            reference: one of these.
            newest: select the newest of several, complete or not.

        Raises:
            UserError: as :meth:`select_runs`.
        """
        return self.select_runs([reference], newest=newest)[0]

    def select_runs(
        self, references: Iterable[str], *, newest: bool = False, suits: Callable[[Store, Run], bool] | None = None
    ) -> list[Run]:
        """Return runs as :meth:`run` selects each. Names that are given together select runs on the same questions, if
        there are such; all runs are read once. If a name has several runs, only those that suit are considered, if any
        does.

        Raises:
            UserError: a reference to none, to runs of several agents whose ids begin like this, or to runs that differ
                in questions, models or corpus if the last command's does not decide.
        """
        names = list(references)
        all_runs = [run for run in self.runs(counterfactuals=True) if not run.is_derived or run.id in names]
        fitting = find_runs(names, all_runs, self.location, kept_names(self.engine))
        if all(len(matches) == 1 for matches in fitting):
            return [matches[0] for matches in fitting]
        if suits is not None:
            fitting = [[run for run in matches if suits(self, run)] or matches for matches in fitting]
        n_made = made_attempts(self.engine, [run for matches in fitting for run in matches])
        last_ids = last_command(self.engine)
        last = [run for run in all_runs if run.id in last_ids]
        meant = choose_runs(names, fitting, last, n_made, newest=newest)
        for name, run, matches in zip(names, meant, fitting, strict=True):
            if len(matches) > 1:
                self._say(chosen_line(name, run, matches, n_made))
        return meant

    def remove(self, run: Run) -> None:
        """Remove a run with its attempts and scores. Recorded calls stay until `gc`."""
        number = self.number(run)
        with self.engine.begin() as connection:  # its rows are deleted by their foreign keys
            connection.execute(sa.delete(schema.runs).where(schema.runs.c.number == number))
            key = schema.meta.c.key
            is_scorer = key.startswith(f"{schema.RUN_SCORER}{run.id} ", autoescape=True)
            of_run = key.in_([f"{schema.RUN_NAME}{run.id}", f"{schema.JUDGING_SUMS}{run.id}"])
            connection.execute(sa.delete(schema.meta).where(of_run | is_scorer))
        self._scorers.pop(run.id, None)

    def questions(self, run: Run) -> tuple[list[Question], dict[str, Gold]]:
        """Return the questions of a run in their order, and the golds by question id. Do not change them: later calls
        return the same objects.
        """
        last_set, questions = self._questions
        if run.questions != last_set:
            decode = msgspec.msgpack.Decoder(StoredQuestion).decode
            items = [decode(decompress(row.body)) for row in self._read(_QUESTIONS, questions=run.questions)]
            questions = [item.question for item in items], {item.question.id: item.gold for item in items}
            self._questions = (run.questions, questions)
        return questions

    def questions_named(self, run: Run, question_id: str) -> list[StoredQuestion]:
        """Return the questions of a run with this id, or whose id is this after the name of the dataset."""
        table = schema.questions
        fits = (table.c.question_id == question_id) | table.c.question_id.endswith(f"/{question_id}", autoescape=True)
        rows = self._read(sa.select(table.c.question_id, table.c.body).where(table.c.set == run.questions, fits)).all()
        # LIKE ignores case and also matches an id with more slashes, so the exact comparison is made here.
        fitting = [row.body for row in rows if question_id in (row.question_id, row.question_id.rpartition("/")[2])]
        return [msgspec.msgpack.decode(decompress(body), type=StoredQuestion) for body in fitting]

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Write rows in one transaction."""
        self._write(list(rows))

    def add_attempts(self, run: Run, attempts: Iterable[Attempt], scores: Iterable[Score] = ()) -> None:
        """Write many attempts in one transaction, as an import does; existing ones are replaced."""
        number, new_scores = self.number(run), list(scores)
        rows = [row for attempt in attempts for row in attempt_rows(attempt, number)]
        self._write([*rows, *score_rows(new_scores, number), *self.scorer_rows(run, new_scores)])

    def done(self, run: Run) -> dict[AttemptKey, str]:
        """Map (question id, epoch) to the status of a run's attempts, read without their bodies."""
        table = schema.attempts
        statement = sa.select(table.c.question_id, table.c.epoch, table.c.status).where(table.c.run == self.number(run))
        rows: Sequence[Any] = self._read(statement).all()
        return {(question_id, epoch): status for question_id, epoch, status in rows}

    def settled(self, run: Run) -> dict[AttemptKey, str]:
        """Map question id and epoch to the status of the attempts that are not repeated when the run is resumed.

        These attempts have a final status and match their checksums.
        """
        rows = (row for row in self._read(_SUMMARIES, run=self.number(run)) if row.status in FINAL and is_whole(row))
        return {(row.question_id, row.epoch): row.status for row in rows}

    def summaries(self, run: Run, skip_damaged: bool = False) -> list[Attempt]:
        """Return all attempts of a run without text and events, which is enough for tables.

        Raises:
            DamagedRecord: one does not match its checksum; with `skip_damaged` it is left out.
        """
        rows = self._read(_SUMMARIES, run=self.number(run)).all()
        return summaries_of(run, rows, skip_damaged=skip_damaged)

    def attempts(self, run: Run, skip_damaged: bool = False, among: Sequence[str] | None = None) -> Iterator[Attempt]:
        """Yield all attempts of a run, or those `among` some hundred questions, with text and events, by question id
        and epoch; hundreds at a time are in memory.

        Raises:
            DamagedRecord: one does not match its checksum; with `skip_damaged` it is left out.
        """
        table = schema.attempts
        is_among = sa.true() if among is None else table.c.question_id.in_(among)
        condition = sa.and_(table.c.run == self.number(run), is_among)
        after: tuple[str, int] = ("", -1)
        while True:
            statement = (
                sa.select(table)
                .where(condition, sa.tuple_(table.c.question_id, table.c.epoch) > after)
                .order_by(table.c.question_id, table.c.epoch)
                .limit(_CHUNK)
            )
            rows = self._read(statement).all()
            for part in chunks(rows, _READ_TOGETHER):
                for attempt in attempts_of(run, part, self.texts):
                    if isinstance(attempt, Attempt):
                        yield attempt
                    elif not skip_damaged:
                        raise attempt
            if len(rows) < _CHUNK:
                return
            after = (rows[-1].question_id, rows[-1].epoch)

    def attempt(self, run: Run, question_id: str, epoch: int = 0) -> Attempt | None:
        """Return one attempt, complete."""
        return next(
            (candidate for candidate in self.attempts(run, among=[question_id]) if candidate.epoch == epoch), None
        )

    def add_scores(self, run: Run, scores: Iterable[Score], calls: Iterable[Call] = (), payer: bytes = b"") -> None:
        """Write scores; one of the same scorer, question and epoch is replaced.

        `calls` are the judges' calls on which they are based: the ledger counts these, `gc` keeps them, and an export
        includes them. They are then no longer open calls of `payer`.
        """
        number, new_scores = self.number(run), list(scores)
        judge_calls = list(calls)
        judge_rows = grading_rows(judge_calls, number, self.graded(run)) if judge_calls else []
        self._write(
            [*score_rows(new_scores, number), *self.scorer_rows(run, new_scores), *judge_rows],
            settled=(payer, {call.key for call in judge_calls if call.key}),
        )

    def scorer_rows(self, run: Run, scores: Iterable[Score]) -> list[Row]:
        """Return rows that name the scorers of these scores, each once: they show if all its scores of a run are
        lost."""
        names = {score.scorer for score in scores} - self._scorers[run.id]
        self._scorers[run.id] |= names
        return [(schema.meta, summed_meta(f"{schema.RUN_SCORER}{run.id} {name}", "")) for name in sorted(names)]

    def lost_scorers(self, run: Run) -> set[str]:
        """Return the scorers that had scores of a run of which none is left, though answers are."""
        prefix, key = f"{schema.RUN_SCORER}{run.id} ", schema.meta.c.key
        keys = [row.key for row in self._read(sa.select(key).where(key.startswith(prefix, autoescape=True)))]
        # LIKE ignores case, so the exact comparison is made here.
        names = {key.removeprefix(prefix) for key in keys if key.startswith(prefix)}.difference(self.scorers(run))
        return {name for name in names if self.unscored(run, name)}

    def scores(self, run: Run, scorer: str | None = None, question: str | None = None) -> list[Score]:
        """Return the scores of a run, of one scorer or of all, at one question (its id) or at all."""
        statement = _SCORES
        if scorer is not None:
            statement = statement.where(schema.scores.c.scorer == scorer)
        if question is not None:
            statement = statement.where(schema.scores.c.question_id == question)
        return list(scores_of(run, self._read(statement, run=self.number(run)).all()))

    def scored(self, run: Run, scorer: str) -> set[tuple[str, int]]:
        """Return (question id, epoch) of the attempts of a run that have a score of this scorer, whatever its value."""
        table = schema.scores
        keys = sa.select(table.c.question_id, table.c.epoch)
        statement = keys.where(table.c.run == self.number(run), table.c.scorer == scorer)
        rows: Sequence[Any] = self._read(statement).all()
        return {(question_id, epoch) for question_id, epoch in rows}

    def unscored(self, run: Run, scorer: str) -> list[AttemptKey]:
        """Return (question id, epoch) of the completed attempts of a run without a score of this scorer."""
        rows = self._read(_UNSCORED, run=self.number(run), scorer=scorer)
        return [(row.question_id, row.epoch) for row in rows]

    def scored_by(self, run: Run, question_id: str, epoch: int, scorers: Iterable[str]) -> list[str]:
        """Return the scorers, among these, that have scored an attempt. The scorers are given because the index begins
        with them.
        """
        table = schema.scores
        conditions = [table.c.run == self.number(run), table.c.scorer.in_(sorted(scorers))]
        conditions += [table.c.question_id == question_id, table.c.epoch == epoch]
        return [row.scorer for row in self._read(sa.select(table.c.scorer).where(*conditions))]

    def stream_scores(self, run: Run) -> Iterator[Score]:
        """Yield all scores of a run by scorer, question id and epoch; hundreds at a time are in memory."""
        table, statement = schema.scores, _SCORES.params(run=self.number(run))
        with snapshot(self.engine) as connection:
            rows = stream(connection, statement.order_by(table.c.scorer, table.c.question_id, table.c.epoch), 500)
            yield from scores_of(run, rows)

    def scorers(self, run: Run) -> tuple[str, ...]:
        """Return the scorers that have scored something in a run, by name."""
        return scorers_of(self._read, self.number(run))

    def score_codes(self, run: Run) -> dict[str, set[str]]:
        """Map each scorer to the digests of the code that made its scores of a run; an empty digest means not known."""
        codes: dict[str, set[str]] = {}
        for row in self._read(_SCORE_CODES, run=self.number(run)):
            codes.setdefault(row.scorer, set()).add(row.code or "")
        return codes

    def judges(self, run: Run) -> list[str]:
        """Return the models on whose replies the run's scores are based, by their canonical texts."""
        calls, used = schema.calls, schema.gradings
        columns = summed_columns(calls)
        statement = sa.select(*columns).join(used, used.c.key == calls.c.key).where(used.c.run == self.number(run))
        models: set[str] = set()
        for row in self._read(statement):
            check_call(row)
            models |= {row.actor} if row.kind == "model" else set()
        return sorted(models)

    def graded(self, run: Run) -> frozenset[str]:
        """Return the keys of the judges' calls on which the scores of a run are based."""
        used = schema.gradings
        rows = self._read(sa.select(used.c.key).where(used.c.run == self.number(run)))
        return frozenset(bytes(row.key).hex() for row in rows)

    def recalled(self, payer: bytes) -> frozenset[str]:
        """Return the keys of the calls that `payer` made by ``--journal fresh``, and that are in no bill."""
        rows = self._read(sa.select(schema.recalls.c.key).where(schema.recalls.c.payer == payer))
        return frozenset(bytes(row.key).hex() for row in rows)

    def stops(self, run: Run) -> list[bytes]:
        """Return the stored states of the claims that a run monitors (`ragrounds run --until`), as they were
        written.
        """
        return [decompress(row.body) for row in self._read(_STOPS, run=self.number(run))]

    def write_stop(self, runs: Iterable[str], claim: str, seed: int, body: bytes) -> None:
        """Store the state of a claim with each of `runs` (ids); one of the same claim and seed is replaced."""
        runs_by_id = {run.id: run for run in self.runs(counterfactuals=True)}
        row = summed(schema.stoppings, {"claim": claim, "seed": str(seed), "body": compress(body)})
        self._write([(schema.stoppings, {"run": self.number(runs_by_id[id]), **row}) for id in runs])

    def texts(self, hashes: Iterable[bytes]) -> dict[bytes, str]:
        """Return long texts by their hashes; damaged ones are left out. Texts of a passage's size are kept in memory,
        because they are read repeatedly.
        """
        requested = list(dict.fromkeys(hashes))
        texts_by_hash = {hash: self._texts[hash] for hash in requested if hash in self._texts}
        missing = [hash for hash in requested if hash not in texts_by_hash]
        for chunk in chunks(missing):
            statement = sa.select(schema.blobs).where(schema.blobs.c.hash.in_(chunk))
            for row in self._read(statement):
                with suppress(DamagedRecord, UnicodeDecodeError):
                    hash, text = bytes(row.hash), decompress(row.data).decode()
                    texts_by_hash[hash] = text
                    if len(text) <= _PASSAGE:
                        self._texts[hash] = text
        while len(self._texts) > _KEPT:
            del self._texts[next(iter(self._texts))]
        return texts_by_hash

    def call(self, key: str, request: type[T], response: type[Any]) -> tuple[T, Any] | None:
        """Return request and response of a recorded call; ``None`` if it is not in the journal."""
        row = self._read(_CALL, key=bytes.fromhex(key)).first()
        if row is None:
            return None
        return unpack(row.request, request, self.texts), unpack(row.response, response, self.texts)

    def packed_calls(self, keys: Iterable[str], requests: bool = True) -> dict[str, tuple[bytes | None, bytes]]:
        """Map keys to request (``None`` without `requests`) and response of recorded calls, packed. Keys that are not
        in the journal are left out.
        """
        return packed_calls(self._read, keys, requests)

    def number(self, run: Run) -> int:
        """Return the number of a run in this store.

        Raises:
            UserError: the run is not here.
        """
        number = self._read(_RUN_NUMBER, run=run.id).scalar()
        if number is None:
            raise UserError(f"The run {run.id} is not in {self.location} (any more).")
        return int(number)

    def _read(self, statement: sa.Executable, **values: object) -> sa.CursorResult[Any]:
        def read() -> sa.CursorResult[Any]:
            if self._reading is None:
                self._reading = autocommit(self.engine)
            try:
                return self._reading.execute(statement, values)
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
                stored_rows = map(stored_blob, keyed.values()) if table is schema.blobs else keyed.values()
                connection.execute(build(self.engine, table), list(stored_rows))
            for part in chunks(keys if payer else []):
                mine = sa.and_(recalled.c.payer == payer, recalled.c.key.in_(part))
                connection.execute(sa.delete(recalled).where(mine))

        write(self.engine, work)


def packed_calls(
    read: Callable[[sa.Executable], sa.CursorResult[Any]], keys: Iterable[str], requests: bool
) -> dict[str, tuple[bytes | None, bytes]]:
    """Return packed calls like :meth:`Store.packed_calls`, with any function that executes statements."""
    table = schema.calls
    request = table.c.request if requests else sa.null().label("request")
    packed: dict[str, tuple[bytes | None, bytes]] = {}
    for chunk in chunks([bytes.fromhex(key) for key in dict.fromkeys(keys)]):
        for row in read(sa.select(table.c.key, request, table.c.response).where(table.c.key.in_(chunk))):
            packed[bytes(row.key).hex()] = (row.request, row.response)
    return packed


def scorers_of(read: Callable[[sa.Executable], sa.CursorResult[Any]], number: int) -> tuple[str, ...]:
    """Return scorers like :meth:`Store.scorers`, with any function that executes statements."""
    return tuple(read(_SCORERS.bindparams(run=number)).scalars())


def now() -> float:
    """Return wall-clock seconds since the epoch; durations are measured on the monotonic clock instead."""
    return round(time.time(), 3)
