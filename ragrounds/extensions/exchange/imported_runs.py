"""Rows of others' files as runs: which question each row answers, one run an agent, every question an attempt.

Rows are read once and kept packed in a temporary file, so that what is in memory grows with the questions, not with the
files. A question is found by its id, where the texts agree, else by its text (letters and digits alone; of a text that
stands several times the k-th such row answers the k-th). What a benchmark is not named for is made of the rows
themselves, where they hold questions and right answers. Of rows to one question the first counts.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import IO, Any

import msgspec
from msgspec import Struct, field

from ragrounds.base.errors import UserError
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Entered,
    Event,
    Gold,
    Left,
    Noted,
    Question,
    Run,
    Score,
    Status,
)
from ragrounds.base.specs import Spec
from ragrounds.evals.benchmarks import Benchmark, Card
from ragrounds.evals.benchmarks.benchmark import Item, assemble, content_version
from ragrounds.evals.engine.plan import fingerprint  # with it comes LangGraph, which no export needs
from ragrounds.evals.scorers import usual_scores
from ragrounds.evals.scorers.answer_status import FILTER, failure
from ragrounds.evals.scorers.robust import read_robustly
from ragrounds.evals.store.run_names import keep_names, new_run_id
from ragrounds.evals.store.store import Store, now
from ragrounds.extensions.exchange.importers.importer import ImportedRow, ImportedStep

REPORTED = "reported"
"""The scorer under which the files' own scores are kept."""
_BATCH = 500
_LONGEST = 40
"""Letters from which a text that holds a question's text is taken for it: a prompt around it."""


class Matching(Struct):
    """How the rows of one agent were matched with questions."""

    rows: int = 0
    by_id: int = 0
    by_text: int = 0
    renumbered: int = 0
    """Of those by text, rows whose id is another question's, or no question's."""
    unmatched: int = 0
    unmatched_first: str = ""
    doubled: int = 0
    """Rows that repeat a question and epoch."""
    doubled_questions: int = 0
    differing: int = 0
    """Questions of those whose rows differ in their answers."""
    checked: bool = True
    """Whether the rows hold questions' texts, so that what an id names could be checked."""
    scored_by: str = ""


class RowFile:
    """Rows in a temporary file, in the order in which they came."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with this object
        self._encode = msgspec.msgpack.Encoder().encode
        self.count = 0

    def add(self, row: ImportedRow) -> None:
        """Keep a row."""
        data = self._encode(row)
        self._file.write(len(data).to_bytes(4, "little") + data)
        self.count += 1

    def __iter__(self) -> Iterator[ImportedRow]:
        self._file.seek(0)
        decode = msgspec.msgpack.Decoder(ImportedRow).decode
        while size := self._file.read(4):
            yield decode(self._file.read(int.from_bytes(size, "little")))

    def close(self) -> None:
        """Give the file up."""
        self._file.close()


def key_of(text: str) -> str:
    """A question's text as it is compared: letters and digits alone, without case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(key_of(text).encode("utf-8", "replace"), digest_size=12).digest()


class QuestionFinder:
    """Finds the questions that rows answer."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        self._by_tail: dict[str, list[str]] = defaultdict(list)
        self._by_text: dict[bytes, list[str]] = defaultdict(list)
        self._turns: dict[tuple[str, str, bytes], dict[str, int]] = defaultdict(dict)
        for question in questions.values():
            self.add(question)

    def add(self, question: Question) -> None:
        """Have a question found."""
        self._by_tail[question.id.rpartition("/")[2]].append(question.id)
        self._by_text[_digest(question.text)].append(question.id)

    def find(self, row: ImportedRow) -> tuple[str, bool]:
        """The id of the question of a row (empty: none), and whether it was found by the row's id."""
        named = self._named(row)
        if not row.question:
            return named, bool(named)
        if named and self._agree(row.question, self.questions[named].text):
            self._turn(row)
            return named, True
        same = self._by_text.get(_digest(row.question), [])
        same = [id for id in same if _of(self.questions[id], row.dataset)] or same
        turn = self._turn(row)
        return (same[min(turn, len(same) - 1)] if same else ""), False

    def _turn(self, row: ImportedRow) -> int:
        """Which of the rows of this text it is; rows with one id are one."""
        turns = self._turns[row.agent, row.dataset, _digest(row.question)]
        return turns.setdefault(row.id or str(len(turns)), len(turns))

    def _named(self, row: ImportedRow) -> str:
        if not row.id:
            return ""
        for id in (row.id, f"{row.dataset}/{row.id}"):
            if id in self.questions:
                return id
        tails = self._by_tail.get(row.id.rpartition("/")[2], [])
        tails = [id for id in tails if _of(self.questions[id], row.dataset)] or tails
        return tails[0] if len(tails) == 1 else ""

    @staticmethod
    def _agree(said: str, text: str) -> bool:
        one, other = key_of(said), key_of(text)
        return one == other or (len(other) >= _LONGEST and other in one) or (len(one) >= _LONGEST and one in other)


