"""The parts of the report that stand in the page as HTML: they need no script, and they print."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ragrounds.errors import UserError
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.conclusions import Conclusion, conclusions, untested
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.store.store import Store
from ragrounds.records import OUTCOMES, Run
from ragrounds.ui.analysis_tables import analysis_table, with_names
from ragrounds.ui.chart_svg import svg
from ragrounds.ui.comparison_tables import (
    agent_names,
    comparison_tables,
    interval,
    numbered,
)
from ragrounds.ui.frontier import frontier_picture, frontier_tables, left_out
from ragrounds.ui.report.html_tables import html_table, text
from ragrounds.ui.report.methods import methods
from ragrounds.ui.text import dollars, figure_text, in_scale, number_of, one_line, p_value, percent

Hide = Callable[[str], str]
"""Takes what looks like a key out of a text."""


_LINES = 20
"""Lines of a list in the summary that are open."""


def summary(comparison: Comparison, scorers: Sequence[str]) -> str:
    """A line for each run, the differences that the tables' corrected tests show, and what to know."""
    numbers, agents = numbered(comparison), agent_names(comparison)
    tables = comparison.shown(scorers)
    lines = []
    for row in comparison.rows:
        figures = []
        for found, _ in tables:
            whole = next(line.overall for line in found.lines if line.run == row.run)
            figures.append(_figure(whole, found))
        costs = f"{dollars(row.cost_uncached)} uncached, {dollars(row.cost_paid)} paid"
        lines.append(
            f"<li><b>#{numbers[row.run]} {text(agents[row.run])}</b> {text('; '.join(figures) or 'no score yet')}; "
            f"{text(costs)}.</li>"
        )
    separated = _first_of([f"<li>{text(line)}</li>" for line in _conclusions(comparison, scorers)])
    notes = "".join(f"<li>{text(note)}</li>" for note in comparison.notes)
    noted = f'<ul class="notes">{notes}</ul>' if notes else ""
    return (
        f"<p>{number_of(comparison.questions, 'question')} of <b>{text(comparison.benchmark)}</b>, "
        f"{'once' if comparison.epochs == 1 else f'{comparison.epochs} times'} each.</p>{_first_of(lines)}{separated}"
        + noted
    )


def _first_of(lines: Sequence[str]) -> str:
    """A list of lines; of many the first, and the others under a heading that opens them."""
    if len(lines) <= _LINES:
        return f"<ul>{''.join(lines)}</ul>" if lines else ""
    first, others = "".join(lines[:_LINES]), "".join(lines[_LINES:])
    more = f"<details><summary>{len(lines) - _LINES:,} more</summary><ul>{others}</ul></details>"
    return f"<ul>{first}</ul>{more}"


def _figure(whole: Figure, found: ScorerTable) -> str:
    """A run's figure by a scorer, with its interval."""
    value = in_scale(whole.value, found.unit) + (" %" if found.unit == "percent" else f" {found.unit}")
    return f"{value} by {found.scorer} (95 %: {interval(whole, found.unit)})"


def _conclusions(comparison: Comparison, scorers: Sequence[str]) -> list[str]:
    """Which runs differ, by the tables' corrected tests; and that no other does."""
    numbers, agents = numbered(comparison), agent_names(comparison, 90)
    names = {run: f"{agents[run]} (#{number})" for run, number in numbers.items()}
    said = []
    for found, _ in comparison.shown(scorers):
        made = conclusions(found)
        said += [_conclusion(one, found, names) for one in made]
        under = f"Under {found.scorer},"
        if untested(found):
            said.append(f"{under} no test says which runs differ; the intervals in the tables are not corrected.")
        elif len(found.pairs) > len(made):
            said.append(f"{under} the tests show no {'other ' * bool(made)}difference between runs.")
    return said


def _conclusion(one: Conclusion, found: ScorerTable, names: Mapping[str, str]) -> str:
    percent_points = found.unit == "percent"
    apart, low, high = (
        figure_text(100 * value, f".{digits}f") if percent_points else figure_text(value, ".4g")
        for value, digits in ((one.difference, 2), (one.low, 1), (one.high, 1))
    )
    unit = "points" if percent_points else found.unit
    way = "higher" if found.direction == "higher" else "lower"
    test = "" if one.p is None else f"; {one.test} p {p_value(one.p)}" + " after Holm's correction" * one.corrected
    return (
        f"Under {one_line(found.scorer)}, {names[one.better]} scores {apart} {unit} {way} than {names[one.worse]} "
        f"(95 %: {low} to {high}{test})."
    )


