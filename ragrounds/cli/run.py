"""`ragrounds run`: replay a benchmark through agents, score every answer, compare the agents on accuracy and cost."""

from __future__ import annotations

import sys
from typing import Any

import typer
from msgspec.structs import asdict, replace

from ragrounds.api.aliases import named_agents, parse_names
from ragrounds.api.progress import TerminalListener
from ragrounds.api.run import RunResult, run
from ragrounds.api.run_request import RunArguments
from ragrounds.base.errors import one_of
from ragrounds.cli import options
from ragrounds.cli.options import grouped
from ragrounds.cli.output import FAILED_ATTEMPTS, exit_by, print_json, say, say_next
from ragrounds.ui.call_words import plain_reason
from ragrounds.ui.tables.claim_text import stop_text
from ragrounds.ui.tables.text_tables import results_console
from ragrounds.ui.text import number_of, one_line

app = typer.Typer()


@app.command("run")
@grouped
def run_command(
    arguments: RunArguments,
    names: options.Names = None,
    display: options.Display = None,
    as_json: options.AsJson = False,
    full: options.Full = False,
) -> None:
    """Replay a benchmark through agents, score every answer, compare the agents on accuracy and cost.

    Without options: the built-in baseline on the sample benchmark; no key, no network.

    The same command resumes where an interrupted run stopped. Recorded calls are never paid twice.

    Examples:

      ragrounds run

      ragrounds run --benchmark mirage:benchmark.json --agent direct_cot --agent 'vanilla_rag[top_k=8]'
      --corpus beir:FOLDER --model openai:gpt-4o-mini --limit 100

      ragrounds run --benchmark mirage/pubmedqa --agent direct_cot --model openai:llama --base-url http://127.0.0.1:8000/v1

      ragrounds run --agent direct --agent 'vanilla_rag[top_k=8]' --until 'separated(direct, vanilla_rag) @ 95%'
    """
    listener = RunDisplay(display, arguments.corpus or "")
    if names:
        arguments = replace(arguments, agents=named_agents(arguments.agents, parse_names(names)))
    result = run(**asdict(replace(arguments, listener=listener)))
    _tell(result, as_json, full)
    if result.stopping is not None and result.stopping.state.decision == "fails":
        exit_by("fails")
    if result.failures or result.paused:
        raise typer.Exit(FAILED_ATTEMPTS)
    if result.stopping is not None:
        exit_by(result.stopping.state.decision)


def _tell(result: RunResult, as_json: bool, full: bool) -> None:
    """Print the result of a run, with its figures."""
    if result.ended:
        say(f"Ended early: {result.ended}. All agents have answered the same questions; the same command resumes.")
    if result.stopping is not None:
        say(stop_text(result.stopping))
    rest = "; model calls without a reply are not counted" if result.failures else ""
    if result.complete:
        there = number_of(sum(replayed_run.count * replayed_run.epochs for replayed_run in result.runs), "attempt")
        rest = f": {there} already complete, so no call was made; --new makes them again"
    others = ((result.searches, "search"), (result.tool_calls, "tool call"))
    other_calls = " and ".join(number_of(count, name) for count, name in others if count)
    searched = f"; {other_calls} made" if other_calls else ""
    say(f"{number_of(result.made, 'model call')} made, {result.reused:,} answered from the journal{searched}{rest}.")
    if as_json:
        stopping = {"until": result.stopping} if result.stopping else {}
        print_json({**asdict(result.comparison), **stopping})
    else:
        result.draw(results_console(), full=full)
        first = result.benchmark.is_sample and any(row.no_model == "extractive" for row in result.comparison.rows)
        say_next(*(["--model openai:NAME (yours)"] if first else []))
    for status, reasons in (("failed", result.failures), ("capped", result.capped), ("paused", result.paused)):
        for reason, count in reasons:
            say(f"{count:,} {status}: {one_line(': '.join(filter(None, plain_reason(reason))), 300)}")
    if result.paused:
        say("`on_interrupt=yes` in the agent's brackets (or a text, or `person.py:answer`) answers for a person.")


class RunDisplay(TerminalListener):
    """Display of a run's events on standard error; it asks for confirmation of expensive runs."""

    def __init__(self, display: str | None, corpus: str = "") -> None:
        checked_display: Any = display and one_of("--display", display, ("full", "plain", "json", "none"))
        super().__init__(checked_display, corpus)

    def confirm(self, expected: str) -> bool:
        """Ask for confirmation on a terminal; a no ends the command."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        return typer.confirm(f"The rest is projected to take {expected}. Continue?", abort=True, err=True)
