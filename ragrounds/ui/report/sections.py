"""Sections of a report other than its figures: missing parts, abstract, causes of wrong answers, agents, notes,
analyses, fingerprints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from ragrounds.agents.agent import names as shipped
from ragrounds.agents.agent import open_agent
from ragrounds.base.records import Run
from ragrounds.base.text import listed
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.analyses.cause_counts import CauseCount
from ragrounds.evals.compare.abstract import Abstract
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.compare.published import PrintedFigure
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.causes import CAUSES
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.report.citation import Citation
from ragrounds.ui.report.payload import attempt_link
from ragrounds.ui.report.results import figure
from ragrounds.ui.tables.analysis_tables import analysis_table, rename_runs
from ragrounds.ui.tables.comparison_words import lack_lines, missing_commands, who_answered
from ragrounds.ui.tables.html_tables import coded, html_table, prose, text
from ragrounds.ui.tables.one_screen import conclusion_lines, summary_table, table_remarks
from ragrounds.ui.text import number_of, one_line

ReportPart = TextTable | str


class ReportSection(msgspec.Struct, frozen=True):
    """Section that an extension adds to reports, between the judges and the methods."""

    name: str
    """Title of the section."""
    parts: Callable[[Store, Sequence[Run], Mapping[str, str]], Iterable[ReportPart]]
    """Function that returns its tables and remarks for the runs and their names (run id → name); none: no section."""


_LINES = 12
"""Commands that are listed."""
_MUCH = 0.05
"""Share of a run above which missing attempts are reported before everything else."""
_BESIDE = 460
"""Width of the frontier next to the table, in pixels."""


def incomplete_section(abstract: Abstract, names: Mapping[str, str], *, much: bool) -> str:
    """Return what is missing of which runs, and the commands that make it; empty if nothing is missing.

    Args:
        abstract: abstract of a comparison.
        names: run id → name of the run, safe to show.
        much: True to report only if more than 5 % of some run is missing, False to report only if less is.
    """
    lines, commands = lack_lines(abstract, names), missing_commands(abstract)
    if not lines or any(missing.count > _MUCH * missing.of for missing in abstract.missing_results) != much:
        return ""
    listed = "".join(f"<li>{text(line)}</li>" for line in lines)
    listing = "".join(f"<code>{text(command)}</code>" for command in commands[:_LINES])
    more = f"<p>And {len(commands) - _LINES:,} more.</p>" if len(commands) > _LINES else ""
    folded_commands = (
        f'<details><summary>Commands that make what is missing</summary><div class="commands">{listing}</div>{more}'
        "</details>"
    )
    if not much:
        return f"<aside><p>Incomplete: {text(' '.join(lines))}</p>{folded_commands if commands else ''}</aside>"
    return (
        '<aside class="incomplete" role="note" aria-labelledby="incomplete"><h2 id="incomplete">Incomplete</h2>'
        f"<ul>{listed}</ul>{folded_commands if commands else ''}</aside>\n"
    )


def abstract_section(
    comparison: Comparison,
    scorers: Sequence[str],
    abstract: Abstract,
    names: Mapping[str, str],
    notes: Sequence[str],
    printed: Mapping[str, PrintedFigure],
) -> str:
    """Return what is seen first: the conclusion with its price, Table 1 with the frontier, and the conditions.

    Args:
        comparison: comparison of any number of runs.
        scorers: requested scorers; empty: the headlines.
        abstract: models, datasets and missing attempts of the comparison.
        names: run id → name of the run, safe to show.
        notes: notes on its runs, which are shown elsewhere.
        printed: run id → figure that a paper printed for the same.
    """
    tables, called = comparison.headline_tables(scorers), agent_names(comparison)
    conclusion = " ".join(map(coded, conclusion_lines(comparison, scorers, called))).replace(" %", "\u00a0%")
    placed = tables[0].frontier if tables and len(comparison.rows) > 1 else None
    picture = (
        figure(frontier_picture(placed, tables[0].scorer, called, with_bounds_note=False), _BESIDE) if placed else ""
    )
    table = html_table(summary_table(comparison, tables, called, printed))
    below = [*table_remarks(comparison, tables, called), who_answered(abstract, names)]
    remarks = "".join(f"<p>{prose(line)}</p>" for line in below)
    more = f'<p>{number_of(len(notes), "note")}: <a href="#limitations">Limitations</a>.</p>' if notes else ""
    few = incomplete_section(abstract, names, much=False)
    about = f'<div class="dim">{remarks}{more}{few}</div>'
    return f'<p class="lead">{conclusion}</p><div class="first"><div>{table}{about}</div>{picture}</div>'


def citation_section(citations: Iterable[Citation]) -> str:
    """Return the citations in words, and the BibTeX entries."""
    entries = list(citations)
    lines = "".join(f"<li>{text(citation.what)}: {text(citation.text)}.</li>" for citation in entries)
    bibtex = text("".join(citation.bibtex for citation in entries))
    return f"<ul>{lines}</ul><details><summary>BibTeX</summary><pre>{bibtex}</pre></details>"


_KINDS = {"choice": "multiple choice", "long": "long answers", "extraction": "extraction"}


def causes_section(counts: Sequence[CauseCount], names: Mapping[str, str], attempts: str | None) -> str:
    """Return a table of likely causes by agent; empty if there is no cause to list.

    Args:
        counts: causes, the most frequent first.
        names: run id → name of the run, safe to show.
        attempts: address of the page with the attempts, to which causes link; empty: this page; ``None``: no links.
    """
    if not counts:
        return ""
    columns = (
        words("likely cause", "word"),
        *(Column(name, lambda cause, run=run: cause.counts.get(run, 0)) for run, name in names.items()),  # type: ignore[misc]
        words("it means", lambda cause: CAUSES[cause.word]),
    )
    links = (
        {row_number: attempts + attempt_link(*cause.first) for row_number, cause in enumerate(counts)}
        if attempts is not None
        else {}
    )
    table = table_of("causes", counts, columns, title="attempts by likely cause")
    led = "<p>A cause leads to the first such attempt.</p>" if links else ""
    return f"<h3>Why answers are not right</h3>{led}{html_table(table, links)}"


def what_agents_do(runs: Sequence[Run], names: Mapping[str, str]) -> str:
    """Describe each agent that ships, from its card. Files and code of users are not opened."""
    built_in, called = set(shipped()), dict[str, list[str]]()
    for run in runs:
        if (name := run.agent.partition("[")[0]) in built_in:
            called.setdefault(open_agent(name).card.summary, []).append(names[run.id])
    lines = "".join(f"<li>{text(listed(who))}: {prose(summary)}</li>" for summary, who in called.items())
    return f'<ul class="notes">{lines}</ul>' if lines else ""


def which_questions(comparison: Comparison, scorers: Sequence[str]) -> Iterator[str]:
    """Yield the number of questions of each scorer that does not cover all."""
    for table in comparison.headline_tables(scorers):
        covered = max((line.overall.n + line.overall.missing for line in table.lines), default=0)
        if 0 < covered < comparison.questions:
            kinds = " and ".join(_KINDS.get(kind, kind) for kind in described(table.scorer).kinds)
            yield (
                f"{one_line(table.scorer)} is of {covered:,} of {comparison.questions:,} questions: those that "
                f"it can score ({kinds})."
            )


Hide = Callable[[str], str]
"""Redacts what looks like a key in a text."""


def analyses_section(
    store: Store, runs: Sequence[Run], names: Sequence[str], options: AnalysisOptions, called: Mapping[str, str]
) -> str:
    """Return the table, the note and the picture of each analysis.

    `called` is as for :func:`ragrounds.ui.tables.analysis_tables.rename_runs`.

    Raises:
        UserError: an analysis is unknown, or the runs lack something it needs.
    """
    parts = []
    for name in names:
        analysis = rename_runs(analyse(name, store, runs, options), called)
        parts.append(figure(analysis.picture))
        parts.append(html_table(analysis_table(analysis.table, options.scorer)))
        if analysis.table.note:
            parts.append(f"<p>{coded(*named_notes([analysis.table.note], called))}</p>")
    return "".join(parts)


def limitations_section(sentences: Iterable[str], notes: Sequence[str]) -> str:
    """Return the limitations that follow from the data, and the notes of the comparison."""
    limitations = "".join(f"<li>{prose(sentence)}</li>" for sentence in sentences)
    more = "".join(f"<li>{prose(note)}</li>" for note in notes)
    noted = f'<h3>Notes on these runs</h3><ul class="notes">{more}</ul>' if notes else ""
    return (f"<ul>{limitations}</ul>" if limitations else "") + noted


def named_notes(notes: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Return notes with the names of runs in place of their ids; commands keep the ids."""
    ids = sorted(names, key=len, reverse=True)
    renamed = []
    for note in notes:
        parts = note.split("`")
        for id in ids:
            parts[::2] = [part.replace(id, names[id]) for part in parts[::2]]
        renamed.append("`".join(parts))
    return renamed


def fingerprint_section(runs: Sequence[Run], hide: Hide, names: Mapping[str, str] | None = None) -> str:
    """Return everything that each run's fingerprint covers: all that its results depend on.

    Args:
        runs: runs to show.
        hide: redacts what looks like a key in a text.
        names: run id → name; by default the agent's spec.
    """
    parts = []
    for run in runs:
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
        called = (names or {}).get(run.id, run.agent)
        parts.append(
            f'<details class="fingerprint"><summary>{text(called)}: <code>'
            f"{text(run.fingerprint[:12])}</code></summary>"
            f'<div class="scroll"><table class="identity"><tbody>{cells}</tbody></table></div></details>'
        )
    return "".join(parts)


def _flat(identity: Mapping[str, object], before: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in identity.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
    return flat
