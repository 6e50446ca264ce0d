"""Which attempts hold a word, a phrase, or the beginning of a word, in which field.

There is no index: the texts of the attempts that the rest of a filter leaves are read from the journal and compared,
some hundred megabytes a second, and what was looked through is remembered as long as the search lives.
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
"""Attempts that are read together."""
_A, _N = schema.attempts, schema.notes
_KNOWN = 500_000
"""Recorded calls of which what they hold is remembered."""
_REMEMBERED = 16
"""Texts whose hits are remembered."""
_Asked = tuple[str, tuple[str, ...]]
"""What was looked for, and in which fields."""
_Texts = Mapping[str, Sequence[str]]
_Version = tuple[float, float]
"""When an attempt was made, and when a reader last wrote a note beside it."""


class TextSearch:
    """Searches the attempts of some runs of a store, and remembers what it has looked through.

    Args:
        store: where the runs are; it is read on connections of its own, in any thread.
        runs: which.
        numbers: theirs in the store.
    """

    def __init__(self, store: Store, runs: Sequence[Run], numbers: Sequence[int]) -> None:
        self._store, self._runs, self._numbers = store, tuple(runs), tuple(numbers)
        self._seen: dict[_Asked, dict[int, dict[Place, tuple[_Version, bool]]]] = {}
        # Attempts share recorded calls: what each of them holds is found out once.
        self._calls: dict[object, dict[str, tuple[frozenset[TextTerm], ...]]] = {}

    def questions(self, number: int, test: TextTest) -> dict[int, list[str]]:
        """Epoch → the ids of the questions at which the attempt of the run at this place holds the words, of those that
        :meth:`search` has looked through.

        Raises:
            FilterError: there is no word in the text.
        """
        _terms(test)
        found: dict[int, list[str]] = {}
        for (question_id, epoch), (_, held) in list(self._of(test, number).items()):
            if held:
                found.setdefault(epoch, []).append(question_id)
        return found

    def unread(self, number: int, tests: Iterable[TextTest], among: Collection[Place]) -> dict[Place, _Version]:
        """The attempts of a run, of some places, that were not looked through for some of these texts since they, or
        notes beside them, were written."""
        key = self._numbers[number]
        made = sa.select(_A.c.question_id, _A.c.epoch, _A.c.at).where(_A.c.run == key)
        noted = sa.select(_N.c.question_id, _N.c.epoch, sa.func.sum(_N.c.at)).where(_N.c.run == key)
        with autocommit(self._store.engine) as connection:
            grouped = connection.execute(noted.group_by(_N.c.question_id, _N.c.epoch))
            notes = {(id, epoch): at for id, epoch, at in grouped}
            rows = connection.execute(made).all()
        found = {(id, epoch): (at, notes.get((id, epoch), 0.0)) for id, epoch, at in rows if (id, epoch) in among}
        seen = [self._of(test, number) for test in tests]
        return {
            place: version
            for place, version in found.items()
            if any(one.get(place, ((), False))[0] != version for one in seen)
        }

    def search(
        self, number: int, tests: Sequence[TextTest], places: Mapping[Place, _Version], report: Callable[[int], None]
    ) -> None:
        """Look through attempts of a run, as :meth:`unread` gives them. `report` is called with how many are done, and
        may raise to end it: what was looked through until then is remembered.

        Raises:
            FilterError: there is no word in a text.
        """
        wanted = [(_terms(test), test.fields, self._of(test, number)) for test in tests]
        run = self._runs[number]
        asked = (is_foreign_run(run), *((test.text, test.fields) for test in tests))
        if asked not in self._calls:
            self._calls = {asked: {}}
        known = self._calls[asked]
        with autocommit(self._store.engine) as connection:
            read = _read_texts(connection, run, self._numbers[number], list(places), known)
            for done, (place, own, calls) in enumerate(read, 1):
                held = [_held(own, terms, fields) for terms, fields, _ in wanted]
                for key, texts in calls:
                    found = known.get(key) or tuple(_held(texts, terms, fields) for terms, fields, _ in wanted)
                    if key and len(known) < _KNOWN:
                        known[key] = found
                    held = [one | more for one, more in zip(held, found, strict=True)]
                for one, (terms, _, seen) in zip(held, wanted, strict=True):
                    seen[place] = places[place], one.issuperset(terms)
                if done % _BATCH == 0 or done == len(places):
                    report(done)

    def _of(self, test: TextTest, number: int) -> dict[Place, tuple[_Version, bool]]:
        """What is remembered of a text and a run."""
        found = self._seen.setdefault((test.text, test.fields), {})
        while len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return found.setdefault(number, {})


def without_texts(wanted: Wanted | None) -> Wanted | None:
    """What an attempt must fulfil beside words in its texts, for the whole expression to hold; ``None``: nothing."""
    match wanted:
        case None | TextTest():
            return None
        case AllOf(parts):
            left = tuple(rest for part in parts if (rest := without_texts(part)) is not None)
            return AllOf(left) if left else None
        case AnyOf(parts):
            left = tuple(rest for part in parts if (rest := without_texts(part)) is not None)
            return AnyOf(left) if len(left) == len(parts) else None
        case Unless(part):
            return None if any(isinstance(one, TextTest) for one in single_conditions(part)) else wanted
    return wanted


def is_foreign_run(run: Run) -> bool:
    """Whether a run is of a system that is not our own, whose prompts nobody here has written."""
    return "system" in run.identity


def own_texts(attempt: Attempt, question: Question, notes: Iterable[str]) -> dict[str, list[str]]:
    """The texts of an attempt that are not of what its calls asked and gave, by field."""
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
            fields["reason"] += (event.call.error, *(one.message for one in event.call.faults))
    return fields


def call_texts(call: TracedCall, foreign: bool) -> dict[str, list[str]]:
    """The texts of a recorded call, by field.

    Of systems that are not our own (`foreign`) also what users and tools said in their prompts. Instructions are left
    out: our own prompts are the same in every attempt, and ``/`` inside an attempt finds them.
    """
    if call.call.error or call.call.role in TOKENS_APART:
        return {}
    said, asked = ("tool", "tool") if call.call.kind == "tool" else ("reply", "prompt")
    fields: dict[str, list[str]] = {"query": [], "reply": [], "tool": [], "prompt": []}
    if call.searched is not None:
        fields["query"].append(call.searched.query)
    if call.reply is not None:
        requested = (text for one in call.reply.calls for text in (one.name, one.arguments))
        fields[said] += (call.reply.reasoning, call.reply.text, *requested)
    fields["tool"] += (text for value in (call.used, call.gave) for text in _strings(value))
    if foreign and call.asked is not None:
        fields[asked] += (one.content for one in call.asked.messages if one.role in ("user", "tool"))
    fields["passage"] = [text for one in call.passages for text in (one.title, one.text)]
    return fields


def _terms(test: TextTest) -> tuple[TextTerm, ...]:
    try:
        return terms_of(test.text)
    except TextQueryError as error:
        raise FilterError(str(error), test.at, len(test.text)) from error


def _read_texts(
    connection: sa.Connection, run: Run, number: int, places: Sequence[Place], known: Container[str] = ()
) -> Iterator[tuple[Place, _Texts, list[tuple[str, _Texts]]]]:
    """Attempts of a run with their own texts and, call by call, its key and those of the call, of which there are none
    where the key is `known`; of an attempt that cannot be read there are none at all."""
    asked = stored_questions(connection, run, {question_id for question_id, _ in places})
    notes: dict[Place, list[str]] = {}
    for row in connection.execute(sa.select(_N).where(_N.c.run == number)):
        notes.setdefault((row.question_id, row.epoch), []).extend((row.text, row.mark))
    reader, foreign = AttemptReader(), is_foreign_run(run)
    for batch in chunks(places, _BATCH):
        read = reader.read(connection, run, number, batch, known)
        for place in batch:
            if place not in read:
                yield place, {}, []
                continue
            attempt, traced = read[place]
            # Of a call that failed nothing is remembered: another of the same key may have been answered.
            calls: list[tuple[str, _Texts]] = [
                ("" if one.call.error else one.call.key, call_texts(one, foreign)) for one in traced
            ]
            yield place, own_texts(attempt, asked[place[0]].question, notes.get(place, ())), calls


def _held(texts: _Texts, terms: Sequence[TextTerm], fields: Collection[str]) -> frozenset[TextTerm]:
    """Those of the terms that stand somewhere."""
    left = set(terms)
    for name, found in texts.items():
        for text in found if not fields or name in fields else ():
            left.difference_update(held_terms(text, left))
            if not left:
                break
    return frozenset(terms) - left


def _strings(value: object) -> Iterator[str]:
    """The texts in a value made of dictionaries and lists."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            left.extend(reversed(list(one.values())))
        elif isinstance(one, list | tuple):
            left.extend(reversed(one))
