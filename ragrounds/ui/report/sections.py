"""The parts of a report beside its figures: what is missing, the abstract, why answers are not right, what agents do,
notes, analyses, fingerprints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from ragrounds.agents.agent import names as shipped
from ragrounds.agents.agent import open_agent
from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from ragrounds.evals.analyses.cause_counts import CauseCount
from ragrounds.evals.compare.abstract import Abstract
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.compare.published import PrintedFigure
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.causes import CAUSES
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.pictures.frontier import frontier_picture
from ragrounds.ui.report.citation import Citation
from ragrounds.ui.report.payload import attempt_link
from ragrounds.ui.report.results import figure
from ragrounds.ui.tables.analysis_tables import analysis_table, with_names
from ragrounds.ui.tables.comparison_words import lack_lines, listed, missing_commands, who_answered
from ragrounds.ui.tables.html_tables import coded, html_table, prose, text
from ragrounds.ui.tables.one_screen import conclusion_lines, summary_table, table_remarks
from ragrounds.ui.text import number_of, one_line

_LINES = 12
"""Commands that are listed."""
_MUCH = 0.05
"""The share of a run above which what is missing comes before everything else."""
_BESIDE = 460
"""Width of the frontier beside the table, in pixels."""


def incomplete_section(abstract: Abstract, names: Mapping[str, str], *, much: bool) -> str:
    """That something is missing, of which runs, and the commands that make it; empty where nothing is.

    Args:
        abstract: of a comparison.
        names: run id → what the run is called, safe to show.
        much: whether this is for a page of which more than 5 % is missing of some run, or for one of less.
    """
    lines, commands = lack_lines(abstract, names), missing_commands(abstract)
    if not lines or any(one.count > _MUCH * one.of for one in abstract.lacks) != much:
        return ""
    listed = "".join(f"<li>{text(line)}</li>" for line in lines)
    shown = "".join(f"<code>{text(command)}</code>" for command in commands[:_LINES])
    more = f"<p>And {len(commands) - _LINES:,} more.</p>" if len(commands) > _LINES else ""
    made = (
        f'<details><summary>Commands that make what is missing</summary><div class="commands">{shown}</div>{more}'
        "</details>"
    )
    if not much:
        return f"<aside><p>Incomplete: {text(' '.join(lines))}</p>{made if commands else ''}</aside>"
    return (
        '<aside class="incomplete" role="note" aria-labelledby="incomplete"><h2 id="incomplete">Incomplete</h2>'
        f"<ul>{listed}</ul>{made if commands else ''}</aside>\n"
    )


def abstract_section(
    comparison: Comparison,
    scorers: Sequence[str],
    found: Abstract,
    names: Mapping[str, str],
    notes: Sequence[str],
    printed: Mapping[str, PrintedFigure],
) -> str:
    """What can be concluded at what price, Table 1 with the frontier, and the conditions: what is seen first.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        found: who answered what, and what is missing.
        names: run id → what the run is called, safe to show.
        notes: on its runs, which stand elsewhere.
        printed: run id → what a paper printed for the same.
    """
    shown, called = [table for table, _ in comparison.shown(scorers)], agent_names(comparison)
    said = " ".join(map(coded, conclusion_lines(comparison, scorers, called))).replace(" %", "\u00a0%")
    placed = shown[0].frontier if shown and len(comparison.rows) > 1 else None
    drawn = figure(frontier_picture(placed, shown[0].scorer, called), _BESIDE) if placed else ""
    table = html_table(summary_table(comparison, shown, called, printed))
    below = [*table_remarks(comparison, shown, called), who_answered(found, names)]
    remarks = "".join(f"<p>{prose(line)}</p>" for line in below)
    more = f'<p>{number_of(len(notes), "note")}: <a href="#limitations">Limitations</a>.</p>' if notes else ""
    few = incomplete_section(found, names, much=False)
    about = f'<div class="dim">{remarks}{more}{few}</div>'
    return f'<p class="lead">{said}</p><div class="first"><div>{table}{about}</div>{drawn}</div>'


def citation_section(found: Iterable[Citation]) -> str:
    """What to cite, in words; the tool as BibTeX too."""
    made = list(found)
    lines = "".join(f"<li>{text(one.what)}: {text(one.text)}.</li>" for one in made)
    entries = text("".join(one.bibtex for one in made))
    return f"<ul>{lines}</ul><details><summary>BibTeX</summary><pre>{entries}</pre></details>"


_KINDS = {"choice": "multiple choice", "long": "long answers", "extraction": "extraction"}


def causes_section(found: Sequence[CauseCount], names: Mapping[str, str], attempts: str | None) -> str:
    """A table of likely causes by agent; empty where there are none.

    Args:
        found: the most frequent first.
        names: run id → what the run is called, safe to show.
        attempts: the address of the page with the attempts, to which causes then lead; empty: this one.
    """
    if not found:
        return ""
    columns = (
        words("likely cause", "word"),
        *(Column(name, lambda one, run=run: one.counts.get(run, 0)) for run, name in names.items()),  # type: ignore[misc]
        words("it means", lambda one: CAUSES[one.word]),
    )
    links = (
        {place: attempts + attempt_link(*one.first) for place, one in enumerate(found)} if attempts is not None else {}
    )
    table = table_of("causes", found, columns, title="attempts by likely cause")
    led = "<p>A cause leads to the first such attempt.</p>" if links else ""
    return f"<h3>Why answers are not right</h3>{led}{html_table(table, links)}"


def what_agents_do(runs: Sequence[Run], names: Mapping[str, str]) -> str:
    """What each agent that ships does, from its card. Files and code of others are not opened."""
    known, called = set(shipped()), dict[str, list[str]]()
    for run in runs:
        if (name := run.agent.partition("[")[0]) in known:
            called.setdefault(open_agent(name).card.summary, []).append(names[run.id])
    lines = "".join(f"<li>{text(listed(who))}: {prose(summary)}</li>" for summary, who in called.items())
    return f'<ul class="notes">{lines}</ul>' if lines else ""


def which_questions(comparison: Comparison, scorers: Sequence[str]) -> Iterator[str]:
    """Of how many questions each scorer's figures are, where these are not all."""
    for table, _ in comparison.shown(scorers):
        asked = max((line.overall.n + line.overall.missing for line in table.lines), default=0)
        if 0 < asked < comparison.questions:
            kinds = " and ".join(_KINDS.get(kind, kind) for kind in described(table.scorer).kinds)
            yield (
                f"{one_line(table.scorer)} is of {asked:,} of {comparison.questions:,} questions: those that "
                f"it can score ({kinds})."
            )


