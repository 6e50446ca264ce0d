"""One run, one number: live screen, last line, JSON and claim say the same of it, and so do all screens."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.conftest import Cli, succeeded
from tests.hospital import Hospital, write_hospital
from tests.servers.scripted_http import GOOD, Scripted, scripted
from tests.shown_figures import agree, screens

SIZES = {"mmlu": (5, 4), "medqa": (3, 1), "bioasq": (1, 0)}
"""Dataset → questions, and how many of them have the first option as their answer."""


def unequal(folder: Path) -> str:
    """Write a benchmark of three datasets of different sizes."""
    options = {"A": "alpha", "B": "beta"}
    datasets = {
        name: {
            f"{name}-{i:03}": {"question": f"Question {i}?", "options": options, "answer": "A" if i < first else "B"}
            for i in range(count)
        }
        for name, (count, first) in SIZES.items()
    }
    (folder / "benchmark.json").write_text(json.dumps(datasets))
    return f"mirage:{folder / 'benchmark.json'}"


def run(command: Cli, benchmark: str, *more: str) -> subprocess.CompletedProcess[str]:
    return command("run", "--benchmark", benchmark, "--agent", "direct", "--model", "baseline:extractive", *more)


@pytest.mark.parametrize("scorer", ["mirage", "triplets"])
def test_a_run_says_it_live_and_in_its_last_line(command: Cli, tmp_path: Path, scorer: str) -> None:
    """A mean over datasets, or a micro-F1 of the whole corpus; tables and files: test_one_figure_everywhere."""
    right, wrong, missed = counted()
    value = pooled = 2 * right / (2 * right + wrong + missed)
    with scripted(reply) as server:
        if scorer == "mirage":
            server.script = lambda prompt, before: GOOD
            value = sum(first / count for count, first in SIZES.values()) / len(SIZES)
            pooled = sum(first for _, first in SIZES.values()) / sum(count for count, _ in SIZES.values())
        benchmark = unequal(tmp_path) if scorer == "mirage" else corpus(tmp_path)
        done = extract(command, benchmark, server, "--display", "json", "--json")
    assert done.returncode == 0, done.stderr
    (line,) = next(one for one in json.loads(done.stdout)["tables"] if one["scorer"] == scorer)["lines"]
    whole, live = line["overall"], last_counts(done.stderr)
    assert (whole["value"], live["average"], live["scorer"]) == pytest.approx((value, value, scorer))
    if pooled != value:
        assert (whole["pooled"], live["pooled"]) == pytest.approx((pooled,) * 2)
    ends = live["figure"]
    assert (ends["low"], ends["high"], ends["n"]) == (whole["low"], whole["high"], whole["n"])
    assert whole["low"] < value < whole["high"]


def test_after_a_resume_the_live_figure_is_of_the_whole_run(command: Cli, tmp_path: Path) -> None:
    benchmark = unequal(tmp_path)
    told = ("--display", "json", "--json")
    limited = run(command, benchmark, *told, "--max-questions", "3", "--until", "accuracy(direct) > 2 @ 95%")
    first = last_counts(limited.stderr)
    done = run(command, benchmark, *told)
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


def corpus(folder: Path) -> str:
    """Write made-up documents in the form of DDI 2013, most of them with something to find."""
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
    (folder / "ddi2013.jsonl").write_text("\n".join(lines))
    return f"ddi:{folder}"


def extract(
    command: Cli, benchmark: str, server: Scripted, *more: str, model: str = "m"
) -> subprocess.CompletedProcess[str]:
    return command(
        *("run", "--benchmark", benchmark, "--agent", "direct", "--model", f"openai:{model}"),
        *("--base-url", server.url, *more),
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


def test_an_agent_that_always_finds_nothing_has_0(command: Cli, tmp_path: Path) -> None:
    # Texts without anything to find gave it full marks: every fifth document here.
    benchmark = corpus(tmp_path)
    with scripted(reply) as server:
        extract(command, benchmark, server, "--display", "none")
        server.script = nothing
        done = extract(command, benchmark, server, "--display", "none", "--json", model="n")
    (line,) = next(one for one in json.loads(done.stdout)["tables"] if one["scorer"] == "triplets")["lines"]
    assert (line["overall"]["value"], line["overall"]["low"]) == (0.0, None)
    everything = json.loads(command("compare", *run_ids(command), "--json").stdout)
    (table,) = [one for one in everything["tables"] if one["scorer"] == "triplets"]
    right, wrong, missed = counted()
    (pair,) = table["pairs"]
    assert abs(pair["tests"]["difference"]) == pytest.approx(2 * right / (2 * right + wrong + missed))
    assert pair["tests"]["low"] < pair["tests"]["difference"] < pair["tests"]["high"]


def test_a_micro_f1_is_not_watched(command: Cli, tmp_path: Path) -> None:
    with scripted(reply) as server:
        watched = extract(command, corpus(tmp_path), server, "--until", "score(direct) > 0.5 @ 95%")
    assert (watched.returncode, server.calls) == (2, 0)
    assert "not as a mean over questions" in watched.stderr


def run_ids(command: Cli) -> list[str]:
    return [one["run"]["id"] for one in json.loads(command("runs", "ls", "--json").stdout)["runs"]][::-1]


def test_screens_count_the_same_runs_and_attempts(command: Cli) -> None:
    """Counterfactuals are in no list of runs, and those of a part of the questions end with all of their attempts."""
    agents = ("--agent", "direct", "--agent", "vanilla_rag[top_k=2]")
    assert command("run", *agents, "--limit", "4", "--display", "none").returncode == 0
    (rag,) = [run for run in run_ids(command) if run.startswith("vanilla_rag")]
    for sample, total in ((("--limit", "1"), 3), (("--limit", "2"), 6), (("--limit", "1", "--seed", "2"), 3)):
        change = ("counterfactual", rag, "--change", "drop[passage=1]", *sample)
        done = succeeded(command(*change, "--display", "json"))
        counts = json.loads([line for line in done.stderr.splitlines() if line.startswith("{")][-1])["runs"].values()
        assert [count["total"] for count in counts] == [count["done"] for count in counts]
        assert sum(count["total"] for count in counts) == total
    diagnosis = command("doctor", "--json")
    assert ", 2 runs and 3 of their counterfactuals and repetitions" in json.loads(diagnosis.stdout)["store"]
    assert len(run_ids(command)) == 2


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return write_hospital(tmp_path_factory.mktemp("hospital"))


@pytest.mark.slow
def test_every_screen_shows_the_same_figures(hospital: Hospital, command: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 600 pairs of figures: each figure has one value, to the last digit that a screen shows."""
    monkeypatch.setenv("RAGROUNDS_HOME", str(hospital.home))
    shown: defaultdict[tuple[str, str], dict[str, float | str]] = defaultdict(dict)
    for name, figures in screens(hospital, command):
        figures = list(figures)
        assert figures, name
        for what, whom, value in figures:
            values = shown[what, whom]
            values[name + "'" * sum(key.rstrip("'") == name for key in values)] = value
    assert sum(len(values) - 1 for values in shown.values()) > 600
    assert {key: values for key, values in shown.items() if not agree(list(values.values()))} == {}
