"""Derive a bundle's figures again from its attempts.

Answers are scored, costs are summed, and the same comparison is made as by `ragrounds compare`. Differences, and
figures that could not be derived, are listed."""

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
from ragrounds.base.records import TOKENS_APART, Attempt, Called, Gold, Question, Reply, Run, Score
from ragrounds.base.spent import total_spent
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
"""Question and gold of each question digest."""
Printed = Callable[[Comparison], dict[str, str]]
_BATCH = 500
_MAX_DIFFERENCES = 20
"""Number of differences that are listed in full; further differences are counted."""


class Derivation(Struct, kw_only=True):
    """Result of deriving a bundle's figures again."""

    runs: list[str] = []
    attempts: int = 0
    figures: int = 0
    """Number of figures in the statement."""
    derived: int = 0
    """Number of these figures that the attempts gave again, digit by digit."""
    printed: int = 0
    """Number of printed figures in the statement."""
    differing: list[str] = []
    """First differences, in order."""
    more: int = 0
    """Number of further differences."""
    underived: dict[str, int] = {}
    """Number of figures, scores or costs that could not be derived, by reason."""
    notes: list[str] = []
    comparison: Comparison | None = None
    """Comparison that was derived."""
    statement: Statement | None = None
    scorers: set[str] = set()
    """Scorers whose figures depend on scores that could not be derived."""
    costs: bool = False
    """True if figures of costs depend on costs that could not be derived."""

    def differs(self, difference: str) -> None:
        """Record a difference."""
        if len(self.differing) < _MAX_DIFFERENCES:
            self.differing.append(difference)
        else:
            self.more += 1

    def lacks(self, subject: str, count: int = 1) -> None:
        """Record something that cannot be derived."""
        self.underived[subject] = self.underived.get(subject, 0) + count


def texts_of(questions: Iterable[Question], golds: Mapping[str, Gold]) -> Texts:
    """Return questions and golds by the digests of the questions."""
    return {question_digest(question): (question, golds[question.id]) for question in questions}


def verify_bundle(
    bundle: Bundle,
    printed: Printed,
    benchmark: Benchmark | None = None,
    report: Callable[[str, int], None] = lambda phase, done: None,
) -> Derivation:
    """Derive the figures of a bundle again, and list the differences.

    Args:
        bundle: of unknown origin.
        printed: returns the figures of a comparison as tables print them.
        benchmark: the bundle's benchmark: its texts replace digests, and every question is compared with it.
        report: called with the number of attempts that are derived.

    Raises:
        UserError: the bundle has values that no record can have.
    """
    derivation, statement = Derivation(), bundle.statement
    basis = statement.predicate.ragrounds
    if not bundle.is_intact:
        derivation.differs("the file is not what was written: the digest in its last line differs")
    texts = None if benchmark is None else texts_of(benchmark.questions, benchmark.golds)
    try:
        derive(bundle.records(), basis, bundle.seal, derivation, texts, benchmark, report)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, sa.exc.SQLAlchemyError) as error:
        raise UserError(f"{bundle.path} holds values that no run has ({str(error)[:200]}).") from error
    if derivation.statement is not None and derivation.comparison is not None:
        _compare_statements(statement, with_printed(derivation.statement, printed(derivation.comparison)), derivation)
    return derivation


def with_printed(statement: Statement, printed: dict[str, str]) -> Statement:
    """Return the statement with its figures as tables print them."""
    predicate = statement.predicate
    return replace(statement, predicate=replace(predicate, ragrounds=replace(predicate.ragrounds, printed=printed)))


