"""A study as one HTML page: its table with published figures and differences, picture, analyses and fingerprints."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.records import Run
from ragrounds.extensions.studies.paper_table import StudyFinding, StudyTable
from ragrounds.extensions.studies.tables import (
    published_lines,
    study_notes,
    study_picture,
    study_sentences,
    study_tables,
)
from ragrounds.recorder.redaction import Redactor
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
    """Render the page. It loads nothing from a network.

    Args:
        table: the study's table.
        findings: the analyses of its runs.
        runs: the runs that its cells show.
        picture: kind of picture, as in the study's file.
        links: label and relative address of other pages, which its navigation begins with.
    """
    hide, notes = Redactor(), study_notes(table)
    chart = study_picture(table, picture)
    abstract = "".join(f"<p>{prose(sentence)}</p>" for sentence in study_sentences(table, runs))
    parts = {
        "Abstract": f'<div class="lead">{abstract}</div>',
        "Table": tables_and_remarks(study_tables(table)) + tables_and_remarks(notes),
        "Picture": figure(chart),
        "Analyses": "".join(_finding(analysis) for analysis in findings),
        "Fingerprints": sections.fingerprint_section(runs, hide) if runs else "",
    }
    nonempty_parts = {name: body for name, body in parts.items() if body}
    script = page_script(attempts=False)
    page = [head(hide(table.title), list(nonempty_parts), page_style(), script, links)]
    page += [section(name, hide(body)) for name, body in nonempty_parts.items()]
    return "".join([*page, f"</main>\n<script>{script}</script>\n</body></html>\n"])


def _finding(finding: StudyFinding) -> str:
    if finding.result is None:
        return f"<p>{text(finding.asked.name)}: {text(finding.why)}</p>"
    remarks = [line for line in (finding.result.table.note, *published_lines(finding)) if line]
    tables = tables_and_remarks([analysis_table(finding.result.table), *remarks])
    return figure(finding.result.picture) + tables
