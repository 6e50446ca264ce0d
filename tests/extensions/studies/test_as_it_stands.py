"""What a study shows says how far it is: failures, what is broken off, other files of its name, what a call said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.api.workspace import chosen_settings, open_store
from ragrounds.base.errors import UserError
from ragrounds.extensions.studies.cells import remove_unasked
from ragrounds.extensions.studies.functions import copy_study, list_studies, show_study
from ragrounds.extensions.studies.paper_table import study_table
from ragrounds.extensions.studies.study import open_study, read_study
from ragrounds.extensions.studies.tables import study_csv, study_notes
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
    two.write_text("title = [")
    found = [each for each in list_studies(home=tmp_path) if each.name == "one"]
    assert sorted(each.kept for each in found) == [1, 1]
    assert any("'one'" in each.title for each in found)


@pytest.mark.parametrize("word", ["rows", "columns"])
def test_a_study_of_nothing(word: str) -> None:
    given = {"rows": '[{name = "a", agent = "direct"}]', "columns": '[{name = "b"}]', word: "[]"}
    with pytest.raises(UserError, match=f"has no {word}"):
        read_study(f'title = "x"\nrows = {given["rows"]}\ncolumns = {given["columns"]}\n', "empty")


@pytest.mark.slow
def test_a_model_that_cannot_be_had_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragrounds.models.vllm.shutil.which", lambda name, path=None: None)
    row = '[[rows]]\nname = "B"\nagent = "direct"\nmodel = "vllm:some/weights"\n\n[[rows]]'
    file = written(tmp_path, FILE.replace("[[rows]]", row).replace('model = "openai:a"', 'model = "openai:a[%s]"'))
    how = {"home": tmp_path, "confirmed": True, "progress": False, "columns": "shown"}
    with scripted(lambda prompt, before: json.dumps({"answer_choice": "A"})) as server:
        file.write_text(file.read_text().replace("openai:a[%s]", f"openai:a[base_url={server.url},alias=here]"))
        first, second = rr.study(file, **how), rr.study(file, **how)
    for made in (first, second, show_study(file, home=tmp_path)):
        (lacking, shown) = (next(one for one in made.table.cells if one.row == name) for name in ("B", "A"))
        assert (lacking.state, lacking.runs, shown.state) == ("lacks", (), "done")
        assert "no `vllm` on the PATH" in lacking.why
    with open_store(chosen_settings(None, tmp_path)) as store:
        assert [run.id for run in store.runs()] == list(shown.runs)


def test_only_a_run_of_this_call_without_attempts_is_removed(tmp_path: Path) -> None:
    file = written(tmp_path)
    with scripted(lambda prompt, before: json.dumps({"answer_choice": "A"})) as server:
        made = rr.study(file, base_url=server.url, alias="here", home=tmp_path, confirmed=True, progress=False)
    ids = list(made.ids)
    with open_store(chosen_settings(None, tmp_path)) as store:
        (run,) = (store.run(one) for one in ids)
        assert remove_unasked(store, ids, 0.0) == set()  # it has attempts
        empty = replace(run, id="nothing-asked", created=run.created + 1)
        questions, golds = store.questions(run)
        store.add_run(empty, questions, golds)
        assert remove_unasked(store, [empty.id], empty.created + 1) == set()  # begun by somebody else before
        assert remove_unasked(store, [empty.id, run.id], run.created) == {empty.id}
        assert [one.id for one in store.runs()] == ids


SEARCHING = """
title = "Three rows"

[settings]
benchmark = "sample"
corpus = "sample"
model = "openai:a"
limit = 2

[[rows]]
name = "none"
agent = "direct"

[[rows]]
name = "study's"
agent = "vanilla_rag"

[[rows]]
name = "own"
agent = "vanilla_rag"
retriever = "bm25[k1=1.2]"

[[columns]]
name = "all"
"""


def test_a_retriever_of_the_call_is_for_agents_whose_rows_name_none(tmp_path: Path) -> None:
    file = written(tmp_path, SEARCHING)
    given = {"alias": "here", "home": tmp_path, "confirmed": True, "progress": False, "retriever": "bm25[b=0.5]"}
    with scripted(lambda prompt, before: json.dumps({"answer_choice": "A"})) as server:
        made = rr.study(file, base_url=server.url, **given)
        runs = {cell.row: rr.load(*cell.runs, home=tmp_path).run for cell in made.table.cells}
    searched = {row: str(run.identity.get("retriever")) for row, run in runs.items()}
    assert searched["none"] == "None"
    assert ("b=0.5" in searched["study's"], "k1=0.9" in searched["study's"]) == (True, True)
    assert ("b=0.4" in searched["own"], "k1=1.2" in searched["own"]) == (True, True)
    (note,) = made.table.notes
    assert note.endswith("retriever = bm25[b=0.5] (where they search and their row names none).")
    (note,) = study_table(open_study(file), {}, overrides={"retriever": "bm25", "limit": 3}).notes
    assert note.endswith("retriever = bm25 (where they search and their row names none), limit = 3.")
    with pytest.raises(UserError, match=r"changes nothing.*ragrounds study copy"):
        rr.study(file, rows=["none", "own"], **given)


def test_a_shipped_study_is_copied_and_nothing_is_written_over(tmp_path: Path) -> None:
    made = copy_study("mirage-table6", tmp_path / "mine.toml")
    mine, shipped = open_study(made), open_study("mirage-table6")
    assert mine == replace(shipped, name="mine")
    with pytest.raises(UserError, match="File exists"):
        copy_study("mirage-table6", made)
    with pytest.raises(UserError, match="Did you mean 'mirage-table6'"):
        copy_study("mirage-tabl6", tmp_path / "other.toml")
