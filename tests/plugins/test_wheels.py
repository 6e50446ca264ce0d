"""One of each kind of addition, built into a wheel of its own, installed beside ragrounds in an environment, and seen
in real output: tables, report, ``--json``, ``doctor``. Then the same six from files of a folder, by their paths."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.forked import PRELOADED
from tests.forked_copies import LARGE, Forks, forks

PACKAGES = Path(__file__).parent / "packages"
ADDED = {
    ("scorer", "brevity", "ragrounds-brevity"),
    ("agent", "look_once", "ragrounds-look-once"),
    ("agent", "until_known", "ragrounds-until-known"),
    ("benchmark", "flashcards", "ragrounds-flashcards"),
    ("retriever", "shortest_first", "ragrounds-shortest-first"),
    ("analysis", "answer_length", "ragrounds-answer-length"),
    ("export format", "answer_sheet", "ragrounds-answer-sheet"),
    ("import format", "votes", "ragrounds-votes"),
    ("command", "tally", "ragrounds-tally"),
    ("public function", "tally", "ragrounds-tally"),
}
CARDS = (
    "Which electrolyte is given first in severe hyperkalaemia?\tCalcium\tSodium\tMagnesium\n"
    "Which vitamin is lacking in pernicious anaemia?\tCobalamin\tRetinol\tThiamine\n"
)
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
"""Builds the wheel of the package in this folder, as pip has it built."""
Ragrounds = Callable[..., "subprocess.CompletedProcess[str]"]
IMPORTED = (*LARGE, *PRELOADED)
"""Modules that each command finds imported: all of them run this repository's ragrounds."""
pytestmark = pytest.mark.slow


