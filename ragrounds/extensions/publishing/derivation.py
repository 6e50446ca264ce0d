"""A bundle's figures, derived again from its attempts: answers scored anew, costs summed anew, and the same comparison
made of them as `ragrounds compare` makes. What differs is named, and so is what could not be derived."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import TOKENS_APART, Attempt, Called, Gold, Question, Reply, Run, Score, Usage
from ragrounds.evals.benchmarks.benchmark import Benchmark, Selection, content_version, select
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.engine.plan import fingerprint
from ragrounds.evals.judges.attempts import LabelJudge, judge_code
from ragrounds.evals.judges.methods import find_method
from ragrounds.evals.judges.recorded import RecordedJudge
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code, scores_by_default
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store.care.repricing import Repricing, sums_of
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing.bundle import (
    AttemptLine,
    Basis,
    Bundle,
    JudgeLine,
    Line,
    QuestionLine,
    RunLine,
    Seal,
    Statement,
    check_runs,
    flat,
    gold_digest,
    hidden_cluster,
    records_of,
    seal_of,
    statement_of,
    write_bundle,
)
from ragrounds.extensions.publishing.published_traces import question_digest
from ragrounds.models.prices import Price

Texts = Mapping[str, tuple[Question, Gold]]
"""Digest of a question → the question and what is right."""
Printed = Callable[[Comparison], dict[str, str]]
_BATCH = 500
_SHOWN = 20
"""Differences that are kept in full; the others are counted."""


class Derivation(Struct, kw_only=True):
    """What came of deriving a bundle's figures again."""

    runs: list[str] = []
    attempts: int = 0
    figures: int = 0
    """Numbers that the statement holds."""
    derived: int = 0
    """Of these, those that the attempts gave again, digit by digit."""
    printed: int = 0
    """Texts of figures that the statement holds."""
    differing: list[str] = []
    """What differs, the first first."""
    more: int = 0
    """Further differences."""
    underived: dict[str, int] = {}
    """What could not be derived, with the reason → how many figures, scores or costs."""
    notes: list[str] = []
    comparison: Comparison | None = None
    """As it was derived."""
    statement: Statement | None = None
    scorers: set[str] = set()
    """Whose figures rest on what could not be derived."""
    costs: bool = False
    """Whether figures of costs do."""

    def differs(self, what: str) -> None:
        """Note a difference."""
        if len(self.differing) < _SHOWN:
            self.differing.append(what)
        else:
            self.more += 1

    def lacks(self, what: str, count: int = 1) -> None:
        """Note what cannot be derived."""
        self.underived[what] = self.underived.get(what, 0) + count


def texts_of(questions: Iterable[Question], golds: Mapping[str, Gold]) -> Texts:
    """Questions by their digests."""
    return {question_digest(one): (one, golds[one.id]) for one in questions}


def verify_bundle(
    bundle: Bundle,
    printed: Printed,
    benchmark: Benchmark | None = None,
    report: Callable[[str, int], None] = lambda what, done: None,
) -> Derivation:
    """Derive the figures of a bundle again, and name what differs.

    Args:
        bundle: of unknown origin.
        printed: the figures of a comparison as tables print them.
        benchmark: that it is of: its texts take the place of digests, and every question is set beside it.
        report: is told how many attempts are derived.

    Raises:
        UserError: the bundle holds what is none of its records.
    """
    found, stated = Derivation(), bundle.statement
    basis = stated.predicate.ragrounds
    if not bundle.whole:
        found.differs("the file is not what was written: the digest in its last line is another")
    texts = None if benchmark is None else texts_of(benchmark.questions, benchmark.golds)
    try:
        derive(bundle.records(), basis, bundle.seal, found, texts, benchmark, report)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, sa.exc.SQLAlchemyError) as error:
        raise UserError(f"{bundle.path} holds values that no run has ({str(error)[:200]}).") from error
    if found.statement is not None and found.comparison is not None:
        _set_beside(stated, with_printed(found.statement, printed(found.comparison)), found)
    return found


def with_printed(statement: Statement, printed: dict[str, str]) -> Statement:
    """The statement with its figures as tables print them."""
    predicate = statement.predicate
    return replace(statement, predicate=replace(predicate, ragrounds=replace(predicate.ragrounds, printed=printed)))