Hide = Callable[[str], str]
"""Takes what looks like a key out of a text."""


def analyses_section(
    store: Store, runs: Sequence[Run], names: Sequence[str], options: AnalysisOptions, called: Mapping[str, str]
) -> str:
    """The table, the note and the picture of each analysis; `called` as of
    :func:`ragrounds.ui.tables.analysis_tables.with_names`.

    Raises:
        UserError: an unknown analysis, or runs that lack what it needs.
    """
    parts = []
    for name in names:
        result = with_names(analyse(name, store, runs, options), called)
        parts.append(figure(result.picture))
        parts.append(html_table(analysis_table(result.table, options.scorer)))
        if result.table.note:
            parts.append(f"<p>{text(*named_notes([result.table.note], called))}</p>")
    return "".join(parts)


def limitations_section(sentences: Iterable[str], notes: Sequence[str]) -> str:
    """What follows from the data, and the notes of the comparison."""
    said = "".join(f"<li>{prose(sentence)}</li>" for sentence in sentences)
    more = "".join(f"<li>{prose(note)}</li>" for note in notes)
    noted = f'<h3>Notes on these runs</h3><ul class="notes">{more}</ul>' if notes else ""
    return (f"<ul>{said}</ul>" if said else "") + noted


def named_notes(notes: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Notes with the names of runs in place of their ids; commands keep the ids."""
    ids = sorted(names, key=len, reverse=True)
    made = []
    for note in notes:
        parts = note.split("`")
        for id in ids:
            parts[::2] = [part.replace(id, names[id]) for part in parts[::2]]
        made.append("`".join(parts))
    return made


def fingerprint_section(runs: Sequence[Run], hide: Hide, names: Mapping[str, str] | None = None) -> str:
    """Everything that each run's fingerprint covers: all that its results depend on.

    Args:
        runs: to show.
        hide: takes what looks like a key out of a text.
        names: run id → what it is called; by default its agent's text.
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
            f"<details><summary>{text(called)}: <code>{text(run.fingerprint[:12])}</code></summary>"
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
