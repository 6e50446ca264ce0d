"""The way in: every ranking as a table that the page's script sorts, every study beside its paper; and the
pages of attempts, with their texts or with digests where these may not be given on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from ragrounds.evals.benchmarks.cards import TextLicence
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.leaderboard import Ranking
from ragrounds.evals.store.traces import Trace
from ragrounds.records import Run
from ragrounds.redaction import Redactor
from ragrounds.ui.chart_svg import picture_style
from ragrounds.ui.comparison_tables import agent_names, interval
from ragrounds.ui.comparison_warnings import average_heading
from ragrounds.ui.comparison_words import lack_lines
from ragrounds.ui.frontier import frontier_picture
from ragrounds.ui.leaderboard.board import (
    Board,
    BoardRanking,
    BoardStudy,
    asked_models,
    attempt_links,
    day,
    lacks_of,
    withheld_words,
)
from ragrounds.ui.one_screen import conclusion_lines
from ragrounds.ui.report.html_tables import asset, breakable, coded, html_table, page_script, prose, text
from ragrounds.ui.report.page import head, page_style
from ragrounds.ui.report.payload import attempt_part
from ragrounds.ui.report.results import figure
from ragrounds.ui.study_tables import study_tables
from ragrounds.ui.text import UNKNOWN, dollars, in_scale, number_of
from ragrounds.ui.theme import theme_style

_HYPHEN = "\u2011"
"""At which no line ends."""
_BESIDE = 620
"""Width of a ranking's frontier, in pixels."""
_BAR = 100.0
"""Width of an interval's picture, in its own units."""


def index_page(board: Board) -> Iterator[str]:
    """The page, part by part. It asks nothing of any network; without a script all of it can be read."""
    hide = Redactor()
    script = page_script(attempts=False)
    sheets = asset("report.css") + asset("tables.css") + _asset("leaderboard.css")
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
    told = " ".join(map(coded, conclusion_lines(ranking.comparison, (), names)))
    said = [f"These runs ended when this was decided: {ranking.claim}."] if ranking.claim else []
    said += [words] if (words := withheld_words(ranking.licences, one.free, board.mode)) else []
    notes = "".join(f'<p class="apart">{prose(line)}</p>' for line in said)
    links = [("Comparison", one.page), *attempt_links(one.attempts)]
    shown = " · ".join(f'<a href="{escape(page)}">{name}</a>' for name, page in links)
    return (
        f'<section class="ranking" id="{escape(ranking.key)}">'
        f"<h2>{text(ranking.benchmark)} <small>{text(_asked(ranking))} · hash {ranking.questions[:8]}</small></h2>"
        f"<p>{told}</p>{_table(one, names)}{drawn}{missing}{notes}<p>{shown}</p></section>\n"
    )


def _asked(ranking: Ranking) -> str:
    """Which questions, and how often."""
    often = "" if ranking.epochs == 1 else f", {ranking.epochs} times each"
    return f"{ranking.selection or number_of(ranking.count, 'question')}{often}"


def _table(one: BoardRanking, names: Mapping[str, str]) -> str:
    ranking = one.ranking
    comparison = ranking.comparison
    shown = comparison.shown()
    heads = ['<th scope="col">place</th>' if ranking.places else "", '<th scope="col">agent</th>']
    for headline, beside in shown:
        of = f" <small>{text(said)}</small>" if (said := average_heading(headline)) else ""
        titled = f"{_titled(headline)}{of}"
        heads.append(f'<th scope="col" class="right">{titled}</th>')
        heads.append('<th scope="col">95 %</th>')
        for other in beside:
            heads.append(f'<th scope="col" class="right m">{_titled(other)}</th>')
    heads += [f'<th scope="col" class="m{more}">{name}</th>' for name, more in _LAST]
    rows = _Rows(one, names)
    body = "".join(rows.row(run) for run in ranking.runs)
    return (
        f'<figure class="sheet board">'
        f'<figcaption class="unseen">{text(ranking.benchmark)}, {text(_asked(ranking))}</figcaption>'
        f'<div class="scroll"><table><thead><tr>{"".join(heads)}</tr></thead><tbody>{body}</tbody></table></div>'
        "</figure>"
    )


