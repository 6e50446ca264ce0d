"""Rows of other systems' files as runs: one run per agent, one attempt per question, matched by id or text.

Rows are read once and kept encoded in a temporary file, so that memory grows with the questions, not with the files. A
question is found by its id if the texts agree, else by its text (letters and digits only; if a text occurs several
times, the k-th such row answers the k-th). If no benchmark is named, it is made of the rows themselves, if they contain
questions and right answers. Of several rows for one question, the first counts.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import IO, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import (
    Attempt,
    AttemptKey,
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
from ragrounds.evals.store.run_names import keep_last_command, keep_names, new_run_id
from ragrounds.evals.store.store import Store, now
from ragrounds.extensions.exchange.importers.importer import ImportedRow, ImportedStep

REPORTED = "reported"
"""Scorer under which the files' scores are stored."""
_BATCH = 500
_LONGEST = 40
"""Number of letters from which a text that contains a question's text, such as a prompt around it, counts as the
question.
"""


class Matching(Struct):
    """Counts of how the rows of one agent were matched with questions."""

    rows: int = 0
    by_id: int = 0
    by_text: int = 0
    renumbered: int = 0
    """Rows matched by text whose id belongs to a different question, or to none."""
    unmatched: int = 0
    unmatched_first: str = ""
    doubled: int = 0
    """Rows that repeat a question and epoch."""
    doubled_questions: int = 0
    differing: int = 0
    """Repeated questions whose rows differ in their answers."""
    checked: bool = True
    """True if the rows contain questions' texts, so that the matches by id could be checked."""
    scored_by: str = ""


class RowFile:
    """Rows in a temporary file, in the order in which they were added."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with this object
        self._encode = msgspec.msgpack.Encoder().encode
        self.count = 0

    def add(self, row: ImportedRow) -> None:
        """Append a row."""
        encoded = self._encode(row)
        self._file.write(len(encoded).to_bytes(4, "little") + encoded)
        self.count += 1

    def __iter__(self) -> Iterator[ImportedRow]:
        self._file.seek(0)
        decode = msgspec.msgpack.Decoder(ImportedRow).decode
        while size := self._file.read(4):
            yield decode(self._file.read(int.from_bytes(size, "little")))

    def close(self) -> None:
        """Close and delete the file."""
        self._file.close()


def key_of(text: str) -> str:
    """Return a question's text in the form for comparisons: letters and digits only, without case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _digest(text: str) -> bytes:
    return hashlib.blake2b(key_of(text).encode("utf-8", "replace"), digest_size=12).digest()


class QuestionFinder:
    """Index that finds the questions that rows answer."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        self._by_tail: dict[str, list[str]] = defaultdict(list)
        self._by_text: dict[bytes, list[str]] = defaultdict(list)
        self._row_numbers: dict[tuple[str, str, bytes], dict[str, int]] = defaultdict(dict)
        for question in questions.values():
            self.add(question)

    def add(self, question: Question) -> None:
        """Add a question to the index."""
        self._by_tail[question.id.rpartition("/")[2]].append(question.id)
        self._by_text[_digest(question.text)].append(question.id)

    def find(self, row: ImportedRow) -> tuple[str, bool]:
        """Return the id of the question of a row (empty if not found), and True if it was found by the row's id."""
        id_match = self._find_by_id(row)
        if not row.question:
            return id_match, bool(id_match)
        if id_match and self._agree(row.question, self.questions[id_match].text):
            self._turn_of_row(row)
            return id_match, True
        text_matches = self._by_text.get(_digest(row.question), [])
        text_matches = [id for id in text_matches if _is_in_dataset(self.questions[id], row.dataset)] or text_matches
        turn = self._turn_of_row(row)
        return (text_matches[min(turn, len(text_matches) - 1)] if text_matches else ""), False

    def _turn_of_row(self, row: ImportedRow) -> int:
        """Return the number of the row among those with its text. Rows with one id count as one."""
        turns = self._row_numbers[row.agent, row.dataset, _digest(row.question)]
        return turns.setdefault(row.id or str(len(turns)), len(turns))

    def _find_by_id(self, row: ImportedRow) -> str:
        if not row.id:
            return ""
        if row.id not in self.questions and re.fullmatch(r"\d+\.0", row.id):  # a column of numbers in pandas
            row = replace(row, id=row.id[:-2])
        for id in (row.id, f"{row.dataset}/{row.id}"):
            if id in self.questions:
                return id
        tails = self._by_tail.get(row.id.rpartition("/")[2], [])
        tails = [id for id in tails if _is_in_dataset(self.questions[id], row.dataset)] or tails
        return tails[0] if len(tails) == 1 else ""

    @staticmethod
    def _agree(said: str, text: str) -> bool:
        row_key, question_key = key_of(said), key_of(text)
        return (
            row_key == question_key
            or (len(question_key) >= _LONGEST and question_key in row_key)
            or (len(row_key) >= _LONGEST and row_key in question_key)
        )