def derive(
    records: Iterable[tuple[int, Line]],
    basis: Basis,
    seal: Seal,
    found: Derivation,
    texts: Texts | None,
    benchmark: Benchmark | None = None,
    report: Callable[[str, int], None] = lambda what, done: None,
) -> None:
    """Derive a comparison and its statement from records, into `found`."""
    lines = iter(records)
    runs, questions, judged, rest = list[RunLine](), list[QuestionLine](), list[JudgeLine](), list[AttemptLine]()
    for _, line in lines:
        if isinstance(line, AttemptLine):
            rest.append(line)
            break
        kept: list[Any] = runs if isinstance(line, RunLine) else questions if isinstance(line, QuestionLine) else judged
        kept.append(line)
    check_runs([one.run for one in runs], questions)
    with tempfile.TemporaryDirectory(prefix="ragrounds-") as folder, Store(Path(folder)) as store:
        work = _Derived(store, [one.run for one in runs], basis, found)
        work.questions(questions, texts, benchmark)
        work.open(runs, judged)
        last, batch = 0.0, dict[str, list[tuple[Attempt, list[Score]]]]()
        for line in _attempts(rest, lines):
            run, attempt, scores = work.attempt(line)
            last = max(last, attempt.at)
            batch.setdefault(run, []).append((attempt, scores))
            found.attempts += 1
            if found.attempts % _BATCH == 0:
                work.write(batch)
                report("attempts derived", found.attempts)
        work.write(batch)
        found.runs = [one.run.id for one in runs]
        called = {one.run.id: one.name for one in runs if one.name}
        every = [one.run for one in runs]
        try:
            found.comparison = compare(store, every, seed=basis.seed, names=called, shared_scorers=True)
        except UserError as error:
            raise UserError(f"The attempts of the bundle cannot be compared: {error}") from error
        codes = {name: tuple(sorted(made)) for name, made in sorted(work.codes.items())}
        known = replace(basis, scorers=codes)
        found.statement = statement_of(every, found.comparison, last, seal, known)
        work.conclude()


def _attempts(first: Sequence[AttemptLine], lines: Iterator[tuple[int, Line]]) -> Iterator[AttemptLine]:
    yield from first
    for number, line in lines:
        if not isinstance(line, AttemptLine):
            raise UserError(f"Line {number} of the bundle stands among attempts, and is none.")
        yield line


