"""Full-text search: attempts that contain a word, a phrase, or the beginning of a word, by field.

There is no index: the texts of the attempts that satisfy the rest of a filter are read from the journal and compared,
some hundred megabytes a second, and the result is remembered as long as the search exists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa

from ragrounds.base.records import TOKENS_APART, Attempt, Called, Left, Noted, Question, Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import autocommit, chunks
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
from ragrounds.evals.trace.text_folding import TextQueryError, TextTerm, held_terms, terms_of
from ragrounds.evals.trace.traces import TracedCall

_BATCH = 100
"""Number of attempts that are read together."""
_A, _N = schema.attempts, schema.notes
_KNOWN = 500_000
"""Number of recorded calls whose hits are remembered."""
_REMEMBERED = 16
"""Number of searched texts whose hits are remembered."""
_SearchKey = tuple[str, tuple[str, ...]]
"""Searched text, and the fields in which it is searched."""
_Texts = Mapping[str, Sequence[str]]
_Version = tuple[float, float]
"""Times at which an attempt was made and at which its notes were last written."""


class TextSearch:
    """Search in the attempts of some runs of a store, with a memory of the attempts that were searched.

    Args:
        store: holds the runs; it is read on separate connections, in any thread.
        runs: the runs to search.
        numbers: theirs in the store.
    """

    def __init__(self, store: Store, runs: Sequence[Run], numbers: Sequence[int]) -> None:
        self._store, self._runs, self._numbers = store, tuple(runs), tuple(numbers)
        self._seen: dict[_SearchKey, dict[int, dict[Place, tuple[_Version, bool]]]] = {}
        # Attempts share recorded calls: each call is searched once.
        self._calls: dict[object, dict[str, tuple[frozenset[TextTerm], ...]]] = {}

    def questions(self, number: int, test: TextTest) -> dict[int, list[str]]:
        """Map each epoch to the ids of the questions at which the run's attempt contains the words, among those that
        :meth:`search` has searched. `number` is the run's index.

        Raises:
            FilterError: there is no word in the text.
        """
        _terms(test)
        ids_by_epoch: dict[int, list[str]] = {}
        for (question_id, epoch), (_, contains_words) in list(self._results_of(test, number).items()):
            if contains_words:
                ids_by_epoch.setdefault(epoch, []).append(question_id)
        return ids_by_epoch

    def unread(self, number: int, tests: Iterable[TextTest], among: Collection[Place]) -> dict[Place, _Version]:
        """Return the attempts of a run, among some, that were not searched for some of these texts since the attempts
        or their notes were written.
        """
        key = self._numbers[number]
        statement = sa.select(_A.c.question_id, _A.c.epoch, _A.c.at).where(_A.c.run == key)
        notes_statement = sa.select(_N.c.question_id, _N.c.epoch, sa.func.sum(_N.c.at)).where(_N.c.run == key)
        with autocommit(self._store.engine) as connection:
            grouped = connection.execute(notes_statement.group_by(_N.c.question_id, _N.c.epoch))
            notes = {(id, epoch): noted_at for id, epoch, noted_at in grouped}
            rows = connection.execute(statement).all()
        versions = {
            (id, epoch): (made_at, notes.get((id, epoch), 0.0)) for id, epoch, made_at in rows if (id, epoch) in among
        }
        results = [self._results_of(test, number) for test in tests]
        return {
            attempt_key: version
            for attempt_key, version in versions.items()
            if any(known_results.get(attempt_key, ((), False))[0] != version for known_results in results)
        }

    def search(
        self, number: int, tests: Sequence[TextTest], versions: Mapping[Place, _Version], report: Callable[[int], None]
    ) -> None:
        """Search attempts of a run, as :meth:`unread` returns them.

        `report` is called with the number of attempts that are done. It may raise to interrupt the search: the results
        so far are remembered.

        Raises:
            FilterError: there is no word in a text.
        """
        searches = [(_terms(test), test.fields, self._results_of(test, number)) for test in tests]
        run = self._runs[number]
        call_key = (is_foreign_run(run), *((test.text, test.fields) for test in tests))
        if call_key not in self._calls:
            self._calls = {call_key: {}}
        hits_by_call = self._calls[call_key]
        with autocommit(self._store.engine) as connection:
            attempts = _read_texts(connection, run, self._numbers[number], list(versions), hits_by_call)
            for done, (attempt_key, attempt_texts, calls) in enumerate(attempts, 1):
                hits = [_terms_in(attempt_texts, terms, fields) for terms, fields, _ in searches]
                for key, texts in calls:
                    call_hits = hits_by_call.get(key) or tuple(
                        _terms_in(texts, terms, fields) for terms, fields, _ in searches
                    )
                    if key and len(hits_by_call) < _KNOWN:
                        hits_by_call[key] = call_hits
                    hits = [so_far | more for so_far, more in zip(hits, call_hits, strict=True)]
                for terms_found, (terms, _, results) in zip(hits, searches, strict=True):
                    results[attempt_key] = versions[attempt_key], terms_found.issuperset(terms)
                if done % _BATCH == 0 or done == len(versions):
                    report(done)

    def _results_of(self, test: TextTest, number: int) -> dict[Place, tuple[_Version, bool]]:
        """Return the remembered results of a text and a run."""
        results = self._seen.setdefault((test.text, test.fields), {})
        while len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return results.setdefault(number, {})


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
) -> Iterator[tuple[Place, _Texts, list[tuple[str, _Texts]]]]:
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
            # Hits of a failed call are not remembered: another call of the same key may have been answered.
            calls: list[tuple[str, _Texts]] = [
                ("" if call.call.error else call.call.key, call_texts(call, foreign)) for call in traced
            ]
            yield (
                attempt_key,
                own_texts(attempt, questions_by_id[attempt_key[0]].question, notes.get(attempt_key, ())),
                calls,
            )


def _terms_in(texts: _Texts, terms: Sequence[TextTerm], fields: Collection[str]) -> frozenset[TextTerm]:
    """Return the terms that occur in some of the texts."""
    missing = set(terms)
    for name, field_texts in texts.items():
        for text in field_texts if not fields or name in fields else ():
            missing.difference_update(held_terms(text, missing))
            if not missing:
                break
    return frozenset(terms) - missing


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
