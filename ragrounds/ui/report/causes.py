"""Why answers are not right, and what each agent does: what a reader asks beside the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.agents.agent import names as shipped
from ragrounds.agents.agent import open_agent
from ragrounds.evals.analyses.cause_counts import CauseCount
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.scorers import described
from ragrounds.evals.store.causes import CAUSES
from ragrounds.records import Run
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.comparison_verdict import listed
from ragrounds.ui.report.attempt_part import attempt_link
from ragrounds.ui.report.html_tables import html_table, prose, text
from ragrounds.ui.text import one_line

_KINDS = {"choice": "multiple choice", "long": "long answers", "extraction": "extraction"}


def causes_section(found: Sequence[CauseCount], names: Mapping[str, str], attempts: bool) -> str:
    """A table of likely causes by agent; empty where there are none.

    Args:
        found: the most frequent first.
        names: run id → what the run is called, safe to show.
        attempts: whether the page has the attempts, to which causes then lead.
    """
    if not found:
        return ""
    columns = (
        words("likely cause", "word"),
        *(Column(name, lambda one, run=run: one.counts.get(run, 0)) for run, name in names.items()),  # type: ignore[misc]
        words("it means", lambda one: CAUSES[one.word]),
    )
    links = {place: attempt_link(*one.first) for place, one in enumerate(found)} if attempts else {}
    table = table_of("causes", found, columns, title="attempts by likely cause")
    led = "<p>A cause leads to the first such attempt.</p>" if attempts else ""
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