class _Derived:
    """The store that is made of a bundle's records, and what is found on the way."""

    def __init__(self, store: Store, runs: Sequence[Run], basis: Basis, found: Derivation) -> None:
        self._store, self._basis, self._found = store, basis, found
        self._runs = {run.id: run for run in runs}
        self._asked: dict[str, Question] = {}
        self._golds: dict[str, Gold] = {}
        self._withheld: set[str] = set()
        self._seen: set[tuple[str, str, int]] = set()
        self._scorers: dict[str, set[str]] = {}
        """Run → the scorers that its attempts have scores by."""
        self._judges: dict[str, dict[str, RecordedJudge]] = {}
        self._replies: dict[str, Reply] = {}
        self._named: dict[str, list[str]] = {}
        self._prices = Repricing(store, basis.prices)
        self.codes: dict[str, set[str]] = {}

    def questions(self, lines: Sequence[QuestionLine], texts: Texts | None, benchmark: Benchmark | None) -> None:
        """Take the questions, their texts from the benchmark where they are withheld."""
        real, moved = list[tuple[Question, Gold]](), 0
        for line in lines:
            question, gold = line.question, line.gold
            known = texts.get(line.digest) if texts is not None else None
            if texts is not None and known is None:
                self._found.differs(f"question {question.id}: not in the benchmark (another revision?)")
            elif known is not None and gold_digest(known[1]) != line.gold_digest:
                self._found.differs(f"question {question.id}: what is right is another in the benchmark")
            moved += known is not None and hidden_cluster(known[0], gold is None) != question.cluster
            if gold is None and known is not None:
                question, gold = replace(known[0], id=question.id, cluster=question.cluster), known[1]
                real.append(known)
            elif gold is not None:
                real.append((question, gold))
                if (question_digest(question), gold_digest(gold)) != (line.digest, line.gold_digest):
                    self._found.differs(f"question {question.id}: its digest is another")
            if gold is None:
                self._withheld.add(question.id)
            self._asked[question.id] = question
            self._golds[question.id] = replace(gold or Gold(question_id="", answer=""), question_id=question.id)
        if moved:  # named by the first of a cluster, which another selection may lack
            self._found.notes.append(
                f"{moved:,} questions are in other clusters in the benchmark: intervals rest on them."
            )
        if len(real) < len(lines):
            self._found.lacks("the hash of the questions, whose texts are withheld: --benchmark FILE")
            return
        stated = next(iter(self._runs.values())).questions
        if content_version([one for one, _ in real], {one.id: gold for one, gold in real}) != stated:
            self._found.differs(f"questions: the runs are of the set {stated[:16]}…, and these are another set")
        if benchmark is not None:
            self._chosen(benchmark)

    def _chosen(self, benchmark: Benchmark) -> None:
        """Whether the questions are those that the runs' own rule draws from the benchmark."""
        for run in self._runs.values():
            drawn = run.identity.get("selection")
            rule = msgspec.convert(drawn, Selection) if drawn else Selection(seed=0)
            ids = rule.ids or () if isinstance(rule.ids, tuple) else ()
            made = select(benchmark, limit=rule.limit, per_dataset=rule.per_dataset, seed=rule.seed, ids=ids)
            if made.version != run.questions:
                rule_said = f"seed {rule.seed}, limit {rule.limit}" if drawn else "all"
                self._found.differs(
                    f"questions of {run.id}: {run.count:,}, and its rule ({rule_said}) draws {len(made):,} others from "
                    f"{benchmark.name}"
                )

    def open(self, runs: Sequence[RunLine], judged: Sequence[JudgeLine]) -> None:
        """Write the runs, and take what judges replied."""
        for one in runs:
            run = one.run
            if run.origin == "replayed" and fingerprint(run.identity) != run.fingerprint:
                self._found.differs(f"run {run.id}: its fingerprint is not that of what made it")
            if run.identity.get("questions", run.questions) != run.questions:
                self._found.differs(f"run {run.id}: what made it names other questions")
            self._store.add_run(run, list(self._asked.values()), self._golds)
            for claim, seed, body in one.stops:
                self._store.write_stop([run.id], claim, int(seed), body)
        for line in judged:
            if line.run not in self._runs:
                raise UserError(f"The bundle holds a judge's call of a run that it has not: {line.run[:100]!r}.")
            self._cost(line.call, f"a judge's call of {line.run}")
            self._store.add_scores(self._runs[line.run], (), [line.call])
            if line.reply is not None:
                self._replies[line.call.key] = line.reply
                judges = self._named.setdefault(line.run, [])
                judges += [] if line.call.actor in judges else [line.call.actor]

    def attempt(self, line: AttemptLine) -> tuple[str, Attempt, list[Score]]:
        """An attempt with its scores as they are derived."""
        attempt, key = line.attempt, (line.attempt.run, line.attempt.question_id, line.attempt.epoch)
        run, question = self._runs.get(attempt.run), self._asked.get(attempt.question_id)
        if run is None or question is None or not 0 <= attempt.epoch < run.epochs or key in self._seen:
            raise UserError(f"The bundle holds an attempt twice, or of a question or run that it has not: {key}.")
        self._seen.add(key)
        self._sums(attempt)
        place = f"{run.id}, {question.id}, epoch {attempt.epoch}"
        scores = [self._score(one, attempt, question, place) for one in line.scores]
        names = {one.scorer for one in line.scores}
        for name in self._scorers.setdefault(run.id, set()) - names:
            self._absent(name, attempt, question, place)
        for name in names - self._scorers[run.id]:
            self._scorers[run.id].add(name)
        return run.id, attempt, scores

    def _absent(self, name: str, attempt: Attempt, question: Question, place: str) -> None:
        """Name a score that is not there, where its scorer scores such answers unasked."""
        scorer = described(name)
        if question.id in self._withheld or not scorer.computes or scorer.needs or attempt.status != "completed":
            return
        if scores_by_default(scorer, question):
            self._found.differs(f"{place}: its score by {name} is not there")

    def _score(self, stated: Score, attempt: Attempt, question: Question, place: str) -> Score:
        name = stated.scorer
        self.codes.setdefault(name, set()).add(stated.code)
        scorer = described(name)
        made: Score | None = None
        if isinstance(scorer, JudgedScorer):
            made = self._judged(stated, scorer, attempt, question, place)
        elif not scorer.computes or scorer.needs:
            self._lacks_score(name, f"scores by {name}, which is not here, or needs {scorer.needs or 'its package'}")
        elif question.id in self._withheld:
            self._lacks_score(name, f"scores by {name} of answers whose questions are withheld: --benchmark FILE")
        else:
            made = score_by(known_scorer(name), attempt, question, self._golds[question.id])
        if made is None:
            return stated
        same = _close(made.value, stated.value) and made.answer_status == stated.answer_status
        same = same and (stated.question_id, stated.epoch) == (attempt.question_id, attempt.epoch)
        if not same or made.prediction != stated.prediction:
            said = f"{stated.value} {stated.answer_status} {stated.prediction!r} is stated"
            self._found.differs(
                f"{place}, {name}: {said}, the answer gives {made.value} {made.answer_status} {made.prediction!r}"
            )
        return made

    def _judged(
        self, stated: Score, scorer: JudgedScorer, attempt: Attempt, question: Question, place: str
    ) -> Score | None:
        method, judges = find_method(scorer.judging), self._named.get(attempt.run, [])
        if question.id in self._withheld:
            self._lacks_score(stated.scorer, "judged scores whose questions are withheld: --benchmark FILE")
        elif not isinstance(method, LabelMethod) or len(judges) > 1 or "[" in stated.scorer:
            self._lacks_score(stated.scorer, f"scores by {stated.scorer}: of a panel, or by more than replies")
        elif stated.value is not None or not judges:
            made = self._judge(method, judges[0]).judge(attempt, question, self._golds[question.id]) if judges else None
            if made is not None:
                mine = (one for one in made.scores if one.scorer == stated.scorer)
                return next((replace(one, code=stated.code) for one in mine), None)
            who = judges[0] if judges else "a judge"
            self._found.differs(f"{place}, {stated.scorer}: no recorded reply of {who} is to this answer")
        return None

    def _judge(self, method: LabelMethod, name: str) -> RecordedJudge:
        replies = self._replies
        held = SimpleNamespace(call=lambda key, _, kind: (None, replies[key]) if key in replies else None)
        made = self._judges.setdefault(name, {})
        if method.name not in made:
            made[method.name] = RecordedJudge(cast("Store", held), LabelJudge(method), name)
        return made[method.name]

    def _lacks_score(self, scorer: str, why: str) -> None:
        self._found.lacks(why)
        self._found.scorers.add(scorer)

    def _sums(self, attempt: Attempt) -> None:
        """Set what an attempt cost and used beside the sums of its calls."""
        place = f"{attempt.run}, {attempt.question_id}, epoch {attempt.epoch}"
        calls = [event.call for event in attempt.events if isinstance(event, Called)]
        if not calls:
            if attempt.cost_uncached or attempt.cost_paid:
                self._found.costs = True
                self._found.lacks("costs of attempts whose calls are not recorded")
            return
        for call in calls:
            self._cost(call, place)
        sums = sums_of([msgspec.to_builtins(call) for call in calls], attempt.usage is None)
        for name, value in sums.items():
            if not _close(getattr(attempt, name), value):
                self._found.differs(f"{place}, {name}: {getattr(attempt, name)} is stated, its calls sum to {value}")
        counted = [one for one in calls if one.kind == "model" and not one.error and one.role not in TOKENS_APART]
        used = [one.usage for one in counted]
        total = sum((one for one in used if one is not None), Usage())
        if attempt.usage is not None and None not in used and total != attempt.usage and attempt.unrecorded == 0:
            self._found.differs(f"{place}, tokens: {attempt.usage} is stated, its calls sum to {total}")

    def _cost(self, call: Any, place: str) -> None:
        """Set what a call cost beside its tokens at the price of its model."""
        if call.error or call.cost_uncached is None:
            return
        price = self._prices.price(msgspec.to_builtins(call))
        listed = call.actor.partition("[")[0] not in self._basis.prices
        if price is None or (listed and call.kind == "model" and self._basis.price_list != price_list()):
            if call.cost_uncached:
                self._found.costs = True
                self._found.lacks(f"costs of calls of {call.actor[:100]}, whose price is not in the bundle")
        elif not _close(price, call.cost_uncached):
            self._found.differs(f"{place}: a call of {call.actor} cost {call.cost_uncached}, its tokens cost {price}")

    def write(self, batch: dict[str, list[tuple[Attempt, list[Score]]]]) -> None:
        """Write what is held."""
        for run, made in batch.items():
            scores = [score for _, of in made for score in of]
            self._store.add_attempts(self._runs[run], [attempt for attempt, _ in made], scores)
        batch.clear()

    def conclude(self) -> None:
        """Say which scorers are of another version."""
        for name, codes in self.codes.items():
            if codes - {""} - _codes_now(name):
                self._found.notes.append(f"The scores by {name} were made by another version of its code or prompt.")


