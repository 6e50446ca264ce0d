"""A study as one HTML page: its table with the published figures, differences, picture, analyses, and what made it."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Run
from ragrounds.base.redaction import Redactor
from ragrounds.extensions.studies.paper_table import StudyFinding, StudyTable
from ragrounds.extensions.studies.tables import (
    published_lines,
    study_notes,
    study_picture,
    study_sentences,
    study_tables,
)
from ragrounds.ui.report import sections
from ragrounds.ui.report.assets import page_script
from ragrounds.ui.report.page import head, page_style, section
from ragrounds.ui.report.results import figure
from ragrounds.ui.tables.analysis_tables import analysis_table
from ragrounds.ui.tables.html_tables import prose, tables_and_remarks, text


def study_page(
    table: StudyTable,
    findings: Sequence[StudyFinding],
    runs: Sequence[Run],
    picture: str,
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """The page. It asks nothing of any network.

    Args:
        table: the study's.
        findings: the analyses of its runs.
        runs: those that its cells show.
        picture: as the study's file says.
        links: label and relative address of other pages, which its navigation begins with.
    """
    hide, notes = Redactor(), study_notes(table)
    drawn = study_picture(table, picture)
    said = "".join(f"<p>{prose(sentence)}</p>" for sentence in study_sentences(table, runs))
    parts = {
        "Abstract": f'<div class="lead">{said}</div>',
        "Table": tables_and_remarks(study_tables(table)) + tables_and_remarks(notes),
        "Picture": figure(drawn),
        "Analyses": "".join(_finding(one) for one in findings),
        "Fingerprints": sections.fingerprint_section(runs, hide) if runs else "",
    }
    made = {name: body for name, body in parts.items() if body}
    script = page_script(attempts=False)
    page = [head(hide(table.title), list(made), page_style(), script, links)]
    page += [section(name, hide(body)) for name, body in made.items()]
    return "".join([*page, f"</main>\n<script>{script}</script>\n</body></html>\n"])


def _finding(one: StudyFinding) -> str:
    if one.result is None:
        return f"<p>{text(one.asked.name)}: {text(one.why)}</p>"
    said = [line for line in (one.result.table.note, *published_lines(one)) if line]
    tables = tables_and_remarks([analysis_table(one.result.table), *said])
    return figure(one.result.picture) + tables
