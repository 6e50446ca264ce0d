"""`ragrounds trace`: see every step of every answer, in a terminal or without one. `ragrounds show`: show every step of
one answer."""

from __future__ import annotations

import os
import pydoc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from ragrounds.api.arguments import Arg
from ragrounds.api.runs import show_attempts
from ragrounds.api.trace import (
    AttemptQuery,
    hint,
    list_attempts,
    list_hops,
    run_differences,
    unknown_attempts,
    view,
)
from ragrounds.base.errors import UserError, one_of
from ragrounds.cli import options
from ragrounds.cli.options import grouped
from ragrounds.cli.output import counting, print_json, say, tell
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.trace import differences, headless, hop_lines, lists

app = typer.Typer()
_MANY_ATTEMPTS = 1_000
"""Number of attempts from which a step is reported without a terminal: they take about half a second."""


class ViewOptions(Struct, frozen=True, kw_only=True):
    """Attempt at which the viewer begins, or the form of what is printed instead."""

    attempt: Annotated[str | None, Arg("Begin at one attempt, RUN/QUESTION: direct/sample/c01.")] = None
    epoch: Annotated[int, Arg("Which of the run's epochs, from 0.", 0, metavar="EPOCH")] = 0
    format: Annotated[str | None, Arg("Print instead of opening the viewer: text or json; the list also csv.")] = None
    differing: Annotated[bool, Arg("Of two runs: the questions they differ on, with both answers.")] = False
    light: Annotated[bool, Arg("Light colours.")] = False
    hops: Annotated[bool, Arg("One line an attempt: its searches, the ranks of gold, the likely cause.")] = False


@app.command("trace")
@grouped
def trace_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs: an id, the beginning of one, or an agent's text. [default: all, by benchmark]"),
    ] = None,
    *,
    shown: ViewOptions,
    which: AttemptQuery,
) -> None:
    """See every run and every step of every answer: a viewer in the terminal; with --format, as text for pipes and CI.

    It follows runs that are still in progress, also in another process. `?` shows the keys.

    Examples:

      ragrounds trace direct 'vanilla_rag[top_k=8]' --where wrong --sort cost

      ragrounds trace --where 'wrong and hops>3 and gold not seen' --hops --format text

      ragrounds trace direct 'vanilla_rag[top_k=8]' --differing
    """
    format, differing, hops = shown.format, shown.differing, shown.hops
    if format is not None:
        one_of("--format", format, ("text", "json") if differing or hops else ("text", "json", "csv"))
    if format is not None and shown.attempt is not None:
        raise UserError(
            f"--format prints lists; `ragrounds show RUN QUESTION` prints one attempt, such as {shown.attempt}."
        )
    query = replace(which, runs=runs or ())
    if differing and (format or not _on_terminal()):
        differing_runs = run_differences(query.runs, query.scorers)
        pair = (differing_runs.first, differing_runs.second, differing_runs.questions)
        if format == "json":
            print_json(differences.difference_json(*pair))
        elif not differing_runs.questions:
            first, second = quote(differing_runs.first.id), quote(differing_runs.second.id)
            say(
                f"Both have the same score on every question that both answered. ragrounds show {first} QUESTION "
                f"--against {second} shows two answers to one question."
            )
        else:
            print_table(differences.difference_table(*pair), results_console())
    elif format is None:
        _view(query, shown)
    elif hops:
        _print_hops(query, format)
    else:
        _print_list(query, format)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _view(query: AttemptQuery, shown: ViewOptions) -> None:
    if not _on_terminal():
        raise UserError("The viewer needs a terminal. Print instead with --format text or json.")
    reported: set[str] = set()

    def progress(step: str, done: int) -> None:
        """Report a step once; a progress bar would disturb the viewer."""
        if step not in reported:
            reported.add(step)
            say(f"{step} …")

    start = "compare" if shown.differing else "hops" if shown.hops else "attempts"
    view(query, attempt=shown.attempt, epoch=shown.epoch, light=shown.light, start=start, progress=progress)


@contextmanager
def _counting() -> Iterator[Callable[[str, int], None]]:
    """Count attempts on a terminal; elsewhere report each step once, when it takes long."""
    reported: set[str] = set()
    with counting() as count:

        def progress(step: str, done: int) -> None:
            count(step, done)
            if done >= _MANY_ATTEMPTS and step not in reported and not sys.stderr.isatty():
                reported.add(step)
                say(f"{step} …")

        yield progress


def _print_list(query: AttemptQuery, format: str) -> None:
    with _counting() as progress:
        summaries = list_attempts(query, progress=progress)
    if format == "json":
        print_json([lists.summary_json(summary) for summary in summaries], "attempts")
    elif format == "csv":
        tell(lists.list_csv(summaries), nl=False)
    else:
        print_table(lists.list_table(summaries), results_console())
    for line in (hint(query.where), lists.unknown_words(unknown_attempts(query))) if query.where else ():
        if line:
            say(line)
    if not summaries:
        say("No attempt fits.")


def _print_hops(query: AttemptQuery, format: str) -> None:
    with _counting() as progress:
        hops = list_hops(query, progress=progress)
        if format == "json":
            print_json([hop_lines.hop_json(attempt_hops) for attempt_hops in hops], "attempts")
        else:
            attempts = list(hops)
            runs = list({attempt_hops.summary.run.id: attempt_hops.summary.run for attempt_hops in attempts}.values())
            names = {attempt_hops.summary.run.id: attempt_hops.summary.given_name for attempt_hops in attempts}
            agents = names_of_runs(runs, names) if len(runs) > 1 else {}
            tell(hop_lines.hop_text(attempts, SafeConsole().width, agents) or "No attempt fits.")


@app.command("show")
def show_answer(
    run: options.RunName,
    question: Annotated[
        str | None, typer.Argument(help="A question's id, or its end: 12377809 for pubmedqa/12377809.")
    ] = None,
    question_id: Annotated[str | None, typer.Option("--question", help="The same, as other commands have it.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="RUN", help="Next to another run's answer, from the sentence where they part.")
    ] = None,
    epoch: options.Epoch = 0,
    full: Annotated[bool, typer.Option("--full", help="Every step: messages, passages, replies.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show one answer: the question, what was chosen, scores, searches and steps; --full: the exact messages.

    Example: ragrounds show 'vanilla_rag[top_k=8]' sample/c01
    """
    questions = [candidate for candidate in (question, question_id) if candidate]
    if len(questions) != 1:
        raise UserError(f"Name one question of {run}: `ragrounds show {quote(run)} QUESTION`, or --question.")
    traces = show_attempts([run] if against is None else [run, against], questions[0], epoch)
    if against is None and as_json:
        print_json(traces[0])
    elif against is None:
        _print_paged(lambda console: headless.print_attempt(traces[0], console, full=full))
    elif as_json:
        print_json(traces, "attempts")
    else:
        _print_paged(lambda console: headless.print_pair((traces[0], traces[1]), console, full))


def _print_paged(draw: Callable[[Console], None]) -> None:
    """Print on standard output; a text longer than the terminal is shown in `PAGER`, by default in less, as in git."""
    console = SafeConsole()
    with console.capture() as capture:
        draw(console)
    text = capture.get()
    if not console.is_terminal or text.count("\n") < console.height:
        sys.stdout.write(text)
        return
    os.environ.setdefault("LESS", "FRX")
    pydoc.pager(text)