def _codes_now(name: str) -> set[str]:
    scorer = described(name)
    if isinstance(scorer, JudgedScorer):
        method = find_method(scorer.judging)
        return {judge_code(method), judge_code(method, panel=True)}
    return {scorer_code(scorer)} if scorer.computes else set()


@cache
def price_list() -> str:
    """Return the version of the list of providers' prices, which is read from the package's metadata once."""
    return version("genai-prices")


def _close(one: Any, two: Any) -> bool:
    if isinstance(one, int | float) and isinstance(two, int | float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-12)
    return bool(one == two)


def _set_beside(stated: Statement, made: Statement, found: Derivation) -> None:
    """Set everything that a statement holds beside what was derived: figures, their text, claims, digests."""
    mine, theirs = (flat(replace(one, predicate=replace(one.predicate, harness={}))) for one in (made, stated))
    for place in dict.fromkeys((*theirs, *mine)):
        value, derived = theirs.get(place, "nothing"), mine.get(place, "nothing")
        place = place.removeprefix("predicate.").removeprefix("ragrounds.")
        figure, place = place.startswith("figures."), place.removeprefix("figures.")
        number = figure and isinstance(value, int | float) and not isinstance(value, bool)
        found.figures += number
        found.printed += place.startswith("printed.") and value != "nothing"
        of_costs = found.costs and figure and (".frontier." in place or "cost" in place.rpartition(".")[2])
        if of_costs or any(place.startswith((f"tables.{name}.", f"claims.{name} of ")) for name in found.scorers):
            found.lacks("figures that rest on these", number)
        elif _close(value, derived):
            found.derived += number
        else:
            found.differs(f"{place}: {value} is stated, the attempts give {derived}")


