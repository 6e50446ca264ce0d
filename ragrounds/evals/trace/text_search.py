"""Full-text search: attempts that contain a word, a phrase, or the beginning of a word, by field.

The texts of the attempts that satisfy the rest of a filter are read from the journal and indexed
(:mod:`ragrounds.evals.trace.text_index`), each attempt once, until it or its notes are written again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import sqlalchemy as sa

from ragrounds.base.chunks import chunks
from ragrounds.base.records import TOKENS_APART, Attempt, Called, Left, Noted, Question, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_filter import (
    AllOf,
    AnyOf,
    FilterError,
    TextTest,
    Unless,
    Wanted,
    single_conditions,
)
from ragrounds.evals.trace.recorded_calls import AttemptReader, Place, stored_questions
from ragrounds.evals.trace.text_folding import TextQueryError, TextTerm, terms_of
from ragrounds.evals.trace.text_index import FILE, TextIndex, Texts, Version, open_text_index
from ragrounds.evals.trace.traces import TracedCall

_BATCH = 100
"""Number of attempts that are read together."""
_A, _N = schema.attempts, schema.notes
_REMEMBERED = 16
"""Number of searched texts whose hits are remembered."""


class TextSearch:
    """Search in the attempts of some runs of a store. It may be used in any thread.

    Args:
        store: holds the runs; it is read on separate connections.
        runs: the runs to search.
        numbers: theirs in the store.
    """

    def __init__(self, store: Store, runs: Sequence[Run], numbers: Sequence[int]) -> None:
        self._store, self._runs, self._numbers = store, tuple(runs), tuple(numbers)
        self._hits: dict[tuple[str, tuple[str, ...]], tuple[int, dict[str, dict[int, list[str]]]]] = {}
        """Searched text and its fields → size of the index, and run id → epoch → question ids."""
        self._folder: TemporaryDirectory[str] | None = None
        """Folder of the index if the store's must not be written."""

    def questions(self, number: int, test: TextTest) -> dict[int, list[str]]:
        """Map each epoch to the ids of the questions at which the run's attempt contains the words, among those that
        are indexed. `number` is the run's index.

        Raises:
            FilterError: there is no word in the text.
        """
        terms, key = _terms(test), (test.text, test.fields)
        with self._open() as index:
            size = index.size()
            known_size, hits = self._hits.get(key, (-1, {}))
            if known_size != size:
                hits = {}
                for run, question_id, epoch in index.find(terms, test.fields):
                    hits.setdefault(run, {}).setdefault(epoch, []).append(question_id)
                self._hits = {**dict(list(self._hits.items())[1 - _REMEMBERED :]), key: (size, hits)}
        return hits.get(self._runs[number].id, {})

    def unread(self, number: int, tests: Iterable[TextTest]) -> dict[Place, Version]:
        """Return the attempts of a run that were not indexed since they or their notes were written.

        Raises:
            FilterError: there is no word in the text of a test.
        """
        for test in tests:
            _terms(test)
        key = self._numbers[number]
        noted = sa.select(_N.c.question_id, _N.c.epoch, sa.func.sum(_N.c.at).label("at")).where(_N.c.run == key)
        notes = noted.group_by(_N.c.question_id, _N.c.epoch).subquery()
        of_attempt = (notes.c.question_id == _A.c.question_id) & (notes.c.epoch == _A.c.epoch)
        noted_at = sa.func.coalesce(notes.c.at, 0.0)
        statement = sa.select(_A.c.question_id, _A.c.epoch, _A.c.at, noted_at).where(_A.c.run == key)
        with autocommit(self._store.engine) as connection:
            rows = connection.execute(statement.outerjoin(notes, of_attempt)).all()
        with self._open() as index:
            unread = set(map(tuple, rows)) - index.versions(self._runs[number].id)
        return {(id, epoch): (made_at, noted_at) for id, epoch, made_at, noted_at in unread}

    def index(self, number: int, versions: Mapping[Place, Version], report: Callable[[int], None]) -> None:
        """Index attempts of a run, as :meth:`unread` returns them.

        `report` is called with the number of attempts that are done. It may raise to interrupt the work: what was
        indexed so far stays.
        """
        run, done = self._runs[number], 0
        with self._open(is_foreign_run(run)) as index, autocommit(self._store.engine) as connection:
            attempts = _read_texts(connection, run, self._numbers[number], list(versions), index)
            while batch := list(islice(attempts, _BATCH)):
                with index.writing():
                    for (question_id, epoch), own, calls in batch:
                        index.add((run.id, question_id, epoch), versions[question_id, epoch], own, calls)
                done += len(batch)
                report(done)

    @contextmanager
    def _open(self, with_prompts: bool = False) -> Iterator[TextIndex]:
        folder = self._store.home
        if not (self._store.writable and os.access(folder, os.W_OK)):
            self._folder = self._folder or TemporaryDirectory(prefix="ragrounds-words-")
            folder = Path(self._folder.name)
        with autocommit(self._store.engine) as connection:
            first_run = connection.execute(sa.select(schema.runs.c.created).order_by(schema.runs.c.number).limit(1))
            store_name = str(first_run.scalar())
        with open_text_index(folder / FILE, store_name, with_prompts) as index:
            yield index