def frontier_section(comparison: Comparison, scorers: Sequence[str]) -> str:
    """A picture and tables of cost and score under each scorer; where no cost is known, a sentence that says so."""
    numbers, agents = numbered(comparison), agent_names(comparison)
    parts = []
    for found, _ in comparison.shown(scorers):
        if found.frontier is None:
            continue
        picture = frontier_picture(found.frontier, found.scorer, numbers, agent_names(comparison, 90))
        parts.append(f"<figure>{svg(picture, standalone=False)}</figure>")
        parts += [html_table(costs) for costs in frontier_tables(found.frontier, found.scorer, numbers, agents)]
        if left := left_out(found.frontier, numbers):
            parts.append(f"<p>{left}</p>")
    return "".join(parts) or "<p>No run has a known cost: there is no frontier to draw.</p>"


def tables_section(comparison: Comparison, scorers: Sequence[str]) -> str:
    """Every table of the comparison that the terminal shows."""
    return "".join(html_table(table) for table in comparison_tables(comparison, scorers))


def analyses_section(
    store: Store, runs: Sequence[Run], names: Sequence[str], scorer: str, seed: int, called: Mapping[str, str]
) -> str:
    """The table, the note and the picture of each analysis; `called` as of
    :func:`ragrounds.ui.analysis_tables.with_names`.

    Raises:
        UserError: an unknown analysis, or runs that lack what it needs.
    """
    parts = []
    options = AnalysisOptions(scorer=scorer, seed=seed) if scorer else AnalysisOptions(seed=seed)
    for name in names:
        result = with_names(analyse(name, store, runs, options), called)
        parts.append(html_table(analysis_table(result.table, scorer)))
        if result.table.note:
            parts.append(f"<p>{text(result.table.note)}</p>")
        try:
            parts.append(f"<figure>{svg(result.picture, standalone=False)}</figure>")
        except UserError:  # no point has a value: the table says so
            continue
    return "".join(parts)


def outcome_section(comparison: Comparison, scorers: Sequence[str]) -> str:
    """A bar for each run: how its attempts ended."""
    counted = comparison.outcomes(scorers)
    used = [name for name in OUTCOMES if any(counts[name] for counts in counted.values())]
    agents, rows, height = agent_names(comparison, 90), list[str](), 34
    for place, row in enumerate(comparison.rows):
        counts: Counter[str] = counted.get(row.run, Counter())
        total, x, y = max(1, sum(counts.values())), 0.0, place * height
        rows.append(f'<text x="0" y="{y + 12}">#{place + 1} {text(agents[row.run])}</text>')
        for name in used:
            width = 700 * counts[name] / total
            if width:
                rows.append(
                    f'<rect class="o-{name}" x="{x:.2f}" y="{y + 16}" width="{width:.2f}" height="12">'
                    f"<title>{name}: {counts[name]:,} ({percent(counts[name] / total, 1)} %)</title></rect>"
                )
            x += width
    legend = "".join(
        f'<span class="key"><svg class="swatch" viewBox="0 0 10 10"><rect class="o-{name}" width="10" height="10">'
        f"<title>{text(OUTCOMES[name])}</title></rect></svg>{name.replace('_', ' ')}</span>"
        for name in used
    )
    tall = max(1, len(comparison.rows)) * height
    return (
        f'<figure><svg class="outcomes" viewBox="0 0 700 {tall}" role="img" aria-label="Outcomes of each run">'
        f"{''.join(rows)}</svg><figcaption>{legend}</figcaption></figure>"
    )


def methods_section(comparison: Comparison, runs: Sequence[Run], scorers: Sequence[str], hide: Hide) -> str:
    """Paragraphs that can be taken into a paper."""
    return "".join(f"<p>{text(hide(part))}</p>" for part in methods(comparison, runs, scorers))


def fingerprint_section(runs: Sequence[Run], hide: Hide) -> str:
    """Everything that each run's fingerprint covers: all that its results depend on."""
    parts = []
    for number, run in enumerate(runs, 1):
        created = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(run.created))
        rows = {
            "run": run.id,
            "agent": run.agent,
            "fingerprint": run.fingerprint,
            "created": created,
            "origin": run.origin,
            "questions": f"{run.count:,}",
            "question hash": run.questions,
            **_flat(run.identity),
        }
        cells = "".join(
            f'<tr><th scope="row">{text(key)}</th><td>{text(hide(str(v)))}</td></tr>' for key, v in rows.items()
        )
        parts.append(
            f"<details><summary>#{number} {text(run.agent)}: <code>{text(run.fingerprint[:12])}</code></summary>"
            f'<div class="scroll"><table class="identity"><tbody>{cells}</tbody></table></div></details>'
        )
    return "".join(parts)


def _flat(identity: Mapping[str, object], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in identity.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{name}.")
        else:
            found[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
    return found
