"""Index page of a leaderboard, and its pages of attempts.

The index page has every ranking as a table that its script sorts, and every study with its paper's figures. Pages of
attempts have their texts or, if these may not be published, digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.publishing.board import Board, BoardRanking, attempt_links, day, withheld_words
from ragrounds.extensions.publishing.published_traces import TextMode
from ragrounds.extensions.studies.paper_table import StudyTable
from ragrounds.extensions.studies.tables import paper_notes, study_tables
from ragrounds.recorder.redaction import Redactor
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.pictures.chart_svg import picture_style
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.report.assets import asset, page_script
from ragrounds.ui.report.page import head, page_style
from ragrounds.ui.report.payload import attempt_part
from ragrounds.ui.report.results import figure
from ragrounds.ui.tables.comparison_columns import LISTED
from ragrounds.ui.tables.comparison_tables import interval
from ragrounds.ui.tables.comparison_warnings import average_heading
from ragrounds.ui.tables.comparison_words import lack_lines
from ragrounds.ui.tables.html_tables import coded, html_table, prose, tables_and_remarks, text
from ragrounds.ui.tables.one_screen import conclusion_lines
from ragrounds.ui.text import UNKNOWN, in_scale, number_of
from ragrounds.ui.theme import theme_style

_HYPHEN = "\u2011"
"""Non-breaking hyphen: no line ends at it."""
_FRONTIER_WIDTH = 620
"""Width of a ranking's frontier, in pixels."""


def index_page(board: Board) -> Iterator[str]:
    """Yield the parts of the index page. It loads nothing from a network, and can be read without a script."""
    hide = Redactor()
    script = page_script(attempts=False)
    sheets = (
        asset("report.css")
        + asset("tables.css")
        + (files(__package__) / "leaderboard.css").read_text(encoding="utf-8").strip()
    )
    yield head(hide(board.title), [], theme_style() + sheets + picture_style(), script)
    counts = [number_of(board.runs, "run"), number_of(len(board.rankings), "ranking")]
    counts += [number_of(len(board.studies), "study")] if board.studies else []
    yield f"<p>{', '.join(counts)}; published {prose(day(board.published_at))}.</p>\n"
    for entry in board.rankings:
        yield hide(ranking_section(entry, board.mode))
    for study in board.studies:
        yield hide(_study(study))
    if board.left_out:
        rows = "".join(f"<li>{text(', '.join(group.runs))}: {text(group.why)}</li>" for group in board.left_out)
        yield f'<section id="left-out"><h2>Not ranked</h2><ul>{hide(rows)}</ul></section>\n'
    yield f"{_READING}</main>\n<script>{script}</script>\n</body></html>\n"


_READING = """<section id="reading"><h2>How to read this</h2><p>Runs are ranked against each other only where they
answered the same questions. A place is a range: the places that the corrected tests leave open. Intervals are of
95&nbsp;%, each of one run alone: they do not say which runs differ. ↓: lower is better. <em>Paid</em> is what a run's
answers really cost, <em>full price</em> what they cost without any cache; neither includes <em>judging</em>.</p>
</section>
"""


def ranking_section(entry: BoardRanking, mode: TextMode) -> str:
    """Return the part of the index page on a ranking; `mode`: attempts that are published with their texts."""
    ranking = entry.ranking
    names = agent_names(ranking.comparison)
    missing_lines = lack_lines(ranking.abstract, names)
    missing = f'<p class="apart">Incomplete: {text(" ".join(missing_lines))}</p>' if missing_lines else ""
    questions = ranking.selection or number_of(ranking.count, "question")
    repeats = "" if ranking.epochs == 1 else f", {ranking.epochs} times each"
    chart = ""
    for headline in ranking.comparison.headline_tables()[:1]:
        if headline.frontier:
            chart = figure(frontier_picture(headline.frontier, headline.scorer, names), _FRONTIER_WIDTH)
    conclusions = " ".join(map(coded, conclusion_lines(ranking.comparison, (), names)))
    remarks = [f"These runs ended when this was decided: {ranking.claim}."] if ranking.claim else []
    remarks += [withheld] if (withheld := withheld_words(ranking.licences, entry.free, mode)) else []
    notes = "".join(f'<p class="apart">{prose(line)}</p>' for line in remarks)
    links = [("Comparison", entry.page), *attempt_links(entry.attempts)]
    link_html = " · ".join(f'<a href="{escape(page)}">{name}</a>' for name, page in links)
    return (
        f'<section class="ranking" id="{escape(ranking.key)}">'
        f"<h2>{text(ranking.benchmark)} <small>{text(f'{questions}{repeats}')} · "
        f"hash {ranking.questions[:8]}</small></h2>"
        f"<p>{conclusions}</p>{_table(entry, names)}{chart}{missing}{notes}<p>{link_html}</p></section>\n"
    )