def _of(question: Question, dataset: str) -> bool:
    return bool(dataset) and (question.benchmark.rpartition("/")[2] == dataset or question.id.startswith(f"{dataset}/"))


def benchmark_of(rows: RowFile, form: str) -> Benchmark:
    """The benchmark that the rows hold themselves: questions, options, right answers; ids are the first file's.

    Raises:
        UserError: they hold none.
    """
    items: dict[str, Item] = {}
    finder = QuestionFinder({})
    questions: dict[str, Question] = {}
    finder.questions = questions
    for row in rows:
        found, _ = finder.find(row)
        turns = finder._turns[row.agent, row.dataset, _digest(row.question)]  # a text's k-th row is its k-th question
        known = len(finder._by_text.get(_digest(row.question), []))
        if (found and len(turns) <= known) or not row.question.strip() or not row.gold:
            continue
        item = _item(row, form, questions)
        if item is not None:
            items[item.question.id] = item
            questions[item.question.id] = item.question
            finder.add(item.question)
    if not items:
        raise UserError(
            "The files hold no questions with their right answers. Say which benchmark they answer: --benchmark "
            "mirage, jsonl:FILE, ... (`ragrounds data ls`)."
        )
    card = Card(name=form, title=f"Questions of files imported as {form}", task="mixed", source="the files", license="")
    return assemble(form, card, items.values())


def _item(row: ImportedRow, form: str, taken: Mapping[str, Question]) -> Item | None:
    options = {key: text for key, text in row.options.items() if text.strip()}
    gold = row.gold if row.gold in options else next((key for key, text in options.items() if text == row.gold), "")
    if len(options) < 2 or not gold:
        options, gold = {}, row.gold
        if row.options:
            return None
    dataset = row.dataset or "rows"
    id = f"{dataset}/{row.id or len(taken) + 1}"
    if id in taken or not id.isprintable():
        id = f"{dataset}/{len(taken) + 1}-{_digest(row.question).hex()[:8]}"
    question = Question(id=id[:400], benchmark=f"{form}/{dataset}", text=row.question, options=options,
                        kind="choice" if options else "long")  # fmt: skip
    facts = (row.wordings,) if row.wordings and not options else ()
    return Item(question, Gold(question_id=question.id, answer=gold, facts=facts))


