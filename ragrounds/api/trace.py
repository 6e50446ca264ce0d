"""Attempts looked at: lists of them, where two runs differ, one with every step, and the viewer of the terminal.

    from ragrounds.api import trace

    trace.list_attempts(trace.AttemptQuery(runs=["direct"], where="wrong", sort="cost"))

`home` is the folder of the store, `settings` all settings; ``None``: the user's.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from ragrounds.api.arguments import Arg
from ragrounds.api.workspace import Progress, chosen_settings, one_of, open_store, unheard
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.base.settings import Settings
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.attempt_notes import AttemptNote, write_note
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace import attempt_filter
from ragrounds.evals.trace.hop_reading import HopReader, HopsOfAttempt
from ragrounds.evals.trace.summaries import PREFERRED, SORTS, AttemptSummary, Pages, SortBy, UnknownFacts
from ragrounds.evals.trace.traces import trace as read_trace
from ragrounds.ui.trace.attempt_list import differences
from ragrounds.ui.trace.differences import AnswerDifference, answer_differences

_AT_ONCE = 100
"""Attempts whose calls are read at a time."""


_WHICH = "Which attempts, in which order"


class AttemptQuery(Struct, frozen=True, kw_only=True):
    """Which attempts are wanted, and in which order. Empty fields want all."""

    runs: Annotated[
        Sequence[str], Arg("Ids, beginnings of ids, or agents' texts; none: those on the newest questions.", option="-")
    ] = ()
    where: Annotated[
        str,
        Arg("Only these: 'wrong and hops>3 and gold not seen'.", short="-w", metavar="FILTER", group=_WHICH),
    ] = ""
    sort: Annotated[
        str,
        Arg(
            "asked, cost, model_calls, time, tokens, score, newest, hops, gold_rank …; highest first.",
            metavar="BY",
            group=_WHICH,
        ),
    ] = "asked"
    ascending: Annotated[bool, Arg("Lowest first.", group=_WHICH)] = False
    limit: Annotated[int | None, Arg("Only this many rows (printed).", 1, group=_WHICH)] = None
    scorers: Annotated[
        Sequence[str],
        Arg(
            "A scorer, by preference (repeatable). [default: the headline]", option="--scorer", many=True, group=_WHICH
        ),
    ] = ()


class RunDifferences(Struct, frozen=True):
    """The questions that two runs did not answer equally well."""

    first: Run
    second: Run
    questions: tuple[AnswerDifference, ...]
    """With both answers and, where one is not right, the likely cause."""


def list_attempts(
    query: AttemptQuery | None = None,
    *,
    progress: Progress = unheard,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> list[AttemptSummary]:
    """The attempts that are wanted, without text and steps; questions that no attempt was made at are among them.

    Where `where` asks for words in texts or for facts of steps that attempts do not have yet, these are looked for
    in the journal first, and `progress` is called.

    Raises:
        FilterError: `where` cannot be understood; says where and what was expected.
        UserError: an unknown run, outcome, mark, subject or order; no run at all.
    """
    asked = query or AttemptQuery()
    with opened_pages(asked, None, chosen_settings(settings, home)) as pages:
        pages.complete(asked.where, progress, asked.sort)
        return pages.with_facts(_listed(pages, asked))


def unknown_attempts(
    query: AttemptQuery, *, home: str | Path | None = None, settings: Settings | None = None
) -> UnknownFacts:
    """How many attempts the conditions of a query can say nothing of: no gold documents are known, or no facts.

    Raises:
        UserError: as :func:`list_attempts`.
    """
    with opened_pages(query, None, chosen_settings(settings, home)) as pages:
        return pages.unknown(query.where)


def hint(where: str) -> str:
    """What may be amiss in an expression that can be read: a bare word that is nearly one of the language; empty:
    nothing."""
    return attempt_filter.hint(where)


def list_hops(
    query: AttemptQuery | None = None,
    *,
    progress: Progress = unheard,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Iterator[HopsOfAttempt]:
    """The attempts that are wanted, each with its searches, what became of gold, and the likely cause where it is not
    right. Some hundred at a time are in memory.

    Raises:
        FilterError: `where` cannot be understood; says where and what was expected.
        UserError: an unknown run, outcome, mark, subject or order; no run at all.
    """
    asked = query or AttemptQuery()
    with opened_pages(asked, None, chosen_settings(settings, home)) as pages:
        pages.complete(asked.where, progress, asked.sort)
        found = pages.read(_listed(pages, asked))
        reader = HopReader(pages)
        for start in range(0, len(found), _AT_ONCE):
            yield from reader.read(found[start : start + _AT_ONCE])


def _listed(pages: Pages, query: AttemptQuery) -> Sequence[int]:
    """The places of the rows that are wanted, in their order, at most `limit` of them."""
    where, sort = query.where, listed_sort(query)
    places = pages.order(where, sort, not query.ascending) if where or sort != "asked" else range(len(pages))
    return places[: query.limit]


def annotate(
    place: str,
    epoch: int = 0,
    *,
    mark: str | None = None,
    text: str | None = None,
    author: str | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> AttemptNote | None:
    """Leave a mark, a note or both beside an attempt, which ``RUN/QUESTION`` names: each author has one of each there.

    Args:
        place: such as ``vanilla_rag/sample/c01``.
        epoch: of the attempt.
        mark: one word, such as ``star``; empty: takes the mark away; ``None``: leaves it as it is.
        text: the note; empty: takes it away; ``None``: leaves it as it is.
        author: who; ``None``: the setting `author`, or else the name of the login.
        home: the folder of the store.
        settings: all settings.

    Returns:
        What the author has left there by now; ``None``: nothing.

    Raises:
        UserError: no such run, question or epoch; the mark is not one word; the note is too long.
    """
    chosen = chosen_settings(settings, home)
    with open_store(chosen) as store:
        run, question = _place(store, place)
        found = read_trace(store, run, question, epoch)
        by = author or author_name(chosen)
        return write_note(store, run, found.question.id, epoch, author=by, mark=mark, text=text)


def author_name(settings: Settings) -> str:
    """Who marks attempts and writes notes: the setting `author`, or else the name of the login."""
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
    """The questions on which two runs differ, by the first of the scorers that an attempt has, with both answers.

    Args:
        runs: two of them; none: those on the newest questions, where these are two.
        scorers: by preference; none: the headline of the questions.

    Raises:
        UserError: an unknown run, or not two of them.
    """
    with opened_pages(AttemptQuery(runs=runs, scorers=scorers), None, chosen_settings(settings, home)) as pages:
        first, second = _two_runs(pages)
        return RunDifferences(first, second, tuple(answer_differences(pages, differences(pages, 0, 1))))


def _two_runs(pages: Pages) -> tuple[Run, Run]:
    if len(pages.runs) != 2:
        raise UserError(f"--differing compares two runs; {len(pages.runs)} were given. See `ragrounds runs ls`.")
    return pages.runs[0], pages.runs[1]


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
    """Open the viewer in the terminal until the user closes it: its home, where nothing says which attempts. It follows
    runs that are still at work.

    Args:
        query: the attempts that are listed at first.
        attempt: begin with this one, ``RUN/QUESTION``.
        epoch: of that attempt.
        light: light colours, else dark ones.
        start: the view that opens, by its name: ``attempts``, ``hops``, ``grid``, ``compare`` …
        progress: gets what is made before the viewer opens.

    Raises:
        UserError: an unknown run, outcome, mark, subject, order, view or attempt; no run at all.
    """
    # Textual is loaded for the viewer alone.
    from ragrounds.ui.trace.app import DARK, LIGHT, TraceApp
    from ragrounds.ui.trace.view import all_views

    one_of("start", start, list(all_views()))
    asked, chosen = query or AttemptQuery(), chosen_settings(settings, home)
    theme, author = LIGHT if light else DARK, author_name(chosen)
    if asked == AttemptQuery() and attempt is None and start == "attempts":
        with open_store(chosen) as store:
            TraceApp(store, pages_of=lambda runs: _pages(store, runs), theme=theme, author=author).run()
        return
    with opened_pages(asked, attempt, chosen) as pages:
        where, sort, row = asked.where, listed_sort(asked), 0
        pages.complete(where, progress, sort)
        if attempt is not None:
            run, question = _place(pages.store, attempt)
            found = read_trace(pages.store, run, question, epoch)
            row = pages.row_of(pages.runs.index(run), found.question.id, epoch) or 0
        TraceApp(pages, where=where, sort=sort, row=row, theme=theme, view=start, author=author).run()


@contextmanager
def opened_pages(query: AttemptQuery, attempt: str | None, settings: Settings) -> Iterator[Pages]:
    """The rows of the runs that are named, while the block lasts."""
    with open_store(settings) as store:
        yield _pages(store, _runs(store, query.runs, attempt), query.scorers)


def _pages(store: Store, runs: Sequence[Run], scorers: Sequence[str] = ()) -> Pages:
    for run in runs:
        refresh_scores(store, run)
    # The score is the headline's, as in tables; the first question says whose card it is.
    first = [row.question for row in Pages(store, runs).read([0])]
    headlines = [one.scorer for one in headline_of(first)]
    return Pages(store, runs, tuple(dict.fromkeys((*scorers, *headlines, *PREFERRED))), scorers)


def _runs(store: Store, references: Sequence[str], attempt: str | None) -> list[Run]:
    if references:
        named = store.named(references)
        named += [_place(store, attempt)[0]] if attempt is not None else []
        return list({run.id: run for run in named}.values())
    known = store.runs()
    if not known:
        raise UserError(f"There are no runs yet in {store.place}. `ragrounds run` makes some.")
    chosen = known[-1] if attempt is None else _place(store, attempt)[0]
    return [run for run in known if run.questions == chosen.questions]


def _place(store: Store, text: str) -> tuple[Run, str]:
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


def listed_sort(query: AttemptQuery) -> SortBy:
    """What a query's attempts are sorted by.

    Raises:
        UserError: nothing is sorted by this.
    """
    return one_of("--sort", query.sort, SORTS)
