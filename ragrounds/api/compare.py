"""Stored runs against each other: figures with their intervals, claims, what it cost, analyses, the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast

from rich.console import Console

from ragrounds.api.aliases import names_of, with_agents
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.frames import LEDGER, Frame, Part, Row
from ragrounds.api.priced_today import priced_models
from ragrounds.api.results import Result
from ragrounds.api.workspace import (
    Progress,
    RunsGiven,
    chosen_settings,
    one_of,
    open_store,
    opened_runs,
    replaced,
    run_names,
    texts,
    user_prices,
)
from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import AnalysisOptions, AnalysisResult, find_analysis
from ragrounds.evals.compare.assertions import ClaimVerdict, ConditionAgainst, check_claims, questions_against
from ragrounds.evals.compare.claims import Decision, all_hold
from ragrounds.evals.compare.comparison import compare as compare_runs
from ragrounds.evals.compare.figures import Figure, PairChoice
from ragrounds.evals.compare.frontier import CostMeasure, cost_measure
from ragrounds.evals.judges.labels import people_labels
from ragrounds.evals.scorers import scorer_name
from ragrounds.evals.store.ledger import Ledger, LedgerKey, LedgerLine, Unfinished
from ragrounds.evals.store.ledger import ledger as ledger_of
from ragrounds.evals.store.repricing import PriceBook, RepricedModel
from ragrounds.evals.store.repricing import reprice as apply_prices
from ragrounds.records import Run
from ragrounds.settings import Settings
from ragrounds.tools.collection import collection_sizes
from ragrounds.ui.analysis_tables import print_analysis, with_names
from ragrounds.ui.columns import Column
from ragrounds.ui.comparison_tables import print_comparison
from ragrounds.ui.plot import PictureMaker
from ragrounds.ui.report.page import report_page
from ragrounds.ui.run_tables import ledger_table
from ragrounds.ui.tables import print_table
from ragrounds.ui.text import dollars, number_of

_COSTS = {"uncached": "cost_uncached", "paid": "cost_paid"}


class CompareResult(ComparisonResult, frozen=True, kw_only=True):
    """A comparison, and the claims that were checked on it."""

    claims: tuple[ClaimVerdict, ...]
    against: tuple[ConditionAgainst, ...] = ()
    """Where claims do not hold: the questions that speak against them."""
    scorers: tuple[str, ...] = ()
    """The scorers that were asked for; none: the headline's and those beside it."""

    def by_scorer(self) -> str:
        """The first scorer that was asked for."""
        return self.scorers[0] if self.scorers else ""

    @property
    def decision(self) -> Decision:
        """Whether all claims hold: ``fails`` where one fails, ``cannot tell`` where one cannot be told."""
        return all_hold([claim.decision for claim in self.claims])

    def draw(self, console: Console) -> None:
        """Print the tables, and cost against accuracy."""
        print_comparison(self.comparison, self.scorers, console, frontier=True)


