"""The way in: every ranking as a table that the page's script sorts and filters, every study beside its paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from msgspec import Struct

from ragrounds.evals.compare.comparison import RunFigures, RunTotals, ScorerTable
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.leaderboard import Place, Ranking
from ragrounds.records import Run
from ragrounds.redaction import Redactor
from ragrounds.ui.comparison_tables import agent_names, interval
from ragrounds.ui.leaderboard.board import (
    DATA,
    Board,
    BoardRanking,
    BoardStudy,
    asked_models,
    day,
    strategy,
    withheld_words,
)
from ragrounds.ui.report.html_tables import html_table, text
from ragrounds.ui.report.page import head
from ragrounds.ui.study_tables import study_tables
from ragrounds.ui.text import UNKNOWN, dollars, in_scale, number_of
from ragrounds.ui.theme import theme_style

_BAR = 100.0
"""Width of an interval's picture, in its own units."""


def index_page(board: Board) -> Iterator[str]:
    """The page, part by part. It asks nothing of any network; without a script all of it can be read."""
    hide = Redactor()
    script = _asset("leaderboard.js")
    yield head(hide(board.title), [], theme_style() + _asset("leaderboard.css"), script)
    yield _lead(board)
    yield _filters(board)
    for one in board.rankings:
        yield hide(_ranking(one, board))
    for study in board.studies:
        yield hide(_study(study))
    if board.left_out:
        rows = "".join(f"<li>{text(', '.join(one.runs))}: {text(one.why)}</li>" for one in board.left_out)
        yield f'<section id="left-out"><h2>Not ranked</h2><ul>{hide(rows)}</ul></section>\n'
    yield f"</main>\n<script>{script}</script>\n</body></html>\n"


def _lead(board: Board) -> str:
    counts = [
        number_of(board.runs, "run"),
        f"{len(board.rankings):,} {'ranking' if len(board.rankings) == 1 else 'rankings'}",
        f"{len(board.studies):,} {'study' if len(board.studies) == 1 else 'studies'}",
    ]
    incomplete = (
        f'<p class="warning"><strong>Incomplete:</strong> {number_of(board.incomplete, "run")} of these '
        f"{'lacks' if board.incomplete == 1 else 'lack'} attempts, or "
        f"{'has' if board.incomplete == 1 else 'have'} some that failed; each says so.</p>"
        if board.incomplete
        else ""
    )
    return (
        f'<p>{", ".join(counts)}; published {day(board.made)}. <a href="{DATA}">All figures as JSON</a>.</p>'
        f"{incomplete}<p>Runs are ranked against each other only where they answered the same questions. A place is a "
        "range: the places that the corrected tests leave open. Intervals are of 95 %, each of one run alone: they do "
        "not say which runs differ. <em>Paid</em> is what a run really cost, <em>uncached</em> what it costs without "
        "any cache.</p>\n"
    )


class _Choice(Struct, frozen=True):
    id: str
    label: str
    values: tuple[str, ...]


def _filters(board: Board) -> str:
    """What the script filters by; hidden where there is none."""
    rankings = [one.ranking for one in board.rankings]
    rows = [row for one in rankings for row in one.comparison.rows]
    tables = [table for one in rankings for shown, beside in one.comparison.shown() for table in (shown, *beside)]
    choices = (
        _Choice("benchmark", "Benchmark", tuple(dict.fromkeys(one.benchmark for one in rankings))),
        _Choice("strategy", "Strategy", tuple(sorted({strategy(run) for one in rankings for run in one.runs}))),
        _Choice("model", "Model", tuple(sorted({model for row in rows for model in asked_models(row)}))),
        _Choice("scorer", "Scorer", tuple(dict.fromkeys(table.scorer for table in tables))),
    )
    selects = "".join(
        f'<label>{choice.label} <select id="f-{choice.id}"><option value="">all</option>'
        + "".join(f"<option>{text(value)}</option>" for value in choice.values)
        + "</select></label>"
        for choice in choices
    )
    return (
        f'<form id="filters" class="screen" aria-label="Filters" hidden>{selects}'
        '<label>Words <input id="f-words" type="search" placeholder="agent, model, run"></label>'
        '<label><input id="f-complete" type="checkbox"> complete runs only</label>'
        '<button type="reset">Reset</button><output id="count" aria-live="polite"></output></form>\n'
    )


def _ranking(one: BoardRanking, board: Board) -> str:
    ranking = one.ranking
    times = "once" if ranking.epochs == 1 else f"{ranking.epochs} times"
    what = ranking.selection or number_of(ranking.count, "question")
    asked = f"{what} questions" if ranking.selection and "," not in what else what
    about = [f"{number_of(ranking.count, 'question')}, asked {times} each" if not ranking.selection else asked]
    said = [f"Not in one ranking with the others of {ranking.benchmark}: {why}." for why in ranking.apart]
    said += [f"These runs ended when this was decided: {ranking.claim}."] if ranking.claim else []
    said += [words] if (words := withheld_words(ranking.licences, one.free, board.mode)) else []
    notes = "".join(f'<p class="apart">{text(line)}</p>' for line in said)
    return (
        f'<section class="ranking" id="{escape(ranking.key)}" data-benchmark="{escape(ranking.benchmark)}">'
        f'<h2><a href="{escape(one.page)}">{text(ranking.benchmark)}</a> '
        f"<small>{text('; '.join(about))} · questions {ranking.questions[:8]}</small></h2>"
        f"{notes}{_table(one)}</section>\n"
    )


