"""Comparison of runs: scores with intervals, outcomes, tokens, two ledgers, paired tests.

A comparison is a pure function of the store. Each scorer has its own table; two scorers are never averaged or compared.
`ragrounds.evals.compare.comparability` decides what runs can be compared on.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import COUNTED, OPEN, OUTCOMES, Attempt, AttemptCounts, Question, Run, Usage, outcome
from ragrounds.base.spent import Spent, known_sum, total_spent
from ragrounds.evals.compare.comparability import ComparisonSet, comparison_basis
from ragrounds.evals.compare.figures import (
    Figure,
    GroupTable,
    Pair,
    QuestionCost,
    RunPair,
    chosen_pairs,
    design,
    figure,
    group_table,
    holm_corrected,
    paired,
)
from ragrounds.evals.compare.frontier import CostMeasure, Frontier, ScoredRuns, frontiers
from ragrounds.evals.compare.question_values import QuestionValues, reading_notes
from ragrounds.evals.compare.server_noise import ServerNoise, concurrency_note, server_noise
from ragrounds.evals.compare.stopped_runs import StoppedRuns, StopRecord, early_stops
from ragrounds.evals.compare.strategy_steps import StrategyStep, strategy_steps
from ragrounds.evals.judges.gate import withheld_notes, withheld_reason
from ragrounds.evals.judges.recorded import JudgeFinder, ScoreJudges
from ragrounds.evals.judges.rescoring import missing_notes, stale_scores
from ragrounds.evals.scorers import Headline, described, scorer_name, typed_scorer
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.words import recall_words, unknown_words
from ragrounds.evals.stats.estimates import combined_mean
from ragrounds.evals.store.ledger import LedgerLine, judging_of
from ragrounds.evals.store.reads import changed_words
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.servers import missing_servers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.run_facts import (
    ReplyModels,
    live_words,
    not_recorded_words,
    noted_words,
    reply_models,
    said_of_models,
    unheard_words,
)

NoModel = Literal["", "extractive", "stand-in"]
"""Substitute that answered in place of a language model; empty if none is known."""
_STAND_IN = "stand-in"
_EXTRACTIVE = "baseline:"
_UNJUDGED = LedgerLine()
_ALIAS = re.compile(r"[\[,]alias=stand-in[,\]]")


class AttemptSums(AttemptCounts, frozen=True, kw_only=True):
    """Sums over attempts of a run, in comparisons and in lists of runs. A sum with an unknown part is ``None``."""

    statuses: Mapping[str, int]
    """Attempts by status; `not_run` counts those that are still missing."""
    usage: Usage | None = None
    """Tokens of all calls; ``None`` if the usage of some call is unknown."""
    cost_paid: float | None = None
    """Dollars actually spent."""
    cost_uncached: float | None = None
    """Dollars that the run would have cost with an empty journal."""
    seconds: float | None = None
    """Mean seconds of an attempt (:attr:`ragrounds.base.records.Attempt.seconds`)."""
    waited: float | None = None
    """Mean seconds that an attempt waited for servers (:attr:`ragrounds.base.records.Attempt.waited`)."""

    @property
    def made(self) -> int:
        """Attempts that have been made, whatever their outcome."""
        return sum(count for status, count in self.statuses.items() if status != "not_run")


class BilledSums(AttemptSums, frozen=True, kw_only=True):
    """Sums over attempts of a run, with what its judges took."""

    judging_calls: int = 0
    """Calls of the judges of the answers; not included in any other field."""
    cost_judging: float | None = 0.0
    """Dollars actually paid for judging; ``None`` if some cost is unknown."""


class RunTotals(BilledSums, frozen=True, kw_only=True):
    """Totals of a run other than its scores."""

    run: str
    agent: str
    created: float = 0.0
    """Seconds since 1970, when it began."""
    origin: str
    models: dict[str, str]
    corpus: str = ""
    """Versions of the searched corpora, joined by ``+``; empty if nothing was searched or the versions are unknown."""
    retriever: str = ""
    questions: int
    epochs: int
    answered_by: dict[str, dict[str, int]] = field(default_factory=dict)
    """Requested model → name given in replies → number of calls."""
    name: str = ""
    """Name of the run in tables; if empty, the agent's text is shown."""
    no_model: NoModel = ""
    """Substitute that answered in place of a language model; empty if none is known."""
    steps: tuple[StrategyStep, ...] = ()
    """Steps of its strategy, with the number of attempts in which each happened."""

    @property
    def left_out(self) -> bool:
        """True if missing attempts are in no mean: an import holds only the answers that were given."""
        return self.origin == "imported"


