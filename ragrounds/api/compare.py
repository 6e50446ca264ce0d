"""Stored runs against each other: figures with their intervals, claims, what it cost, analyses, the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, cast
from urllib.parse import quote

from msgspec import Struct
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.aliases import names_of, with_agents
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.frames import LEDGER, Frame, Part, Row
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.workspace import (
    RunsGiven,
    chosen_settings,
    made_beside,
    one_of,
    open_store,
    opened_runs,
    run_names,
    texts,
    user_prices,
)
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.evals.analyses.analysis import AnalysisOptions, AnalysisResult, find_analysis
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.claims.claims import all_hold
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.compare.comparison import compare as compare_runs
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.frontier import CostMeasure, cost_measure
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, Decision
from ragrounds.evals.scorers import scorer_name
from ragrounds.evals.store.care.repricing import RepricedCalls, prices_of
from ragrounds.evals.store.care.repricing import reprice as apply_prices
from ragrounds.evals.store.ledger import LEDGER_KEYS, Ledger, LedgerKey, LedgerLine, Unfinished, unfinished
from ragrounds.evals.store.ledger import ledger as ledger_of
from ragrounds.evals.store.store import Store
from ragrounds.tools.index.collection import collection_sizes
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.report.page import report_page
from ragrounds.ui.tables.analysis_tables import analysis_table, print_analysis, with_names
from ragrounds.ui.tables.run_tables import ledger_table
from ragrounds.ui.tables.text_tables import print_table

MOST_SENT = 18_000_000
"""Bytes of a report that a mail of 25 MB still takes, a third of which is its encoding."""
_COSTS = {"full_price": "cost_uncached", "paid": "cost_paid"}


Severity = Annotated[
    str, Arg("Costs of wrong and missing answers: TOML, by subject, dataset or option (harm).", metavar="FILE")
]


class CompareResult(ComparisonResult, frozen=True, kw_only=True):
    """A comparison, and the claims that were checked on it."""

    claims: tuple[ClaimVerdict, ...]
    scorers: tuple[str, ...] = ()
    """The scorers that were asked for; none: the headline's and those beside it."""
    harm: AnalysisResult | None = None
    """What wrong and missing answers cost, where their costs were given."""

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the comparison, and what wrong and missing answers cost where their costs were given."""
        super().draw(console, full=full)
        if self.harm:
            print_table(analysis_table(self.harm.table), console)

    def by_scorers(self) -> tuple[str, ...]:
        """The scorers that were asked for."""
        return self.scorers

    @property
    def decision(self) -> Decision:
        """Whether all claims hold: ``fails`` where one fails, ``undecided`` where one is undecided."""
        return all_hold([claim.decision for claim in self.claims])


class LedgerView(Result, frozen=True, kw_only=True):
    """What runs cost, and what is not in these sums yet."""

    ledger: Ledger
    unfinished: Unfinished
    """Recorded calls of attempts that were broken off."""
    place: str
    """Where the store is."""
    repriced: RepricedCalls | None = None
    """What prices given later have changed; ``None``: none were."""

    def draw(self, console: Console) -> None:
        """Print a line for each part, and their sum."""
        if not self.ledger.lines:
            console.print(f"No calls yet in {self.place}.", markup=False)
            return
        print_table(ledger_table(self.ledger), console)

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


class _Compared(Struct, frozen=True, kw_only=True):
    """How runs are set against each other."""

    scorers: Annotated[
        str | Sequence[str],
        Arg("A scorer (repeatable). [default: the headline and others]", option="--scorer", many=True),
    ] = ()
    common: Annotated[bool, Arg("Compare on what all runs have, where they differ.")] = False
    group_by: Annotated[
        str | Sequence[str],
        Arg(
            "Also tables by subject, dataset, kind, language, split or a field of metadata (repeatable).",
            many=True,
        ),
    ] = ()
    baseline: Annotated[str | None, Arg("Set each other run against this one, in place of all pairs.")] = None
    cost: Annotated[str, Arg("What the frontier counts: full_price, paid, tokens, model_calls, seconds or auto.")] = (
        "auto"
    )
    severity: Severity = ""
    names: arguments.Names = MappingProxyType({})
    seed: arguments.Seed = 0
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


class CompareArguments(_Compared, frozen=True):
    """Which runs are compared, and how."""

    runs: arguments.Runs
    claims: Annotated[
        str | Sequence[str],
        Arg(
            "A claim to check: exit code 1 if it fails, 4 if it is undecided (repeatable).",
            option="--assert",
            many=True,
        ),
    ] = ()


@takes(CompareArguments)
def compare(given: CompareArguments) -> CompareResult:
    """Compare stored runs: accuracy with intervals, paired differences with their tests, the cost-accuracy frontier.

        rr.compare(["direct", "vanilla_rag[top_k=8]"], group_by="subject").to_pandas("pairs")

    Raises:
        UserError: an unknown run, scorer, cost or claim; runs that cannot be compared.
    """
    wanted, chosen = texts(given.scorers), chosen_settings(given.settings, given.home)
    frontier_measure(given.cost)  # an unknown one is said before the runs are looked for
    with opened_runs(_some(given.runs, given.baseline), chosen) as (store, found):
        found, comparison = _compared(store, found, given)
        checked: list[ClaimVerdict] = []
        if asked := texts(given.claims):  # else the scores need not be read again
            called = {row.run: row.name for row in comparison.rows}
            first = next(iter(wanted), None)
            checked = check_claims(
                store, found, asked, scorer=first, common=given.common, seed=given.seed, names=called
            )
        harm = None
        if given.severity:
            options = AnalysisOptions(scorer=next(iter(wanted), ""), severity=given.severity, seed=given.seed)
            harm = with_names(find_analysis("harm")(store, found, options), agent_names(comparison))
    return CompareResult(settings=chosen, comparison=comparison, claims=tuple(checked), scorers=wanted, harm=harm)


def _compared(store: Store, runs: Sequence[Run], given: _Compared) -> tuple[list[Run], Comparison]:
    """The runs, with the baseline once, and their comparison."""
    found, baseline = list(runs), ""
    if given.baseline:  # the last of the runs, which may be named twice
        *others, base = runs
        found, baseline = others if any(run.id == base.id for run in others) else [base, *others], base.id
    comparison = compare_runs(
        store,
        found,
        scorers=texts(given.scorers),
        common=given.common,
        seed=given.seed,
        cost=frontier_measure(given.cost),
        group_by=texts(given.group_by),
        baseline=baseline,
        names=names_of(store, found, given.names),
    )
    return found, comparison


def _some(runs: RunsGiven, baseline: str | None) -> list[str]:
    """The names of runs, the baseline's last.

    Raises:
        UserError: there is none.
    """
    names = run_names(runs)
    if not names:
        raise UserError("No run was given; see `ragrounds runs ls`, or rr.runs().")
    return [*names, baseline] if baseline else names


def frontier_measure(name: str) -> CostMeasure | None:
    """What ``--cost`` means; ``None``: dollars at full price where they are known, else tokens.

    Raises:
        UserError: an unknown one.
    """
    return cost_measure(_COSTS.get(name, name))


def ledger(
    runs: RunsGiven = (),
    by: str | Sequence[str] = (),
    *,
    reprice: bool = False,
    prices: str | Sequence[str] = (),
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> LedgerView:
    """What runs cost, judging included: what was paid, and what it would cost with an empty journal.

        rr.ledger(by=["run", "role"]).to_pandas()

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs; none: all runs and arenas.
        by: what costs are split by: run, role, node, model; none: role, node and model.
        reprice: apply the prices of today to stored calls without a known price, and write what they cost; where no
            runs are named to those of arenas, too.
        prices: of models, for this: ``openai:NAME[price_input=0.1,price_output=0.4]``, beside prices.toml.
        home, settings: the folder of the store, and all settings; ``None``: the user's.

    Raises:
        UserError: an unknown run or split; prices without `reprice`.
        StopRun: what is repriced cannot be written.
    """
    keys = [cast("LedgerKey", one_of("--by", name, LEDGER_KEYS)) for name in texts(by)] or LEDGER_KEYS[1:]
    if prices and not reprice:
        raise UserError("--price needs --reprice, which applies it to stored calls.")
    names, chosen = run_names(runs), chosen_settings(settings, home)
    known = {**user_prices(chosen), **prices_of(texts(prices))}
    with open_store(chosen) as store:
        found = store.named(names) if names else store.runs()
        found = list({run.id: run for run in found}.values())
        changed = apply_prices(store, found, known, arenas=not names) if reprice else None
        made = ledger_of(store, found, keys, arenas=not names)
        return LedgerView(ledger=made, unfinished=unfinished(store, found), place=store.place, repriced=changed)


class AnalyseArguments(Struct, frozen=True):
    """Which analysis of which runs."""

    name: Annotated[str, Arg("The analysis, or ``package.module:NAME`` of one's own.", option="-")]
    runs: arguments.Runs
    scorer: Annotated[str, Arg("The scorer whose scores are shown; by default the headline of the questions.")] = ""
    k: Annotated[int, Arg("How many passages count (success, quality, sources).", 1, short="-k")] = 10
    parameter: Annotated[
        str, Arg("The agent's parameter that was varied (passages); agreement, probability or stated (calibration).")
    ] = "top_k"
    sizes: Annotated[
        Mapping[str, float],
        Arg("A model's text → billions of parameters, where the name does not say it (size).", option="-"),
    ] = MappingProxyType({})
    documents: Annotated[
        str, Arg("A list of document ids: a line each, or a CSV's first column (listed).", metavar="FILE")
    ] = ""
    severity: Severity = ""
    save: Annotated[
        str | Path, Arg("Write what was learned as an agent that runs, by this name (routing).", metavar="FILE.toml")
    ] = ""
    force: arguments.Force = False
    names: arguments.Names = MappingProxyType({})
    seed: arguments.Seed = 0
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(AnalyseArguments)
def analyse(given: AnalyseArguments) -> AnalysedRuns:
    """Carry out one analysis of stored runs. No model is asked and nothing is searched again.

        rr.analyse("success", "vanilla_rag[top_k=8]", k=5)

    Raises:
        UserError: an unknown analysis or run; runs without what it needs.
    """
    analysis = find_analysis(given.name)  # an unknown one is said before the runs are looked for
    chosen = chosen_settings(given.settings, given.home)
    choices = AnalysisOptions(
        scorer=scorer_name(given.scorer),
        k=given.k,
        parameter=given.parameter,
        sizes=given.sizes,
        corpus=collection_sizes(chosen.home),
        documents=given.documents,
        severity=given.severity,
        seed=given.seed,
    )
    with opened_runs(given.runs, chosen) as (store, found):
        called = names_of(store, found, given.names)
        counts = Counter(run.agent for run in found)
        agents = {run.id: run.agent for run in found if counts[run.agent] == 1}
        if given.save:
            if analysis.save is None or Path(given.save).suffix != ".toml":
                raise UserError(f"--save {given.save}: the analysis routing writes an agent's file, NAME.toml.")
            for path, text in analysis.save(store, found, choices, Path(given.save)).items():
                with made_beside(path, given.force) as page:
                    page.write_text(text, encoding="utf-8")
        return AnalysedRuns(result=analysis(store, found, choices), names={**agents, **with_agents(found, called)})


class ReportArguments(_Compared, frozen=True):
    """Which runs a page is about, and what stands in it."""

    runs: arguments.Runs
    out: Annotated[str | Path, Arg("The file to write.", short="-o", metavar="FILE")] = "report.html"
    title: Annotated[str, Arg("Title of the page.")] = ""
    attempts: Annotated[
        bool, Arg("Put every attempt with its steps into the file.", option="--attempts/--no-attempts")
    ] = True
    brief: Annotated[bool, Arg("One sheet: what follows, the table and the frontier alone.")] = False
    analyses: Annotated[
        str | Sequence[str],
        Arg("Also this analysis, as in `ragrounds analyse` (repeatable).", option="--analysis", many=True),
    ] = ()
    force: arguments.Force = False
    progress: arguments.Progressed = None


def with_attempts(path: Path) -> Path:
    """The file of a report with every attempt, where the report is sent without."""
    return path.with_name(f"{path.stem}-attempts{path.suffix}")


@takes(ReportArguments)
def report(given: ReportArguments) -> Path:
    """Write one self-contained HTML file about runs; gives its path. Where attempts make it too large to be sent, the
    file with them is another beside it, ``report-attempts.html``.

        rr.report(rr.runs(), "report.html", force=True)

    Raises:
        UserError: as :func:`compare`; a file that is there, or cannot be read or written.
    """
    frontier_measure(given.cost)  # an unknown one is said before the runs are looked for
    path, whole = Path(given.out), with_attempts(Path(given.out))
    if given.attempts and not given.brief and whole.exists() and not given.force:  # before a large page is made
        raise UserError(f"{whole} already exists, for the attempts of a large report. Give --force, or another name.")
    chosen, named = chosen_settings(given.settings, given.home), _some(given.runs, given.baseline)
    with (
        opened_runs(named, chosen) as (store, opened),
        made_beside(path, given.force) as page,
        counted(given.progress) as tell,
    ):
        tell("comparing", 0)
        found, comparison = _compared(store, opened, given)
        more = ["evidence"] if find_analysis("evidence").by_default(store, found) and not given.brief else []
        analyses = tuple(dict.fromkeys([*texts(given.analyses), *more, *(["harm"] if given.severity else [])]))

        def written(attempts: bool, beside: str = "") -> int:
            """Write the page, and give its bytes."""
            with page.open("wb") as file:
                for part in report_page(
                    store,
                    found,
                    comparison,
                    title=given.title,
                    scorers=texts(given.scorers),
                    attempts=attempts,
                    beside=beside,
                    brief=given.brief,
                    analyses=analyses,
                    severity=given.severity,
                    seed=given.seed,
                    on_progress=lambda done: tell("attempts", done),
                ):
                    file.write(part.encode("utf-8", "replace"))
                return file.tell()

        if written(given.attempts) > MOST_SENT and given.attempts:
            with made_beside(whole, given.force) as beside:
                page.replace(beside)
            written(False, quote(whole.name))
    return path
