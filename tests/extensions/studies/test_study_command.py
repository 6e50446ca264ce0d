"""`ragrounds study`: what its commands print, in every format, and what they refuse."""

from __future__ import annotations

import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragrounds.cli.entry import command_line
from ragrounds.extensions.studies.study import read_study, shipped_studies

ROOT = Path(__file__).resolve().parents[3]
STUDY = """
title = "A title with [markup] and \\u202e direction"
source = "made up"
baseline = "none"
spread = "binomial"
[settings]
benchmark = "sample"
limit = 6
[[rows]]
name = "{agent}"
agent = { "none" = "direct", "two" = "vanilla_rag[top_k=2]" }
published = { "none" = [50], "two" = ["60 ±2"] }
[[columns]]
name = "six"
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Runs a command in a home of its own; gives its result."""
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path / "home"))
    (tmp_path / "mine.toml").write_text(STUDY)

    def ask(*words: str):
        return CliRunner().invoke(command_line(), ["study", *words])

    return ask


@pytest.mark.slow
def test_run_then_show_in_every_format(asked, tmp_path) -> None:
    file = str(tmp_path / "mine.toml")
    ran = asked("run", file, "--display", "none")
    assert ran.exit_code == 0, ran.output
    assert "2 of 2 cells are done" in ran.stderr
    assert "\u202e" not in ran.output
    shown = asked("show", "mine")
    assert shown.stdout == ran.stdout
    table = json.loads(asked("show", file, "--json").stdout)["table"]
    value = table["rows"][1]["cells"][0]["value"]
    spread = table["rows"][1]["cells"][0]["spread"]
    shown_spread = f"{value:.2f} ±{spread:.2f}"
    assert shown_spread in shown.stdout
    for form, said in (("--markdown", shown_spread), ("--latex", "\\pm"), ("--csv", str(value))):
        text = asked("show", file, form).stdout
        assert said in text
        assert "60" in text
    listed = {one["name"]: one for one in json.loads(asked("ls", "--json").stdout)["studies"]}
    assert (listed["mine"]["cells"], listed["mine"]["kept"]) == (2, 2)


def test_what_is_refused(asked, tmp_path) -> None:
    file = str(tmp_path / "mine.toml")
    for words, said in (
        (["show", file, "--json", "--csv"], "choose one format"),
        (["run", "mirage-tabel6"], "Did you mean 'mirage-table6'"),
        (["copy", file], "change a copy of it, then: ragrounds study run COPY"),
        (["run", file, "--row", "tow"], "has no row 'tow'. Did you mean 'two'"),
    ):
        done = asked(*words)
        assert done.exit_code != 0
        assert said in str(done.exception), words


def test_the_example_of_the_documentation_is_a_study() -> None:
    text = (ROOT / "docs" / "reference" / "studies.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    assert tomllib.loads(example)
    assert len(list(read_study(example, "example").cells())) == 8


def test_the_page_lists_every_study_that_ships() -> None:
    page = (ROOT / "docs" / "reference" / "studies.md").read_text(encoding="utf-8")
    script = runpy.run_path(str(ROOT / "docs" / "scripts" / "shipped_studies.py"))
    assert script["with_list"](page) == page, "python docs/scripts/shipped_studies.py --write"
    assert all(f"`{name}`" in page for name in shipped_studies())
