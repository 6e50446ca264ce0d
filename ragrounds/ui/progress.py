"""A run while it is made, on stderr: a live table, plain lines, JSON lines, or nothing; its projection and the claim
that may end it early, as text."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from msgspec.structs import asdict
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ragrounds.evals.compare.claims import ClaimState, ConditionState
from ragrounds.evals.compare.sequential_stop import StopRecord
from ragrounds.evals.engine.progress import ProjectedSum, Projection, ReplayProgress, RunProgress
from ragrounds.evals.scorers import described
from ragrounds.models.traffic import flows
from ragrounds.records import OUTCOMES
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.text import UNKNOWN, dollars, duration, in_scale, one_line, p_value, safe, tokens

if TYPE_CHECKING:
    from ragrounds.contracts import FinishedAttempt


Display = Literal["full", "plain", "json", "none", "viewer"]
_FEW = 4
"""Runs whose scores stand in a line."""
_PLAIN_EVERY = 10.0
"""Seconds between two plain or JSON lines."""


class Progress(Protocol):
    """A display of a run's counts, as a context manager."""

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended, and show it."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, *_: object) -> None: ...


def open_progress(display: Display | None, tally: ReplayProgress, stream: TextIO | None = None) -> Progress:
    """The display that was asked for; by default `full` on a terminal and `plain` elsewhere, on stderr."""
    stream = stream or sys.stderr
    kind = display or ("full" if stream.isatty() else "plain")
    if kind == "full":
        return FullProgress(tally, SafeConsole(file=stream))
    if kind == "none":
        return SilentProgress(tally)
    if kind == "viewer":
        return ViewerProgress(tally, stream, as_json=False)
    return LineProgress(tally, stream, as_json=kind == "json")


class SilentProgress:
    """Counts, and shows nothing."""

    def __init__(self, tally: ReplayProgress) -> None:
        self._tally = tally

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended."""
        self._tally.observe(finished)

    def __enter__(self) -> SilentProgress:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


class LineProgress:
    """A line every few seconds, and one at the end."""

    def __init__(self, tally: ReplayProgress, stream: TextIO, as_json: bool) -> None:
        self._tally = tally
        self._stream = stream
        self._as_json = as_json
        self._last = time.monotonic()

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended; write a line where the last one is old enough."""
        self._tally.observe(finished)
        if time.monotonic() - self._last >= _PLAIN_EVERY:
            self._write()

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def _write(self) -> None:
        self._last = time.monotonic()
        print(self._json() if self._as_json else progress_line(self._tally), file=self._stream, flush=True)

    def _json(self) -> str:
        tally = self._tally
        runs = {
            id: {
                "agent": run.agent,
                "total": run.total,
                "done": run.before + run.done,
                "outcomes": dict(run.outcomes),
                "scorer": run.score.scorer,
                "average": run.score.average,
                "pooled": run.score.pooled,
                "cost_paid": run.cost_paid,
            }
            for id, run in tally.runs.items()
        }
        servers = [asdict(flow) for flow in flows()]
        counts = {"rate": round(tally.rate, 3), "seconds_left": tally.seconds_left, "runs": runs, "servers": servers}
        claim = tally.live_claim()
        return json.dumps({**counts, "until": claim} if claim else counts)