def _table(one: BoardRanking) -> str:
    ranking = one.ranking
    comparison = ranking.comparison
    shown = comparison.shown()
    names = agent_names(comparison)
    heads = ['<th scope="col">place</th>' if shown else "", '<th scope="col">agent</th>']
    for headline, beside in shown:
        heads.append(f'<th scope="col" class="r" data-scorer="{escape(headline.scorer)}">{_titled(headline)}</th>')
        heads.append('<th scope="col" data-still>95 %</th>')
        heads += [
            f'<th scope="col" class="r m" data-scorer="{escape(other.scorer)}">{_titled(other)}</th>'
            for other in beside
        ]
    heads += [f'<th scope="col" class="m{more}">{name}</th>' for name, more in _LAST]
    by_run = {row.run: row for row in comparison.rows}
    lines = {
        table.scorer: {line.run: line for line in table.lines} for first, others in shown for table in (first, *others)
    }
    rows = "".join(_row(run, by_run[run.id], names[run.id], one, shown, lines) for run in ranking.runs)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="Ranking of {text(ranking.benchmark)}, '
        f'{number_of(ranking.count, "question")}"><table class="board"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


_LAST = (("model", ""), ("paid", " r"), ("uncached", " r"), ("date", ""))
"""The last columns, with their classes."""


def _titled(table: ScorerTable) -> str:
    unit = ", %" if table.unit == "percent" else f", {text(table.unit)}" if table.unit else ""
    lower = " (lower is better)" if table.direction == "lower" else ""
    return f"{text(table.scorer)}{unit}{lower}"


def _row(
    run: Run,
    row: RunTotals,
    name: str,
    one: BoardRanking,
    shown: Sequence[tuple[ScorerTable, list[ScorerTable]]],
    lines: dict[str, dict[str, RunFigures]],
) -> str:
    models = ", ".join(asked_models(row)) or UNKNOWN
    paid, uncached, date = dollars(row.cost_paid), dollars(row.cost_uncached), day(run.created)
    link = one.attempts.get(run.id)
    called = f'<a href="{escape(link)}">{text(name)}</a>' if link else text(name)
    missing = one.ranking.incomplete.get(run.id, "")
    warned = f'<small class="bad">incomplete: {text(missing)}</small>' if missing else ""
    brief = f'<small class="p">{text(models)} · {date} · {paid} paid, {uncached} uncached</small>'
    cells = [_place(one.ranking, run.id)] if shown else []
    cells.append(f'<th scope="row">{called}{warned}{brief}</th>')
    for headline, beside in shown:
        figure = lines[headline.scorer][run.id].overall
        cells.append(f'<td class="r">{_value(figure, headline.unit)}</td>')
        cells.append(f"<td>{_bar(figure, headline)}{text(interval(figure, headline.unit))}</td>")
        cells += [f'<td class="r m">{_value(lines[other.scorer][run.id].overall, other.unit)}</td>' for other in beside]
    cells += [f'<td class="m">{text(models)}</td>', f'<td class="m r">{paid}</td>', f'<td class="m r">{uncached}</td>']
    cells.append(f'<td class="m">{date}</td>')
    words = f"{run.id} {run.agent}"
    return (
        f'<tr data-s="{escape(strategy(run))}" data-w="{escape(words)}"{" data-i" if missing else ""}>'
        f"{''.join(cells)}</tr>"
    )


def _place(ranking: Ranking, run: str) -> str:
    found: Place | None = None
    for places in ranking.places.values():
        found = places.get(run)
        break
    if found is None:
        return f'<td class="place">{UNKNOWN}</td>'
    words = f"{found.first}" if found.first == found.last else f"{found.first}–{found.last}"
    return f'<td class="place">{words}</td>'


def _value(figure: Figure, unit: str) -> str:
    missing = f' <small title="{figure.missing:,} answers have no score">*</small>' if figure.missing else ""
    return f"{text(in_scale(figure.value, unit))}{missing}"


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
    warned = f'<p class="warning"><strong>{text(table.notes[0])}</strong></p>' if table.stand_in else ""
    return (
        f'<section class="study" id="{escape(one.page.removesuffix(".html"))}">'
        f'<h2><a href="{escape(one.page)}">{text(table.title)}</a> <small>study · {text(table.source)}{when}</small>'
        f"</h2>{warned}<p>{table.count('done'):,} of {number_of(len(table.cells), 'cell')} are done. Published figures "
        f"and deviations stand below ours.</p>{tables}</section>\n"
    )


def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8").strip()
