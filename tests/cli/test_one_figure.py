"""One run, one number: live screen, last line, tables, JSON, claim, report and library say the same of it."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragrounds as rr
from tests.conftest import Cli
from tests.servers.scripted_http import Scripted

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


@pytest.mark.slow
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
    ends = live["figure"]
    assert (ends["low"], ends["high"], ends["n"]) == (whole["low"], whole["high"], whole["n"])
    again = run(command, unequal, "--display", "plain", "--full")

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
    page = (tmp_path / "report.html").read_text(encoding="utf-8").replace("\xa0", " ")  # no line ends before %
    summary = page[page.index('<section id="abstract">') :].partition("</section>")[0]
    assert f"{scorer}: direct has {shown} % (95 %: " in summary
    assert summary.count(pooled) == 0
    tables = page[page.index('<section id="results">') :].partition("</section>")[0]
    assert f">{shown}<" in tables
    found = rr.compare(line["run"])
    frame = found.to_pandas("figures").iloc[0]
    assert (frame["value"], frame["pooled"]) == (whole["value"], whole["pooled"])
    assert f">{shown}<" in found._repr_html_()


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
    at = next(place for place, line in enumerate(lines) if line.startswith("agent"))
    return tuple(re.split(r"\s{2,}", lines[place].strip()) for place in (at, at + 1))


def test_three_datasets_of_one_question_have_no_interval_of_width_zero(command: Cli, tmp_path: Path) -> None:
    options = {"A": "alpha", "B": "beta"}
    datasets = {
        name: {f"{name}-0": {"question": f"{name}?", "options": options, "answer": answer}}
        for name, answer in (("mmlu", "A"), ("medqa", "B"), ("bioasq", "B"))
    }
    (tmp_path / "three.json").write_text(json.dumps(datasets))
    shown = run(command, f"mirage:{tmp_path / 'three.json'}", "--display", "none", "--full").stdout
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


DOCUMENTS = 60


def interactions(number: int) -> list[tuple[str, str, str]]:
    """What document `number` states: none to four interactions of two types."""
    return [
        (f"drug{number}a", ("effect", "mechanism")[(number + place) % 2], f"drug{number}x{place}")
        for place in range(number % 5)
    ]


def reply(prompt: str, _: int) -> str:
    """Every third document: nothing; else all but the last, with a wrong one where the number is even."""
    number = int(re.findall(r"drug(\d+)a ", prompt)[-1])
    found = [] if number % 3 == 0 else [list(one) for one in interactions(number)[:-1]]
    if number % 2 == 0 and number % 3:
        found.append([f"drug{number}a", "effect", "water"])
    return json.dumps(found)


def nothing(prompt: str, _: int) -> str:
    return "[]"


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """Made-up documents in the form of DDI 2013, most of them with something to find."""
    lines = []
    for number in range(DOCUMENTS):
        stated = interactions(number)
        names = [f"drug{number}a", *(other for _, _, other in stated)]
        text = f"On drug{number}a it is told: " + "; ".join(f"{one} {kind} {other}" for one, kind, other in stated)
        entities = [{"id": str(place), "text": name} for place, name in enumerate(names)]
        pairs = [
            {"e1": "0", "e2": str(place), "ddi": "true", "type": kind} for place, (_, kind, _) in enumerate(stated, 1)
        ]
        sentence = {"text": text, "entities": entities, "pairs": pairs}
        lines.append(json.dumps({"id": str(number), "split": "Train/made up", "sentences": [sentence]}))
    (tmp_path / "ddi2013.jsonl").write_text("\n".join(lines))
    return f"ddi:{tmp_path}"


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted(reply)
    yield made
    made.close()


def extract(
    command: Cli, corpus: str, scripted: Scripted, *more: str, model: str = "m"
) -> subprocess.CompletedProcess[str]:
    return command(
        *("run", "--benchmark", corpus, "--agent", "direct", "--model", f"openai:{model}"),
        *("--base-url", scripted.url, *more),
        OPENAI_API_KEY="none",
    )


def counted(kind: str = "") -> tuple[int, int, int]:
    """Right, wrong and missed over all documents, counted here and by no code of the package."""
    seen: Counter[str] = Counter()
    for number in range(DOCUMENTS):
        wanted = {one for one in interactions(number) if kind in ("", one[1])}
        given = {tuple(one) for one in json.loads(reply(f"drug{number}a ", 0)) if kind in ("", one[1])}
        seen["right"] += len(wanted & given)
        seen["wrong"] += len(given - wanted)
        seen["missed"] += len(wanted - given)
    return seen["right"], seen["wrong"], seen["missed"]


@pytest.mark.slow
def test_an_extraction_shows_the_micro_f1_of_the_corpus_everywhere(
    command: Cli, corpus: str, scripted: Scripted, tmp_path: Path
) -> None:
    right, wrong, missed = counted()
    expected = 2 * right / (2 * right + wrong + missed)
    shown = f"{100 * expected:.2f}"
    done = extract(command, corpus, scripted, "--display", "json", "--json")
    assert done.returncode == 0, done.stderr
    comparison = json.loads(done.stdout)
    (table,) = [one for one in comparison["tables"] if one["scorer"] == "triplets"]
    (line,) = table["lines"]
    assert line["overall"]["value"] == pytest.approx(expected)
    assert line["overall"]["low"] < expected < line["overall"]["high"]
    live = json.loads([one for one in done.stderr.splitlines() if one.startswith("{")][-1])["runs"][line["run"]]
    assert (live["average"], live["scorer"]) == (pytest.approx(expected), "triplets")

    again = extract(command, corpus, scripted, "--display", "plain", "--full")
    heads, row = table_rows(again.stdout)
    assert row[heads.index("ddi")] == shown
    claims = ("--assert", f"score(direct) > {expected - 1e-9} ", "--assert", "score(direct) > 0 @ 95%")
    compared = json.loads(command("compare", line["run"], "--json", *claims).stdout)
    claim = compared["claims"][1]["conditions"][0]
    assert compared["claims"][0]["decision"] == "holds"
    assert (claim["value"], claim["low"], claim["high"]) == pytest.approx(
        tuple(line["overall"][name] for name in ("value", "low", "high"))
    )
    rows = list(csv.DictReader(io.StringIO(command("compare", line["run"], "--csv").stdout)))
    kept = [one for one in rows if (one["figure"], one["scorer"], one["part"]) == ("score", "triplets", "")]
    assert [float(one["value"]) for one in kept] == [pytest.approx(expected)]
    assert command("report", line["run"], "--out", "report.html").returncode == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8").replace("\xa0", " ")  # no line ends before %
    summary = page[page.index('<section id="abstract">') :].partition("</section>")[0]
    assert f"triplets: direct has {shown} % (95 %: " in summary
    tables = page[page.index('<section id="results">') :].partition("</section>")[0]
    assert f">{shown}<" in tables
    found = rr.compare(line["run"])
    assert found.to_pandas("figures").iloc[0]["value"] == pytest.approx(expected)
    assert f">{shown}<" in found._repr_html_()


@pytest.mark.slow
def test_an_agent_that_always_finds_nothing_has_0(command: Cli, corpus: str, scripted: Scripted) -> None:
    # Texts without anything to find gave it full marks: every fifth document here.
    extract(command, corpus, scripted, "--display", "none")
    scripted.script = nothing
    done = extract(command, corpus, scripted, "--display", "none", "--json", model="n")
    (line,) = next(one for one in json.loads(done.stdout)["tables"] if one["scorer"] == "triplets")["lines"]
    assert (line["overall"]["value"], line["overall"]["low"]) == (0.0, None)
    everything = json.loads(command("compare", *run_ids(command), "--json").stdout)
    (table,) = [one for one in everything["tables"] if one["scorer"] == "triplets"]
    right, wrong, missed = counted()
    (pair,) = table["pairs"]
    assert abs(pair["tests"]["difference"]) == pytest.approx(2 * right / (2 * right + wrong + missed))
    assert pair["tests"]["low"] < pair["tests"]["difference"] < pair["tests"]["high"]
    watched = extract(command, corpus, scripted, "--new", "--until", "score(direct) > 0.5 @ 95%")
    assert watched.returncode == 2
    assert "not as a mean over questions" in watched.stderr


def run_ids(command: Cli) -> list[str]:
    return [one["run"]["id"] for one in json.loads(command("runs", "ls", "--json").stdout)["runs"]][::-1]
