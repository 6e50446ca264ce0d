"""Comparison of stored runs: figures with their intervals, claims, costs, analyses, the report."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, cast
from urllib.parse import quote

from msgspec.structs import replace
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.aliases import names_of, with_agents
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.data import finding_line
from ragrounds.api.execution import Workspace
from ragrounds.api.frames import LEDGER, Frame, Part, Row
from ragrounds.api.functions import added_function, public_modules
from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.workspace import (
    RunsGiven,
    chosen_settings,
    open_selected_runs,
    open_store,
    replaced_file,
    run_names,
    texts,
)
from ragrounds.base.errors import UserError, one_of
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.base.spent import Spent
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
from ragrounds.evals.store.ledger import LEDGER_KEYS, Ledger, LedgerKey, LedgerLine, unfinished
from ragrounds.evals.store.ledger import ledger as ledger_of
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import read_prices
from ragrounds.tools.index.collection import collection_sizes
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column
from ragrounds.ui.pictures.plot import PictureMaker
from ragrounds.ui.report.page import PageOptions, report_page
from ragrounds.ui.tables.analysis_tables import analysis_table, print_analysis, rename_runs
from ragrounds.ui.tables.run_tables import ledger_table
from ragrounds.ui.tables.text_tables import print_table

MOST_SENT = 18_000_000
"""Size in bytes of a report that still fits into a mail of 25 MB, a third of which is its encoding."""
_COST_MEASURES = {"full_price": "cost_uncached", "paid": "cost_paid"}


Severity = Annotated[
    str, Arg("Costs of wrong and missing answers: TOML, by subject, dataset or option (harm).", metavar="FILE")
]


class CompareResult(ComparisonResult, frozen=True, kw_only=True):
    """Comparison, and the claims that were checked on it."""

    claims: tuple[ClaimVerdict, ...]
    scorers: tuple[str, ...] = ()
    """Requested scorers; if empty, the headline and those next to it."""
    harm: AnalysisResult | None = None
    """Costs of wrong and missing answers, if they were given."""
    imported: tuple[str, ...] = ()
    """Lines on the files of other tools that were compared: rows read, questions found, doubts."""

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the comparison, and the costs of wrong and missing answers if they were given."""
        super().draw(console, full=full)
        if self.harm:
            print_table(analysis_table(self.harm.table), console)

    def by_scorers(self) -> tuple[str, ...]:
        """Return the requested scorers."""
        return self.scorers

    @property
    def decision(self) -> Decision:
        """Return the joint decision on all claims: ``fails`` if one fails, ``undecided`` if one is undecided."""
        return all_hold([claim.decision for claim in self.claims])


