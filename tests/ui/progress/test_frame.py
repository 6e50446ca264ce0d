"""The screen of a run at any size: it fits, it says what is there, and nothing in it is interpreted."""

from __future__ import annotations

import io
import re
import time
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from ragrounds.base.records import Attempt
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.engine.in_flight import LiveAttempt
from ragrounds.evals.engine.progress import RunProgress
from ragrounds.models.traffic import ServerTraffic
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.facts import AgentProgress, BudgetUse, LastResult, ProgressFacts, SeenFaults, facts_json
from ragrounds.ui.progress.frame import frame, table_parts
from ragrounds.ui.progress.lines import progress_line
from tests.rows import each_row
from tests.ui.drawn import drawn_lines

SIZES = [(80, 24), (120, 40), (200, 60), (60, 15), (40, 10), (20, 6)]


def agent(number: int = 1, **changed: Any) -> AgentProgress:
    made = {
        "run": f"run-{number}",
        "agent": f"vanilla_rag[top_k={number}]",
        "name": f"RAG of {number} passages",
        "total": 500,
        "done": 120 + number,
        "in_flight": 21,
        "outcomes": {"answered": 110, "abstained": 3, "failed": 7 + number},
        "scorer": "strict",
        "average": 0.6125,
        "pooled": 0.4875,
        "pooled_yet": False,
        "figure": Figure(value=0.6125, low=0.5012, high=0.7034, n=120 + number, missing=0),
        "dataset": "mirage/pubmedqa",
        "spent": Spent(usage=Usage(120_000, 3_456), cost_paid=1.25, cost_uncached=2.5),
    }
    return AgentProgress(**{**made, **changed})


def flight(ago: float, node: str = "search") -> LiveAttempt:
    return LiveAttempt("run-1", time.time() - ago, node)


def facts(agents: int = 3, flying: int = 64, **changed: Any) -> ProgressFacts:
    made = {
        "benchmark": "mirage/pubmedqa",
        "seconds": 125.0,
        "rate": 4.2,
        "seconds_left": 283.0,
        "agents": tuple(agent(number) for number in range(1, agents + 1)),
        "flying": tuple(flight(1.0 + number) for number in range(flying)),
        "nodes": {"search": flying},
        "failed": SeenFaults({"rate_limit": 12, "timeout": 3}, "rate_limit: 429 after 3 tries", 4.0),
        "retried": SeenFaults({"server": 21}, "server: 500: something broke", 2.0),
        "servers": (ServerTraffic("http://127.0.0.1:8000/v1", 60, 64, 3, 12),),
        "calls_made": 300,
        "calls_reused": 100,
        "budget": (BudgetUse("dollars", 3.75, 5.0),),
        "until": "",
        "asked_to_stop": 0,
        "trend": (0, 1, 4, 8),
        "recent": (
            LastResult("run-1", "answered", 1.0, "B", 1.5),
            LastResult("run-2", "answered", 0.0, "C", 2.5),
            LastResult("run-3", "failed", 0.0, "", 3.5),
        ),
    }
    return ProgressFacts(**{**made, **changed})


def drawn(found: ProgressFacts, width: int, height: int, said: tuple[str, ...] = ()) -> list[str]:
    console = SafeConsole(file=io.StringIO(), force_terminal=True, no_color=True, color_system=None)
    return drawn_lines(console, frame(found, width, height, said), width, height)


@each_row(("width", "height"), SIZES)
@each_row("agents", [1, 3, 12])
@each_row("flying", [0, 3, 64])
def test_it_fits_and_its_foot_stands_at_the_end(width: int, height: int, agents: int, flying: int) -> None:
    lines = drawn(facts(agents, flying), width, height, ("something was said",) * 3)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width
    assert "Ctrl-C" in lines[-1]
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("width", [122, 131])
def test_its_foot_stays_below_headings_of_two_lines(width: int) -> None:
    outcomes = {"answered": 80, "abstained": 3, "unreadable": 5, "failed": 9}
    spent = Spent(usage=Usage(120_000, 3_456), cost_paid=1.25, cost_uncached=2.5, unanswered=3)
    crowded = tuple(agent(number, outcomes=outcomes, spent=spent) for number in range(1, 5))
    for height in (24, 40):
        lines = drawn(replace(facts(), agents=crowded), width, height, ("something was said",) * 30)
        assert "Ctrl-C" in lines[-1]
        assert any(line.strip() == "full" for line in lines)
        assert sum("/500" in line for line in lines) == 4
        assert "answer may be billed" in " ".join("".join(lines).split()) or height == 24