def _is_in_dataset(question: Question, dataset: str) -> bool:
    return bool(dataset) and (question.benchmark.rpartition("/")[2] == dataset or question.id.startswith(f"{dataset}/"))


def benchmark_of(rows: RowFile, form: str) -> Benchmark:
    """Make the benchmark that the rows contain: questions, options, right answers. Ids are those of the first file.

    Raises:
        UserError: the rows contain no questions.
    """
    items: dict[str, Item] = {}
    questions: dict[str, Question] = {}
    finder = QuestionFinder(questions)
    for row in rows:
        question_id, _ = finder.find(row)
        # A text's k-th row is its k-th question.
        turns = finder._row_numbers[row.agent, row.dataset, _digest(row.question)]
        indexed_count = len(finder._by_text.get(_digest(row.question), []))
        if (question_id and len(turns) <= indexed_count) or not row.question.strip() or not row.gold:
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
    seen: dict[AttemptKey, bytes] = field(default_factory=dict)
    """Question and epoch → digest of the first answer."""
    twice: dict[AttemptKey, bool] = field(default_factory=dict)
    """Question and epoch with several rows → True if their answers differ."""
    digest: Any = field(default_factory=hashlib.sha256)
    timed: bool = True
    """True if every row has its seconds."""


class RunOfRows(Struct, frozen=True):
    """A run that was made of rows."""

    run: Run
    matching: Matching
    missing: int
    """Number of questions without a row."""


def store_rows(store: Store, rows: RowFile, benchmark: Benchmark, form: str) -> list[RunOfRows]:
    """Write the rows as runs, one per agent, with the scores of our scorers and those of the files.

    Args:
        store: store that runs are written to.
        rows: rows of one form.
        benchmark: benchmark that the rows answer.
        form: name of the importer.

    Raises:
        UserError: no row answers a question of the benchmark.
    """
    questions = {question.id: question for question in benchmark.questions}
    groups = _group_rows(rows, questions)
    if not any(group.seen for group in groups.values()):
        first = next((group.matching.unmatched_first for group in groups.values()), "none")
        raise UserError(f"No row answers a question of {benchmark.name} (the first: {first}). Is it the benchmark that "
                        "these answers were given to?")  # fmt: skip
    parts = {name: _part(benchmark, {id for id, _ in group.seen}) for name, group in groups.items()}
    taken, stored = [run.id for run in store.runs()], dict[str, RunOfRows]()
    for name, group in groups.items():
        if not group.seen:
            continue
        match = group.matching
        match.doubled_questions, match.differing = len(group.twice), sum(group.twice.values())
        run = _run(name, group, parts[name], form, taken)
        run = store.latest(run.fingerprint) or store.add_run(run, parts[name].questions, parts[name].golds)
        taken.append(run.id)
        count = len({id for id, _ in group.seen})
        stored[name] = RunOfRows(run, match, len(parts[name]) - count)
    keep_last_command(store.engine, [imported.run for imported in stored.values()])
    keep_names(store.engine, {imported.run.id: name for name, imported in stored.items()})
    _write(store, rows, questions, benchmark.golds, stored)
    for name, imported in stored.items():
        unanswered = [(question, epoch) for question in parts[name].questions for epoch in range(imported.run.epochs)
                  if (question.id, epoch) not in groups[name].seen]  # fmt: skip
        attempts = [_absent(imported.run, question.id, epoch) for question, epoch in unanswered]
        _flush(store, imported.run, [
            (attempt, usual_scores(attempt, questions[attempt.question_id], benchmark.golds[attempt.question_id]))
            for attempt in attempts
        ])  # fmt: skip
    return list(stored.values())