class _Group(Struct):
    matching: Matching = field(default_factory=Matching)
    seen: dict[tuple[str, int], bytes] = field(default_factory=dict)
    """Question and epoch → digest of the first answer."""
    twice: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Those of them with several rows → whether answers differ."""
    digest: Any = field(default_factory=hashlib.sha256)
    timed: bool = True
    """Whether every row says its seconds."""


class RunOfRows(Struct, frozen=True):
    """A run made of rows."""

    run: Run
    matching: Matching
    missing: int
    """Questions without a row."""


def store_rows(store: Store, rows: RowFile, benchmark: Benchmark, form: str) -> list[RunOfRows]:
    """Write the rows as runs, one an agent, scored by our scorers and with the files' own scores beside.

    Args:
        store: where to.
        rows: of one form.
        benchmark: which they answer.
        form: the importer's name.

    Raises:
        UserError: no row answers a question of the benchmark.
    """
    questions = {question.id: question for question in benchmark.questions}
    groups = _matched(rows, questions)
    if not any(group.seen for group in groups.values()):
        first = next((group.matching.unmatched_first for group in groups.values()), "none")
        raise UserError(f"No row answers a question of {benchmark.name} (the first: {first}). Is it the benchmark that "
                        "these answers were given to?")  # fmt: skip
    asked = {name: _part(benchmark, {id for id, _ in group.seen}) for name, group in groups.items()}
    taken, made = [run.id for run in store.runs()], dict[str, RunOfRows]()
    for name, group in groups.items():
        if not group.seen:
            continue
        match = group.matching
        match.doubled_questions, match.differing = len(group.twice), sum(group.twice.values())
        run = _run(name, group, asked[name], form, taken)
        run = store.latest(run.fingerprint) or store.add_run(run, asked[name].questions, asked[name].golds)
        taken.append(run.id)
        count = len({id for id, _ in group.seen})
        made[name] = RunOfRows(run, match, len(asked[name]) - count)
    keep_names(store.engine, {one.run.id: name for name, one in made.items()})
    _write(store, rows, questions, benchmark.golds, made)
    for name, one in made.items():
        absent = [(question, epoch) for question in asked[name].questions for epoch in range(one.run.epochs)
                  if (question.id, epoch) not in groups[name].seen]  # fmt: skip
        attempts = [_absent(one.run, question.id, epoch) for question, epoch in absent]
        _flush(store, one.run, [
            (attempt, usual_scores(attempt, questions[attempt.question_id], benchmark.golds[attempt.question_id]))
            for attempt in attempts
        ])  # fmt: skip
    return list(made.values())


def _part(benchmark: Benchmark, answered: set[str]) -> Benchmark:
    """The datasets of the benchmark that have a row: of these every question is the denominator."""
    named = {question.benchmark for question in benchmark.questions if question.id in answered}
    if named == set(benchmark.datasets):
        return benchmark
    questions = tuple(question for question in benchmark.questions if question.benchmark in named)
    golds = {question.id: benchmark.golds[question.id] for question in questions}
    return msgspec.structs.replace(
        benchmark, questions=questions, golds=MappingProxyType(golds), version=content_version(questions, golds)
    )


def _matched(rows: RowFile, questions: Mapping[str, Question]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for row, id, by_id in _found(rows, questions):
        group = groups.setdefault(row.agent, _Group())
        match = group.matching
        match.rows += 1
        match.checked = match.checked and bool(row.question)
        match.scored_by = match.scored_by or row.scored_by
        group.digest.update(msgspec.msgpack.encode(row))
        group.timed = group.timed and row.seconds is not None
        if not id:
            match.unmatched += 1
            match.unmatched_first = match.unmatched_first or f"{row.place}, id {row.id[:60]!r}"
            continue
        match.by_id, match.by_text = match.by_id + by_id, match.by_text + (not by_id)
        match.renumbered += not by_id and bool(row.id)
        answer = hashlib.blake2b(f"{row.answer}\0{row.choice}".encode("utf-8", "replace"), digest_size=8).digest()
        if group.seen.setdefault((id, row.epoch), answer) is not answer:
            match.doubled += 1
            differs = group.seen[id, row.epoch] != answer
            group.twice[id, row.epoch] = group.twice.get((id, row.epoch), False) or differs
    return groups


def _found(rows: RowFile, questions: Mapping[str, Question]) -> Iterator[tuple[ImportedRow, str, bool]]:
    finder = QuestionFinder(questions)
    for row in rows:
        yield row, *finder.find(row)


def _run(agent: str, group: _Group, benchmark: Benchmark, form: str, taken: list[str]) -> Run:
    identity = {
        "imported": form,
        "agent": agent,
        "benchmark": benchmark.name,
        "questions": benchmark.version,
        "content": group.digest.hexdigest(),
        "epochs": 1 + max(epoch for _, epoch in group.seen),
        "matching": msgspec.to_builtins(group.matching),
        "timed": group.timed,
    }
    print_ = fingerprint(identity)
    return Run(
        id=new_run_id(agent, print_, taken),
        agent=str(Spec("imported", {"agent": agent})),
        benchmark=benchmark.name,
        questions=benchmark.version,
        count=len(benchmark),
        epochs=identity["epochs"],
        fingerprint=print_,
        identity=identity,
        created=now(),
        origin="imported",
    )


def _write(
    store: Store, rows: RowFile, questions: Mapping[str, Question], golds: Mapping[str, Gold],
    made: Mapping[str, RunOfRows],
) -> None:  # fmt: skip
    """Write the attempts, some hundred at a time, with their scores."""
    seen: dict[str, set[tuple[str, int]]] = {name: set() for name in made}
    held: dict[str, list[tuple[Attempt, list[Score]]]] = {name: [] for name in made}
    for row, id, _ in _found(rows, questions):
        name = row.agent
        if name not in made or not id or (id, row.epoch) in seen[name]:
            continue
        seen[name].add((id, row.epoch))
        attempt = attempt_of(row, made[name].run, questions[id])
        scores = usual_scores(attempt, questions[id], golds[id])
        if row.score is not None:
            status = scores[0].answer_status if scores else "answered"
            scores.append(Score(question_id=id, epoch=row.epoch, scorer=REPORTED, value=row.score,
                                answer_status=status, reason=row.scored_by))  # fmt: skip
        held[name].append((attempt, scores))
        if len(held[name]) >= _BATCH:
            _flush(store, made[name].run, held[name])
    for name, one in made.items():
        _flush(store, one.run, held[name])


def _flush(store: Store, run: Run, held: list[tuple[Attempt, list[Score]]]) -> None:
    store.add_attempts(run, [one for one, _ in held], [score for _, scores in held for score in scores])
    held.clear()


def attempt_of(row: ImportedRow, run: Run, question: Question) -> Attempt:
    """The attempt of a row."""
    steps = row.steps or (ImportedStep(kind="model", usage=row.usage, seconds=row.seconds, cost=row.cost),)
    events: list[Event] = []
    for number, step in enumerate(steps):
        call = Call(key="", kind=step.kind, role="answering" if step.kind == "model" else "", node="imported",
                    actor=step.name or run.identity["agent"], at=0.0, seconds=step.seconds or 0.0, usage=step.usage,
                    cost_uncached=step.cost, passages=tuple(one.id for one in step.passages if one.id))  # fmt: skip
        changes = {"asked": step.asked, "text": step.text, "passages": [_shown(one) for one in step.passages]}
        events += [Entered(step=number, node=step.kind, at=0.0), Called(step=number, call=call)]
        events.append(Left(step=number, seconds=step.seconds or 0.0, changes={k: v for k, v in changes.items() if v}))
    last: dict[str, object] = {"answer": row.answer}
    if row.passages:
        last["passages"] = [_shown(one) for one in row.passages]
    events += [Entered(step=len(steps), node="answer", at=0.0), Left(step=len(steps), seconds=0.0, changes=last)]
    events += [Noted(step=len(steps), what="imported", text=f"{row.place}: {note}") for note in row.notes]
    counts = Counter(step.kind for step in steps)
    status, reason = _ended(row.answer, question) if row.status == "completed" else (row.status, row.reason)
    return Attempt(
        run=run.id,
        question_id=question.id,
        epoch=row.epoch,
        status=status,
        text=row.answer,
        choice=row.choice or (row.answer if row.answer in question.options and not row.reply else ""),
        reason=reason,
        usage=row.usage,
        cost_paid=row.cost,
        cost_uncached=row.cost,
        seconds=row.seconds or 0.0,
        events=tuple(events),
        model_calls=counts["model"],
        searches=counts["search"],
        tool_calls=counts["tool"],
    )


def _ended(text: str, question: Question) -> tuple[Status, str]:
    """How the call of a recorded text ended, and why: some texts are errors, or a filter's notice, that were recorded
    in place of a reply. Nothing but the text says so, and a text that states an answer is none of them."""
    recorded = failure(text)
    if recorded is None or read_robustly(text, question) != recorded:
        return "completed", ""
    return ("blocked" if recorded.reason == FILTER else "failed"), f"{recorded.reason}: {' '.join(text.split())[:200]}"


def _shown(passage: object) -> dict[str, object]:
    return {key: value for key, value in msgspec.to_builtins(passage).items() if value not in ("", None)}


def _absent(run: Run, id: str, epoch: int) -> Attempt:
    return Attempt(run=run.id, question_id=id, epoch=epoch, status="not_run", text="",
                   reason="no row answers this question")  # fmt: skip
