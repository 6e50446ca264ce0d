"""Stored runs against each other: figures with their intervals, claims, what it cost, analyses, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from ragrounds.api.workspace import Progress, one_of, open_store, opened_runs, replaced, unheard, user_settings
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from ragrounds.evals.analyses.analysis import AnalysisResult
    from ragrounds.evals.compare.assertions import ClaimVerdict
    from ragrounds.evals.compare.comparison import Comparison
    from ragrounds.evals.compare.frontier import CostMeasure
    from ragrounds.evals.store.ledger import Ledger, LedgerKey, Unfinished
    from ragrounds.settings import Settings

_COSTS = {"uncached": "cost_uncached", "paid": "cost_paid"}
_FORMER_COSTS = {"cold": "uncached", "spent": "paid"}


class CompareResult(Struct, frozen=True):
    """A comparison, and the claims that were checked on it."""

    comparison: Comparison
    claims: tuple[ClaimVerdict, ...]


class LedgerView(Struct, frozen=True):
    """What runs cost, and what is not in these sums yet."""

    ledger: Ledger
    unfinished: Unfinished
    """Recorded calls of attempts that were broken off."""
    place: str
    """Where the store is."""


def compare(
    runs: Sequence[str],
    *,
    scorers: Sequence[str] = (),
    common: bool = False,
    group_by: Sequence[str] = (),
    cost: str = "auto",
    claims: Sequence[str] = (),
    seed: int = 0,
    settings: Settings | None = None,
) -> CompareResult:
    """Compare stored runs: accuracy with intervals, paired differences with their tests, the cost-accuracy frontier.

    Args:
        runs: ids, beginnings of ids, or agents' texts.
        scorers: by these; none: the headline's and those beside it.
        common: compare on the questions that all have, where they differ.
        group_by: also tables by these (a dataset, a field of the metadata).
        cost: what the frontier counts: uncached, paid, tokens, calls, seconds or auto.
        claims: to be checked, by the first scorer.
        seed: of the bootstrap.

    Raises:
        UserError: an unknown run, scorer, cost or claim; runs that cannot be compared.
    """
    from ragrounds.evals.compare.assertions import check_claims
    from ragrounds.evals.compare.comparison import compare as compare_runs

    measure = _measure(cost)
    with opened_runs(runs, settings) as (store, found):
        comparison = compare_runs(
            store, found, scorers=scorers, common=common, seed=seed, cost=measure, group_by=group_by
        )
        scorer = scorers[0] if scorers else None
        checked = check_claims(store, found, claims, scorer=scorer, common=common, seed=seed) if claims else []
    return CompareResult(comparison, tuple(checked))


def _measure(name: str) -> CostMeasure | None:
    from ragrounds.evals.compare.frontier import cost_measure

    if name in _FORMER_COSTS:
        raise UserError(f"--cost {name} is now --cost {_FORMER_COSTS[name]}.")
    return cost_measure(_COSTS.get(name, name))


def ledger(runs: Sequence[str] = (), by: Sequence[str] = (), settings: Settings | None = None) -> LedgerView:
    """What runs cost, judging included: what was paid, and what it would cost with an empty journal.

    Args:
        runs: ids, beginnings of ids, or agents' texts; none: all runs and arenas.
        by: what costs are split by: run, role, node, model; none: role, node and model.

    Raises:
        UserError: an unknown run or split.
    """
    from ragrounds.evals.store.ledger import LEDGER_KEYS, unfinished
    from ragrounds.evals.store.ledger import ledger as ledger_of

    keys = [cast("LedgerKey", one_of("--by", name, LEDGER_KEYS)) for name in by] or LEDGER_KEYS[1:]
    with open_store(settings or user_settings()) as store:
        found = [store.run(name) for name in runs] if runs else store.runs()
        found = list({run.id: run for run in found}.values())
        return LedgerView(ledger_of(store, found, keys, arenas=not runs), unfinished(store, found), store.place)


def analyse(
    name: str,
    runs: Sequence[str],
    *,
    scorer: str = "strict",
    k: int = 10,
    parameter: str = "top_k",
    sizes: Mapping[str, float] = MappingProxyType({}),
    seed: int = 0,
    settings: Settings | None = None,
) -> AnalysisResult:
    """Carry out one analysis of stored runs. No model is asked and nothing is searched again.

    Args:
        name: of the analysis.
        runs: ids, beginnings of ids, or agents' texts.
        scorer: whose scores are shown.
        k: how many passages count.
        parameter: of the agent, which was varied.
        sizes: model text → billions of parameters, where the name does not say it.
        seed: of the bootstrap.

    Raises:
        UserError: an unknown analysis or run; runs that lack what it needs.
    """
    from ragrounds.evals.analyses.analysis import AnalysisOptions, find_analysis

    analysis = find_analysis(name)  # an unknown one is said before the runs are looked for
    choices = AnalysisOptions(scorer=scorer, k=k, parameter=parameter, sizes=sizes, seed=seed)
    with opened_runs(runs, settings) as (store, found):
        return analysis(store, found, choices)


def write_report(
    runs: Sequence[str],
    out: Path,
    *,
    title: str = "",
    scorers: Sequence[str] = (),
    common: bool = False,
    group_by: Sequence[str] = (),
    cost: str = "auto",
    analyses: Sequence[str] = (),
    labels: Path | None = None,
    attempts: bool = True,
    seed: int = 0,
    force: bool = False,
    settings: Settings | None = None,
    progress: Progress = unheard,
) -> None:
    """Write one self-contained HTML file about runs.

    Args:
        runs: ids, beginnings of ids, or agents' texts.
        out: the file.
        title: of the page.
        scorers, common, group_by, cost, seed: as for :func:`compare`.
        analyses: names of analyses that stand in it.
        labels: people's labels of judged answers, as a CSV file.
        attempts: put every attempt with its steps into the file.
        force: write over a file that is there.
        progress: is told how many attempts are written.

    Raises:
        UserError: as :func:`compare`; a file that is there, or cannot be read or written.
    """
    from ragrounds.evals.compare.comparison import compare as compare_runs
    from ragrounds.evals.judges.labels import read_labels
    from ragrounds.ui.report.page import report_page

    measure = _measure(cost)
    human = read_labels(labels) if labels else None
    with opened_runs(runs, settings) as (store, found), replaced(out, force) as file:
        comparison = compare_runs(
            store, found, scorers=scorers, common=common, seed=seed, cost=measure, group_by=group_by
        )
        for part in report_page(
            store,
            found,
            comparison,
            title=title,
            scorers=scorers,
            attempts=attempts,
            analyses=analyses,
            human=human,
            seed=seed,
            on_progress=lambda done: progress("attempts", done),
        ):
            file.write(part.encode("utf-8", "replace"))