def _part(benchmark: Benchmark, answered: set[str]) -> Benchmark:
    """Return the datasets of the benchmark that have a row. All their questions are in the denominator."""
    datasets = {question.benchmark for question in benchmark.questions if question.id in answered}
    if datasets == set(benchmark.datasets):
        return benchmark
    questions = tuple(question for question in benchmark.questions if question.benchmark in datasets)
    golds = {question.id: benchmark.golds[question.id] for question in questions}
    return msgspec.structs.replace(
        benchmark, questions=questions, golds=MappingProxyType(golds), version=content_version(questions, golds)
    )


def _group_rows(rows: RowFile, questions: Mapping[str, Question]) -> dict[str, _Group]:
    groups: dict[str, _Group] = {}
    for row, id, by_id in _match_rows(rows, questions):
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


def _match_rows(rows: RowFile, questions: Mapping[str, Question]) -> Iterator[tuple[ImportedRow, str, bool]]:
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
    stored: Mapping[str, RunOfRows],
) -> None:  # fmt: skip
    """Write the attempts with their scores, in batches."""
    seen: dict[str, set[AttemptKey]] = {name: set() for name in stored}
    pending: dict[str, list[tuple[Attempt, list[Score]]]] = {name: [] for name in stored}
    for row, id, _ in _match_rows(rows, questions):
        name = row.agent
        if name not in stored or not id or (id, row.epoch) in seen[name]:
            continue
        seen[name].add((id, row.epoch))
        attempt = attempt_of(row, stored[name].run, questions[id])
        scores = usual_scores(attempt, questions[id], golds[id])
        if row.score is not None:
            status = scores[0].answer_status if scores else "answered"
            scores.append(Score(question_id=id, epoch=row.epoch, scorer=REPORTED, value=row.score,
                                answer_status=status, reason=row.scored_by))  # fmt: skip
        pending[name].append((attempt, scores))
        if len(pending[name]) >= _BATCH:
            _flush(store, stored[name].run, pending[name])
    for name, imported in stored.items():
        _flush(store, imported.run, pending[name])


def _flush(store: Store, run: Run, pending: list[tuple[Attempt, list[Score]]]) -> None:
    store.add_attempts(run, [attempt for attempt, _ in pending], [score for _, scores in pending for score in scores])
    pending.clear()


def attempt_of(row: ImportedRow, run: Run, question: Question) -> Attempt:
    """Return the attempt of a row."""
    steps = row.steps or (ImportedStep(kind="model", usage=row.usage, seconds=row.seconds, cost=row.cost),)
    events: list[Event] = []
    for number, step in enumerate(steps):
        call = Call(key="", kind=step.kind, role="answering" if step.kind == "model" else "", node="imported",
                    actor=step.name or run.identity["agent"], at=0.0, seconds=step.seconds or 0.0, usage=step.usage,
                    cost_uncached=step.cost, passages=tuple(hit.id for hit in step.passages if hit.id))  # fmt: skip
        changes = {"asked": step.asked, "text": step.text, "passages": [_without_empty(hit) for hit in step.passages]}
        events += [Entered(step=number, node=step.kind, at=0.0), Called(step=number, call=call)]
        events.append(Left(step=number, seconds=step.seconds or 0.0, changes={k: v for k, v in changes.items() if v}))
    last: dict[str, object] = {"answer": row.answer}
    if row.passages:
        last["passages"] = [_without_empty(passage) for passage in row.passages]
    events += [Entered(step=len(steps), node="answer", at=0.0), Left(step=len(steps), seconds=0.0, changes=last)]
    events += [Noted(step=len(steps), what="imported", text=f"{row.place}: {note}") for note in row.notes]
    counts = Counter(step.kind for step in steps)
    status, reason = _outcome(row.answer, question) if row.status == "completed" else (row.status, row.reason)
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


def _outcome(text: str, question: Question) -> tuple[Status, str]:
    """Return the status of a recorded text, and the reason.

    Some texts are errors, or a filter's notice, that were recorded in place of a reply. Only the text shows this, and a
    text that states an answer is none of them.
    """
    recorded = failure(text)
    if recorded is None or read_robustly(text, question) != recorded:
        return "completed", ""
    return ("blocked" if recorded.reason == FILTER else "failed"), f"{recorded.reason}: {' '.join(text.split())[:200]}"


def _without_empty(passage: object) -> dict[str, object]:
    return {key: value for key, value in msgspec.to_builtins(passage).items() if value not in ("", None)}


def _absent(run: Run, id: str, epoch: int) -> Attempt:
    return Attempt(run=run.id, question_id=id, epoch=epoch, status="not_run", text="",
                   reason="no row answers this question")  # fmt: skip