class ViewerProgress(LineProgress):
    """Lines, behind `ragrounds trace` on the runs. The viewer is a process of its own and has the terminal until the
    user closes it; still open at the end, the results wait for it."""

    def __enter__(self) -> ViewerProgress:
        command = [sys.executable, "-m", "ragrounds", "trace", *self._tally.runs]
        self._viewer = subprocess.Popen(command)  # noqa: S603 - our own program, and ids of our own making
        return self

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended; while the viewer has the terminal nothing is written."""
        if self._viewer.poll() is None:
            self._tally.observe(finished)
        else:
            super().observe(finished)

    def __exit__(self, *_: object) -> None:
        self._viewer.wait()
        super().__exit__()


class FullProgress:
    """A live table: a bar, outcomes, accuracy and cost so far of each agent; rate and time left below."""

    def __init__(self, tally: ReplayProgress, console: Console) -> None:
        self._tally = tally
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._draw, transient=True)

    def observe(self, finished: FinishedAttempt) -> None:
        """Count an attempt that ended."""
        self._tally.observe(finished)

    def __enter__(self) -> FullProgress:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def _draw(self) -> Group:
        foot = Text(
            f"{self._tally.rate:.1f} attempts/s, {duration(self._tally.seconds_left)} left. "
            "Ctrl-C finishes what is in flight; twice stops now. Nothing done is lost.",
            style="dim",
        )
        return Group(*progress_parts(self._tally), foot)


def progress_line(tally: ReplayProgress) -> str:
    """The counts of all runs in a line."""
    all_done = sum(run.before + run.done for run in tally.runs.values())
    total = sum(run.total for run in tally.runs.values())
    bad = sum(run.outcomes["failed"] for run in tally.runs.values())
    empty = sum(run.outcomes["empty"] for run in tally.runs.values())
    claim = tally.live_claim()
    return (
        f"{all_done:,} of {total:,} attempts, {tally.rate:.1f}/s, {bad:,} failed, "
        f"{f'{empty:,} empty, ' if empty else ''}"
        f"{dollars(_cost_paid(tally))} paid, {duration(tally.seconds_left)} left"
    ) + "".join(f"; {said}" for said in (*_scores(tally), *_flows(), claim) if said)


def progress_parts(tally: ReplayProgress) -> list[Table | Text]:
    """A table with a line for each agent, what the calls to servers are doing, and how a claim stands."""
    table = Table(box=None, pad_edge=False)
    table.add_column("agent", overflow="fold")
    table.add_column("")
    for name in ("done", "average so far" if _several(tally) else "score so far", "outcomes", "tokens", "paid"):
        table.add_column(name, justify="right" if name != "outcomes" else "left")
    for run in tally.runs.values():
        table.add_row(*_cells(run))
    claim = tally.live_claim()
    return [table, *(Text(line, style="dim") for line in _flows()), *([Text(claim)] if claim else [])]


def _cells(run: RunProgress) -> list[Text | ProgressBar]:
    done = run.before + run.done
    shown = [f"{name} {run.outcomes[name]:,}" for name in OUTCOMES if run.outcomes[name]]
    return [
        Text(run.agent),
        ProgressBar(total=max(run.total, 1), completed=done, width=20),
        Text(f"{done:,}/{run.total:,}"),
        Text(score_so_far(run)),
        Text(", ".join(shown), style="red" if run.outcomes["failed"] else ""),
        Text(tokens(run.tokens)),
        Text(dollars(run.cost_paid)),
    ]


def score_so_far(run: RunProgress) -> str:
    """The run's score as its table will have it, with the scorer: of several datasets their average."""
    score = run.score
    if score.average is None:
        return UNKNOWN
    return f"{in_scale(score.average, described(score.scorer).unit)} ({score.scorer})"


def _several(tally: ReplayProgress) -> bool:
    return any(run.score.datasets > 1 for run in tally.runs.values())


def _scores(tally: ReplayProgress) -> list[str]:
    """The score of each agent, where they are few."""
    runs = list(tally.runs.values())
    if len(runs) > _FEW or not any(run.score.average is not None for run in runs):
        return []
    named = ", ".join(f"{one_line(run.agent, 40)} {score_so_far(run)}" for run in runs)
    return [f"{'average' if _several(tally) else 'score'} so far: {named}"]


def _flows() -> list[str]:
    """What the calls to each server are doing."""
    return [
        f"{flow.place}: {flow.flying:,} calls in flight of {flow.allowed:,} at most, {flow.limited:,} x 429"
        for flow in flows()
    ]