def caller(processes: Forks, program: list[str], folder: Path) -> Ragrounds:
    """Return a function that runs a command line in a folder, with a home of its own, and checks that it succeeds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RAGROUNDS"))}
    environment |= {"RAGROUNDS_HOME": str(folder / "home"), "RAGROUNDS_CONFIG": str(folder / "no.toml")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        done = processes.run([*program, *arguments], folder, environment)
        assert done.returncode == 0, (arguments, done.stderr)
        return done

    return run


def checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ragrounds]:
    """Ragrounds in an environment in which the wheels are installed, over two runs of the sample."""
    pytest.importorskip("setuptools", reason="builds the wheels")
    pytest.importorskip("pip", reason="installs the wheels")
    folder = tmp_path_factory.mktemp("wheels")
    sources = shutil.copytree(PACKAGES, folder / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    where = ("--no-deps", "--no-index")
    for source in sources.iterdir():
        built_by = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
        assert built_by == {"requires": ["setuptools"], "build-backend": "setuptools.build_meta"}
    with forks(modules=("setuptools.build_meta", "setuptools.command.bdist_wheel")) as processes:
        for source in sources.iterdir():
            done = processes.run(["-c", BUILD, str(folder / "wheels")], source, os.environ)
            assert done.returncode == 0, done.stderr
    wheels = sorted(map(str, (folder / "wheels").glob("*.whl")))
    assert len(wheels) == len({package for _, _, package in ADDED})
    checked(sys.executable, "-m", "venv", "--without-pip", str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    # What ragrounds needs is borrowed from the environment of the tests.
    place = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")}))
    (place / "beside.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    checked(*pip, "--python", str(python), "install", "-q", *where, *wheels)
    (folder / "cards.tsv").write_text(CARDS)
    with forks(python, IMPORTED) as processes:
        ragrounds = caller(processes, ["-m", "ragrounds"], folder)
        ragrounds(
            *("run", "--display", "none", "--limit", "6", "--agent", "direct", "--agent", "look_once"),
            *("--agent", "look_once[retriever=shortest_first[pool=5],top_k=3]"),
        )
        yield ragrounds


RUNS = ("direct", "look_once", "look_once[retriever=shortest_first[pool=5],top_k=3]")


def test_doctor_lists_them(beside: Ragrounds) -> None:
    found = json.loads(beside("doctor", "--json").stdout)["additions"]
    assert {(one["kind"], one["name"], one["package"]) for one in found} >= ADDED
    ours = [one for one in found if one["package"].startswith("ragrounds-")]
    assert {(one["version"], one["fault"]) for one in ours} == {("1.0", "")}
    text = beside("doctor").stdout
    assert "  scorer        brevity, from ragrounds-brevity 1.0 (brevity:BREVITY)" in text
    assert "  export format answer_sheet, from ragrounds-answer-sheet 1.0 (answer_sheet:ANSWER_SHEET)" in text


def test_scorer_agent_and_retriever_in_tables_and_json(beside: Ragrounds) -> None:
    again = beside("run", "--display", "none", "--limit", "6", "--agent", "look_once", "--full").stdout
    assert "brevity (words)" in again
    table = beside("compare", *RUNS, "--full").stdout
    assert "brevity (words)" in table
    for name in RUNS:
        assert f"\n{name} " in table
    table = beside("compare", *RUNS, "--scorer", "brevity", "--full").stdout
    assert "brevity, words, lower is better  words of the answer" in table
    tables: dict[str, Any] = {
        one["scorer"]: one for one in json.loads(beside("compare", *RUNS, "--json").stdout)["tables"]
    }
    assert (tables["brevity"]["unit"], tables["brevity"]["direction"]) == ("words", "lower")
    assert tables["brevity"]["lines"][0]["overall"]["value"] > 1
    assert [one["agent"] for one in tables["brevity"]["lines"]] == list(RUNS)
    shown = json.loads(beside("list", "agents", RUNS[2], "--json").stdout)
    assert (shown["agent"], shown["package"]) == (RUNS[2], "ragrounds-look-once 1.0")


def test_scorer_agent_and_analysis_in_the_report(beside: Ragrounds, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    beside("report", *RUNS, "--scorer", "brevity", "--analysis", "answer_length", "--out", str(page))
    text = page.read_text(encoding="utf-8")
    for words in ("words of the answer", "the number of words of an answer", "look_once[", "Length of answers"):
        assert words in text
    assert "shortest_first[pool=5]" in text


def test_benchmark(beside: Ragrounds) -> None:
    line = ("--benchmark", "flashcards:cards.tsv", "--agent", "look_once[top_k=1]", "--corpus", "sample")
    done = beside("run", "--display", "none", *line, "--model", "baseline:extractive")
    assert "Accuracy (strict reading): " in done.stdout  # as the family's own card says
    assert "flashcards " in done.stdout
    assert "2 questions of flashcards" in done.stderr
    cards = {one["name"]: one for one in json.loads(beside("data", "ls", "--json").stdout)["benchmarks"]}
    assert cards["flashcards"]["package"] == "ragrounds-flashcards 1.0"
    assert cards["sample"]["package"] == ""
    assert "Flash cards" in beside("data", "show", "flashcards").stdout


def test_a_strategy_on_a_shape(beside: Ragrounds) -> None:
    """A loop of its own prompts and decisions: it is listed, its steps are recorded, and its limit holds."""
    assert "from the package ragrounds-until-known 1.0" in beside("list", "agents").stdout
    beside("run", "--display", "none", "--limit", "6", "--agent", "until_known[search_limit=2,top_k=1]")
    name = "until_known[search_limit=2,top_k=1]"
    (found,) = json.loads(beside("analyse", "trajectories", name, "--json").stdout)["record"]
    assert 1 < found["searches"] <= 2
    assert {*found["tokens"]} == {"answering", "querying", "reading"}


def test_analysis_and_export(beside: Ragrounds, tmp_path: Path) -> None:
    done = beside("analyse", "answer_length", *RUNS, "--plot", str(tmp_path / "a.svg"))
    assert "share of up to 20 words" in done.stdout
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    record = json.loads(beside("analyse", "answer_length", *RUNS, "--json").stdout)["record"]
    assert [one["run"].partition("-")[0] for one in record] == ["direct", "look_once", "look_once"]
    beside("export", "answer_sheet", "look_once", "--out", str(tmp_path / "sheet.md"), "--level", "3")
    assert (tmp_path / "sheet.md").read_text().startswith("### look_once: sample/")
    helped = " ".join(beside("export", "answer_sheet", "--help").stdout.split())
    assert "From the package ragrounds-answer-sheet 1.0." in helped


def test_lists_name_the_package(beside: Ragrounds) -> None:
    assert "from the package ragrounds-look-once 1.0" in beside("list", "agents").stdout
    assert "from the package ragrounds-shortest-first 1.0" in beside("list", "retrievers").stdout
    assert "from the package ragrounds-answer-length 1.0" in beside("list", "analyses").stdout
    assert "ragrounds-brevity 1.0" in beside("list", "scorers", "brevity").stdout
    scorers = {one["name"]: one["package"] for one in json.loads(beside("list", "scorers", "--json").stdout)["scorers"]}
    assert (scorers["brevity"], scorers["strict"]) == ("ragrounds-brevity 1.0", "")
    assert "answer_sheet" in beside("export", "--help").stdout
    assert "tally" in beside("--help").stdout
    assert beside("tally", "direct").stdout == "completed 6\n"