def make_bundle(
    path: Path,
    store: Store,
    runs: Sequence[Run],
    names: Mapping[str, str],
    free: Collection[str],
    seed: int,
    prices: Mapping[str, Price],
    printed: Printed,
) -> None:
    """Write the bundle of some runs on the same questions, whose figures are those that its own records give.

    Args:
        path: the file.
        store: where the runs are.
        runs: in the order of their table.
        names: run id → what it is called.
        free: the datasets whose texts are shown.
        seed: of every bootstrap.
        prices: the user's.
        printed: the figures of a comparison as tables print them.

    Raises:
        UserError: the store's scores or costs are not those that its answers and calls give.
    """
    asked = {str(text).partition("[")[0] for run in runs for text in run.identity.get("models", {}).values()}
    asked |= {text.partition("[")[0] for run in runs for text in store.judges(run)}
    own = {name: price for name, price in sorted(prices.items()) if name in asked}
    basis = Basis(merkle_root="", records=0, seed=seed, prices=own, price_list=price_list())
    rows = path.with_name(f"{path.name}.part")
    with rows.open("wb") as file:
        file.writelines(records_of(store, runs, names, free))
    try:
        with rows.open("rb") as file:
            seal = seal_of(file)
        found, decoder = Derivation(), msgspec.json.Decoder(Line)
        with rows.open("rb") as file:
            derive(enumerate(map(decoder.decode, file), 2), basis, seal, found, texts_of(*store.questions(runs[0])))
        if found.differing or found.statement is None or found.comparison is None:
            raise UserError(f"No bundle was written: {found.differing[0]}. `ragrounds doctor --store` looks at all.")
        write_bundle(path, with_printed(found.statement, printed(found.comparison)), rows)
    finally:
        rows.unlink()