class LedgerView(Result, frozen=True, kw_only=True):
    """Costs of runs, and the calls that are not part of them yet."""

    ledger: Ledger
    unfinished: Spent
    """Recorded calls of interrupted attempts: paid, and in no sum until the same command resumes them."""
    place: str
    """Location of the store."""
    repriced: RepricedCalls | None = None
    """Calls whose prices were changed; ``None`` if none were."""

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print a line for each part, and their sum; with `full`, models with all their parameters."""
        if not self.ledger.lines:
            console.print(f"No calls yet in {self.place}.", markup=False)
            return
        print_table(ledger_table(self.ledger, full=full), console)

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frame of the ledger."""
        return (LEDGER,)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield the lines as rows."""
        yield iter([[self._row(line) for line in self.ledger.lines]])

    def _row(self, line: LedgerLine) -> Row:
        return LEDGER.cells(
            line, **{name: None for name in ("run", "role", "node", "model") if name not in self.ledger.by}
        )


class AnalysedRuns(Result, frozen=True, kw_only=True):
    """Result of an analysis of runs."""

    result: AnalysisResult
    names: Mapping[str, str] = MappingProxyType({})
    """Run id or agent's text → name."""

    @property
    def named_result(self) -> AnalysisResult:
        """Return the result with the systems' names."""
        return rename_runs(self.result, self.names)

    def draw(self, console: Console) -> None:
        """Print the table, its note, and the picture."""
        print_analysis(self.named_result, console)

    def own_pictures(self) -> Mapping[str, PictureMaker]:
        """Return the picture of the analysis."""
        return {self.result.name: PictureMaker(lambda: self.named_result.picture)}

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the table with the columns of this analysis; a figure is followed by the ends of its interval."""
        table, columns = self.result.table, list[Column]()
        for index, name in enumerate(table.columns):
            cells = [row[index] for row in table.rows]
            words = any(isinstance(cell, str) for cell in cells)
            columns.append(Column(name, type="text" if words else "real"))
            if any(isinstance(cell, Figure) for cell in cells):
                columns += [Column(f"{name} {end}", type="real") for end in ("low", "high")]
        return (Frame(self.result.name, "as this analysis has it", tuple(columns)),)

    @contextmanager
    def parts(self, frame: Frame) -> Iterator[Iterator[Part]]:
        """Yield the rows of the table."""
        rows: Part = []
        for row in self.result.table.rows:
            cells: dict[str, object] = {}
            for name, cell in zip(self.result.table.columns, row, strict=True):
                if isinstance(cell, Figure):
                    cells |= {name: cell.value, f"{name} low": cell.low, f"{name} high": cell.high}
                else:
                    cells[name] = cell
            kinds = {column.name: column.type for column in frame.columns}
            rows.append(
                tuple(
                    None if cells.get(name) is None else str(cells[name]) if kinds[name] == "text" else cells[name]
                    for name in frame.names
                )
            )
        yield iter([rows])


class _Compared(Workspace, frozen=True, kw_only=True):
    """Options of a comparison of runs."""

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


class CompareArguments(_Compared, frozen=True):
    """Runs to compare, and options of the comparison."""

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
def compare(arguments: CompareArguments) -> CompareResult:
    """Compare stored runs: accuracy with intervals, paired differences with their tests, the cost-accuracy frontier.

        rr.compare(["direct", "vanilla_rag[top_k=8]"], group_by="subject").to_pandas("pairs")

    Runs may also be files of other tools (``["a.eval", "b.eval"]``, ``import_runs``), which are not kept.

    Raises:
        UserError: a run, scorer, cost or claim is unknown, or runs cannot be compared.
    """
    scorers, settings = texts(arguments.scorers), arguments.used_settings
    frontier_measure(arguments.cost)  # an unknown measure is reported before the runs are searched
    imported: tuple[str, ...] = ()
    paths = run_names(arguments.runs)
    if "import_runs" in public_modules() and paths and all(map(_is_file_of_answers, paths)):
        settings = settings.model_copy(update={"home": _temporary_home(), "store": None})
        files = cast(Any, added_function("import_runs"))(paths, settings=settings)
        arguments = replace(arguments, runs=files)
        imported = (*files.lines(), *map(finding_line, files.findings))
    with open_selected_runs(_require_runs(arguments.runs, arguments.baseline), settings) as (store, runs):
        runs, comparison = _compared(store, runs, arguments)
        checked: list[ClaimVerdict] = []
        if claims := texts(arguments.claims):  # without claims, the scores need not be read again
            names_by_run = {row.run: row.name for row in comparison.rows}
            first = next(iter(scorers), None)
            checked = check_claims(
                store, runs, claims, scorer=first, common=arguments.common, seed=arguments.seed, names=names_by_run
            )
        harm = None
        if arguments.severity:
            options = AnalysisOptions(scorer=next(iter(scorers), ""), severity=arguments.severity, seed=arguments.seed)
            harm = rename_runs(find_analysis("harm")(store, runs, options), agent_names(comparison))
    return CompareResult(
        settings=settings,
        comparison=comparison,
        claims=tuple(checked),
        scorers=scorers,
        harm=harm,
        imported=imported,
    )


def _is_file_of_answers(name: str) -> bool:
    if name.endswith((".py", ".toml")):  # the text of an agent, which names a stored run
        return False
    try:
        return Path(name).is_file()
    except OSError:  # an agent's text may be longer than any file's name
        return False


def _temporary_home() -> Path:
    """Return a new folder that is removed at the end of this process: until then, the result reads its store."""
    home = tempfile.mkdtemp(prefix="ragrounds-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return Path(home)


def _compared(store: Store, runs: Sequence[Run], options: _Compared) -> tuple[list[Run], Comparison]:
    """Return the runs, with the baseline once, and their comparison."""
    compared, baseline = list(runs), ""
    if options.baseline:  # it is the last of the runs, and may be named twice
        *other_runs, base = runs
        compared, baseline = (
            other_runs if any(run.id == base.id for run in other_runs) else [base, *other_runs],
            base.id,
        )
    comparison = compare_runs(
        store,
        compared,
        scorers=texts(options.scorers),
        common=options.common,
        seed=options.seed,
        cost=frontier_measure(options.cost),
        group_by=texts(options.group_by),
        baseline=baseline,
        names=names_of(store, compared, options.names),
    )
    return compared, comparison


def _require_runs(runs: RunsGiven, baseline: str | None) -> list[str]:
    """Return the names of runs, the baseline's last.

    Raises:
        UserError: no run was given.
    """
    names = run_names(runs)
    if not names:
        raise UserError("No run was given; see `ragrounds runs ls`, or rr.runs().")
    return [*names, baseline] if baseline else names


def frontier_measure(name: str) -> CostMeasure | None:
    """Return the cost measure of ``--cost``; ``None`` means dollars at full price if they are known, else tokens.

    Raises:
        UserError: the measure is unknown.
    """
    return cost_measure(_COST_MEASURES.get(name, name))


def ledger(
    runs: RunsGiven = (),
    by: str | Sequence[str] = (),
    *,
    reprice: bool = False,
    prices: str | Sequence[str] = (),
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> LedgerView:
    """Sum the costs of runs, including judging: the cost paid, and the cost with an empty journal.

        rr.ledger(by=["run", "role"]).to_pandas()

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs; if empty, all runs, counterfactuals and
            arenas.
        by: keys that costs are split by: run, role, node, model; if empty, role, node and model.
        reprice: apply today's prices to stored calls without a known price, and store their cost. If no runs are named,
            calls of arenas are repriced, too.
        prices: prices of models in addition to prices.toml: ``openai:NAME[price_input=0.1,price_output=0.4]``.
        home, settings: the folder of the store, and all settings; by default the user's.

    Raises:
        UserError: a run or key is unknown, or prices are given without `reprice`.
        StopRun: new costs cannot be written.
    """
    keys = [cast("LedgerKey", one_of("--by", name, LEDGER_KEYS)) for name in texts(by)] or LEDGER_KEYS[1:]
    if prices and not reprice:
        raise UserError("--price needs --reprice, which applies it to stored calls.")
    names, used_settings = run_names(runs), chosen_settings(settings, home)
    known_prices = {**read_prices(used_settings.home), **prices_of(texts(prices))}
    with open_store(used_settings) as store:
        selected_runs = store.select_runs(names) if names else store.runs(counterfactuals=True)
        selected_runs = list({run.id: run for run in selected_runs}.values())
        changed = apply_prices(store, selected_runs, known_prices, arenas=not names) if reprice else None
        sums = ledger_of(store, selected_runs, keys, arenas=not names)
        return LedgerView(
            ledger=sums, unfinished=unfinished(store, selected_runs), place=store.location, repriced=changed
        )


class AnalyseArguments(Workspace, frozen=True):
    """Name of an analysis, its runs and its options."""

    name: Annotated[str, Arg("The analysis, or ``package.module:NAME`` of yours.", option="-")]
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
    budget: Annotated[
        float | None,
        Arg("What is best for at most this: dollars per 100 questions, else tokens or seconds a question (routing)."),
    ] = None
    save: Annotated[
        str | Path, Arg("Write what was learned as an agent that runs, by this name (routing).", metavar="FILE.toml")
    ] = ""
    force: arguments.Force = False
    names: arguments.Names = MappingProxyType({})
    seed: arguments.Seed = 0


@takes(AnalyseArguments)
def analyse(arguments: AnalyseArguments) -> AnalysedRuns:
    """Run one analysis of stored runs. No model is asked and nothing is searched again.

        rr.analyse("success", "vanilla_rag[top_k=8]", k=5)

    Raises:
        UserError: the analysis or a run is unknown, or the runs lack something that it needs.
    """
    analysis = find_analysis(arguments.name)  # an unknown analysis is reported before the runs are searched
    settings = arguments.used_settings
    choices = AnalysisOptions(
        scorer=scorer_name(arguments.scorer),
        k=arguments.k,
        parameter=arguments.parameter,
        sizes=arguments.sizes,
        corpus=collection_sizes(settings.home),
        documents=arguments.documents,
        severity=arguments.severity,
        budget=arguments.budget,
        seed=arguments.seed,
    )
    with open_selected_runs(arguments.runs, settings) as (store, runs):
        names_by_run = names_of(store, runs, arguments.names)
        counts = Counter(run.agent for run in runs)
        agents = {run.id: run.agent for run in runs if counts[run.agent] == 1}
        if arguments.save:
            if analysis.save is None or Path(arguments.save).suffix != ".toml":
                raise UserError(f"--save {arguments.save}: the analysis routing writes an agent's file, NAME.toml.")
            files = analysis.save(store, runs, choices, Path(arguments.save))
            existing = [str(path) for path in files if path.exists()]
            if existing and not arguments.force:
                raise UserError(
                    f"--save {arguments.save} writes {' and '.join(map(str, files))}, and {' and '.join(existing)} "
                    f"already {'exists' if len(existing) == 1 else 'exist'}. Give --force, or another name."
                )
            for path, text in files.items():
                with replaced_file(path, arguments.force) as page:
                    page.write_text(text, encoding="utf-8")
        return AnalysedRuns(result=analysis(store, runs, choices), names={**agents, **with_agents(runs, names_by_run)})


class ReportArguments(_Compared, frozen=True):
    """Runs of a report, and the content of its page."""

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
    """Return the path of a report with every attempt, next to a report without attempts."""
    return path.with_name(f"{path.stem}-attempts{path.suffix}")


@takes(ReportArguments)
def report(arguments: ReportArguments) -> Path:
    """Write one self-contained HTML file about runs and return its path.

    If attempts make the page too large for a mail, they are written to a separate file, ``report-attempts.html``.

        rr.report(rr.runs(), "report.html", force=True)

    Raises:
        UserError: as :func:`compare`; a file exists already, or cannot be read or written.
    """
    frontier_measure(arguments.cost)  # an unknown measure is reported before the runs are searched
    path, attempts_path = Path(arguments.out), with_attempts(Path(arguments.out))
    if (
        arguments.attempts and not arguments.brief and attempts_path.exists() and not arguments.force
    ):  # checked before a large page is rendered
        raise UserError(
            f"{attempts_path} already exists, for the attempts of a large report. Give --force, or another name."
        )
    settings, run_names_given = arguments.used_settings, _require_runs(arguments.runs, arguments.baseline)
    with (
        open_selected_runs(run_names_given, settings) as (store, opened),
        replaced_file(path, arguments.force) as page,
        counted(arguments.progress) as tell,
    ):
        tell("comparing", 0)
        runs, comparison = _compared(store, opened, arguments)
        more = ["evidence"] if find_analysis("evidence").by_default(store, runs) and not arguments.brief else []
        analyses = tuple(dict.fromkeys([*texts(arguments.analyses), *more, *(["harm"] if arguments.severity else [])]))

        def write_page(attempts: bool, beside: str = "") -> int:
            """Write the page and return its size in bytes."""
            with page.open("wb") as file:
                options = PageOptions(
                    title=arguments.title,
                    scorers=texts(arguments.scorers),
                    attempts=attempts,
                    beside=beside,
                    brief=arguments.brief,
                    analyses=analyses,
                    severity=arguments.severity,
                    seed=arguments.seed,
                    on_progress=lambda done: tell("attempts", done),
                )
                for part in report_page(store, runs, comparison, options):
                    file.write(part.encode("utf-8", "replace"))
                return file.tell()

        if write_page(arguments.attempts) > MOST_SENT and arguments.attempts:
            with replaced_file(attempts_path, arguments.force) as temporary:
                page.replace(temporary)
            write_page(False, quote(attempts_path.name))
    return path
