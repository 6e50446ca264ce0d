"""What a study shows says how far it is: failures, what is broken off, other files of its name, what a call said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.api.study import diff_studies, list_studies, show_study
from ragrounds.errors import UserError
from ragrounds.evals.studies.study import read_study
from ragrounds.ui.study_tables import study_csv, study_notes
from tests.servers.scripted_http import scripted

FILE = """
title = "One row"

[settings]
benchmark = "sample"

[[rows]]
name = "A"
agent = "direct"
model = "openai:a"

[[columns]]
name = "shown"
limit = 6

[[columns]]
name = "unseen"
hidden = true
benchmark = "mirage/medqa"

[[columns]]
name = "mean"
mean = ["shown", "unseen"]
"""


def one_in_two(prompt: str, before: int) -> str | None:
    """No choices for half of the prompts, however often they are asked."""
    return None if len(prompt) % 2 else json.dumps({"answer_choice": "A"})


def written(folder: Path, text: str = FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "one.toml"
    file.write_text(text)
    return file


def test_failures_and_hidden_lacks_are_told(tmp_path: Path) -> None:
    file = written(tmp_path)
    with scripted(one_in_two) as server:
        made = rr.study(file, base_url=server.url, alias="here", home=tmp_path, confirmed=True, progress=False)
    (shown, mean) = made.table.cells
    failed = rr.compare(list(shown.runs), home=tmp_path).comparison.rows[0].statuses["failed"]
    assert 0 < shown.failed <= min(failed, shown.n)  # those of the questions that the figure is of
    notes = "\n".join(study_notes(made.table))
    assert f"A · shown: {shown.failed}" in notes
    assert mean.state == "lacks"
    assert "mirage/medqa" in mean.why
    assert "mirage/medqa" in notes
    assert study_csv(made.table).splitlines()[1].split(",")[10] == str(shown.failed)


def test_two_files_of_one_name_and_one_that_broke(tmp_path: Path) -> None:
    one, two = written(tmp_path / "a"), written(tmp_path / "b", FILE.replace("One row", "Other"))
    with scripted(lambda prompt, before: json.dumps({"answer_choice": "A"})) as server:
        how = {"base_url": server.url, "alias": "here", "home": tmp_path, "confirmed": True, "progress": False}
        whole = rr.study(one, **how)
        rr.study(two, limit=2, **how)
    first, second = (show_study(file, home=tmp_path).table for file in (one, two))
    assert first.cells == whole.table.cells
    (most, few) = (table.cells[0].n for table in (first, second))
    assert most > few > 0
    assert study_notes(second)[0] == "In place of what the study says, all cells have limit = 2."
    assert f"on the {few} that both have, of {most} and {few}" in [
        each.why for each in diff_studies(one, two, home=tmp_path).cells
    ]
    two.write_text("title = [")
    found = [each for each in list_studies(home=tmp_path) if each.name == "one"]
    assert sorted(each.kept for each in found) == [1, 1]
    assert any("'one'" in each.title for each in found)


@pytest.mark.parametrize("word", ["rows", "columns"])
def test_a_study_of_nothing(word: str) -> None:
    given = {"rows": '[{name = "a", agent = "direct"}]', "columns": '[{name = "b"}]', word: "[]"}
    with pytest.raises(UserError, match=f"has no {word}"):
        read_study(f'title = "x"\nrows = {given["rows"]}\ncolumns = {given["columns"]}\n', "empty")