class RunFigures(Struct, frozen=True, kw_only=True):
    """A run's figures under one scorer."""

    run: str
    agent: str
    datasets: dict[str, Figure]
    overall: Figure
    """Unweighted mean over datasets (MIRAGE Section 3.1); for a single dataset, that dataset's figure."""
    cost: QuestionCost = QuestionCost()
    outcomes: dict[str, int]
    """Attempts by outcome: the answer status, or the status of an attempt that did not end well."""
    outcomes_by_part: dict[str, dict[str, int]] = {}
    """Outcomes for each kind of question and dataset, such as ``choice mirage/pubmedqa``."""
    judges: ScoreJudges | None = None
    """Judges that gave the verdicts; ``None`` if no judge was used or it is not recorded."""
    noise: str = ""
    """Share of verdicts that this judge changes when it is asked again, as text; empty if it was not probed."""
    withheld: bool = False
    """True if scores are withheld because the judge failed its probes."""


class ScorerTable(Struct, frozen=True, kw_only=True):
    """Figures, pairs and groups of all runs under one scorer."""

    scorer: str
    unit: str
    """Unit of the values. ``percent``: values are shares, shown times 100. Values in other units are shown as they
    are."""
    direction: str
    """Direction of better values: ``higher`` or ``lower``."""
    lines: tuple[RunFigures, ...]
    pairs: tuple[RunPair, ...]
    frontier: Frontier | None = None
    """Frontier of cost and score; ``None`` for a single run, if no run has a known cost, or if the score is not a
    percentage of which more is better."""
    groups: tuple[GroupTable, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """Runs compared with each other."""

    benchmark: str
    questions: int
    epochs: int
    rows: tuple[RunTotals, ...]
    tables: tuple[ScorerTable, ...]
    """Tables of every scorer that all runs have scores under, in the order of `headlines`, then by name."""
    headlines: tuple[Headline, ...] = ()
    """Tables to show: one headline scorer for each kind of question, the same for all runs, and its columns. If the
    user named scorers, only these."""
    notes: tuple[str, ...] = ()
    stopped: dict[str, StopRecord] = field(default_factory=dict)
    """Run id → claim that decided how many questions the run has."""
    noise: tuple[ServerNoise, ...] = ()
    """Noise of the servers, for runs whose last calls were repeated."""

    def shown_tables(self, scorers: Sequence[str] = ()) -> list[tuple[ScorerTable, list[ScorerTable]]]:
        """Return the tables to show, each with the tables whose overall figures are its additional columns.

        Args:
            scorers: scorers to show if they have a table, without columns; by default the headlines.
        """
        by_name = {table.scorer: table for table in self.tables}
        if scorers:
            return [(by_name[name], []) for name in map(typed_scorer, scorers) if name in by_name]
        return [(by_name[headline.scorer], [by_name[name] for name in headline.columns]) for headline in self.headlines]

    def headline_tables(self, scorers: Sequence[str] = ()) -> list[ScorerTable]:
        """Return the tables of :meth:`shown_tables` without their additional columns."""
        return [table for table, _ in self.shown_tables(scorers)]

    def outcomes(self, scorers: Sequence[str] = ()) -> dict[str, Counter[str]]:
        """Return the outcomes of attempts by run id, each attempt counted once.

        An attempt is counted by the headlines, or by another scorer if no headline applies to its question. If scorers
        are named, only these count.
        """
        tables = self.headline_tables(scorers)
        if not scorers:
            tables += [table for table in self.tables if table not in tables]
        by_run: dict[str, Counter[str]] = {}
        seen: set[tuple[str, str]] = set()
        for table in tables:
            for line in table.lines:
                for part, outcomes in line.outcomes_by_part.items():
                    if (line.run, part) not in seen:
                        seen.add((line.run, part))
                        by_run.setdefault(line.run, Counter()).update(outcomes)
        # Questions of a kind of which no run has a score yet are in no table; what did not end well there counts too.
        for row in () if scorers else self.rows:
            counts = by_run.setdefault(row.run, Counter())
            counts.update(
                {name: max(0, count - counts[name]) for name, count in row.statuses.items() if name in OUTCOMES}
            )
        return by_run


def compare(
    store: Store,
    runs: Sequence[Run],
    *,
    scorers: Sequence[str] = (),
    common: bool = False,
    seed: int = 0,
    cost: CostMeasure | None = None,
    group_by: Sequence[str] = (),
    baseline: str = "",
    names: Mapping[str, str] | None = None,
    shared_scorers: bool = False,
) -> Comparison:
    """Compare runs under the given scorers, by default all that the runs share.

    Args:
        store: store of the runs.
        runs: runs to compare, each once.
        scorers: named by the user, by name or import path; by default all that the runs have in common.
        common: compare on what all runs share, instead of refusing where they differ.
        seed: seed of every bootstrap.
        cost: cost measure of the frontier; by default uncached dollars if they are known, else tokens.
        group_by: properties of questions to group by.
        baseline: id of the run that all others are compared with; if empty, all pairs of runs are compared.
        names: run id → name of the run; ``None``: the names in the store.
        shared_scorers: leave out the scorers that some runs lack, with a note, instead of refusing.

    Raises:
        UserError: the runs differ in questions, epochs or scorers and `common` is not set; a scorer has no scores; a
            property is unknown.
    """
    if repetition := next((run for run in runs if run.origin == "repetition"), None):
        raise UserError(
            f"{repetition.id} repeats last calls of {repetition.identity['repetition']['run']}: the report of that run "
            "has the share of answers that changed."
        )
    if counterfactual := next((run for run in runs if run.origin == "counterfactual"), None):
        raise UserError(
            f"{counterfactual.id} is a counterfactual: it is read with the run that it changes. See `ragrounds analyse "
            f"evidence {counterfactual.identity['counterfactual']['run']}`."
        )
    pairs, pairs_note = chosen_pairs([run.id for run in runs], baseline)
    # Questions that a run was not asked because it stopped early by its own results are not wrong answers, so such
    # runs are compared on answered questions only.
    early = early_stops(store, runs)
    recall_words(store)  # scorers of users' files and of plugins that are gone keep the words of their columns
    scorer_names = [scorer_name(name) for name in scorers]
    basis = comparison_basis(store, runs, scorer_names, common, answered=bool(early), shared_scorers=shared_scorers)
    answered = reply_models(store, runs)
    names_by_run = kept_names(store.engine) if names is None else names
    judging_costs = judging_of(store, runs)
    rows = tuple(
        _totals(run, runs, basis, answered[run.id], names_by_run.get(run.id, ""), judging_costs.get(run.id, _UNJUDGED))
        for run in runs
    )
    stopped = StoppedRuns(store, runs, basis, early)
    notes = [*([pairs_note] if pairs_note else []), *basis.notes, *(stopped.notes if early else ())]
    notes += unknown_words(
        dict.fromkeys(name for headline in basis.headlines for name in (headline.scorer, *headline.columns))
    )
    notes += [
        f"{row.run} has no answer to {row.statuses['not_run']:,} questions; they are in no mean."
        if row.left_out
        else f"{row.run} has {row.statuses['not_run']:,} attempts still to be made; they count as not correct."
        for row in rows
        if row.statuses.get("not_run")
    ]
    notes += [f"{run.id} was {remark}." for run in runs for remark in said_of_models(store, run, answered[run.id])]
    for run in runs:
        notes += filter(None, [not_recorded_words(store, run), *noted_words(store, run), changed_words(store, run)])
    notes += [remark for run in runs if (remark := unheard_words(run, basis.summaries[run.id]))]
    notes += [stale.note for run in runs for stale in stale_scores(store, run) if stale.scorer in basis.scorers]
    notes += [note for run in runs for note in missing_notes(store, run)]
    notes += [
        f"The store has lost what {server} reported when it answered {run.id}: nothing shows whether another server "
        "answers by now. See `ragrounds doctor --store`."
        for run, server in missing_servers(store.engine, runs)
    ]
    notes += withheld_notes(runs, basis.scores)
    notes += reading_notes(runs, basis.scores, [headline.scorer for headline in basis.headlines])
    notes += [remark for run in runs if (remark := live_words(store, run))]
    notes += filter(None, [concurrency_note(runs)])
    # The tables add their notes to `notes`.
    tables = _Tables(runs, basis, stopped, seed, cost, group_by, pairs, notes, JudgeFinder(store)).all()
    headline = basis.headlines[0].scorer if basis.headlines else ""
    return Comparison(
        benchmark=runs[0].benchmark,
        questions=len(basis.questions),
        epochs=basis.epochs,
        rows=rows,
        tables=tables,
        headlines=basis.headlines,
        notes=tuple(notes),
        stopped=early,
        noise=server_noise(store, runs, basis.questions, headline, seed),
    )


def _totals(
    run: Run,
    runs: Sequence[Run],
    basis: ComparisonSet,
    replies_by_model: ReplyModels,
    name: str,
    judging: LedgerLine,
) -> RunTotals:
    return RunTotals(
        **attempt_sums(run, basis.summaries[run.id], len(basis.questions) * basis.epochs),
        run=run.id,
        agent=run.agent,
        created=run.created,
        origin=run.origin,
        models=dict(run.identity.get("models", {})),
        corpus=str(run.identity.get("corpus") or ""),
        retriever=str(run.identity.get("retriever") or ""),
        questions=len(basis.questions),
        epochs=basis.epochs,
        answered_by={model: dict(names) for model, names in replies_by_model.items()},
        name=name,
        no_model=no_model(run, runs),
        judging_calls=judging.model_calls,
        cost_judging=judging.cost_paid,
        steps=strategy_steps(run, basis.summaries[run.id]),
    )


def attempt_sums(run: Run, summaries: Sequence[Attempt], planned: int) -> dict[str, Any]:
    """Return the fields of :class:`AttemptSums` for attempts of a run.

    `planned` is their number when the run is finished.
    """
    statuses: Counter[str] = Counter(map(attrgetter("status"), summaries))
    if planned > len(summaries):
        statuses["not_run"] += planned - len(summaries)
    attempts = [attempt for attempt in summaries if attempt.status != "not_run"]
    waited = known_sum(map(attrgetter("waited"), attempts))
    spent = total_spent(map(attrgetter("spent"), attempts))
    spent = spent if statuses["completed"] else spent.without_answer
    return {
        "statuses": dict(statuses),
        "usage": spent.usage,
        "cost_paid": spent.cost_paid,
        "cost_uncached": spent.cost_uncached,
        "seconds": spent.seconds / len(attempts) if attempts and run.timed else None,
        "waited": waited / len(attempts) if attempts and waited is not None else None,
        **{name: sum(map(attrgetter(name), attempts)) for name in COUNTED},
    }


def question_cost(run: Run, summaries: Sequence[Attempt], questions: Sequence[Question]) -> QuestionCost:
    """Return the mean cost of those of the questions that the run was asked."""
    question_ids = {question.id for question in questions}
    attempts = [entry for entry in summaries if entry.status != "not_run" and entry.question_id in question_ids]
    is_answered = any(attempt.status == "completed" for attempt in attempts)
    by_question: defaultdict[str, list[Spent]] = defaultdict(list)
    for attempt in attempts:
        by_question[attempt.question_id].append(attempt.spent if is_answered else attempt.spent.without_answer)
    asked = [question for question in questions if question.id in by_question]

    def mean(cost: Callable[[Spent], float | None]) -> float | None:
        totals = [known_sum(map(cost, by_question[question.id])) for question in asked]
        means = [
            total / len(by_question[question.id])
            for question, total in zip(asked, totals, strict=True)
            if total is not None
        ]
        is_known = 0 < len(asked) == len(means)
        return combined_mean([means], [1.0], *design(asked), resamples=0).value if is_known else None

    return QuestionCost(
        dollars=mean(attrgetter("cost_uncached")),
        tokens=mean(attrgetter("tokens")),
        seconds=mean(attrgetter("seconds")) if run.timed else None,
        unanswered=sum(map(attrgetter("unanswered"), attempts)),
        questions=len(asked),
    )


def no_model(run: Run, compared_runs: Iterable[Run]) -> NoModel:
    """Return which substitute answered in a run in place of a language model.

    It is recognised by the names of the run's models and by what their servers reported. A user's system calls its
    server itself, so that the run has no report of it: one in `compared_runs` on the same server may have it.
    """
    models = run.identity.get("models")
    texts = [str(text) for text in models.values()] if isinstance(models, Mapping) else []
    if any(text.startswith(_EXTRACTIVE) for text in texts):
        return "extractive"
    is_stand_in_name = any(
        text.partition("[")[0].rpartition(":")[2] == _STAND_IN or _ALIAS.search(text) for text in texts
    )
    is_stand_in_server = any(
        facts.get("id") == _STAND_IN and (reporting_run is run or (server in texts and server not in run.servers))
        for reporting_run in (run, *compared_runs)
        for server, facts in reporting_run.servers.items()
    )
    return "stand-in" if is_stand_in_name or is_stand_in_server else ""


class _RunScores(Struct, frozen=True):
    """Scores of one run under one scorer, question by question."""

    values: QuestionValues
    unsettled: dict[str, float]
    """Question id → share of its attempts whose result is open: failed, capped, paused or not run."""
    outcomes_by_part: dict[str, Counter[str]]


@dataclass(frozen=True)
class _Tables:
    """Inputs of the tables of one comparison."""

    runs: Sequence[Run]
    basis: ComparisonSet
    stopped: StoppedRuns
    seed: int
    cost: CostMeasure | None
    group_by: Sequence[str]
    pairs: Sequence[Pair]
    notes: list[str]
    """Notes of the comparison; the tables append theirs."""
    judges: JudgeFinder

    def all(self) -> tuple[ScorerTable, ...]:
        """Return the table of every scorer.

        Scorers of the same questions share one bootstrap of their costs.

        Raises:
            UserError: the scorer of a ratio is not installed; a property to group by is unknown.
        """
        tables: list[ScorerTable] = []
        question_groups: list[tuple[list[Question], dict[str, ScoredRuns]]] = []
        for name in self.basis.scorers:
            scorer, questions = described(name), self.basis.questions_for(name)
            scored = {run.id: self._scores(run, name, questions) for run in self.runs}
            values = {run: run_scores.values for run, run_scores in scored.items()}
            tables.append(self._table(scorer, name, questions, scored, values))
            if len(self.runs) > 1 and scorer.unit == "percent" and scorer.direction == "higher":
                scored_runs = ScoredRuns(
                    values, {line.run: line.overall for line in tables[-1].lines}, scorer.accuracy or scorer.shares
                )
                if (
                    group := next(
                        (group for group_questions, group in question_groups if group_questions == questions), None
                    )
                ) is None:
                    question_groups.append((questions, {name: scored_runs}))
                else:
                    group[name] = scored_runs
        frontier_by_scorer: dict[str, Frontier] = {}
        for questions, group in question_groups:
            frontier_by_scorer |= frontiers(self.basis, self.runs, questions, group, measure=self.cost, seed=self.seed)
        return tuple(replace(table, frontier=frontier_by_scorer.get(table.scorer)) for table in tables)

    def _table(
        self,
        scorer: ScorerRecord,
        name: str,
        questions: Sequence[Question],
        scored: Mapping[str, _RunScores],
        values: Mapping[str, QuestionValues],
    ) -> ScorerTable:
        """Return the table of one scorer without its frontier."""
        unsettled = {run: run_scores.unsettled for run, run_scores in scored.items()}
        runs_by_id = {run.id: run for run in self.runs}
        return ScorerTable(
            scorer=name,
            unit=scorer.unit,
            direction=scorer.direction,
            lines=tuple(
                self._line(run, scored[run.id], questions, scorer, self.judges(run, name)) for run in self.runs
            ),
            pairs=self._pairs(scorer, name, questions, values) if self.pairs else (),
            groups=tuple(
                group_table(
                    group,
                    questions,
                    values,
                    unsettled,
                    lambda run, asked: question_cost(runs_by_id[run], self.basis.summaries[run], asked),
                    self.seed,
                    scorer,
                    self.basis.epochs,
                    self.stopped.concerns,
                    self.pairs,
                )
                for group in self.group_by
            ),
        )

    def _scores(self, run: Run, name: str, questions: Sequence[Question]) -> _RunScores:
        basis = self.basis
        status, answer_statuses = basis.status[run.id], basis.read[run.id].get(name, {})
        values, unscored = basis.values(name, run, questions)
        if unscored:
            self.notes.append(
                f"{run.id} has {unscored:,} {'answer' if unscored == 1 else 'answers'} without a score under {name}; "
                "no mean counts them. "
                f"`{described(name).command([run.id])}` scores them."
            )
        if (record := described(name)).clipped:
            mean = figure(questions, values, {}, 0, replace(record, clipped=False), resamples=0).value
            if mean is not None and not 0 <= mean <= 1:
                self.notes.append(
                    f"The mean of {run.id} under {name} is {100 * mean:.2f} and is shown clipped to 0 to 100, as "
                    "published: single scores may lie outside."
                )
        keys = [(question.id, epoch) for question in questions for epoch in range(basis.epochs)]
        parts = [f"{question.kind} {question.benchmark}" for question in questions for _ in range(basis.epochs)]
        attempt_statuses = [status.get(key, "not_run") for key in keys]
        by_part: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (part, attempt_status, answer_status), count in Counter(
            zip(parts, attempt_statuses, map(answer_statuses.get, keys), strict=True)
        ).items():
            by_part[part][outcome(attempt_status, answer_status)] += count
        open_counts = Counter(
            key[0] for key, attempt_status in zip(keys, attempt_statuses, strict=True) if attempt_status in OPEN
        )
        unsettled = {question.id: open_counts.get(question.id, 0) / basis.epochs for question in questions}
        return _RunScores(values, unsettled, dict(by_part))

    def _line(
        self,
        run: Run,
        scored: _RunScores,
        questions: Sequence[Question],
        scorer: ScorerRecord,
        judges: ScoreJudges | None,
    ) -> RunFigures:
        by_dataset: dict[str, list[Question]] = {}
        for question in questions:
            by_dataset.setdefault(question.benchmark, []).append(question)
        figures = {
            name: figure(dataset_questions, scored.values, scored.unsettled, self.seed, scorer, self.basis.epochs)
            for name, dataset_questions in by_dataset.items()
        }
        # With a single dataset, the overall figure is that dataset's.
        overall = next(iter(figures.values())) if len(figures) == 1 else None
        return RunFigures(
            run=run.id,
            agent=run.agent,
            datasets=figures,
            overall=overall or figure(questions, scored.values, scored.unsettled, self.seed, scorer, self.basis.epochs),
            cost=question_cost(run, self.basis.summaries[run.id], questions),
            outcomes=dict(sum(scored.outcomes_by_part.values(), Counter())),
            outcomes_by_part={part: dict(counts) for part, counts in scored.outcomes_by_part.items()},
            judges=judges,
            noise=self.judges.noise(run, scorer.name),
            withheld=bool(withheld_reason(self.basis.scores[run.id].get(scorer.name, ()))),
        )

    def _pairs(
        self,
        scorer: ScorerRecord,
        name: str,
        questions: Sequence[Question],
        values: Mapping[str, QuestionValues],
    ) -> tuple[RunPair, ...]:
        tests = {}
        for first, second in self.pairs:
            tests_of_pair = paired(questions, values[first], values[second], self.seed, scorer, self.basis.epochs)
            tests[first, second] = self.stopped.paired(tests_of_pair, name, first, second, values)
        corrected = holm_corrected(tests)
        return tuple(
            RunPair(first=first, second=second, tests=pair_tests, p_holm=corrected.get((first, second)))
            for (first, second), pair_tests in tests.items()
        )
