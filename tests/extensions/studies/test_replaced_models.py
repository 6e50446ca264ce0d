"""A study whose models a call replaced: figures under the name of the model that answered, without deviations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragrounds.base.settings import Settings
from ragrounds.extensions.studies.figures import CellFigure
from ragrounds.extensions.studies.functions import _OpenStudy
from ragrounds.extensions.studies.paper_table import CellResult, StudyTable, study_table
from ragrounds.extensions.studies.study import shipped_studies
from ragrounds.extensions.studies.tables import study_notes, study_tables

MODELS = """
title = "Three models"
baseline = "B, none"
[settings]
benchmark = "sample"
corpus = "sample"
[[rows]]
name = "{model}, {agent}"
group = "Models of the paper"
model = { "A" = "openai:a", "B" = "openai:b", "C" = "vllm:c" }
agent = { "none" = "direct", "8" = "vanilla_rag[top_k=8]" }
published = { "A, none" = [50], "A, 8" = [60], "B, none" = [30], "B, 8" = [40] }
[[columns]]
name = "all"
"""
TRANSPOSED = """
title = "Models in columns"
[settings]
benchmark = "sample"
[[rows]]
name = "direct"
agent = "direct"
published = [50, 60]
[[columns]]
name = "{model}"
model = { "A" = "openai:a", "B" = "openai:b" }
"""


def table(folder: Path, text: str, rows: tuple[str, ...] = (), **overrides: Any) -> StudyTable:
    file = folder / "models.toml"
    file.write_text(text)
    opened = _OpenStudy(file, overrides, Settings(home=folder), rows)
    results = {
        (cell.row, cell.column): CellResult(
            state="done", figure=CellFigure(value=0.25, measure="exact"), runs=(cell.key,)
        )
        for cell in opened.cells
    }
    return study_table(opened.study, results, overrides, opened.row_headings, opened.column_headings)


def lines(made: StudyTable) -> list[tuple[str, ...]]:
    return [row for row in study_tables(made)[0].rows if any(row[1:])]


def test_one_model_in_place_of_all_has_one_row_for_each_agent(tmp_path: Path) -> None:
    made = table(tmp_path, MODELS, model="openai:lab[temperature=0]")
    assert lines(made) == [
        ("openai:lab (A, none and 2 equal rows)", "25.00"),
        ("openai:lab (A, 8 and 2 equal rows)", "25.00"),
        ("A, none (published)", "50.00"),
        ("B, none (published)", "30.00"),
        ("A, 8 (published)", "60.00"),
        ("B, 8 (published)", "40.00"),
    ]
    assert [row.group for row in made.rows] == [*[""] * 2, *["Models of the paper"] * 4]
    assert {cell.deviation for cell in made.cells} == {None}
    assert made.baseline == "openai:lab (A, none and 2 equal rows)"
    assert len(made.carried.cells) == 2
    assert "'A, none' = 'B, none' = 'C, none'; 'A, 8' = 'B, 8' = 'C, 8'" in study_notes(made)[1]
    assert [row[0] for row in lines(table(tmp_path, MODELS, ("B, none",), model="openai:lab"))] == [
        "openai:lab (B, none)", "B, none (published)",
    ]  # fmt: skip


def test_the_model_of_a_row_stays_a_reproduction(tmp_path: Path) -> None:
    made = table(tmp_path, MODELS, model="vllm:b")  # the model of B, from another server
    assert lines(made) == [
        ("A, none (published)", "50.00"), ("B, none", "25.00"), ("  published", "30.00"), ("  deviation", "-5.00"),
        ("A, 8 (published)", "60.00"), ("B, 8", "25.00"), ("  published", "40.00"), ("  deviation", "-15.00"),
    ]  # fmt: skip


def test_models_in_columns(tmp_path: Path) -> None:
    made = table(tmp_path, TRANSPOSED, model="openai:lab")
    assert made.columns == ("openai:lab (A and 1 equal column)", "A", "B")
    assert lines(made) == [("direct", "25.00", "", ""), ("  published", "", "50.00", "60.00")]


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_studies())
def test_no_shipped_study_shows_figures_of_another_model(name: str, tmp_path: Path) -> None:
    opened = _OpenStudy(name, {"model": "openai:lab"}, Settings(home=tmp_path))
    results = {
        (cell.row, cell.column): CellResult(state="done", figure=CellFigure(value=0.25, measure="m"), runs=("r",))
        for cell in opened.cells
    }
    made = study_table(opened.study, results, opened.arguments, opened.row_headings, opened.column_headings)
    assert study_tables(made)
    named = {line.name for line in (*opened.study.rows, *opened.study.columns) if "model" in line.settings}
    assert not [cell for cell in made.cells if cell.value is not None and named & {cell.row, cell.column}]