class LedgerView(Result, frozen=True, kw_only=True):
    """What runs cost, and what is not in these sums yet."""

    ledger: Ledger
    unfinished: Unfinished
    """Recorded calls of attempts that were broken off."""
    place: str
    """Where the store is."""
    repriced: tuple[RepricedModel, ...] = ()
    """What prices given later have changed, by model."""
    priced_today: tuple[str, ...] = ()
    """Models with calls of unknown price here, and a price in ``prices.toml``: `reprice` applies it."""

    def draw(self, console: Console) -> None:
        """Print a line for each part, and their sum."""
        if not self.ledger.total.calls:
            console.print(f"No calls yet in {self.place}.", markup=False)
            return
        print_table(ledger_table(self.ledger), console)

    def brief(self) -> str:
        """Calls and dollars."""
        total = self.ledger.total
        paid, uncached = dollars(total.cost_paid), dollars(total.cost_uncached)
        return f"{number_of(total.calls, 'call')}, {paid} paid, {uncached} uncached"

    def own_frames(self) -> tuple[Frame, ...]:
        """The lines."""
        return (LEDGER,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """The lines as rows."""
        yield iter([[self._row(line) for line in self.ledger.lines]])

    def _row(self, line: LedgerLine) -> Row:
        return LEDGER.cells(
            line, **{name: None for name in ("run", "role", "node", "model") if name not in self.ledger.by}
        )


class AnalysedRuns(Result, frozen=True, kw_only=True):
    """What an analysis found in runs."""

    result: AnalysisResult
    names: Mapping[str, str] = MappingProxyType({})
    """A run's id, or an agent's text → what it is called."""

    @property
    def shown(self) -> AnalysisResult:
        """The result as it is drawn: with the systems' names."""
        return with_names(self.result, self.names)

    def draw(self, console: Console) -> None:
        """Print the table, its note, and the picture."""
        print_analysis(self.shown, console)

    def brief(self) -> str:
        """The table's title."""
        return self.result.table.title

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """The picture of the analysis."""
        return {self.result.name: PictureMaker(lambda: self.shown.picture)}

    def own_frames(self) -> tuple[Frame, ...]:
        """The table, with the columns of this analysis; a figure is followed by the ends of its interval."""
        table, columns = self.result.table, list[Column]()
        for place, name in enumerate(table.columns):
            cells = [row[place] for row in table.rows]
            words = any(isinstance(cell, str) for cell in cells)
            columns.append(Column(name, type="text" if words else "real"))
            if any(isinstance(cell, Figure) for cell in cells):
                columns += [Column(f"{name} {end}", type="real") for end in ("low", "high")]
        return (Frame(self.result.name, "as this analysis has it", tuple(columns)),)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """The rows of the table."""
        rows: Part = []
        for row in self.result.table.rows:
            named: dict[str, object] = {}
            for name, cell in zip(self.result.table.columns, row, strict=True):
                if isinstance(cell, Figure):
                    named |= {name: cell.value, f"{name} low": cell.low, f"{name} high": cell.high}
                else:
                    named[name] = cell
            kinds = {column.name: column.type for column in frame.columns}
            rows.append(
                tuple(
                    None if named.get(name) is None else str(named[name]) if kinds[name] == "text" else named[name]
                    for name in frame.names
                )
            )
        yield iter([rows])


def compare(
    runs: RunsGiven,
    *,
    scorers: str | Sequence[str] = (),
    common: bool = False,
    group_by: str | Sequence[str] = (),
    cost: str = "auto",
    claims: str | Sequence[str] = (),
    baseline: str | None = None,
    top: int | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    seed: int = 0,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> CompareResult:
    """Compare stored runs: accuracy with intervals, paired differences with their tests, the cost-accuracy frontier.

        rr.compare(["direct", "vanilla_rag[top_k=8]"], group_by="subject").to_pandas("pairs")

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        scorers: by these; none: the headline's and those beside it.
        common: compare on the questions that all have, where they differ.
        group_by: also tables by these (a dataset, a field of the metadata).
        cost: what the frontier counts: uncached, paid, tokens, calls, seconds or auto.
        claims: to be checked, by the first scorer.
        baseline: a run that each other run is set against; it is compared too where `runs` do not name it.
        top: set only the so many best runs under a scorer against each other. With neither, all pairs are tested, up
            to 300 (25 runs).
        names: what a run is called in tables and pictures: its id, the beginning of it, or its agent's text → a name.
            Others are called as the store keeps it, or by their agents.
        seed: of the bootstrap.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown run, scorer, cost or claim; runs that cannot be compared; more pairs than are tested.
    """
    measure, wanted, chosen = frontier_measure(cost), texts(scorers), chosen_settings(settings, home)
    with opened_runs(_some(runs, baseline), chosen) as (store, found):
        found, pairs = _paired(found, baseline, top)
        comparison = compare_runs(
            store,
            found,
            scorers=wanted,
            common=common,
            seed=seed,
            cost=measure,
            group_by=texts(group_by),
            pairs=pairs,
            names=names_of(store, found, names),
        )
        asked = texts(claims)
        first = wanted[0] if wanted else None
        checked = check_claims(store, found, asked, scorer=first, common=common, seed=seed) if asked else []
        against = questions_against(store, found, checked)
    return CompareResult(settings=chosen, comparison=comparison, claims=tuple(checked), against=against, scorers=wanted)


def _some(runs: RunsGiven, baseline: str | None) -> list[str]:
    """The names of runs, the baseline's last.

    Raises:
        UserError: there is none.
    """
    names = run_names(runs)
    if not names:
        raise UserError("No run was named; see `ragrounds runs ls`, or rr.runs().")
    return [*names, baseline] if baseline else names


def _paired(runs: Sequence[Run], baseline: str | None, top: int | None) -> tuple[list[Run], PairChoice]:
    """The runs, with the baseline (the last of these) once, and which of them are set against which."""
    if not baseline:
        return list(runs), PairChoice(top=top, ask=True)
    *others, base = runs
    named = others if any(run.id == base.id for run in others) else [base, *others]
    return named, PairChoice(baseline=base.id, top=top, ask=True)


def frontier_measure(name: str) -> CostMeasure | None:
    """What ``--cost`` means; ``None``: dollars uncached where they are known, else tokens.

    Raises:
        UserError: an unknown one.
    """
    return cost_measure(_COSTS.get(name, name))


def ledger(
    runs: RunsGiven = (),
    by: str | Sequence[str] = (),
    *,
    reprice: Literal["", "unknown", "all"] = "",
    prices: str | Sequence[str] = (),
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> LedgerView:
    """What runs cost, judging included: what was paid, and what it would cost with an empty journal.

        rr.ledger(by=["run", "role"]).to_pandas()

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs; none: all runs and arenas.
        by: what costs are split by: run, role, node, model; none: role, node and model.
        reprice: apply the prices of today to stored calls, and write what they cost: those without a known price
            (``unknown``), or ``all`` that have one today. Arenas are repriced where no runs are named.
        prices: of models, for this: ``openai:NAME[price_input=0.1,price_output=0.4]``, beside prices.toml.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown run or split; prices without `reprice`.
        StopRun: what is repriced cannot be written.
    """
    from ragrounds.evals.store.ledger import LEDGER_KEYS, unfinished

    keys = [cast("LedgerKey", one_of("--by", name, LEDGER_KEYS)) for name in texts(by)] or LEDGER_KEYS[1:]
    one_of("--reprice", reprice, ("", "unknown", "all"))
    if prices and not reprice:
        raise UserError("--price goes with --reprice, which applies it to stored calls.")
    names, chosen = run_names(runs), chosen_settings(settings, home)
    book = PriceBook.of(user_prices(chosen), texts(prices)) if reprice else PriceBook()
    with open_store(chosen) as store:
        found = store.named(names) if names else store.runs()
        found = list({run.id: run for run in found}.values())
        changed = apply_prices(store, found, book, every=reprice == "all", arenas=not names) if reprice else ()
        made = ledger_of(store, found, keys, arenas=not names)
        lacking = ledger_of(store, found, ["model"], arenas=not names).lines if made.total.unpriced else ()
        return LedgerView(
            ledger=made,
            unfinished=unfinished(store, found),
            place=store.place,
            repriced=changed,
            priced_today=() if reprice else priced_models(lacking, chosen),
        )


def analyse(
    name: str,
    runs: RunsGiven,
    *,
    scorer: str = "",
    k: int = 10,
    parameter: str = "top_k",
    sizes: Mapping[str, float] = MappingProxyType({}),
    corpus: Mapping[str, int] = MappingProxyType({}),
    names: Mapping[str, str] = MappingProxyType({}),
    seed: int = 0,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> AnalysedRuns:
    """Carry out one analysis of stored runs. No model is asked and nothing is searched again.

        rr.analyse("success", "vanilla_rag[top_k=8]", k=5)

    Args:
        name: of the analysis, or ``package.module:NAME`` of one's own.
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        scorer: whose scores are shown; empty: the headline's of the questions.
        k: how many passages count.
        parameter: of the agent, which was varied.
        sizes: model text → billions of parameters, where the name does not say it.
        corpus: source → its passages, for the corpus' own shares; of indexes that are here they are known.
        names: what runs are called in the table and the picture, as for :func:`compare`.
        seed: of the bootstrap.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown analysis or run; runs that lack what it needs.
    """
    analysis = find_analysis(name)  # an unknown one is said before the runs are looked for
    chosen = chosen_settings(settings, home)
    here = {**collection_sizes(chosen.home), **corpus}
    choices = AnalysisOptions(scorer=scorer_name(scorer), k=k, parameter=parameter, sizes=sizes, corpus=here, seed=seed)
    with opened_runs(runs, chosen) as (store, found):
        called = names_of(store, found, names)
        counted = Counter(run.agent for run in found)
        agents = {run.id: run.agent for run in found if counted[run.agent] == 1}
        return AnalysedRuns(result=analysis(store, found, choices), names={**agents, **with_agents(found, called)})


def report(
    runs: RunsGiven,
    out: str | Path = "report.html",
    *,
    title: str = "",
    scorers: str | Sequence[str] = (),
    common: bool = False,
    group_by: str | Sequence[str] = (),
    cost: str = "auto",
    analyses: str | Sequence[str] = (),
    labels: str | Path | None = None,
    baseline: str | None = None,
    top: int | None = None,
    names: Mapping[str, str] = MappingProxyType({}),
    attempts: bool = True,
    seed: int = 0,
    force: bool = False,
    progress: Progress | bool | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Path:
    """Write one self-contained HTML file about runs; gives its path.

        rr.report(rr.runs(), "report.html", force=True)

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        out: the file.
        title: of the page.
        scorers, common, group_by, cost, baseline, top, names, seed: as for :func:`compare`.
        analyses: names of analyses that stand in it.
        labels: people's labels of judged answers, as a CSV file.
        attempts: put every attempt with its steps into the file.
        force: write over a file that is there.
        progress: is told how many attempts are written; False: nothing is shown.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: as :func:`compare`; a file that is there, or cannot be read or written.
    """
    from ragrounds.api.progress import counted

    measure, wanted, path = frontier_measure(cost), texts(scorers), Path(out)
    human = people_labels(labels) if labels else None
    chosen = chosen_settings(settings, home)
    named = _some(runs, baseline)
    with opened_runs(named, chosen) as (store, given), replaced(path, force) as file, counted(progress) as tell:
        found, pairs = _paired(given, baseline, top)
        comparison = compare_runs(
            store,
            found,
            scorers=wanted,
            common=common,
            seed=seed,
            cost=measure,
            group_by=texts(group_by),
            pairs=pairs,
            names=names_of(store, found, names),
        )
        for part in report_page(
            store,
            found,
            comparison,
            title=title,
            scorers=wanted,
            attempts=attempts,
            analyses=texts(analyses),
            human=human,
            seed=seed,
            on_progress=lambda done: tell("attempts", done),
        ):
            file.write(part.encode("utf-8", "replace"))
    return path
