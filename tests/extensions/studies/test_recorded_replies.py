"""A study's cells from recorded replies: no model is asked, and the authors' own give the printed digits."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

from ragrounds.api.workspace import open_store
from ragrounds.base.errors import UserError
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.abstract import abstract
from ragrounds.evals.compare.comparison import compare
from ragrounds.extensions.studies.figures import run_figure
from ragrounds.extensions.studies.functions import show_study, study
from ragrounds.extensions.studies.imported_cells import imported_run, recorded_rows
from ragrounds.extensions.studies.study import open_study
from ragrounds.extensions.studies.tables import study_notes
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_words import lack_lines, verdict_lines

REAL = Path(os.environ.get("RAGROUNDS_TEST_DATA", "")) / "mirage"
needs_data = pytest.mark.skipif(
    not os.environ.get("RAGROUNDS_TEST_DATA") or not REAL.is_dir(), reason="RAGROUNDS_TEST_DATA names no MIRAGE"
)
FILES = {
    "GPT-3.5, CoT": REAL / "predictions" / "gpt-35-turbo-16k_cot.jsonl.gz",
    "GPT-3.5, MedRAG": REAL / "predictions" / "gpt-35-turbo-16k_rag_32.jsonl.gz",
}
STUDY = """
title = "Recorded"
spread = "binomial"

[settings]
agent = "direct_cot"
model = "openai:gone"
benchmark = "BENCHMARK"

[[rows]]
name = "k = 1"

[[rows]]
name = "asked"

[[columns]]
name = "pubmedqa"
"""


def written(folder: Path, replies: list[dict[str, object]]) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(reply) for reply in replies), encoding="utf-8")
    return path


def replies(letters: str, dataset: str = "pubmedqa") -> list[dict[str, object]]:
    return [
        {"dataset": dataset, "id": f"{dataset}-{number:03d}", "setting": "cot", "model": "m",
         "raw": [json.dumps({"step_by_step_thinking": "…", "answer_choice": letter})]}
        for number, letter in enumerate(letters)
    ]  # fmt: skip


def write_benchmark(folder: Path, golds: list[str]) -> str:
    """Write questions with these right letters; return the benchmark's spec."""
    entries = {
        f"pubmedqa-{number:03d}": {"question": f"Is it {number}?", "options": {"A": "yes", "B": "no"}, "answer": gold}
        for number, gold in enumerate(golds)
    }
    (folder / "benchmark.json").write_text(json.dumps({"pubmedqa": entries}), encoding="utf-8")
    return f"mirage/pubmedqa:{folder / 'benchmark.json'}"


def test_replies_are_cells_and_are_shown_again(tmp_path: Path) -> None:
    golds = ["A", "B", "B", "A", "A", "B"]
    file = tmp_path / "one.toml"
    file.write_text(STUDY.replace("BENCHMARK", write_benchmark(tmp_path, golds)), encoding="utf-8")
    letters = "".join(golds[:4]) + "".join("B" if gold == "A" else "A" for gold in golds[4:])
    # What the file holds of other datasets is left aside.
    path = written(tmp_path, [*replies(letters), *replies("AAA", "mmlu")])
    home = tmp_path / "home"
    result = study(file, imported=[f"k = 1={path}"], rows="k = 1", home=home, progress=False)
    for shown in (result, show_study(file, home=home)):
        (cell,) = (one for one in shown.table.cells if one.row == "k = 1")
        assert (cell.state, cell.n) == ("done", 6)
        assert cell.value == pytest.approx(100 * 4 / 6)
    assert (result.made, result.reused) == (0, 0)
    other = written(tmp_path, [*replies(letters), *[{**one, "setting": "rag"} for one in replies(letters)]])
    (cell,) = study(file, imported={"k = 1": other}, rows="k = 1", home=home, progress=False).table.cells
    assert (cell.state, "m cot, m rag" in cell.why) == ("lacks", True)