def test_reasons_are_words_and_no_json() -> None:
    message = "OpenAIInvalidRequestError: 400 - {'error': {'message': 'the prompt is too long', 'type': 'x'}}"
    seen = SeenFaults({"OpenAIInvalidRequestError": 9, "context_too_long": 10}, message, 4.0)
    line = next(line for line in drawn(facts(failed=seen), 200, 40) if line.startswith("failed"))
    assert "9 invalid request error, 10 prompt too long, last 4.0 s ago: the prompt is too long" in line
    assert "{" not in line


def test_an_average_that_is_the_pooled_figure_is_shown_once() -> None:
    same = tuple(agent(number, dataset="", pooled=0.6125) for number in (1, 2))
    other = tuple(agent(number, dataset="") for number in (1, 2))
    for agents, has_pooled in ((same, False), (other, True)):
        headings = next(line for line in drawn(replace(facts(), agents=agents), 200, 60) if "average" in line)
        assert (" pooled" in headings) is has_pooled


@pytest.mark.parametrize(("width", "height"), SIZES[:3])
def test_it_says_what_is_there(width: int, height: int) -> None:
    screen = "\n".join(drawn(facts(), width, height))
    for text in (
        "366 of 1,500",
        "4.2/s",
        "121/500",
        "61.25",
        "50.1-70.3",
        "pubmedqa",
        "12 refused for too many requests, 3 timeout",
        "21 the server failed",
        "127.0.0.1:8000",
        "$3.75 paid",
        "budget used: $3.75 of $5.00 (75 %)",
        "100 of 400 model calls from the journal (25 %)",
        "in flight    64 (search 64)",
        "60 of 63 calls in flight, slowed by 12 x 429",
    ):
        assert text in screen, text
    for text in ("last results", "✓ B", "✗ C", "! failed", "▁▁▄█") if width > 80 else ():
        assert text in screen, text
    assert ("percent right by dollars" in screen) is (height > 24)


def test_a_server_without_calls_has_no_line() -> None:
    idle = replace(facts(), servers=(ServerTraffic("http://127.0.0.1:8000/v1", 0, 64, 0, 0),))
    assert "127.0.0.1:8000" not in "\n".join(drawn(idle, 120, 40))


def test_the_columns_are_those_of_the_table() -> None:
    width = 200
    headings = next(line for line in drawn(facts(), width, 60) if line.startswith("agent"))
    assert headings.split("  ")[0] == "agent"
    for name in ("done", "pubmedqa", "95 %", "n", "answered", "abstained", "failed", "full price"):
        assert f" {name}" in headings
    two = facts(agents=1)
    several = replace(two, agents=(replace(two.agents[0], dataset=""),))
    lines = drawn(several, width, 60)
    place = next(at for at, line in enumerate(lines) if line.startswith("agent"))
    cells = dict(zip(re.split(r"  +", lines[place].strip()), re.split(r"  +", lines[place + 1].strip()), strict=False))
    found = [(name, lines[place + 1][: lines[place].index(name) + len(name)].split()[-1]) for name in cells]
    assert dict(found) | {"average": "61.25", "pooled": "48.75"} == dict(found)


def test_agents_that_have_no_room_are_counted() -> None:
    lines = drawn(facts(agents=30), 80, 24)
    (rest,) = [line for line in lines if "more agents:" in line]
    shown = sum("/500" in line for line in lines)
    assert rest.startswith(f"and {30 - shown} more agents")


def test_a_stop_says_how_many_are_awaited() -> None:
    assert "finishing the 64 attempts in flight" in drawn(facts(asked_to_stop=1), 120, 40)[-1]
    assert "64 in flight awaited; Ctrl-C again stops at once." in drawn(facts(asked_to_stop=1), 80, 24)[-1]
    assert "cut off" in drawn(facts(asked_to_stop=2), 120, 40)[-1]
    assert "Stopping: finishing the 64 attempts in flight" in progress_line(facts(asked_to_stop=1))


