"""The way in: every ranking as a table that the page's script sorts, every study beside its paper; and the
pages of attempts, with their texts or with digests where these may not be given on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from ragrounds.base.redaction import Redactor
from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.publishing.board import Board, BoardRanking, BoardStudy, attempt_links, day, withheld_words
from ragrounds.extensions.publishing.leaderboard import Ranking
from ragrounds.extensions.studies.tables import study_tables
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.pictures.chart_svg import picture_style
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.report.assets import asset, page_script
from ragrounds.ui.report.page import head, page_style
from ragrounds.ui.report.payload import attempt_part
from ragrounds.ui.report.results import figure
from ragrounds.ui.tables.comparison_tables import interval
from ragrounds.ui.tables.comparison_warnings import average_heading
from ragrounds.ui.tables.comparison_words import lack_lines
from ragrounds.ui.tables.html_tables import coded, html_table, prose, text
from ragrounds.ui.tables.one_screen import conclusion_lines
from ragrounds.ui.text import UNKNOWN, dollars, in_scale, number_of
from ragrounds.ui.theme import theme_style

_HYPHEN = "\u2011"
"""At which no line ends."""
_CELL = '<td class="right">{}</td>'
"""As a page's tables have figures."""
_BESIDE = 620
"""Width of a ranking's frontier, in pixels."""


def index_page(board: Board) -> Iterator[str]:
    """The page, part by part. It asks nothing of any network; without a script all of it can be read."""
    hide = Redactor()
    script = page_script(attempts=False)
    sheets = (
        asset("report.css")
        + asset("tables.css")
        + (files(__package__) / "leaderboard.css").read_text(encoding="utf-8").strip()
    )
    yield head(hide(board.title), [], theme_style() + sheets + picture_style(), script)
    yield _lead(board)
    for one in board.rankings:
        yield hide(_ranking(one, board))
    for study in board.studies:
        yield hide(_study(study))
    if board.left_out:
        rows = "".join(f"<li>{text(', '.join(one.runs))}: {text(one.why)}</li>" for one in board.left_out)
        yield f'<section id="left-out"><h2>Not ranked</h2><ul>{hide(rows)}</ul></section>\n'
    yield f"{_READING}</main>\n<script>{script}</script>\n</body></html>\n"


def _lead(board: Board) -> str:
    counts = [
        number_of(board.runs, "run"),
        f"{len(board.rankings):,} {'ranking' if len(board.rankings) == 1 else 'rankings'}",
        *([number_of(len(board.studies), "study")] if board.studies else []),
    ]
    return f"<p>{', '.join(counts)}; published {prose(day(board.made))}.</p>\n"


_READING = """<section id="reading"><h2>How to read this</h2><p>Runs are ranked against each other only where they
answered the same questions. A place is a range: the places that the corrected tests leave open. Intervals are of
95&nbsp;%, each of one run alone: they do not say which runs differ. ↓: lower is better. <em>Paid</em> is what a run
really cost, <em>full price</em> what it costs without any cache.</p></section>
"""


def _ranking(one: BoardRanking, board: Board) -> str:
    ranking = one.ranking
    names = agent_names(ranking.comparison)
    lacks = lack_lines(ranking.abstract, names)
    missing = f'<p class="apart">Incomplete: {text(" ".join(lacks))}</p>' if lacks else ""
    first = ranking.comparison.shown()[0][0].frontier if ranking.comparison.shown() else None
    drawn = figure(frontier_picture(first, ranking.comparison.shown()[0][0].scorer, names), _BESIDE) if first else ""
    concluded = " ".join(map(coded, conclusion_lines(ranking.comparison, (), names)))
    said = [f"These runs ended when this was decided: {ranking.claim}."] if ranking.claim else []
    said += [held] if (held := withheld_words(ranking.licences, one.free, board.mode)) else []
    notes = "".join(f'<p class="apart">{prose(line)}</p>' for line in said)
    links = [("Comparison", one.page), *attempt_links(one.attempts)]
    shown = " · ".join(f'<a href="{escape(page)}">{name}</a>' for name, page in links)
    return (
        f'<section class="ranking" id="{escape(ranking.key)}">'
        f"<h2>{text(ranking.benchmark)} <small>{text(_asked(ranking))} · hash {ranking.questions[:8]}</small></h2>"
        f"<p>{concluded}</p>{_table(one, names)}{drawn}{missing}{notes}<p>{shown}</p></section>\n"
    )


