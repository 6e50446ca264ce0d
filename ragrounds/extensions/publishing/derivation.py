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
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.benchmarks.benchmark import Benchmark, Selection, content_version, select
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.judges.attempts import LabelJudge, judge_code
from ragrounds.evals.judges.methods import find_method
from ragrounds.evals.judges.recorded import RecordedJudge
from ragrounds.evals.scorers import described, known_scorer, score_by, scorer_code, scores_by_default
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store.care.repricing import Repricing, sums_of
from ragrounds.evals.store.journal import call_rows
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
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
    harness,
    records_of,
    seal_of,
    statement_of,
    write_bundle,
)
from ragrounds.extensions.publishing.consistency import Derivation, check_calls, check_clusters, check_run
from ragrounds.extensions.publishing.leaderboard import Ranking, rank
from ragrounds.extensions.publishing.published_traces import question_digest
from ragrounds.models.prices import Price

Texts = Mapping[str, tuple[Question, Gold]]
"""Question and gold of each question digest."""
Printed = Callable[[Comparison], dict[str, str]]
Inspect = Callable[[Store, Ranking, frozenset[str], Derivation], None]
"""Function that gets the derived ranking with its store, and the datasets whose texts the bundle shows."""
_BATCH = 500


def texts_of(questions: Iterable[Question], golds: Mapping[str, Gold]) -> Texts:
    """Return questions and golds by the digests of the questions."""
    return {question_digest(question): (question, golds[question.id]) for question in questions}


