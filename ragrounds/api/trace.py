"""Inspection of attempts: lists, differences of two runs, one attempt with every step, and the viewer of the terminal.

    from ragrounds.api import trace

    trace.list_attempts(trace.AttemptQuery(runs=["direct"], where="wrong", sort="cost"))

`home` is the folder of the store, `settings` all settings; by default the user's.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from ragrounds.api.arguments import Arg
from ragrounds.api.workspace import Progress, chosen_settings, open_store, unheard
from ragrounds.base.chunks import chunks
from ragrounds.base.errors import UserError, one_of
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.evals.store.attempt_notes import AttemptNote, write_note
from ragrounds.evals.store.run_names import last_command
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace import attempt_filter
from ragrounds.evals.trace.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.trace.summaries import (
    SORTS,
    AttemptSummary,
    Pages,
    SortBy,
    UnknownFacts,
    asks_facts,
)
from ragrounds.evals.trace.traces import trace as read_trace
from ragrounds.ui.trace.attempt_list import differences
from ragrounds.ui.trace.differences import AnswerDifference, answer_differences
from ragrounds.ui.trace.loaded import open_pages

_BATCH_SIZE = 100
"""Number of attempts whose calls are read at a time."""


_SELECTION = "Which attempts, in which order"


class AttemptQuery(Struct, frozen=True, kw_only=True):
    """Selection and order of attempts. Empty fields select all."""

    runs: Annotated[
        Sequence[str],
        Arg("Ids, beginnings of ids, or agents' texts; none: those on the questions of the last command.", option="-"),
    ] = ()
    where: Annotated[
        str,
        Arg("Only these: 'wrong and hops>3 and gold not seen'.", short="-w", metavar="FILTER", group=_SELECTION),
    ] = ""
    sort: Annotated[
        str,
        Arg(
            "asked, cost, model_calls, time, tokens, score, newest, hops, gold_rank …; highest first.",
            metavar="BY",
            group=_SELECTION,
        ),
    ] = "asked"
    ascending: Annotated[bool, Arg("Lowest first.", group=_SELECTION)] = False
    limit: Annotated[int | None, Arg("Only this many rows (printed).", 1, group=_SELECTION)] = None
    scorers: Annotated[
        Sequence[str],
        Arg(
            "A scorer, by preference (repeatable). [default: the headline]",
            option="--scorer",
            many=True,
            group=_SELECTION,
        ),
    ] = ()


class RunDifferences(Struct, frozen=True):
    """Questions that two runs did not answer equally well."""

    first: Run
    second: Run
    questions: tuple[AnswerDifference, ...]
    """Questions with both answers and, if one is not right, the likely cause."""


def list_attempts(
    query: AttemptQuery | None = None,
    *,
    progress: Progress = unheard,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> list[AttemptSummary]:
    """List the selected attempts, without text and steps, including questions without an attempt.

    If `where` asks for words in texts or for facts of steps that attempts do not have yet, these are read from the
    journal first, and `progress` is called.

    Raises:
        FilterError: `where` cannot be parsed; the message names the position and the expected text.
        UserError: a run, outcome, mark, subject or order is unknown, or there is no run at all.
    """
    used_query = query or AttemptQuery()
    with opened_pages(used_query, None, chosen_settings(settings, home)) as pages:
        pages.complete(used_query.where, progress, used_query.sort)
        return pages.with_facts(_listed(pages, used_query))


def unknown_attempts(
    query: AttemptQuery, *, home: str | Path | None = None, settings: Settings | None = None
) -> UnknownFacts:
    """Count the attempts for which a query's conditions are not known: gold documents or facts are missing.

    Raises:
        UserError: as :func:`list_attempts`, if a condition is about golds or facts.
        FilterError: the filter cannot be read.
    """
    if not asks_facts(query.where):  # the run that is meant was printed when it was listed
        return UnknownFacts()
    with opened_pages(query, None, chosen_settings(settings, home)) as pages:
        return pages.unknown(query.where)


def hint(where: str) -> str:
    """Return a hint on a valid filter that may contain a typing error: a bare word that is nearly one of the language;
    empty without such a word.
    """
    return attempt_filter.hint(where)


def list_hops(
    query: AttemptQuery | None = None,
    *,
    progress: Progress = unheard,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Iterator[HopsOfAttempt]:
    """Yield the selected attempts, each with its searches, the fate of gold documents, and the likely cause of an
    error.

    About a hundred attempts are in memory at a time.

    Raises:
        FilterError: `where` cannot be parsed; the message names the position and the expected text.
        UserError: a run, outcome, mark, subject or order is unknown, or there is no run at all.
    """
    used_query = query or AttemptQuery()
    with opened_pages(used_query, None, chosen_settings(settings, home)) as pages:
        pages.complete(used_query.where, progress, used_query.sort)
        summaries = pages.read(_listed(pages, used_query))
        reader = HopReader(pages)
        for batch in chunks(summaries, _BATCH_SIZE):
            yield from reader.read(batch)


def _listed(pages: Pages, query: AttemptQuery) -> Sequence[int]:
    """Return the indexes of the selected rows, in their order, at most `limit` of them."""
    where, sort = query.where, listed_sort(query)
    indexes = pages.order(where, sort, not query.ascending) if where or sort != "asked" else range(len(pages))
    return indexes[: query.limit]


def annotate(
    reference: str,
    epoch: int = 0,
    *,
    mark: str | None = None,
    text: str | None = None,
    author: str | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> AttemptNote | None:
    """Add a mark, a note or both to an attempt, named as ``RUN/QUESTION``. Each author has one mark and one note there.

    Args:
        reference: the attempt, such as ``vanilla_rag/sample/c01``.
        epoch: epoch of the attempt.
        mark: one word, such as ``star``; empty to remove the mark, ``None`` to leave it unchanged.
        text: the note; empty to remove it, ``None`` to leave it unchanged.
        author: author of the note; by default the setting `author`, else the login name.
        home: the folder of the store.
        settings: all settings.

    Returns:
        The author's mark and note after the change; ``None`` if the author has neither.

    Raises:
        UserError: the run, question or epoch is unknown; the mark is not one word; or the note is too long.
    """
    used_settings = chosen_settings(settings, home)
    with open_store(used_settings) as store:
        run, question = _split_reference(store, reference)
        attempt_trace = read_trace(store, run, question, epoch)
        author_used = author or author_name(used_settings)
        return write_note(store, run, attempt_trace.question.id, epoch, author=author_used, mark=mark, text=text)


def author_name(settings: Settings) -> str:
    """Return the author of marks and notes: the setting `author`, else the login name."""
    if settings.author and settings.author.strip():
        return settings.author.strip()
    try:
        return getpass.getuser() or "reader"
    except (OSError, KeyError, ImportError):  # a user without a name
        return "reader"


def run_differences(
    runs: Sequence[str] = (),
    scorers: Sequence[str] = (),
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> RunDifferences:
    """Return the questions on which two runs differ, with both answers, by the first scorer that an attempt has.

    Args:
        runs: two runs; by default those on the questions of the last command, if there are two.
        scorers: scorers by preference; by default the headline of the questions.

    Raises:
        UserError: a run is unknown, or there are not two.
    """
    with opened_pages(AttemptQuery(runs=runs, scorers=scorers), None, chosen_settings(settings, home)) as pages:
        if len(pages.runs) != 2:
            raise UserError(f"--differing compares two runs; {len(pages.runs)} were given. See `ragrounds runs ls`.")
        return RunDifferences(*pages.runs, tuple(answer_differences(pages, differences(pages, 0, 1))))


def view(
    query: AttemptQuery | None = None,
    *,
    attempt: str | None = None,
    epoch: int = 0,
    light: bool = False,
    start: str = "attempts",
    progress: Progress = unheard,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> None:
    """Open the viewer in the terminal until the user closes it; without a query, its home screen.

    The viewer follows runs that are in progress.

    Args:
        query: the attempts that are listed first.
        attempt: the attempt that is shown first, ``RUN/QUESTION``.
        epoch: epoch of that attempt.
        light: True for light colours, else dark ones.
        start: name of the first view: ``attempts``, ``hops``, ``grid``, ``compare`` …
        progress: function that gets the steps before the viewer opens.

    Raises:
        UserError: a run, outcome, mark, subject, order, view or attempt is unknown, or there is no run at all.
    """
    # Textual is imported only for the viewer.
    from ragrounds.ui.trace.app import DARK, LIGHT, TraceApp
    from ragrounds.ui.trace.view import all_views

    one_of("start", start, list(all_views()))
    used_query, used_settings = query or AttemptQuery(), chosen_settings(settings, home)
    theme, author = LIGHT if light else DARK, author_name(used_settings)
    if used_query == AttemptQuery() and attempt is None and start == "attempts":
        with open_store(used_settings) as store:
            TraceApp(store, theme=theme, author=author).run()
        return
    with opened_pages(used_query, attempt, used_settings) as pages:
        where, sort, row = used_query.where, listed_sort(used_query), 0
        pages.complete(where, progress, sort)
        if attempt is not None:
            run, question = _split_reference(pages.store, attempt)
            attempt_trace = read_trace(pages.store, run, question, epoch)
            row = pages.row_of(pages.runs.index(run), attempt_trace.question.id, epoch) or 0
        TraceApp(pages, where=where, sort=sort, row=row, theme=theme, view=start, author=author).run()


@contextmanager
def opened_pages(query: AttemptQuery, attempt: str | None, settings: Settings) -> Iterator[Pages]:
    """Open the rows of the selected runs."""
    with open_store(settings) as store:
        yield open_pages(store, _runs(store, query.runs, attempt), query.scorers)


def _runs(store: Store, references: Sequence[str], attempt: str | None) -> list[Run]:
    if references:
        selected = store.select_runs(references)
        selected += [_split_reference(store, attempt)[0]] if attempt is not None else []
        return list({run.id: run for run in selected}.values())
    stored_runs = store.runs()
    if not stored_runs:
        raise UserError(f"There are no runs yet in {store.location}. `ragrounds run` makes some.")
    if attempt is None:
        last = last_command(store.engine)
        reference_run = next((run for run in reversed(stored_runs) if run.id in last), stored_runs[-1])
    else:
        reference_run = _split_reference(store, attempt)[0]
    return [run for run in stored_runs if run.questions == reference_run.questions]


def _split_reference(store: Store, text: str) -> tuple[Run, str]:
    """Split RUN/QUESTION into the run and the question. Both may contain slashes, so the first existing run counts."""
    error = UserError(f"--attempt {text!r}: expected RUN/QUESTION, such as direct/sample/c01. See `ragrounds runs ls`.")
    for index in (position for position, letter in enumerate(text) if letter == "/"):
        if not text[index + 1 :]:
            continue
        try:
            return store.run(text[:index]), text[index + 1 :]
        except UserError as missing:
            error = missing if text.find("/") == index else error
    raise error


def listed_sort(query: AttemptQuery) -> SortBy:
    """Return the sort key of a query.

    Raises:
        UserError: the key is unknown.
    """
    return one_of("--sort", query.sort, SORTS)
