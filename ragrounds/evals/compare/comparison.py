"""Setting runs against each other: scores with intervals, outcomes, tokens, two ledgers, paired tests.

A pure function of the store. Each scorer has its own table; two scorers are never averaged or compared. What runs may
be compared on is decided in `ragrounds.evals.compare.comparability`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import COUNTED, OPEN, OUTCOMES, Question, Run, Usage, outcome
from ragrounds.evals.compare.comparability import ComparisonBasis, comparison_basis
from ragrounds.evals.compare.figures import (
    Figure,
    GroupTable,
    Pair,
    RunPair,
    chosen_pairs,
    figure,
    group_table,
    holm_corrected,
    paired,
)
from ragrounds.evals.compare.frontier import CostMeasure, Frontier, ScoredRuns, frontiers
from ragrounds.evals.compare.question_values import QuestionValues, reading_notes
from ragrounds.evals.compare.stopped_runs import StoppedRuns, StopRecord, early_stops
from ragrounds.evals.judges.gate import withheld_notes
from ragrounds.evals.judges.recorded import JudgeFinder, ScoreJudges
from ragrounds.evals.judges.rescoring import stale_scores
from ragrounds.evals.scorers import Headline, described, scorer_name, typed_scorer
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.words import recall_words, unknown_words
from ragrounds.evals.store.ledger import LedgerLine, judging_of
from ragrounds.evals.store.reads import changed_words
from ragrounds.evals.store.run_names import kept_names
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
"""What answered in place of a language model; empty: none of these is known to have."""
_STAND_IN = "stand-in"
_EXTRACTIVE = "baseline:"
_UNJUDGED = LedgerLine()
_ALIAS = re.compile(r"[\[,]alias=stand-in[,\]]")


class RunTotals(Struct, frozen=True, kw_only=True):
    """What a run came to, apart from its scores."""

    run: str
    agent: str
    origin: str
    models: dict[str, str]
    corpus: str = ""
    """The versions of what it searched, joined by ``+``; empty: it searched nothing, or this is not known."""
    retriever: str = ""
    questions: int
    epochs: int
    statuses: dict[str, int]
    """Attempts by status; `not_run` holds those that are still missing."""
    usage: Usage | None
    """Tokens in all; ``None``: some call's usage is unknown."""
    cost_paid: float | None
    """Dollars really spent."""
    cost_uncached: float | None
    """Dollars uncached: as if nothing had been in the journal."""
    seconds: float | None
    """Mean wall-clock seconds of an attempt."""
    model_calls: int
    answered_by: dict[str, dict[str, int]] = {}
    """The model asked → the name that replies give → in how many calls."""
    name: str = ""
    """What the run is called; empty: by its agent's text."""
    no_model: NoModel = ""
    """What answered in place of a language model; empty: nothing that is known."""
    judging_calls: int = 0
    """Calls of the judges of its answers: in no other figure here."""
    cost_judging: float | None = 0.0
    """Dollars really paid for them; ``None``: not known of all."""
    searches: int = 0
    """Searches: in no other figure here."""
    tool_calls: int = 0
    """Uses of tools that do not search: in no other figure here."""
    unrecorded: int = 0
    """Calls of a foreign system that were seen and are in no journal: a replay cannot answer them."""
    unanswered: int = 0
    """Requests to models that got no answer that could be read: a provider may bill them, so costs are at least."""

    @property
    def made(self) -> int:
        """Attempts that were made."""
        return sum(count for status, count in self.statuses.items() if status != "not_run")

    @property
    def left_out(self) -> bool:
        """Whether what was not made is in no mean: an import holds the answers that were given, and no others."""
        return self.origin == "imported"


class RunFigures(Struct, frozen=True, kw_only=True):
    """A run's figures under one scorer."""

    run: str
    agent: str
    datasets: dict[str, Figure]
    overall: Figure
    """Unweighted mean over datasets (MIRAGE Section 3.1); of one dataset: that dataset's figure."""
    outcomes: dict[str, int]
    """Attempts by outcome: the answer status, or the status of an attempt that did not end well."""
    outcomes_by_part: dict[str, dict[str, int]] = {}
    """The same for each kind of question and dataset: ``choice mirage/pubmedqa``."""
    judges: ScoreJudges | None = None
    """Whose verdicts the scores rest on; ``None``: nobody's, or it is not kept."""
    noise: str = ""
    """How often this judge says another thing when it is asked again; empty: it was not probed."""