def derive(
    records: Iterable[tuple[int, Line]],
    basis: Basis,
    seal: Seal,
    derivation: Derivation,
    texts: Texts | None,
    benchmark: Benchmark | None = None,
    report: Callable[[str, int], None] = lambda phase, done: None,
) -> None:
    """Derive a comparison and its statement from records, and store both in `derivation`."""
    lines = iter(records)
    runs, questions, judge_lines = list[RunLine](), list[QuestionLine](), list[JudgeLine]()
    first_attempt: list[AttemptLine] = []
    for _, line in lines:
        match line:
            case AttemptLine():
                first_attempt.append(line)
                break
            case RunLine():
                runs.append(line)
            case QuestionLine():
                questions.append(line)
            case JudgeLine():
                judge_lines.append(line)
    all_runs = [run_line.run for run_line in runs]
    check_runs(all_runs, questions)
    with tempfile.TemporaryDirectory(prefix="ragrounds-") as folder, Store(Path(folder)) as store:
        work = _BundleStore(store, all_runs, basis, derivation)
        work.questions(questions, texts, benchmark)
        work.open(runs, judge_lines)
        last_began, batch = 0.0, dict[str, list[tuple[Attempt, list[Score]]]]()
        for line in _attempts(first_attempt, lines):
            run, attempt, scores = work.attempt(line)
            last_began = max(last_began, attempt.at)
            batch.setdefault(run, []).append((attempt, scores))
            derivation.attempts += 1
            if derivation.attempts % _BATCH == 0:
                work.write(batch)
                report("attempts derived", derivation.attempts)
        work.write(batch)
        derivation.runs = [run.id for run in all_runs]
        names = {run_line.run.id: run_line.name for run_line in runs if run_line.name}
        try:
            derivation.comparison = compare(store, all_runs, seed=basis.seed, names=names, shared_scorers=True)
        except UserError as error:
            raise UserError(f"The attempts of the bundle cannot be compared: {error}") from error
        codes = {name: tuple(sorted(digests)) for name, digests in sorted(work.codes.items())}
        derived_basis = replace(basis, scorers=codes)
        derivation.statement = statement_of(all_runs, derivation.comparison, last_began, seal, derived_basis)
        work.conclude()


def _attempts(first: Sequence[AttemptLine], lines: Iterator[tuple[int, Line]]) -> Iterator[AttemptLine]:
    yield from first
    for number, line in lines:
        if not isinstance(line, AttemptLine):
            raise UserError(f"Line {number} of the bundle is among attempts, but is not an attempt.")
        yield line