def _table(entry: BoardRanking, names: Mapping[str, str]) -> str:
    """Render a ranking, a line for each run in the order of their places; names lead to attempts."""
    ranking, totals = entry.ranking, {row.run: row for row in entry.ranking.comparison.rows}
    models = {system.run: system.models for system in ranking.abstract.systems}
    places_by_run, incomplete = (
        next(iter(ranking.places.values()), {}),
        {lack.run for lack in ranking.abstract.missing_results},
    )
    dates = {run.id: day(run.created).replace("-", _HYPHEN) for run in ranking.runs}

    def place_text(row: RunTotals) -> str:
        """Format the places that the tests leave open to a run."""
        run_place = places_by_run.get(row.run)
        last = "" if run_place is None or run_place.last == run_place.first else f"–{run_place.last}"
        return UNKNOWN if run_place is None else f"{run_place.first}{last}"

    scores = [*_score_columns(ranking.comparison)]
    columns = (
        words("agent", lambda row: names[row.run]),
        words("place", place_text) if ranking.places else None,
        *scores[:2],
        *_TOTALS,  # next to the headline's score, so that a narrow page shows both without scrolling
        *scores[2:],
        words("model", lambda row: ", ".join(models[row.run]) or UNKNOWN),
        words("date", lambda row: dates[row.run]),
        words("attempts", lambda row: "incomplete" if row.run in incomplete else "all") if incomplete else None,
    )
    heading_note = next(
        (heading for table in ranking.comparison.headline_tables() if (heading := average_heading(table))), ""
    )
    title = ", ".join(filter(None, (number_of(len(ranking.runs), "run"), heading_note)))
    links = {number: page for number, run in enumerate(ranking.runs) if (page := entry.attempts.get(run.id))}
    return html_table(table_of("ranking", (totals[run.id] for run in ranking.runs), columns, title=title), links)


# Times of different machines cannot be compared.
_TOTALS = [column for column in LISTED if column.name != "seconds"]


def _score_columns(comparison: Comparison) -> Iterator[Column]:
    """Yield the columns of headlines with their intervals, and of the scorers shown next to them."""
    for headline, secondary in comparison.shown_tables():
        for table in (headline, *secondary):
            unit = ", %" if table.unit == "percent" else f", {table.unit}" if table.unit else ""
            name = f"{table.scorer}{' ↓' if table.direction == 'lower' else ''}{unit}"
            figures = {line.run: line.overall for line in table.lines}
            yield Column(name, lambda row, by_run=figures, unit=table.unit: in_scale(by_run[row.run].value, unit))  # type: ignore[misc]
            if table is headline:
                yield Column("95 %", lambda row, by_run=figures, unit=table.unit: interval(by_run[row.run], unit))  # type: ignore[misc]


def _study(table: StudyTable) -> str:
    cells = len(table.cells) - table.count("published")
    source = f" · {text(table.source)}" if table.source else ""
    return (
        f'<section class="study"><h2>{text(table.title)} <small>study{source}</small></h2>'
        f"<p>{table.count('done'):,} of {number_of(cells, 'cell')} are done. Published figures and deviations are "
        f"below ours.</p>{tables_and_remarks([*study_tables(table), *paper_notes(table)])}</section>\n"
    )


def attempt_page(
    title: str,
    about: Sequence[str],
    traces: Iterable[Trace],
    order: Mapping[str, int],
    runs: Sequence[tuple[str, str]],
    links: Sequence[tuple[str, str]],
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield the parts of a page of attempts. It loads nothing from a network.

    Args:
        title: title of the page.
        about: notes for the reader, a paragraph each.
        traces: as they are published.
        order: position of each question, by its published id.
        runs: run id and name.
        links: label and relative address of other pages.
        on_progress: called with the number of attempts written so far.
    """
    hide, script = Redactor(), page_script(attempts=True)
    yield head(hide(title), [], page_style(), script, links)
    yield hide("".join(f"<p>{text(line)}</p>" for line in about))
    yield from attempt_part(traces, order, runs, hide, on_progress)
    yield f"</main>\n<script>{script}</script>\n</body></html>\n"


def licence_lines(licences: Sequence[TextLicence], free: frozenset[str]) -> list[str]:
    """Return a line on the origin and licence of each dataset whose texts are published."""
    return [
        f"Questions and answers of {licence.dataset}: licence {licence.license}"
        f"{f', {licence.source}' if licence.source else ''}."
        for licence in licences
        if licence.dataset in free
    ]