def test_nothing_is_interpreted() -> None:
    evil = "\x1b[2J[bold]{x}\u202e<script>\n"
    hostile = replace(
        facts(agents=1, flying=1, failed=SeenFaults({evil: 1}, evil, 1.0), benchmark=evil, until=evil),
        agents=(agent(1, name=evil),),
        flying=(flight(1.0, evil),),
        nodes={evil: 1},
        recent=(LastResult("run-1", "answered", 1.0, evil, 1.0), LastResult("x", evil, None, evil, 1.0)),
        servers=(ServerTraffic(evil, 1, 1, 0, 0),),
    )
    for width, height in SIZES:
        lines = drawn(hostile, width, height, (evil,))
        assert len(lines) == height
        assert all(line.isprintable() for line in lines)
    assert progress_line(hostile).isprintable()


def test_the_last_line_states_an_exceeded_budget_and_no_server_at_rest():
    line = progress_line(facts(flying=0, budget=(BudgetUse("dollars", 0.33, 0.2),)))
    assert "budget used: $0.33 of $0.20 (165 %)" in line
    assert "calls in flight" not in line


def test_a_line_says_nothing_of_unknown_steps_and_of_time_that_is_not_left() -> None:
    line = progress_line(facts(flying=2, nodes={}, seconds_left=None))
    assert "; in flight: 2, longest " in line
    assert " left" not in line
    assert progress_line(facts(flying=3, nodes={"reason": 1})).count("3 (reason 1), longest") == 1


def test_wide_letters_are_two_columns() -> None:
    wide = facts(agents=1, flying=0)
    lines = drawn(replace(wide, agents=(agent(1, name="検索と推論" * 8),), benchmark="問題" * 30), 80, 24)
    assert max(map(cell_len, lines)) <= 80


def test_a_notebook_gets_all_agents() -> None:
    console = SafeConsole(file=io.StringIO(), width=160)
    with console.capture() as captured:
        for part in table_parts(facts(agents=12)):
            console.print(part)
    assert captured.get().count("/500") == 12


def test_unknown_usage_of_one_attempt_is_never_shown_as_nothing() -> None:
    counts = RunProgress("direct", 2)
    counts.count(Attempt(run="r", question_id="q/1", epoch=0, status="completed", text="", usage=Usage(3, 2),
                         cost_paid=0.5, cost_uncached=0.5), ())  # fmt: skip
    assert counts.spent.tokens == 5
    counts.count(Attempt(run="r", question_id="q/2", epoch=0, status="failed", text=""), ())
    assert counts.spent == Spent(usage=None, cost_paid=None, cost_uncached=None)
    shown = replace(facts(flying=0), agents=(agent(spent=counts.spent),))
    line = next(line for line in drawn(shown, 200, 40) if "RAG of 1 passages" in line)
    assert line.rstrip().endswith("unknown")
    assert re.split(r"  +", line.strip())[-2:] == ["-", "unknown"]


def test_the_facts_as_json_have_the_tokens_and_costs_of_each_agent() -> None:
    shown = replace(facts(flying=0), agents=(agent(1), agent(2, spent=Spent(usage=None))))
    known, unknown = facts_json(shown)["runs"].values()  # type: ignore[attr-defined]
    names = ("tokens", "cost_paid", "cost_uncached")
    assert [known[name] for name in names] == [123_456, 1.25, 2.5]
    assert [unknown[name] for name in names] == [None, 0.0, 0.0]
    assert list(known)[-3:] == list(names)
    assert "spent" not in known


@pytest.mark.parametrize(("unanswered", "paid"), [(0, "$2.50 paid"), (1, "≥ $2.50 paid")])
def test_costs_are_at_least_if_a_request_got_no_answer(unanswered: int, paid: str) -> None:
    spent = Spent(cost_paid=1.25, cost_uncached=2.5, unanswered=unanswered)
    shown = replace(facts(flying=0), agents=(agent(1), agent(2, spent=spent)))
    assert f", {paid}, " in progress_line(shown)
    assert any(f" {paid}, full price " in line for line in drawn(shown, 200, 40))