def _cost_paid(tally: ReplayProgress) -> float | None:
    known = [run.cost_paid for run in tally.runs.values()]
    return None if None in known else sum(value for value in known if value is not None)


def projection_text(found: Projection) -> str:
    """A projection in a few lines: every agent, and all together."""
    seen = min(agent.seen for agent in found.agents)
    lines = [f"Projected from {seen:,} attempts an agent, for those that are left (95 % intervals):"]
    for agent in found.agents:
        took = _took(agent.calls, agent.tokens, agent.cost)
        lines.append(f"  {one_line(agent.agent)}: {agent.attempts:,} attempts, {took}")
    if len(found.agents) > 1:
        lines.append(f"  together: {_took(found.calls, found.tokens, found.cost)}")
    lines.append(f"  time: {_span(found.seconds, duration)} with {found.in_flight:,} attempts in flight")
    if found.cost is not None and found.cost.value:
        lines.append("  Dollars are uncached; what the journal answers, or agents share, costs less.")
    return "\n".join(lines)


def dollars_span(cost: ProjectedSum) -> str:
    """Dollars with their interval."""
    return _span(cost, dollars)


def duration_span(seconds: ProjectedSum) -> str:
    """Time with its interval."""
    return _span(seconds, duration)


def _took(calls: ProjectedSum, used: ProjectedSum | None, cost: ProjectedSum | None) -> str:
    said = [f"{calls.value:,.0f} calls"]
    said.append("tokens not known" if used is None else f"{_span(used, tokens)} tokens")
    said.append("cost not known" if cost is None else _span(cost, dollars))
    return ", ".join(said)


def _span(found: ProjectedSum, written: Callable[[float], str]) -> str:
    if found.low is None or found.high is None:
        return written(found.value)
    low, value, high = written(found.low), written(found.value), written(found.high)
    return value if low == high else f"{value} ({low} to {high})"


def live_claim_text(state: ClaimState) -> str:
    """How a claim that may end a run early stands now, in a line."""
    conditions = "; ".join(_interval(one) for one in state.conditions)
    return f"{one_line(state.claim)}: {state.decision}, {conditions} after {state.questions:,} questions"


def stop_text(record: StopRecord) -> str:
    """What came of such a claim: the decision, every condition with its interval and p value, why the run ended."""
    state = record.state
    lines = [f"{state.decision}: {safe(state.claim)}   ({score_words(record.scorer)})"]
    for one in state.conditions:
        left_out = f", {one.missing:,} without a score left out" if one.missing else ""
        p = "" if one.p is None else f", p = {p_value(one.p)}".replace("= <", "< ")
        lines.append(f"  {_interval(one)} (always valid){p}, n = {one.rounds:,}{left_out}")
    counted = f"  {state.questions:,} questions, in the order drawn by --seed {record.seed}"
    lines.append(f"{counted}; {safe(record.reason)}" if record.reason else counted)
    return "\n".join(lines)


def _interval(one: ConditionState) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "nothing counted yet"
    return claimed_text(one.measured, one.claimed, one.value, one.low, one.high, f"{100 * one.level:g} % interval")


def score_words(scorer: str) -> str:
    """``accuracy by mirage``; of a score whose 1 is no right answer ``score by rouge-l``."""
    return f"{'accuracy' if described(scorer).accuracy else 'score'} by {scorer}"


def claimed_text(measured: str, claimed: str, value: float, low: float | None, high: float | None, which: str) -> str:
    """What was measured with its interval, and what was claimed of it.

    Args:
        measured: ``accuracy(a) - accuracy(b)``; empty: the left side less the right side.
        claimed: ``> 0.02``.
        value, low, high: of what was measured; without ends there is no interval.
        which: names the interval.
    """
    ends = "no interval" if low is None or high is None else f"{which} {low:.4g} to {high:.4g}"
    said = f", claimed: {one_line(claimed)}" if claimed else ""
    return f"{one_line(measured) or 'left - right'} = {value:.4g}, {ends}{said}"
