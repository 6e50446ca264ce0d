"""One run, one number: live screen, last line, tables, JSON, claim, report and library say the same of it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest

import ragrounds as rr
from tests.conftest import Cli

SIZES = {"mmlu": (5, 4), "medqa": (3, 1), "bioasq": (1, 0)}
"""Dataset → questions, and how many of them have the first option as their answer, which the baseline takes."""


@pytest.fixture
def unequal(tmp_path: Path) -> str:
    """A benchmark of three datasets of different sizes."""
    options = {"A": "alpha", "B": "beta"}
    datasets = {
        name: {
            f"{name}-{i:03}": {"question": f"Question {i}?", "options": options, "answer": "A" if i < first else "B"}
            for i in range(count)
        }
        for name, (count, first) in SIZES.items()
    }
    (tmp_path / "benchmark.json").write_text(json.dumps(datasets))
    return f"mirage:{tmp_path / 'benchmark.json'}"


def run(command: Cli, benchmark: str, *more: str) -> subprocess.CompletedProcess[str]:
    return command("run", "--benchmark", benchmark, "--agent", "direct", "--model", "baseline:extractive", *more)


def test_the_same_number_stands_everywhere(command: Cli, unequal: str, tmp_path: Path, home: Path) -> None:
    done = run(command, unequal, "--display", "json", "--json")
    assert done.returncode == 0, done.stderr
    comparison = json.loads(done.stdout)
    (line,) = comparison["tables"][0]["lines"]
    whole, scorer = line["overall"], comparison["headlines"][0]["scorer"]
    datasets = [figure["value"] for figure in line["datasets"].values()]
    # The mean over datasets and the mean over questions differ, and both are there by name.
    assert whole["value"] == pytest.approx(sum(datasets) / 3)
    assert abs(whole["value"] - whole["pooled"]) > 0.02
    shown, pooled = f"{100 * whole['value']:.2f}", f"{100 * whole['pooled']:.2f}"

    live = json.loads([one for one in done.stderr.splitlines() if one.startswith("{")][-1])["runs"][line["run"]]
    assert (live["average"], live["pooled"], live["scorer"]) == pytest.approx((whole["value"], whole["pooled"], scorer))
    again = run(command, unequal, "--display", "plain")  # resumed with nothing left to ask: all of the run is counted
    assert f"average so far: direct {shown} ({scorer})" in again.stderr

    heads, row = table_rows(again.stdout)
    assert row[heads.index("average")].startswith(shown)
    assert row[heads.index("pooled")] == pooled
    compared = command("compare", line["run"], "--json", "--assert", "accuracy(direct) > 0 @ 95%")
    table = json.loads(compared.stdout)
    assert table["tables"][0]["lines"][0]["overall"] == whole
    claim = table["claims"][0]["conditions"][0]
    assert (claim["value"], claim["low"], claim["high"]) == pytest.approx((whole["value"], whole["low"], whole["high"]))
    rows = csv.DictReader(io.StringIO(command("compare", line["run"], "--csv").stdout))
    (kept,) = [one for one in rows if (one["scorer"], one["part"]) == (scorer, "") and one["low"] and one["n"]]
    assert (float(kept["value"]), float(kept["pooled"])) == (whole["value"], whole["pooled"])

    assert command("report", line["run"], "--out", "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    summary = page[page.index('<section id="summary">') :].partition("</section>")[0]
    assert f"direct</b> {shown} % by {scorer}" in summary
    assert summary.count(pooled) == 0
    tables = page[page.index('<section id="tables">') :].partition("</section>")[0]
    assert f">{shown} ±" in tables
    found = rr.compare(line["run"])
    assert f"direct {shown} by {scorer}" in found.brief()
    frame = found.to_polars("figures").row(0, named=True)
    assert (frame["value"], frame["pooled"]) == (whole["value"], whole["pooled"])
    assert f"{shown} ±" in found._repr_html_()


def test_after_a_resume_the_live_figure_is_of_the_whole_run(command: Cli, unequal: str) -> None:
    told = ("--display", "json", "--json")
    limited = run(command, unequal, *told, "--max-questions", "3", "--until", "accuracy(direct) > 2 @ 95%")
    first = last_counts(limited.stderr)
    done = run(command, unequal, *told)
    (whole,) = [line["overall"] for line in json.loads(done.stdout)["tables"][0]["lines"]]
    second = last_counts(done.stderr)
    assert (first["done"], second["done"]) == (3, 9)
    assert sum(second["outcomes"].values()) == 9
    assert (second["average"], second["pooled"]) == pytest.approx((whole["value"], whole["pooled"]))


def last_counts(text: str) -> dict:
    (counts,) = json.loads([one for one in text.splitlines() if one.startswith("{")][-1])["runs"].values()
    return counts


def table_rows(text: str) -> tuple[list[str], list[str]]:
    """The headings and the first row of the first table that is printed."""
    lines = text.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("#"))
    return tuple(re.split(r"\s{2,}", lines[place].strip()) for place in (at, at + 1))


def test_three_datasets_of_one_question_have_no_interval_of_width_zero(command: Cli, tmp_path: Path) -> None:
    # The table said 33.33 ±0.00 33.3-33.3 n 3.
    options = {"A": "alpha", "B": "beta"}
    datasets = {
        name: {f"{name}-0": {"question": f"{name}?", "options": options, "answer": answer}}
        for name, answer in (("mmlu", "A"), ("medqa", "B"), ("bioasq", "B"))
    }
    (tmp_path / "three.json").write_text(json.dumps(datasets))
    shown = run(command, f"mirage:{tmp_path / 'three.json'}", "--display", "none").stdout
    heads, row = table_rows(shown)
    assert row[heads.index("n")] == "3"
    assert {row[heads.index(name)] for name in datasets} == {"0.00 (0.0-83.3)", "100.00 (16.7-100.0)"}
    low, high = map(float, row[heads.index("95 %")].split("-"))
    assert low < float(row[heads.index("average")]) < high
    assert high - low > 60
    assert "±" not in shown
    claims = ("--assert", "accuracy(direct) > 0.3 @ 95%", "--assert", "accuracy(direct) < 0.7")
    done = command("compare", "direct", *claims, "--json")
    found = [one["conditions"][0] for one in json.loads(done.stdout)["claims"]]
    assert done.returncode == 4
    assert [f"{100 * found[0][end]:.1f}" for end in ("low", "high")] == row[heads.index("95 %")].split("-")