_LAST = (("model", ""), ("paid", " right"), ("full price", " right"), ("date", ""))
"""The last columns, with their classes."""


def _titled(table: ScorerTable) -> str:
    unit = ", %" if table.unit == "percent" else f", {text(table.unit)}" if table.unit else ""
    return f"{text(table.scorer)}{' ↓' if table.direction == 'lower' else ''}{unit}"


class _Rows:
    """The rows of a ranking's table."""

    def __init__(
        self,
        one: BoardRanking,
        names: Mapping[str, str],
    ) -> None:
        self._one, self._names = one, names
        ranking = one.ranking
        self._totals = {row.run: row for row in ranking.comparison.rows}
        self._models, self._lacks = asked_models(ranking), lacks_of(ranking)
        self._places = next(iter(ranking.places.values()), {})
        self._cells = figure_cells(ranking.comparison)

    def row(self, run: Run) -> str:
        """A run's row."""
        row, missing = self._totals[run.id], self._lacks.get(run.id, "")
        models = ", ".join(self._models[run.id]) or UNKNOWN
        paid, uncached, date = dollars(row.cost_paid), dollars(row.cost_uncached), day(run.created)
        link = self._one.attempts.get(run.id)
        called = breakable(self._names[run.id])
        called = f'<a href="{escape(link)}">{called}</a>' if link else called
        warned = f' <small class="bad">incomplete: {text(missing)}</small>' if missing else ""
        brief = text(
            f"{models} · {date.replace('-', _HYPHEN)} · {paid} paid, {uncached} full price"
        )  # in place of columns, on telephones
        cells = [self._place(run.id)] if self._one.ranking.places else []
        cells.append(f'<th scope="row" data-p="{brief}">{called}{warned}</th>')
        figures, costs = self._cells[run.id]
        cells += [figures, f'<td class="m">{text(models)}</td>', costs, f'<td class="m">{date}</td>']
        return f"<tr>{''.join(cells)}</tr>"

    def _place(self, run: str) -> str:
        found = self._places.get(run)
        words = UNKNOWN if found is None else str(found.first)
        if found is not None and found.last != found.first:
            words += f"–{found.last}"
        return f"<td>{words}</td>"


def figure_cells(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Run id → the cells of its figures, and those of its costs, in a ranking's table."""
    found = {
        row.run: [
            "",
            "".join(f'<td class="m right">{dollars(cost)}</td>' for cost in (row.cost_paid, row.cost_uncached)),
        ]
        for row in comparison.rows
    }
    for headline, beside in comparison.shown():
        for table in (headline, *beside):
            for line in table.lines:
                more = "" if table is headline else " m"
                shown = text(in_scale(line.overall.value, table.unit))
                found[line.run][0] += f'<td class="right{more}">{shown}</td>'
                if table is headline:
                    ends = text(interval(line.overall, table.unit))
                    found[line.run][0] += f"<td>{_bar(line.overall, table)}<small>{ends}</small></td>"
    return {run: (figures, costs) for run, (figures, costs) in found.items()}


def _bar(figure: Figure, table: ScorerTable) -> str:
    """A figure with its interval on the scale of a share; nothing for other units."""
    if table.unit != "percent" or figure.value is None or figure.low is None or figure.high is None:
        return ""
    low, high, value = (_BAR * end for end in (figure.low, figure.high, figure.value))
    drawn = f'<path class="i" d="M{low:.1f} 4H{high:.1f}"/><circle cx="{value:.1f}" cy="4" r="3"/>'
    return f'<svg class="bar" viewBox="0 0 100 8" aria-hidden="true"><path d="M0 4H100"/>{drawn}</svg>'


def _study(one: BoardStudy) -> str:
    table = one.table
    tables = "".join(html_table(part) for part in study_tables(table)[:1])
    when = f" · {day(one.updated)}" if one.updated is not None else ""
    return (
        f'<section class="study" id="{escape(one.page.removesuffix(".html"))}">'
        f'<h2><a href="{escape(one.page)}">{text(table.title)}</a> <small>study · {text(table.source)}{when}</small>'
        f"</h2><p>{table.count('done'):,} of {number_of(len(table.cells), 'cell')} are done. Published figures "
        f"and deviations stand below ours.</p>{tables}</section>\n"
    )


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8").strip()


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