class _BundleStore:
    """Temporary store made from a bundle's records, which collects the differences."""

    def __init__(self, store: Store, runs: Sequence[Run], basis: Basis, derivation: Derivation) -> None:
        self._store, self._basis, self._outcome = store, basis, derivation
        self._runs = {run.id: run for run in runs}
        self._questions: dict[str, Question] = {}
        self._golds: dict[str, Gold] = {}
        self._withheld: set[str] = set()
        self._seen: set[tuple[str, str, int]] = set()
        self._scorers_by_run: dict[str, set[str]] = {}
        """Scorers that the attempts of each run have scores by."""
        self._judges: dict[str, dict[str, RecordedJudge]] = {}
        self._replies: dict[str, Reply] = {}
        self._judges_by_run: dict[str, list[str]] = {}
        self._prices = Repricing(store, basis.prices)
        self.codes: dict[str, set[str]] = {}

    def questions(self, lines: Sequence[QuestionLine], texts: Texts | None, benchmark: Benchmark | None) -> None:
        """Load the questions; if their texts are withheld, take them from the benchmark."""
        complete, recluster_count = list[tuple[Question, Gold]](), 0
        for line in lines:
            question, gold = line.question, line.gold
            reference = texts.get(line.digest) if texts is not None else None
            if texts is not None and reference is None:
                self._outcome.differs(f"question {question.id}: not in the benchmark (another revision?)")
            elif reference is not None and gold_digest(reference[1]) != line.gold_digest:
                self._outcome.differs(f"question {question.id}: the right answer differs in the benchmark")
            recluster_count += reference is not None and hidden_cluster(reference[0], gold is None) != question.cluster
            if gold is None and reference is not None:
                question, gold = replace(reference[0], id=question.id, cluster=question.cluster), reference[1]
                complete.append(reference)
            elif gold is not None:
                complete.append((question, gold))
                if (question_digest(question), gold_digest(gold)) != (line.digest, line.gold_digest):
                    self._outcome.differs(f"question {question.id}: its digest differs")
            if gold is None:
                self._withheld.add(question.id)
            self._questions[question.id] = question
            self._golds[question.id] = replace(gold or Gold(question_id="", answer=""), question_id=question.id)
        if recluster_count:  # a cluster is named after its first question, which another selection may not include
            self._outcome.notes.append(
                f"{recluster_count:,} questions are in other clusters in the benchmark: intervals depend on them."
            )
        if len(complete) < len(lines):
            self._outcome.lacks("the hash of the questions, whose texts are withheld: --benchmark FILE")
            return
        stated_version = next(iter(self._runs.values())).questions
        golds = {question.id: gold for question, gold in complete}
        if content_version([question for question, _ in complete], golds) != stated_version:
            self._outcome.differs(
                f"questions: the runs are of the set {stated_version[:16]}…, and these are another set"
            )
        if benchmark is not None:
            self._check_selection(benchmark)

    def _check_selection(self, benchmark: Benchmark) -> None:
        """Check that the runs' own selection rule picks these questions from the benchmark."""
        for run in self._runs.values():
            selection = run.identity.get("selection")
            rule = msgspec.convert(selection, Selection) if selection else Selection(seed=0)
            ids = rule.ids or () if isinstance(rule.ids, tuple) else ()
            selected = select(benchmark, limit=rule.limit, per_dataset=rule.per_dataset, seed=rule.seed, ids=ids)
            if selected.version != run.questions:
                rule_text = f"seed {rule.seed}, limit {rule.limit}" if selection else "all"
                self._outcome.differs(
                    f"questions of {run.id}: {run.count:,}, and its rule ({rule_text}) draws {len(selected):,} others "
                    f"from {benchmark.name}"
                )

    def open(self, runs: Sequence[RunLine], judge_lines: Sequence[JudgeLine]) -> None:
        """Add the runs and the judges' calls and replies to the store."""
        for run_line in runs:
            run = run_line.run
            if run.origin == "replayed" and fingerprint(run.identity) != run.fingerprint:
                self._outcome.differs(f"run {run.id}: its fingerprint is not that of what made it")
            if run.identity.get("questions", run.questions) != run.questions:
                self._outcome.differs(f"run {run.id}: what made it names other questions")
            self._store.add_run(run, list(self._questions.values()), self._golds)
            for claim, seed, body in run_line.stops:
                self._store.write_stop([run.id], claim, int(seed), body)
        for line in judge_lines:
            if line.run not in self._runs:
                raise UserError(f"The bundle holds a judge's call of a run that it has not: {line.run[:100]!r}.")
            self._check_cost(line.call, f"a judge's call of {line.run}")
            self._store.add_scores(self._runs[line.run], (), [line.call])
            if line.reply is not None:
                self._replies[line.call.key] = line.reply
                judges = self._judges_by_run.setdefault(line.run, [])
                judges += [] if line.call.actor in judges else [line.call.actor]

    def attempt(self, line: AttemptLine) -> tuple[str, Attempt, list[Score]]:
        """Check an attempt, and return its run id, the attempt and its derived scores."""
        attempt, key = line.attempt, (line.attempt.run, line.attempt.question_id, line.attempt.epoch)
        run, question = self._runs.get(attempt.run), self._questions.get(attempt.question_id)
        if run is None or question is None or not 0 <= attempt.epoch < run.epochs or key in self._seen:
            raise UserError(f"The bundle holds an attempt twice, or of a question or run that it has not: {key}.")
        self._seen.add(key)
        self._check_sums(attempt)
        location = f"{run.id}, {question.id}, epoch {attempt.epoch}"
        scores = [self._derive_score(score, attempt, question, location) for score in line.scores]
        names = {score.scorer for score in line.scores}
        for name in self._scorers_by_run.setdefault(run.id, set()) - names:
            self._check_missing_score(name, attempt, question, location)
        self._scorers_by_run[run.id] |= names
        return run.id, attempt, scores

    def _check_missing_score(self, name: str, attempt: Attempt, question: Question, location: str) -> None:
        """Record a difference if a scorer that scores such answers by default has no score here."""
        scorer = described(name)
        if question.id in self._withheld or not scorer.computes or scorer.needs or attempt.status != "completed":
            return
        if scores_by_default(scorer, question):
            self._outcome.differs(f"{location}: its score by {name} is not there")

    def _derive_score(self, stated: Score, attempt: Attempt, question: Question, location: str) -> Score:
        name = stated.scorer
        self.codes.setdefault(name, set()).add(stated.code)
        scorer = described(name)
        derived: Score | None = None
        if isinstance(scorer, JudgedScorer):
            derived = self._derive_judged_score(stated, scorer, attempt, question, location)
        elif not scorer.computes or scorer.needs:
            self._lacks_score(name, f"scores by {name}, which is not here, or needs {scorer.needs or 'its package'}")
        elif question.id in self._withheld:
            self._lacks_score(name, f"scores by {name} of answers whose questions are withheld: --benchmark FILE")
        else:
            derived = score_by(known_scorer(name), attempt, question, self._golds[question.id])
        if derived is None:
            return stated
        is_same = _close(derived.value, stated.value) and derived.answer_status == stated.answer_status
        is_same = is_same and (stated.question_id, stated.epoch) == (attempt.question_id, attempt.epoch)
        if not is_same or derived.prediction != stated.prediction:
            stated_text = f"{stated.value} {stated.answer_status} {stated.prediction!r} is stated"
            self._outcome.differs(
                f"{location}, {name}: {stated_text}, the answer gives {derived.value} {derived.answer_status} "
                f"{derived.prediction!r}"
            )
        return derived

    def _derive_judged_score(
        self, stated: Score, scorer: JudgedScorer, attempt: Attempt, question: Question, location: str
    ) -> Score | None:
        method, judges = find_method(scorer.judging), self._judges_by_run.get(attempt.run, [])
        if question.id in self._withheld:
            self._lacks_score(stated.scorer, "judged scores whose questions are withheld: --benchmark FILE")
        elif not isinstance(method, LabelMethod) or len(judges) > 1 or "[" in stated.scorer:
            self._lacks_score(stated.scorer, f"scores by {stated.scorer}: of a panel, or by more than replies")
        elif not judges:
            self._outcome.differs(f"{location}, {stated.scorer}: no recorded reply of a judge is to this answer")
        elif stated.value is not None:
            name, replies = judges[0], self._replies
            reply_store = SimpleNamespace(call=lambda key, _, kind: (None, replies[key]) if key in replies else None)
            judges_by_method = self._judges.setdefault(name, {})
            if method.name not in judges_by_method:
                judges_by_method[method.name] = RecordedJudge(cast("Store", reply_store), LabelJudge(method), name)
            recorded_judge = judges_by_method[method.name]
            judgement = recorded_judge.judge(attempt, question, self._golds[question.id])
            if judgement is not None:
                matching = (score for score in judgement.scores if score.scorer == stated.scorer)
                return next((replace(score, code=stated.code) for score in matching), None)
            self._outcome.differs(f"{location}, {stated.scorer}: no recorded reply of {judges[0]} is to this answer")
        return None

    def _lacks_score(self, scorer: str, reason: str) -> None:
        self._outcome.lacks(reason)
        self._outcome.scorers.add(scorer)

    def _check_sums(self, attempt: Attempt) -> None:
        """Compare the stated cost and usage of an attempt with the sums of its calls."""
        location = f"{attempt.run}, {attempt.question_id}, epoch {attempt.epoch}"
        calls = [event.call for event in attempt.events if isinstance(event, Called)]
        if not calls:
            if attempt.cost_uncached or attempt.cost_paid:
                self._outcome.costs = True
                self._outcome.lacks("costs of attempts whose calls are not recorded")
            return
        for call in calls:
            self._check_cost(call, location)
        sums = sums_of([msgspec.to_builtins(call) for call in calls], attempt.usage is None)
        for name, value in sums.items():
            if not _close(getattr(attempt, name), value):
                self._outcome.differs(
                    f"{location}, {name}: {getattr(attempt, name)} is stated, its calls sum to {value}"
                )
        model_calls = [
            call for call in calls if call.kind == "model" and call.is_counted and call.role not in TOKENS_APART
        ]
        total = total_spent(call.spent for call in model_calls).usage
        if attempt.replayable and None not in (attempt.usage, total) and total != attempt.usage:
            self._outcome.differs(f"{location}, tokens: {attempt.usage} is stated, its calls sum to {total}")

    def _check_cost(self, call: Any, location: str) -> None:
        """Compare the stated cost of a call with its tokens at the price of its model."""
        if call.error or call.cost_uncached is None:
            return
        price = self._prices.price(msgspec.to_builtins(call))
        listed = call.actor.partition("[")[0] not in self._basis.prices
        if price is None or (listed and call.kind == "model" and self._basis.price_list != price_list()):
            if call.cost_uncached:
                self._outcome.costs = True
                self._outcome.lacks(f"costs of calls of {call.actor[:100]}, whose price is not in the bundle")
        elif not _close(price, call.cost_uncached):
            self._outcome.differs(
                f"{location}: a call of {call.actor} cost {call.cost_uncached}, its tokens cost {price}"
            )

    def write(self, batch: dict[str, list[tuple[Attempt, list[Score]]]]) -> None:
        """Write the attempts of the batch to the store, and clear the batch."""
        for run, pairs in batch.items():
            scores = [score for _, attempt_scores in pairs for score in attempt_scores]
            self._store.add_attempts(self._runs[run], [attempt for attempt, _ in pairs], scores)
        batch.clear()

    def conclude(self) -> None:
        """Note the scorers whose scores were made by another version of their code or prompt."""
        for name, codes in self.codes.items():
            scorer, current_codes = described(name), {""}
            if isinstance(scorer, JudgedScorer):
                method = find_method(scorer.judging)
                current_codes |= {judge_code(method), judge_code(method, panel=True)}
            elif scorer.computes:
                current_codes.add(scorer_code(scorer))
            if codes - current_codes:
                self._outcome.notes.append(f"The scores by {name} were made by another version of its code or prompt.")