class ScorerTable(Struct, frozen=True, kw_only=True):
    """Everything under one scorer."""

    scorer: str
    unit: str
    """``percent``: values are shares, shown times 100. Any other unit: values are shown as they are."""
    direction: str
    """Which values are better: ``higher`` or ``lower``."""
    lines: tuple[RunFigures, ...]
    pairs: tuple[RunPair, ...]
    frontier: Frontier | None = None
    """``None`` of a single run, where no run has a known cost, or where more of the score is not what one pays for."""
    groups: tuple[GroupTable, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """Runs set against each other."""

    benchmark: str
    questions: int
    epochs: int
    rows: tuple[RunTotals, ...]
    tables: tuple[ScorerTable, ...]
    """Under every scorer that all runs have scores under, in the order of `headlines`, then by name."""
    headlines: tuple[Headline, ...] = ()
    """Which tables to show: one headline scorer for each kind of question, the same for all runs, and the scorers that
    stand beside it. Where scorers were named, these alone."""
    notes: tuple[str, ...] = ()
    stopped: dict[str, StopRecord] = field(default_factory=dict)
    """By run: the claim that decided how many questions it has."""

    def shown(self, scorers: Sequence[str] = ()) -> list[tuple[ScorerTable, list[ScorerTable]]]:
        """The tables to show, each with those whose overall figures stand beside it as columns.

        Args:
            scorers: a table for each of these that there is, with nothing beside it; by default the headlines.
        """
        by_name = {table.scorer: table for table in self.tables}
        if scorers:
            return [(by_name[name], []) for name in map(typed_scorer, scorers) if name in by_name]
        return [(by_name[one.scorer], [by_name[name] for name in one.columns]) for one in self.headlines]

    def outcomes(self, scorers: Sequence[str] = ()) -> dict[str, Counter[str]]:
        """Run id → how its attempts ended, each counted once: by the headlines, and by another scorer where these are
        not for a question. Where scorers are named, by these alone."""
        tables = [table for table, _ in self.shown(scorers)]
        if not scorers:
            tables += [table for table in self.tables if table not in tables]
        counted: dict[str, Counter[str]] = {}
        seen: set[tuple[str, str]] = set()
        for table in tables:
            for line in table.lines:
                for part, outcomes in line.outcomes_by_part.items():
                    if (line.run, part) not in seen:
                        seen.add((line.run, part))
                        counted.setdefault(line.run, Counter()).update(outcomes)
        # Questions of a kind of which no run has a score yet are in no table; what did not end well there counts too.
        for row in () if scorers else self.rows:
            found = counted.setdefault(row.run, Counter())
            found.update(
                {name: max(0, count - found[name]) for name, count in row.statuses.items() if name in OUTCOMES}
            )
        return counted


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
    """Compare runs, under the scorers named (by default all that they were scored by).

    Args:
        store: where they are.
        runs: each once.
        scorers: named by the user, by name or import path; by default all that the runs have in common.
        common: compare on what all runs share, instead of refusing where they differ.
        seed: of every bootstrap.
        cost: what the frontier counts; by default dollars uncached where they are known, else tokens.
        group_by: properties of questions to make tables by.
        baseline: a run (its id) that each other is set against; empty: each against each.
        names: run id → what it is called; ``None``: as the store keeps it.
        shared_scorers: leave out the scorers that some runs lack, with a note, instead of refusing.

    Raises:
        UserError: runs on different questions, epochs or scorers and `common`
            is not set; a scorer that nothing was scored by; an unknown property.
    """
    if changed := next((run for run in runs if run.origin == "counterfactual"), None):
        raise UserError(
            f"{changed.id} is a counterfactual: it is read with the run that it changes. See `ragrounds analyse "
            f"evidence {changed.identity['counterfactual']['run']}`."
        )
    # What a run that ended by its own results was not asked is not wrong: it was not to be asked.
    pairs, chosen = chosen_pairs([run.id for run in runs], baseline)
    early = early_stops(store, runs)
    recall_words(store)
    named = [scorer_name(name) for name in scorers]
    basis = comparison_basis(store, runs, named, common, answered=bool(early), shared_scorers=shared_scorers)
    answered = reply_models(store, runs)
    called = kept_names(store.engine) if names is None else names
    judged = judging_of(store, runs)
    rows = tuple(
        _totals(run, basis, answered[run.id], called.get(run.id, ""), judged.get(run.id, _UNJUDGED)) for run in runs
    )
    stopped = StoppedRuns(store, runs, basis, early)
    notes = [*([chosen] if chosen else []), *basis.notes, *(stopped.notes if early else ())]
    notes += unknown_words(dict.fromkeys(name for one in basis.headlines for name in (one.scorer, *one.columns)))
    notes += [
        f"{row.run} has no answer to {row.statuses['not_run']:,} questions; they are in no mean."
        if row.left_out
        else f"{row.run} has {row.statuses['not_run']:,} attempts still to be made; they count as not correct."
        for row in rows
        if row.statuses.get("not_run")
    ]
    notes += [f"{run.id} was {said}." for run in runs for said in said_of_models(store, run, answered[run.id])]
    for run in runs:
        notes += filter(None, [not_recorded_words(store, run), *noted_words(store, run), changed_words(store, run)])
    notes += [words for run in runs if (words := unheard_words(run, basis.summaries[run.id]))]
    notes += [one.note for run in runs for one in stale_scores(store, run) if one.scorer in basis.scorers]
    notes += withheld_notes(runs, basis.scores)
    notes += reading_notes(runs, basis.scores, [one.scorer for one in basis.headlines])
    notes += [words for run in runs if (words := live_words(store, run))]
    tables = _Tables(runs, basis, stopped, seed, cost, group_by, pairs, notes, JudgeFinder(store))
    return Comparison(
        benchmark=runs[0].benchmark,
        questions=len(basis.questions),
        epochs=basis.epochs,
        rows=rows,
        tables=tables.all(),
        headlines=basis.headlines,
        notes=tuple(notes),
        stopped=early,
    )


def _totals(run: Run, basis: ComparisonBasis, answered: ReplyModels, name: str, judging: LedgerLine) -> RunTotals:
    summaries = basis.summaries[run.id]
    statuses: Counter[str] = Counter(attempt.status for attempt in summaries)
    missing = len(basis.questions) * basis.epochs - len(summaries)
    if missing:
        statuses["not_run"] += missing
    made = [attempt for attempt in summaries if attempt.status != "not_run"]
    usages = [attempt.usage for attempt in made]
    return RunTotals(
        run=run.id,
        agent=run.agent,
        origin=run.origin,
        models=dict(run.identity.get("models", {})),
        corpus=str(run.identity.get("corpus") or ""),
        retriever=str(run.identity.get("retriever") or ""),
        questions=len(basis.questions),
        epochs=basis.epochs,
        statuses=dict(statuses),
        usage=None if None in usages else sum((usage for usage in usages if usage is not None), Usage()),
        cost_paid=_sum([attempt.cost_paid for attempt in made]),
        cost_uncached=_sum([attempt.cost_uncached for attempt in made]),
        seconds=fmean(attempt.seconds for attempt in made) if made and run.timed else None,
        answered_by={asked: dict(names) for asked, names in answered.items()},
        **{name: sum(getattr(attempt, name) for attempt in made) for name in COUNTED},
        name=name,
        no_model=no_model(run),
        judging_calls=judging.model_calls,
        cost_judging=judging.cost_paid,
    )


def no_model(run: Run) -> NoModel:
    """What answered in a run in place of a language model: by the names of its models and their servers' words."""
    models = run.identity.get("models")
    texts = [str(text) for text in models.values()] if isinstance(models, Mapping) else []
    if any(text.startswith(_EXTRACTIVE) for text in texts):
        return "extractive"
    named = any(text.partition("[")[0].rpartition(":")[2] == _STAND_IN or _ALIAS.search(text) for text in texts)
    told = any(facts.get("id") == _STAND_IN for facts in run.servers.values())
    return "stand-in" if named or told else ""


def kinds_of(found: Sequence[tuple[str, NoModel]]) -> dict[NoModel, tuple[str, ...]]:
    """What answered in place of a language model → the runs; empty where nothing did."""
    kinds: tuple[NoModel, ...] = ("extractive", "stand-in")
    every = {kind: tuple(run for run, one in found if one == kind) for kind in kinds}
    return {kind: runs for kind, runs in every.items() if runs}


def _sum(values: Sequence[float | None]) -> float | None:
    return None if None in values else math.fsum(value for value in values if value is not None)


class _RunScores(Struct, frozen=True):
    """One run under one scorer, question by question."""

    values: QuestionValues
    unsettled: dict[str, float]
    """Question id → share of its attempts whose result is open: failed, capped, paused or not run."""
    outcomes_by_part: dict[str, Counter[str]]


@dataclass(frozen=True)
class _Tables:
    """All that the tables of one comparison are made from."""

    runs: Sequence[Run]
    basis: ComparisonBasis
    stopped: StoppedRuns
    seed: int
    cost: CostMeasure | None
    group_by: Sequence[str]
    pairs: Sequence[Pair]
    notes: list[str]
    """Where the tables leave what a reader must know."""
    judges: JudgeFinder

    def all(self) -> tuple[ScorerTable, ...]:
        """The table of every scorer. Scorers of the same questions are placed by cost together.

        Raises:
            UserError: a scorer whose figure is a ratio and that is not here; an unknown property to group by.
        """
        made: list[ScorerTable] = []
        together: list[tuple[list[Question], dict[str, ScoredRuns]]] = []
        for name in self.basis.scorers:
            scorer, asked = described(name), self.basis.asked(name)
            scored = {run.id: self._scores(run, name, asked) for run in self.runs}
            values = {run: one.values for run, one in scored.items()}
            made.append(self._table(scorer, name, asked, scored, values))
            if len(self.runs) > 1 and scorer.unit == "percent" and scorer.direction == "higher":
                placed = ScoredRuns(
                    values, {line.run: line.overall for line in made[-1].lines}, scorer.accuracy or scorer.shares
                )
                if (group := next((group for known, group in together if known == asked), None)) is None:
                    together.append((asked, {name: placed}))
                else:
                    group[name] = placed
        found: dict[str, Frontier] = {}
        for asked, group in together:
            found |= frontiers(self.basis, self.runs, asked, group, measure=self.cost, seed=self.seed)
        return tuple(replace(table, frontier=found.get(table.scorer)) for table in made)

    def _table(
        self,
        scorer: ScorerRecord,
        name: str,
        asked: Sequence[Question],
        scored: Mapping[str, _RunScores],
        values: Mapping[str, QuestionValues],
    ) -> ScorerTable:
        """Everything under one scorer but what it costs."""
        unsettled = {run: one.unsettled for run, one in scored.items()}
        return ScorerTable(
            scorer=name,
            unit=scorer.unit,
            direction=scorer.direction,
            lines=tuple(self._line(run, scored[run.id], asked, scorer, self.judges(run, name)) for run in self.runs),
            pairs=self._pairs(scorer, name, asked, values) if self.pairs else (),
            groups=tuple(
                group_table(
                    by,
                    asked,
                    values,
                    unsettled,
                    self.seed,
                    scorer,
                    self.basis.epochs,
                    self.stopped.concerns,
                    self.pairs,
                )
                for by in self.group_by
            ),
        )

    def _scores(self, run: Run, name: str, asked: Sequence[Question]) -> _RunScores:
        basis = self.basis
        status, read = basis.status[run.id], basis.read[run.id].get(name, {})
        values, unscored = basis.values(name, run, asked)
        if unscored:
            self.notes.append(
                f"{run.id} has {unscored:,} {'answer' if unscored == 1 else 'answers'} without a score under {name}; "
                "no mean counts them. "
                f"`{described(name).command([run.id])}` scores them."
            )
        keys = [(question.id, epoch) for question in asked for epoch in range(basis.epochs)]
        parts = [f"{question.kind} {question.benchmark}" for question in asked for _ in range(basis.epochs)]
        ends = [status.get(key, "not_run") for key in keys]
        by_part: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for (part, ended, said), count in Counter(zip(parts, ends, map(read.get, keys), strict=True)).items():
            by_part[part][outcome(ended, said)] += count
        open_ = Counter(key[0] for key, ended in zip(keys, ends, strict=True) if ended in OPEN)
        unsettled = {question.id: open_.get(question.id, 0) / basis.epochs for question in asked}
        return _RunScores(values, unsettled, dict(by_part))

    def _line(
        self,
        run: Run,
        scored: _RunScores,
        asked: Sequence[Question],
        scorer: ScorerRecord,
        judges: ScoreJudges | None,
    ) -> RunFigures:
        by_dataset: dict[str, list[Question]] = {}
        for question in asked:
            by_dataset.setdefault(question.benchmark, []).append(question)
        figures = {
            name: figure(inside, scored.values, scored.unsettled, self.seed, scorer, self.basis.epochs)
            for name, inside in by_dataset.items()
        }
        # Of one dataset the overall figure is that dataset's.
        overall = next(iter(figures.values())) if len(figures) == 1 else None
        return RunFigures(
            run=run.id,
            agent=run.agent,
            datasets=figures,
            overall=overall or figure(asked, scored.values, scored.unsettled, self.seed, scorer, self.basis.epochs),
            outcomes=dict(sum(scored.outcomes_by_part.values(), Counter())),
            outcomes_by_part={part: dict(counts) for part, counts in scored.outcomes_by_part.items()},
            judges=judges,
            noise=self.judges.noise(run, scorer.name),
        )

    def _pairs(
        self,
        scorer: ScorerRecord,
        name: str,
        asked: Sequence[Question],
        values: Mapping[str, QuestionValues],
    ) -> tuple[RunPair, ...]:
        tests = {}
        for first, second in self.pairs:
            made = paired(asked, values[first], values[second], self.seed, scorer, self.basis.epochs)
            tests[first, second] = self.stopped.paired(made, name, first, second, values)
        corrected = holm_corrected(tests)
        return tuple(
            RunPair(first=first, second=second, tests=made, p_holm=corrected.get((first, second)))
            for (first, second), made in tests.items()
        )