def verify_bundle(
    bundle: Bundle,
    printed: Printed,
    benchmark: Benchmark | None = None,
    report: Callable[[str, int], None] = lambda phase, done: None,
    inspect: Inspect | None = None,
) -> Derivation:
    """Derive the figures of a bundle again, and list the differences.

    Args:
        bundle: of unknown origin.
        printed: returns the figures of a comparison as tables print them.
        benchmark: the bundle's benchmark: its texts replace digests, and every question is compared with it.
        report: called with the number of attempts that are derived.
        inspect: compares pages with the ranking.

    Raises:
        UserError: the bundle has values that no record can have.
    """
    statement = bundle.statement
    derivation = Derivation(same_code=statement.predicate.harness == harness())
    basis = statement.predicate.ragrounds
    if not bundle.is_intact:
        derivation.differs("the file is not what was written: the digest in its last line differs")
    texts = None if benchmark is None else texts_of(benchmark.questions, benchmark.golds)
    try:
        derive(bundle.records(), basis, bundle.seal, derivation, texts, benchmark, report, inspect)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, sa.exc.SQLAlchemyError) as error:
        raise UserError(f"{bundle.path} holds values that no run has ({str(error)[:200]}).") from error
    if derivation.statement is not None and derivation.ranking is not None:
        derived = with_printed(derivation.statement, printed(derivation.ranking.comparison))
        _compare_statements(statement, derived, derivation)
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
    inspect: Inspect | None = None,
) -> None:
    """Derive a ranking and its statement from records, and store both in `derivation`."""
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
        ranked = rank(store, all_runs, seed=basis.seed, names=names)
        if not ranked.rankings:
            raise UserError(f"The attempts of the bundle cannot be compared: {ranked.left_out[0].why}")
        if ranked.left_out or len(ranked.rankings) > 1:
            derivation.differs("the runs: not all are in one ranking")
        derivation.ranking = ranking = ranked.rankings[0]
        codes = {name: tuple(sorted(digests)) for name, digests in sorted(work.codes.items())}
        derived_basis = replace(basis, scorers=codes)
        derivation.statement = statement_of(ranking, last_began, seal, derived_basis)
        work.conclude()
        if inspect is not None:
            inspect(store, ranking, frozenset(line.question.benchmark for line in questions if line.gold), derivation)


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
        self._judges_by_run: dict[str, list[str]] = {}
        self._prices = Repricing(store, basis.prices)
        self._completed: dict[str, list[tuple[Question, str]]] = {}
        """Question and location of the completed attempts of each run."""
        self._failed_calls = 0
        """Number of calls of models that used no token, since they failed."""
        self.codes: dict[str, set[str]] = {}

    def questions(self, lines: Sequence[QuestionLine], texts: Texts | None, benchmark: Benchmark | None) -> None:
        """Load the questions; if their texts are withheld, take them from the benchmark."""
        complete = dict[str, tuple[Question, Gold]]()
        for line in lines:
            question, gold = line.question, line.gold
            reference = texts.get(line.digest) if texts is not None else None
            if texts is not None and reference is None:
                self._outcome.differs(f"question {question.id}: not in the benchmark (another revision?)")
            elif reference is not None and gold_digest(reference[1]) != line.gold_digest:
                self._outcome.differs(f"question {question.id}: the right answer differs in the benchmark")
            if gold is None and reference is not None:
                question, gold = replace(reference[0], id=question.id, cluster=question.cluster), reference[1]
                complete[question.id] = reference
            elif gold is not None:
                complete[question.id] = question, gold
                if (question_digest(question), gold_digest(gold)) != (line.digest, line.gold_digest):
                    self._outcome.differs(f"question {question.id}: its digest differs")
            if gold is None:
                self._withheld.add(question.id)
            self._questions[question.id] = question
            self._golds[question.id] = replace(gold or Gold(question_id="", answer=""), question_id=question.id)
        check_clusters(
            self._questions, {id: question for id, (question, _) in complete.items()}, benchmark, self._outcome
        )
        if len(complete) < len(lines):
            self._outcome.lacks("the hash of the questions, whose texts are withheld: --benchmark FILE")
            return
        stated_version = next(iter(self._runs.values())).questions
        golds = {question.id: gold for question, gold in complete.values()}
        if content_version([question for question, _ in complete.values()], golds) != stated_version:
            self._outcome.differs(
                f"questions: the runs are of the set {stated_version[:16]}…, and these are another set"
            )
        if benchmark is not None:
            self._check_selection(benchmark)
        else:
            self._outcome.cannot_show(
                f"that these {len(lines):,} questions are those of the benchmark, or of the rule, that the runs name: "
                "--benchmark FILE"
            )

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
            check_run(run, run_line.name, self._outcome)
            self._store.add_run(run, list(self._questions.values()), self._golds)
            for claim, seed, body in run_line.stops:
                self._store.write_stop([run.id], claim, int(seed), body)
        for line in judge_lines:
            if line.run not in self._runs:
                raise UserError(f"The bundle holds a judge's call of a run that it has not: {line.run[:100]!r}.")
            self._check_cost(line.call, f"a judge's call of {line.run}")
            self._store.add_scores(self._runs[line.run], (), [line.call])
            if line.reply is not None:
                entry = Entry(key=line.call.key, kind="model", actor=line.call.actor, request=Request(messages=()))
                self._store.add_rows(call_rows(entry, line.reply, line.call.at, line.call.seconds, b""))
                judges = self._judges_by_run.setdefault(line.run, [])
                judges += [] if line.call.actor in judges else [line.call.actor]

    def attempt(self, line: AttemptLine) -> tuple[str, Attempt, list[Score]]:
        """Check an attempt, and return its run id, the attempt and its derived scores."""
        attempt, key = line.attempt, (line.attempt.run, line.attempt.question_id, line.attempt.epoch)
        run, question = self._runs.get(attempt.run), self._questions.get(attempt.question_id)
        if run is None or question is None or not 0 <= attempt.epoch < run.epochs or key in self._seen:
            raise UserError(f"The bundle holds an attempt twice, or of a question or run that it has not: {key}.")
        self._seen.add(key)
        location = f"{run.id}, {question.id}, epoch {attempt.epoch}"
        self._check_sums(attempt, run, location)
        scores = [self._derive_score(score, attempt, question, location) for score in line.scores]
        names = {score.scorer for score in line.scores}
        known = self._scorers_by_run.setdefault(run.id, set())
        completed = self._completed.setdefault(run.id, [])
        if attempt.status == "completed":
            for name in known - names:
                self._check_missing_score(name, question, location)
            completed.append((question, location))
        # Attempts before the first score by a scorer, which should have one too.
        for name in names - known:
            for earlier_question, earlier_location in completed:
                if earlier_location != location:
                    self._check_missing_score(name, earlier_question, earlier_location)
        known |= names
        return run.id, attempt, scores

    def _check_missing_score(self, name: str, question: Question, location: str) -> None:
        """Record a difference if a scorer that scores such answers by default has no score here."""
        scorer = described(name)
        if question.id in self._withheld or not scorer.computes or scorer.needs:
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
        elif not scorer.computes and self._runs[attempt.run].origin == "imported":
            pass  # the score that its file states
        elif not scorer.computes or scorer.needs:
            self._lacks_score(name, f"scores by {name}, which is not here, or needs {scorer.needs or 'its package'}")
        elif question.id in self._withheld:
            self._lacks_score(name, f"scores by {name} of answers whose questions are withheld: --benchmark FILE")
        else:
            derived = score_by(known_scorer(name), attempt, question, self._golds[question.id])
        if derived is None:
            return stated
        is_same = _close(derived.value, stated.value) and derived.answer_status == stated.answer_status
        is_same = is_same and (stated.question_id, stated.epoch) == attempt.key
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
            name, judges_by_method = judges[0], self._judges.setdefault(judges[0], {})
            if method.name not in judges_by_method:
                judges_by_method[method.name] = RecordedJudge(self._store, LabelJudge(method), name)
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

    def _check_sums(self, attempt: Attempt, run: Run, location: str) -> None:
        """Compare what an attempt states with its calls, and the costs of these with their prices."""
        recorded = list(calls(attempt.events))
        check_calls(run, attempt, recorded, location, self._outcome)
        if not recorded:
            if (attempt.cost_uncached or attempt.cost_paid) and run.origin != "imported":
                self._outcome.costs = True
                self._outcome.lacks("costs of attempts whose calls are not recorded")
            return
        self._failed_calls += sum(call.kind == "model" and not call.is_counted for call in recorded)
        for call in recorded if run.origin != "imported" else ():
            self._check_cost(call, location)
        sums = sums_of([msgspec.to_builtins(call) for call in recorded], attempt.usage is None)
        for name, value in sums.items():
            if not _close(getattr(attempt, name), value):
                self._outcome.differs(
                    f"{location}, {name}: {getattr(attempt, name)} is stated, its calls sum to {value}"
                )

    def _check_cost(self, call: Any, location: str) -> None:
        """Compare the stated cost of a call with its tokens at the price of its model."""
        if call.error or call.cost_uncached is None:
            return
        # The bundle has no recorded call, so none is looked for under the key.
        price = self._prices.price(msgspec.to_builtins(replace(call, key="")))
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
        """Note the scorers whose scores were made by another version of their code or prompt, and what is not shown."""
        cannot_show = self._outcome.cannot_show
        cannot_show("that no run, question, epoch or call was left out, and that no answer was written by hand")
        if self._failed_calls:
            cannot_show(f"what {self._failed_calls:,} calls used that are recorded as failed")
        if self._judges_by_run:
            cannot_show("that the judges replied as recorded")
        if self._basis.seed:
            cannot_show(f"that the seed of all intervals, {self._basis.seed}, was not chosen by their ends")
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
    """Compare everything in a statement with the derived one: figures, their text, claims, verdicts, digests.

    Between different versions, what only one of them computes is counted, and is no difference.
    """
    derived_values, stated_values = (
        flat(replace(statement, predicate=replace(statement.predicate, harness={}))) for statement in (derived, stated)
    )
    of_one_version = 0
    for path in dict.fromkeys((*stated_values, *derived_values)):
        if not derivation.same_code and not (path in stated_values and path in derived_values):
            of_one_version += 1
            continue
        value, derived_value = stated_values.get(path, "nothing"), derived_values.get(path, "nothing")
        path = path.removeprefix("predicate.").removeprefix("ragrounds.")
        is_figure, path = path.startswith("figures."), path.removeprefix("figures.")
        is_number = is_figure and isinstance(value, int | float) and not isinstance(value, bool)
        derivation.figures += is_number
        derivation.printed += path.startswith("printed.") and value != "nothing"
        last = path.rpartition(".")[2]
        depends_on_costs = derivation.costs and is_figure and (".frontier." in path or "cost" in last)
        depends_on_tokens = derivation.tokens and is_figure and ("usage." in path or ".cost." in path)
        if (
            depends_on_costs
            or depends_on_tokens
            or any(
                path.startswith((f"tables.{name}.", f"claims.{name} of ", f"findings.{name}."))
                for name in derivation.scorers
            )
        ):
            derivation.lacks("figures that depend on these", is_number)
        elif _close(value, derived_value):
            derivation.derived += is_number
        else:
            derivation.differs(f"{path}: {value} is stated, the attempts give {derived_value}")
    if of_one_version:
        derivation.notes.append(f"{of_one_version:,} values that only one of the two versions has are not compared.")


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
        if derivation.differing or derivation.statement is None or derivation.ranking is None:
            raise UserError(
                f"No bundle was written: {derivation.differing[0]}. `ragrounds doctor --store` looks at all."
            )
        write_bundle(path, with_printed(derivation.statement, printed(derivation.ranking.comparison)), rows)
    finally:
        rows.unlink()