@cache
def price_list() -> str:
    """Return the version of the list of providers' prices, which is read from the package's metadata once."""
    return version("genai-prices")


def _close(first: Any, second: Any) -> bool:
    if isinstance(first, int | float) and isinstance(second, int | float):
        # Sums depend on the order of their terms in the last digits.
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return bool(first == second)


def _compare_statements(stated: Statement, derived: Statement, derivation: Derivation) -> None:
    """Compare everything in a statement with the derived one: figures, their text, claims, digests."""
    derived_values, stated_values = (
        flat(replace(statement, predicate=replace(statement.predicate, harness={}))) for statement in (derived, stated)
    )
    for path in dict.fromkeys((*stated_values, *derived_values)):
        value, derived_value = stated_values.get(path, "nothing"), derived_values.get(path, "nothing")
        path = path.removeprefix("predicate.").removeprefix("ragrounds.")
        is_figure, path = path.startswith("figures."), path.removeprefix("figures.")
        is_number = is_figure and isinstance(value, int | float) and not isinstance(value, bool)
        derivation.figures += is_number
        derivation.printed += path.startswith("printed.") and value != "nothing"
        depends_on_costs = (
            derivation.costs and is_figure and (".frontier." in path or "cost" in path.rpartition(".")[2])
        )
        if depends_on_costs or any(
            path.startswith((f"tables.{name}.", f"claims.{name} of ")) for name in derivation.scorers
        ):
            derivation.lacks("figures that depend on these", is_number)
        elif _close(value, derived_value):
            derivation.derived += is_number
        else:
            derivation.differs(f"{path}: {value} is stated, the attempts give {derived_value}")


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
    """Write the bundle of some runs on the same questions, with the figures that its own records give.

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
    called_models = {str(text).partition("[")[0] for run in runs for text in run.identity.get("models", {}).values()}
    called_models |= {text.partition("[")[0] for run in runs for text in store.judges(run)}
    used_prices = {name: price for name, price in sorted(prices.items()) if name in called_models}
    basis = Basis(merkle_root="", records=0, seed=seed, prices=used_prices, price_list=price_list())
    rows = path.with_name(f"{path.name}.part")
    with rows.open("wb") as file:
        file.writelines(records_of(store, runs, names, free))
    try:
        with rows.open("rb") as file:
            seal = seal_of(file)
        derivation, decoder = Derivation(), msgspec.json.Decoder(Line)
        with rows.open("rb") as file:
            derive(
                enumerate(map(decoder.decode, file), 2), basis, seal, derivation, texts_of(*store.questions(runs[0]))
            )
        if derivation.differing or derivation.statement is None or derivation.comparison is None:
            raise UserError(
                f"No bundle was written: {derivation.differing[0]}. `ragrounds doctor --store` looks at all."
            )
        write_bundle(path, with_printed(derivation.statement, printed(derivation.comparison)), rows)
    finally:
        rows.unlink()
