"""Screens at 80 columns and 24 rows: their lines are counted on stores with failed attempts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.api.compare import LedgerView
from ragrounds.api.results import Result
from ragrounds.api.resume import without_defaults
from ragrounds.base.records import Asked, Verdict
from ragrounds.base.settings import Settings
from ragrounds.base.spent import Spent
from ragrounds.evals.judges.bill import JudgedRun
from ragrounds.evals.judges.gate import JudgeGate
from ragrounds.evals.judges.runs import JudgedRuns
from ragrounds.evals.store.ledger import Ledger, LedgerLine
from ragrounds.evals.store.store import Store
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.tables.judge_tables import bill_lines
from ragrounds.ui.text import UNKNOWN_COSTS, wrapped
from tests.compare.making import add_run, questions
from tests.conftest import Cli

AGENTS = ("direct_cot", "vanilla_rag[top_k=8]", "search_o1", "cot_refine")


def lines(result: Result) -> list[str]:
    """Return what a result prints on a small terminal; no line is wider."""
    console = SafeConsole(width=80, height=24, file=io.StringIO(), force_terminal=True, record=True)
    result.draw(console)
    printed = console.export_text().rstrip("\n").splitlines()
    assert max(map(len, printed)) <= 80, [line for line in printed if len(line) > 80]
    return printed


def test_comparison_and_run_fit_a_small_terminal(home: Path) -> None:
    asked = questions(80)
    with Store(home) as store:
        for place, agent in enumerate(AGENTS):
            failed = dict.fromkeys(range(8 * place, 9 * place + 8), "failed")
            failed |= dict.fromkeys(range(8 * place, 8 * place + 3), "blocked")
            right = [int(index not in failed and index % 4 <= place) for index in range(80)]
            cost = {"cost_uncached": 0.01 * (place + 1), "unanswered": 1}
            texts = {index: f'{{"answer_choice": "{"BA"[value]}"}}' for index, value in enumerate(right)}
            add_run(store, agent, asked, right, status=failed, texts=texts, **cost, id=f"run-{place}")
    compared, shown = lines(rr.compare(list(AGENTS))), lines(rr.load("search_o1"))
    assert len(compared) <= 24
    assert "Not answered: 8 (direct_cot) to 11 (cot_refine)." in compared
    assert len(shown) <= 20
    assert {"paid ≥ $2.40", "full price ≥ $2.40"} <= {" ".join(line.split()) for line in shown}


def test_a_ledger_is_one_table() -> None:
    costs = {"model_calls": 1200, "reused": 1, "failed": 1, "searches": 1, "unanswered": 9, "cost_uncached": 12.3}
    line = LedgerLine(role="answering", node="retrieve", model="openai:hospital", **costs)
    sums = Ledger(
        by=("role", "node", "model"), lines=(line,) * 10, total=LedgerLine(unanswered=90, cost_uncached=123.0)
    )
    view = LedgerView(ledger=sums, unfinished=Spent(), place="the store")
    printed = lines(view)
    assert "paid ≥ $0.00, full price (no cache) ≥ $123.00" in printed[1]
    assert printed[-1] == "left out at this width: reused, no answer, searches"
    assert len(printed) <= 17
    unknown = replace(line, unpriced=1, cost_paid=None, cost_uncached=None)
    view_of_unknown = LedgerView(ledger=replace(sums, total=unknown), unfinished=Spent(), place="the store")
    assert " ".join(" ".join(lines(view_of_unknown)[1:3]).split()) == f"costs by role, node, model are {UNKNOWN_COSTS}"
    everything = io.StringIO()
    view.draw(SafeConsole(width=80, file=everything), full=True)
    assert {"reused", "searches"} < set(everything.getvalue().split())


def test_judging_ends_with_at_most_three_remarks() -> None:
    figures = {"calls": 9, "reused": 0, "failed": 0, "usage": None, "cost_paid": None, "cost_uncached": None}
    figures |= {"judges": ("m[a=1]",), "scorers": ("s",), "attempts": 9, "missing": 1, "left": 0}
    verdicts = (Verdict(judge="m[a=1]", question_id="q", axis="", first="", reason="no verdict"),)
    verdicts += 9 * (replace(verdicts[0], outcome="equal"),)
    runs = tuple(
        JudgedRun(
            **figures,
            run=f"run-{number}",
            verdicts=verdicts,
            same_model=("m",),
            constant={"m[a=1]": "equal"},
            gates=(JudgeGate(judge="m[a=1]", noise="", withheld="", words=(f"m passes {number}.", "Undecided.")),),
        )
        for number in range(2)
    )
    judged = JudgedRuns(runs=runs, mute=(), ended="")
    total, costs, *remarks = bill_lines(judged)
    assert total == "2 runs: 18 answers judged by m; 2 scores missing."
    assert costs.startswith("18 model calls: 18 made now")
    assert remarks[0] == "1 of 10 verdicts are missing: no verdict (1)."
    assert remarks[1].startswith("Note: m[a=1] said 'equal' of all 9 answers it judged.")
    assert remarks[2:] == ["run-0: m passes 0.", "3 more remarks: --full."]
    assert len(list(bill_lines(judged, full=True))) == 2 + 6
    failing = JudgeGate(judge="m[a=1]", noise="", withheld="fails", words=("m fails its probes.",))
    worse = JudgedRuns(runs=(runs[0], replace(runs[1], gates=(failing,))), mute=(), ended="")
    assert list(bill_lines(worse))[2] == "run-1: m fails its probes.", "the gravest first, of whichever run"


def test_a_run_shows_the_options_that_were_typed(home: Path) -> None:
    options = ("--benchmark", "sample", "--seed", "0", "--epochs", "2", "--concurrency", "16", "--agent", "direct")
    with Store(home) as store:
        run = replace(add_run(store, "direct", questions(1), [1]), asked=Asked("", options))
        settings = Settings(home=home)
    assert without_defaults(run, settings).asked == Asked("", ("--epochs", "2", "--agent", "direct"))


@pytest.mark.parametrize(("kind", "most"), [("agents", 45), ("scorers", 60)])
def test_a_list_has_a_line_for_each(command: Cli, kind: str, most: int) -> None:
    listed = command("list", kind, COLUMNS="80").stdout.splitlines()
    assert 30 < len(listed) <= most
    names = [line.split()[0] for line in listed if line.startswith("  ")]
    assert len(names) == len(set(names))
    if kind == "scorers":
        assert not any("…" in line for line in listed)
    if kind == "agents":
        assert listed.index("no search") < names.index("direct") + 2
        assert not any("context_tokens" in line for line in listed)


@pytest.mark.slow
def test_judging_counterfactual_and_routing_fit_a_small_terminal(home: Path) -> None:
    with stand_in_server() as base_url:
        model = {"model": "openai:any", "base_url": base_url, "alias": ALIAS, "progress": False}
        runs = rr.run("sample", list(AGENTS), **model)
        assert len(lines(rr.ledger())) <= 20
        assert len(lines(rr.analyse("routing", runs))) <= 30
        changed = rr.counterfactual("vanilla_rag[top_k=8]", limit=40, progress=False)
        assert len(lines(changed)) <= 30
        judged = rr.judge(runs, "equivalence", judges="openai:judge", base_url=base_url, alias=ALIAS, progress=False)
    bill = "\n".join(wrapped(line, 80) for line in bill_lines(judged.judged))
    assert len(lines(judged)) + len(bill.splitlines()) <= 24