def test_replies_that_hold_an_error_count_as_their_text_is_read_and_what_was_not_given_counts_nowhere(
    tmp_path: Path,
) -> None:
    golds = ["A", "B", "B", "A", "A", "B", "B", "A"]
    said = replies("AABB")  # right, wrong, right, wrong
    for number, raw in ((4, ["'content'"]), (5, ["'content'"])):
        said.append({**said[0], "id": f"pubmedqa-{number:03d}", "raw": raw})
    path = written(tmp_path, said)
    home, name = tmp_path / "home", write_benchmark(tmp_path, golds)
    with open_store(Settings(home=home)) as store:
        run = imported_run(store, path, name, home)
        figure = run_figure(store, run, "mirage")
        assert (figure.value, figure.failed, figure.failed_right, figure.missing) == (0.5, 2, 1, 2)
        made = compare(store, [run])
        found, names = abstract(store, [run], made), agent_names(made)
        (line, *_) = verdict_lines(made, (), names)
        lacks = lack_lines(found, names)
    file = tmp_path / "one.toml"
    file.write_text(STUDY.replace("BENCHMARK", name), encoding="utf-8")
    notes = study_notes(study(file, imported=[f"k = 1={path}"], rows="k = 1", home=home, progress=False).table)
    assert line.startswith("mirage: unfinished (6 of 8 given), and what is not given is in no mean; ")
    assert "50.00 %" in line
    assert f"{run.id} has no answer to 2 questions; they are in no mean." in made.notes
    assert "count as not correct" not in " ".join(made.notes)
    assert [lack.partition(" (")[0] for lack in lacks] == [
        "2 attempts are not among what was imported; no mean counts them",
        "2 attempts failed; they count as not correct, but for 1 with a text that is read as right",
    ]
    assert (
        "Recorded replies that are missing or hold an error count as their text is read, 1 as right, the others as 0 "
        "(k = 1 · pubmedqa: 2)." in notes
    )


@pytest.mark.parametrize("given", [["no such row=x"], ["GPT-3.5, CoT="], {"GPT-4": "x"}, ["GPT-3.5, CoT=no-such-file"]])
def test_what_is_refused(given: list[str] | dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"has no row|has no recorded replies|do not exist: /"):
        recorded_rows(given, open_study("mirage-table6"))


@needs_data
def test_digits_of_mirage_in_one_column(tmp_path: Path) -> None:
    from ragrounds.api.data import add

    # One dataset of five: the authors' files have 7,663 questions.
    benchmark, columns, files = tmp_path / "benchmark.json", ["PubMedQA*"], dict[str, Path]()
    entries = json.loads((REAL / "benchmark.json").read_bytes())["pubmedqa"]
    benchmark.write_text(json.dumps({"pubmedqa": entries}), encoding="utf-8")
    for row, file in FILES.items():
        files[row] = tmp_path / file.name.removesuffix(".gz")
        lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
        files[row].write_bytes(b"".join(line for line in lines if line.startswith(b'{"dataset": "pubmedqa"')))
    add("mirage", benchmark, home=tmp_path)
    made = study("mirage-table6", imported=files, rows=list(FILES), columns=columns, home=tmp_path, progress=False)
    shown = [cell for cell in made.table.cells if cell.row in FILES and cell.column in columns]
    assert len(shown) == 2
    for cell in shown:
        assert f"{cell.value:.2f} ±{cell.spread:.2f}" == f"{cell.published:.2f} ±{cell.published_spread:.2f}"


@needs_data
@pytest.mark.slow
@pytest.mark.weekly
def test_the_document_has_every_digit_that_the_replies_carry(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location(
        "docs_studies", Path(__file__).parents[3] / "docs" / "scripts" / "studies.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(REAL, tmp_path / "made.md")
    text = (tmp_path / "made.md").read_text(encoding="utf-8")
    study_ = open_study("mirage-table6")
    lines = text.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("| GPT-3.5, MedRAG |"))
    cells = [cell.strip() for cell in lines[place].split("|")[2:-1]]
    for cell, column in zip(cells, study_.columns, strict=True):
        printed = study_.published("GPT-3.5, MedRAG", column.name)
        assert printed is not None
        assert cell.startswith(f"{printed.value:.2f}")
        assert cell.endswith("" if printed.spread is None else f"±{printed.spread:.2f}")
    # Right as printed, less those by the replies, beside the replies that are missing.
    open_ = {
        tuple(line.split(" | ")[-2:])
        for line in lines
        if line.startswith("| GPT-3.5, CoT | ") and line.count("|") == 8 and "±" not in line
    }
    assert open_ == {("0", "0 |"), ("2", "6 |"), ("5", "27 |"), ("1", "1 |")}
    # The document in the repository has the same figures; how they are laid out may have changed since.
    kept = (Path(__file__).parents[3] / "perf" / "mirage_table6.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\d+\.\d\d\b", kept)) == sorted(re.findall(r"\d+\.\d\d\b", text))