def _asked(ranking: Ranking) -> str:
    """Which questions, and how often."""
    often = "" if ranking.epochs == 1 else f", {ranking.epochs} times each"
    return f"{ranking.selection or number_of(ranking.count, 'question')}{often}"


def _table(one: BoardRanking, names: Mapping[str, str]) -> str:
    """A line a run, in the order of their places; names lead to attempts."""
    ranking, totals = one.ranking, {row.run: row for row in one.ranking.comparison.rows}
    models = {one.run: one.models for one in ranking.abstract.systems}
    places, lacking = next(iter(ranking.places.values()), {}), {lack.run for lack in ranking.abstract.lacks}
    made = {run.id: day(run.created).replace("-", _HYPHEN) for run in ranking.runs}

    def place(row: RunTotals) -> str:
        """The places that the tests leave open."""
        found = places.get(row.run)
        last = "" if found is None or found.last == found.first else f"–{found.last}"
        return UNKNOWN if found is None else f"{found.first}{last}"

    columns = (
        words("agent", lambda row: names[row.run]),
        words("place", place) if ranking.places else None,
        *_scored(ranking.comparison),
        words("model", lambda row: ", ".join(models[row.run]) or UNKNOWN),
        *_COSTS,
        words("date", lambda row: made[row.run]),
        words("attempts", lambda row: "incomplete" if row.run in lacking else "all") if lacking else None,
    )
    averaged = next((said for table, _ in ranking.comparison.shown() if (said := average_heading(table))), "")
    title = ", ".join(filter(None, (number_of(len(ranking.runs), "run"), averaged)))
    links = {number: page for number, run in enumerate(ranking.runs) if (page := one.attempts.get(run.id))}
    return html_table(table_of("ranking", (totals[run.id] for run in ranking.runs), columns, title=title), links)


_COSTS = Column("paid", "cost_paid", dollars), Column("full price", "cost_uncached", dollars)


def _scored(comparison: Comparison) -> Iterator[Column]:
    """The columns of headlines with their intervals, and of the scorers beside them."""
    for headline, beside in comparison.shown():
        for table in (headline, *beside):
            unit = ", %" if table.unit == "percent" else f", {table.unit}" if table.unit else ""
            name = f"{table.scorer}{' ↓' if table.direction == 'lower' else ''}{unit}"
            figures = {line.run: line.overall for line in table.lines}
            yield Column(name, lambda row, of=figures, unit=table.unit: in_scale(of[row.run].value, unit))  # type: ignore[misc]
            if table is headline:
                yield Column("95 %", lambda row, of=figures, unit=table.unit: interval(of[row.run], unit))  # type: ignore[misc]


def figure_cells(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Run id → the cells of its figures, and those of its costs, in a ranking's table."""
    parts = list(_scored(comparison)), _COSTS
    cells = {row.run: [[text(one.cell(row)) for one in part] for part in parts] for row in comparison.rows}
    return {
        run: ("".join(map(_CELL.format, figures)), "".join(map(_CELL.format, costs)))
        for run, (figures, costs) in cells.items()
    }


def _study(one: BoardStudy) -> str:
    table = one.table
    tables = "".join(html_table(part) for part in study_tables(table)[:1])
    when = f" · {day(one.updated)}" if one.updated is not None else ""
    return (
        f'<section class="study" id="{escape(one.page.removesuffix(".html"))}">'
        f'<h2><a href="{escape(one.page)}">{text(table.title)}</a> <small>study · {text(table.source)}{when}</small>'
        f"</h2><p>{table.count('done'):,} of {number_of(len(table.cells), 'cell')} are done. Published figures "
        f"and deviations are below ours.</p>{tables}</section>\n"
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
    """The page, part by part. It asks nothing of any network.

    Args:
        title: of the page.
        about: what a reader must know, a paragraph each.
        traces: as they are published.
        order: question id, as it is published → its place.
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
    """Whose texts these are, and under which licence they are given on."""
    return [
        f"Questions and answers of {one.dataset}: licence {one.license}{f', {one.source}' if one.source else ''}."
        for one in licences
        if one.dataset in free
    ]
