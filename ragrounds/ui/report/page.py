"""Report page: sections, style, script and attempts in one file that loads nothing from a network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.base import hooks
from ragrounds.base.plugins import discover
from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import AnalysisOptions
from ragrounds.evals.analyses.cause_counts import cause_counts
from ragrounds.evals.analyses.gold_by_hop import hop_profile
from ragrounds.evals.compare.abstract import abstract
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.compare.published import printed_figures
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import traces_by_question
from ragrounds.recorder.redaction import Redactor
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.chart_svg import picture_style
from ragrounds.ui.report import sections
from ragrounds.ui.report.assets import asset, page_script
from ragrounds.ui.report.citation import citations
from ragrounds.ui.report.judges import verdict_parts
from ragrounds.ui.report.methods import methods
from ragrounds.ui.report.payload import attempt_part
from ragrounds.ui.report.results import figure, results_section
from ragrounds.ui.report.sections import (
    abstract_section,
    causes_section,
    citation_section,
    incomplete_section,
    what_agents_do,
    which_questions,
)
from ragrounds.ui.tables.comparison_warnings import limitation_sentences
from ragrounds.ui.tables.comparison_words import days
from ragrounds.ui.tables.html_tables import prose, tables_and_remarks, text
from ragrounds.ui.text import number_of
from ragrounds.ui.theme import theme_style
from ragrounds.version import __version__


class PageOptions(Struct, frozen=True, kw_only=True):
    """Contents of a report page."""

    title: str = ""
    scorers: Sequence[str] = ()
    """Scorers to show; empty: the same as in the terminal."""
    attempts: bool = True
    """True to include every attempt with its steps."""
    beside: str = ""
    """Address of another page with the attempts, if this page has none."""
    brief: bool = False
    """True for the conclusion, the table and the frontier alone, for one sheet of paper."""
    analyses: Sequence[str] = ()
    """Names of analyses to make and show."""
    severity: str = ""
    """File with the costs of wrong and missing answers, for analyses."""
    seed: int = 0
    """Seed of the bootstraps of analyses and verdicts."""
    links: Sequence[tuple[str, str]] = ()
    """Label and relative address of other pages, at the beginning of the navigation."""
    on_progress: Callable[[int], None] | None = None
    """Called with the number of attempts written so far."""


DEFAULTS = PageOptions()


def report_page(
    store: Store, runs: Sequence[Run], comparison: Comparison, options: PageOptions = DEFAULTS
) -> Iterator[str]:
    """Yield the report as one HTML page, part by part.

    Parts that are read first come first, so that a browser shows them before it has the rest.

    Args:
        store: store of the runs.
        runs: runs of the comparison, in its order.
        comparison: figures of the runs.
        options: contents of the page.
    """
    hide, scorers, brief, seed = Redactor(), options.scorers, options.brief, options.seed
    scorer_names = [
        scorer_table.scorer
        for table, more_tables in comparison.shown_tables(scorers)
        for scorer_table in (table, *more_tables)
    ]
    attempts = options.attempts and not brief
    script = page_script(attempts=attempts)
    names = agent_names(comparison)
    summary = abstract(store, runs, comparison, scorers)
    notes = sections.named_notes(comparison.notes, names)
    first = next(iter(comparison.headline_tables(scorers)), None)
    printed = printed_figures(runs, summary.systems, comparison, first) if first else {}
    parts = {"Abstract": abstract_section(comparison, scorers, summary, names, () if brief else notes, printed)}
    if brief:
        parts["Notes"] = sections.limitations_section((), notes)
    else:
        behaviour = figure(hop_profile(store, runs, names, seed))
        scorer = next(iter(scorer_names), "")
        analysis_options = AnalysisOptions(scorer=scorer, severity=options.severity, seed=seed)
        behaviour += sections.analyses_section(store, runs, options.analyses, analysis_options, names)
        judges = {run.id: tuple(store.judges(run)) for run in runs}
        limits = limitation_sentences(store, runs, comparison, scorers, names)
        parts |= {
            "Results": _results(store, runs, comparison, scorers, names, "" if attempts else options.beside or None),
            "Behaviour": behaviour,
            "Judges": tables_and_remarks(verdict_parts(store, runs, seed, names)),
            **{
                name: tables_and_remarks(added.parts(store, runs, names))
                for name, added in discover(hooks.SECTION, sections.ReportSection).items()
            },
            "Methods": "".join(f"<p>{prose(part)}</p>" for part in methods(comparison, runs, scorer_names, judges)),
            "How to cite": citation_section(citations(runs, summary.datasets)),
            "Limitations": sections.limitations_section(limits, notes),
            "Fingerprints": sections.fingerprint_section(runs, hide, names),
        }
    sections_by_name = {name: body for name, body in parts.items() if body}
    heading = options.title or f"{comparison.benchmark}: {number_of(len(runs), 'system')} compared"
    if len(runs) == 1 and not options.title:
        heading = f"{names[runs[0].id]} on {comparison.benchmark}"
    to = [*options.links, *([("Attempts", options.beside)] if options.beside else [])]
    models = dict.fromkeys(model for system in summary.systems for model in system.models)
    model_words = ", ".join(models) if len(models) <= 3 else number_of(len(models), "model")
    subtitle = " · ".join(filter(None, (summary.title, model_words, days(summary.systems).removeprefix("on "))))
    yield head(
        hide(heading),
        [*sections_by_name, *(["Attempts"] if attempts else [])],
        page_style(),
        script,
        to,
        hide(subtitle),
    )
    yield hide(incomplete_section(summary, names, much=True))
    for name, body in sections_by_name.items():
        yield section(name, hide(body))
    if attempts:
        yield from _attempts(store, runs, comparison, hide, options.on_progress)
    yield f"</main>\n<script>{script}</script>\n</body></html>\n"


def _results(
    store: Store,
    runs: Sequence[Run],
    comparison: Comparison,
    scorers: Sequence[str],
    names: Mapping[str, str],
    attempts: str | None,
) -> str:
    """Return the section of results: agents, covered questions, figures, and causes of wrong answers."""
    question_ids = {question.id for question in common_questions(store, runs, True)[0]}
    headlines = [table.scorer for table in comparison.headline_tables(scorers)]
    causes = cause_counts(store, runs, headlines, question_ids, comparison.epochs)
    coverage = "".join(f"<p>{prose(line)}</p>" for line in which_questions(comparison, scorers))
    figures = results_section(comparison, scorers)
    return what_agents_do(runs, names) + coverage + figures + causes_section(causes, names, attempts)


def section(name: str, body: str) -> str:
    """Return a part of a page under its heading."""
    return f'<section id="{_anchor(name)}"><h2>{name}</h2>{body}</section>\n'


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def head(
    title: str,
    parts: Sequence[str],
    style: str,
    script: str,
    links: Sequence[tuple[str, str]] = (),
    subtitle: str = "",
) -> str:
    """Return the beginning of a page, with links to its parts.

    Args:
        title: title of the page.
        parts: names of its sections.
        style: the only style sheet that the page allows.
        script: the only script that the page allows.
        links: label and relative address of other pages, before those to its parts.
        subtitle: line below the title; empty: no line.
    """
    # Only this very script and style are allowed, and nothing may be fetched: text that came from a model cannot act
    # here, even if it ever got into the page as markup.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )
    to = [*links, *((part, f"#{_anchor(part)}") for part in parts)]
    listed = "".join(f'<li><a href="{text(address)}">{text(label)}</a></li>' for label, address in to)
    nav = f'<nav aria-label="Parts of this page"><ul>{listed}</ul></nav>' if links or len(parts) > 1 else ""
    below = f'<p class="subtitle">{prose(subtitle)}</p>' if subtitle else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="generator" content="ragrounds {__version__}">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style></head>\n<body><header>"
        f"<h1>{text(title)}</h1>{below}{nav}</header>\n<main>\n"
    )


def _attempts(
    store: Store, runs: Sequence[Run], comparison: Comparison, hide: Redactor, on_progress: Callable[[int], None] | None
) -> Iterator[str]:
    # If the comparison is limited to shared questions, so is the list: its counts must match those of the tables.
    questions, _ = common_questions(store, runs, True)
    order = {question.id: position for position, question in enumerate(questions)}
    agents = agent_names(comparison)
    traces = (
        trace
        for trace in traces_by_question(store, runs)
        if trace.question.id in order and trace.attempt.epoch < comparison.epochs
    )
    yield from attempt_part(traces, order, [(row.run, agents[row.run]) for row in comparison.rows], hide, on_progress)


def page_style() -> str:
    """Return the style of every page: the theme's colours, text and tables, the browser of attempts, pictures."""
    sheets = "".join(asset(name) for name in ("report.css", "tables.css", "browser.css"))
    return theme_style() + sheets + picture_style()


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
