"""`ragrounds trace`: look at attempts, in a terminal or without one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragrounds.api.workspace import one_of, open_store, user_settings
from ragrounds.cli import options
from ragrounds.cli.output import print_json
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ragrounds.evals.store.store import Store
    from ragrounds.evals.store.summaries import Filter, Pages
    from ragrounds.records import Run


app = typer.Typer()


@app.command("trace")
def trace_command(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs: an id, the beginning of one, or an agent's text. [default: those on the newest questions]"
        ),
    ] = None,
    attempt: Annotated[str | None, typer.Option(help="One attempt, RUN/QUESTION: vanilla_rag/sample/c01.")] = None,
    epoch: options.Epoch = 0,
    format: Annotated[
        str | None, typer.Option(help="Print instead of opening the viewer: text, json or markdown.")
    ] = None,
    differing: Annotated[
        bool, typer.Option("--differing", help="Of two runs: the questions they differ on (printed).")
    ] = False,
    find: Annotated[str, typer.Option(help="Only questions with this text.")] = "",
    outcome: Annotated[
        list[str] | None, typer.Option(help="Only this outcome: answered, abstained, failed, … (repeatable).")
    ] = None,
    mark: Annotated[list[str] | None, typer.Option(help="Only right, wrong or unscored ones (repeatable).")] = None,
    subject: Annotated[list[str] | None, typer.Option(help="Only this subject (repeatable).")] = None,
    sort: Annotated[
        str, typer.Option(help="asked, cost, calls, time, tokens, score or newest; highest first.")
    ] = "asked",
    ascending: Annotated[bool, typer.Option("--ascending", help="Lowest first.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows (printed).")] = None,
    scorer: Annotated[
        list[str] | None,
        typer.Option(help="A scorer, by preference (repeatable). [default: the headline]"),
    ] = None,
    light: Annotated[bool, typer.Option("--light", help="Light colours.")] = False,
) -> None:
    """See every step of every answer: a viewer in the terminal; with --format, the same as text for pipes and CI.

    It follows runs that are still at work, also in another process. `?` shows the keys.

    Examples:

      ragrounds trace

      ragrounds trace direct 'vanilla_rag[top_k=8]' --mark wrong --sort cost

      ragrounds trace --attempt 'vanilla_rag[top_k=8]/sample/c01' --format markdown
    """
    from ragrounds.evals.scorers import headline_of
    from ragrounds.evals.store.summaries import PREFERRED, Pages
    from ragrounds.ui.trace.headless import FORMATS

    if format is not None:
        one_of("--format", format, FORMATS)
    if differing and format is None:
        format = "text"
    chosen = user_settings()
    wanted, order = _filter(find, outcome or [], mark or [], subject or []), _sort(sort)
    with open_store(chosen) as store:
        named = _runs(store, runs or [], attempt)
        # The score is the headline's, as in tables; the first question says whose card it is.
        first = [row.question for row in Pages(store, named).read([0])]
        headlines = [one.scorer for one in headline_of(first)]
        pages = Pages(store, named, tuple(dict.fromkeys((*(scorer or ()), *headlines, *PREFERRED))))
        known = pages.subjects() if subject else ()
        for name in subject or ():
            one_of("--subject", name, tuple(known))
        if format is None:
            _view(pages, wanted, order, light, attempt, epoch, chosen.home)
        elif attempt is not None:
            _print_attempt(store, pages, attempt, epoch, format)
        elif differing:
            _print_differing(pages, format)
        else:
            _print_list(pages, wanted, order, ascending, limit, format)


def _runs(store: Store, references: Sequence[str], attempt: str | None) -> list[Run]:

    if references:
        named = [store.run(name) for name in references]
        named += [_attempt_of(store, attempt)[0]] if attempt is not None else []
        return list({run.id: run for run in named}.values())
    known = store.runs()
    if not known:
        raise UserError(f"There are no runs yet in {store.place}. `ragrounds run` makes some.")
    chosen = known[-1] if attempt is None else _attempt_of(store, attempt)[0]
    return [run for run in known if run.questions == chosen.questions]


def _attempt_of(store: Store, text: str) -> tuple[Run, str]:
    """RUN/QUESTION; both may hold slashes, so the first run that there is counts."""

    error = UserError(f"--attempt {text!r}: expected RUN/QUESTION, such as direct/sample/c01. See `ragrounds runs ls`.")
    for at in (place for place, letter in enumerate(text) if letter == "/"):
        if not text[at + 1 :]:
            continue
        try:
            return store.run(text[:at]), text[at + 1 :]
        except UserError as missing:
            error = missing if text.find("/") == at else error
    raise error


def _filter(find: str, outcome: list[str], mark: list[str], subject: list[str]) -> Filter:
    from ragrounds.evals.store.summaries import MARKS, Filter
    from ragrounds.records import OUTCOMES

    for name in outcome:
        one_of("--outcome", name, OUTCOMES)
    for name in mark:
        one_of("--mark", name, MARKS)
    return Filter(frozenset(), frozenset(outcome), frozenset(subject), frozenset(mark), find)


def _sort(text: str) -> Any:
    from ragrounds.evals.store.summaries import SORTS

    return one_of("--sort", text, SORTS)


def _view(pages: Pages, wanted: Filter, sort: Any, light: bool, attempt: str | None, epoch: int, home: Path) -> None:

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("The viewer needs a terminal. Print instead with --format text, json or markdown.")
    from ragrounds.evals.store.traces import trace
    from ragrounds.ui.trace.app import DARK, LIGHT, TraceApp, read_keymap

    row = 0
    if attempt is not None:
        run, question = _attempt_of(pages.store, attempt)
        row = pages.row_of(pages.runs.index(run), trace(pages.store, run, question, epoch).question.id, epoch) or 0
    theme = LIGHT if light else DARK
    TraceApp(pages, wanted=wanted, sort=sort, row=row, theme=theme, keymap=read_keymap(home / "keys.toml")).run()


def _print_attempt(store: Store, pages: Pages, attempt: str, epoch: int, format: str) -> None:
    from rich.console import Console

    from ragrounds.evals.store.traces import trace
    from ragrounds.ui.trace import headless
    from ragrounds.ui.trace.tree import LoadedAttempt

    run, question = _attempt_of(store, attempt)
    found = trace(store, run, question, epoch)
    if format == "json":
        print_json(headless.attempt_json(found))
    elif format == "text":
        headless.print_attempt(found, Console())
    else:
        row = pages.row_of(pages.runs.index(run), found.question.id, epoch)
        assert row is not None, "the attempt was found above"
        typer.echo(headless.attempt_markdown(LoadedAttempt(pages, pages.read([row])[0])), nl=False)


def _print_differing(pages: Pages, format: str) -> None:
    from ragrounds.ui.trace import headless

    if len(pages.runs) != 2:
        raise UserError(f"--differing compares two runs; {len(pages.runs)} were named. See `ragrounds runs ls`.")
    if format == "json":
        print_json(headless.difference_json(pages, 0, 1))
    else:
        _print_table(headless.difference_rows(pages, 0, 1), format)


def _print_list(pages: Pages, wanted: Filter, sort: Any, ascending: bool, limit: int | None, format: str) -> None:
    from ragrounds.ui.trace import headless

    found = headless.listed(pages, wanted, sort, not ascending, limit)
    if format == "json":
        print_json([headless.summary_json(one) for one in found], "attempts")
    else:
        _print_table(headless.list_rows(found), format)


def _print_table(rows: list[list[str]], format: str) -> None:
    from ragrounds.ui.trace.headless import table_markdown, table_text

    typer.echo(table_markdown(rows) if format == "markdown" else table_text(rows))
