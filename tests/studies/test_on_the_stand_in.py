"""The shipped studies of MIRAGE and MRAG on the stand-in: every cell is carried out, and says that it is no result."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.api.study import StudyResult, show_study, study
from ragrounds.evals.studies.study import shipped_studies
from ragrounds.evals.studies.table import STAND_IN
from ragrounds.ui.study_tables import study_csv, study_latex, study_markdown

SMALL = "mirage-figure4"
DEAR = ("mirage-table6", "mirage-table7", "mrag-table1")
"""Cells of the same kinds as the others', and ten times as many: `python perf/stand_in.py` carries them out."""
MINE = [name for name in shipped_studies() if name.startswith(("mirage-", "mrag-")) and name not in (SMALL, *DEAR)]


def filled(made: StudyResult) -> None:
    """Every cell has a figure, and every analysis a table with rows."""
    open_ = [
        (cell.row, cell.column, cell.why) for cell in made.table.cells if cell.state != "done" or cell.value is None
    ]
    assert open_ == []
    for finding in made.findings:
        assert finding.result is not None, finding.why
        assert finding.result.table.rows


def test_a_small_study_from_end_to_end(tmp_path: Path) -> None:
    made = study(SMALL, stand_in=True, home=tmp_path, progress=False)
    filled(made)
    assert made.made > 0
    for text in (study_markdown(made.table), study_latex(made.table), study_csv(made.table), str(made)):
        assert STAND_IN.partition(",")[0] in text
    # Gold abstracts are found, and runs stand under the names of their cells.
    (positions,) = made.findings
    assert positions.result is not None
    rows = positions.result.table.rows
    assert {row[0] for row in rows} == {"GPT-3.5, MedRAG · PubMedQA*", "GPT-3.5, MedRAG · BioASQ-Y/N"}
    assert sum(row[2] for row in rows if row[1] != "not found") > sum(row[2] for row in rows if row[1] == "not found")
    again = study(SMALL, stand_in=True, home=tmp_path, progress=False)
    assert (again.made, again.table.cells) == (0, made.table.cells)
    assert show_study(SMALL, stand_in=True, home=tmp_path).table.cells == made.table.cells


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.mark.slow
@pytest.mark.parametrize("name", MINE)
def test_every_cell_of_a_study(name: str, home: Path) -> None:
    made = study(name, stand_in=True, home=home, progress=False)
    filled(made)
    assert str(made).startswith(STAND_IN)