def without_texts(expression: Wanted | None) -> Wanted | None:
    """Return the condition that an attempt must satisfy apart from words in its texts, for the whole expression to
    hold; ``None`` if there is no such condition.
    """
    match expression:
        case None | TextTest():
            return None
        case AllOf(parts) | AnyOf(parts):
            remaining = tuple(rest for part in parts if (rest := without_texts(part)) is not None)
            if not remaining or (isinstance(expression, AnyOf) and len(remaining) < len(parts)):
                return None
            return type(expression)(remaining)
        case Unless(part):
            return None if any(isinstance(test, TextTest) for test in single_conditions(part)) else expression
    return expression


def is_foreign_run(run: Run) -> bool:
    """Return True if a run's system is a user's or foreign one, whose prompts are not part of this package."""
    return "system" in run.identity


def own_texts(attempt: Attempt, question: Question, notes: Iterable[str]) -> dict[str, list[str]]:
    """Return the texts of an attempt outside its calls, by field."""
    fields: dict[str, list[str]] = {
        "answer": [attempt.text],
        "tool": [],
        "reason": [attempt.reason],
        "note": [*notes],
        "question": [question.text, *question.options.values()],
    }
    for event in attempt.events:
        if isinstance(event, Noted):
            fields["tool" if event.what == "tool" else "note"] += (event.what, event.text)
        elif isinstance(event, Left):
            fields["reason"].append(event.error)
        elif isinstance(event, Called):
            fields["reason"] += (event.call.error, *(fault.message for fault in event.call.faults))
    return fields


def call_texts(call: TracedCall, foreign: bool) -> dict[str, list[str]]:
    """Return the texts of a recorded call, by field.

    For foreign systems (`foreign`) they include the messages of users and tools in their prompts. System instructions
    are left out: the built-in prompts are the same in every attempt, and ``/`` inside an attempt finds them.
    """
    if call.call.error or call.call.role in TOKENS_APART:
        return {}
    reply_field, prompt_field = ("tool", "tool") if call.call.kind == "tool" else ("reply", "prompt")
    fields: dict[str, list[str]] = {"query": [], "reply": [], "tool": [], "prompt": []}
    if call.searched is not None:
        fields["query"].append(call.searched.query)
    if call.reply is not None:
        requested = (text for tool_call in call.reply.calls for text in (tool_call.name, tool_call.arguments))
        fields[reply_field] += (call.reply.reasoning, call.reply.text, *requested)
    fields["tool"] += (text for value in (call.used, call.gave) for text in _strings(value))
    if foreign and call.asked is not None:
        fields[prompt_field] += (message.content for message in call.asked.messages if message.role in ("user", "tool"))
    fields["passage"] = [text for passage in call.passages for text in (passage.title, passage.text)]
    return fields


def _terms(test: TextTest) -> tuple[TextTerm, ...]:
    try:
        return terms_of(test.text)
    except TextQueryError as error:
        raise FilterError(str(error), test.position, len(test.text)) from error


def _read_texts(
    connection: sa.Connection, run: Run, number: int, attempt_keys: Sequence[Place], known_calls: Container[str] = ()
) -> Iterator[tuple[Place, Texts, list[tuple[str, Texts]]]]:
    """Yield attempts of a run: the attempt, its texts outside the calls, and the key and texts of each call.

    A call whose key is `known` has no texts. An attempt that cannot be read has no texts at all.
    """
    questions_by_id = stored_questions(connection, run, {question_id for question_id, _ in attempt_keys})
    notes: dict[Place, list[str]] = {}
    for row in connection.execute(sa.select(_N).where(_N.c.run == number)):
        notes.setdefault((row.question_id, row.epoch), []).extend((row.text, row.mark))
    reader, foreign = AttemptReader(), is_foreign_run(run)
    for batch in chunks(attempt_keys, _BATCH):
        attempts = reader.read(connection, run, number, batch, known_calls)
        for attempt_key in batch:
            if attempt_key not in attempts:
                yield attempt_key, {}, []
                continue
            attempt, traced = attempts[attempt_key]
            # A failed call has no key of a shared document: another call of the same key may have been answered.
            calls: list[tuple[str, Texts]] = [
                ("" if call.call.error else call.call.key, call_texts(call, foreign)) for call in traced
            ]
            yield (
                attempt_key,
                own_texts(attempt, questions_by_id[attempt_key[0]].question, notes.get(attempt_key, ())),
                calls,
            )


def _strings(value: object) -> Iterator[str]:
    """Yield the texts in a value that consists of dictionaries and lists."""
    pending = [value]
    while pending:
        element = pending.pop()
        if isinstance(element, str):
            yield element
        elif isinstance(element, dict):
            pending.extend(reversed(list(element.values())))
        elif isinstance(element, list | tuple):
            pending.extend(reversed(element))
