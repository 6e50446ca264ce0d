"""`ragrounds analyse` on the shipped sample: every analysis as table, drawing, JSON and SVG."""

import json
import xml.etree.ElementTree as ET

import pytest

import ragrounds as rr
from ragrounds.evals.analyses.analysis import analyses

RUNS = ("vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]")
PERCENT = set("epochs flips hops listed position readings sources specialties success".split())
BARE = set("flips harm readings sources success".split())
"""Analyses without intervals: for that of harm 24 questions are too few."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store with both runs, which the tests only read."""
    home = tmp_path_factory.mktemp("runs")
    rr.run("sample", RUNS, limit=24, epochs=2, home=home, progress=False)
    return home


@pytest.fixture
def ran(command, stored, monkeypatch):
    monkeypatch.setenv("RAGROUNDS_HOME", str(stored))
    return command


@pytest.mark.slow
def test_every_analysis_draws_and_gives_a_table_json_and_svg(ran, tmp_path):
    (tmp_path / "listed.txt").write_text("sample/1\n")
    given = {"size": ("--size", "baseline:extractive=1"), "listed": ("--documents", str(tmp_path / "listed.txt"))}
    # Failures needs what OGCaReBench alone says of a case, evidence a counterfactual run, rubric a judge.
    for name in sorted({*analyses()} - {"failures", "evidence", "rubric"}):
        more = given.get(name, ())
        file = tmp_path / f"{name}.svg"
        done = ran("analyse", name, *RUNS, "--plot", str(file), *more)
        assert done.returncode == 0, (name, done.stderr)
        last = done.stdout.splitlines()[-1]
        assert (name, "percent" in last, "error bars: " in last) == (name, name in PERCENT, name not in BARE)
        assert f"{name}.svg" in done.stderr
        picture = ET.parse(file).getroot()
        assert picture.tag.endswith("svg")
        found = json.loads(ran("analyse", name, *RUNS, "--json", *more).stdout)
        assert found["name"] == name
        assert found["record"]
        if name == "readings":  # a row for each answer that two scorers read otherwise: the baseline's are read alike
            assert found["table"]["rows"] == []
            continue
        assert found["table"]["rows"]
        assert len(found["table"]["columns"]) == len(found["table"]["rows"][0])


def test_a_curve_has_the_tables_figures(ran, tmp_path):
    file = tmp_path / "passages.svg"
    found = json.loads(ran("analyse", "passages", *RUNS, "--plot", str(file), "--json").stdout)
    (curve,) = found["record"]["curves"]
    assert [point["x"] for point in curve["points"]] == [1, 8]
    told = [title.text for title in ET.parse(file).getroot().iter("{http://www.w3.org/2000/svg}title")]
    shown = ran("analyse", "passages", *RUNS).stdout
    for point in curve["points"]:
        value = f"{100 * point['figure']['value']:.2f}"
        assert any(f": {value} (" in text and text.endswith(f"top_k {point['x']:g}") for text in told)
        assert value in shown
    assert "mirage" in ran("analyse", "passages", *RUNS, "--scorer", "mirage").stdout


@pytest.mark.slow
def test_k_is_used(ran):
    one = json.loads(ran("analyse", "success", RUNS[1], "--k", "1", "--json").stdout)["record"][0]
    all_ = json.loads(ran("analyse", "success", RUNS[1], "--k", "8", "--json").stdout)["record"][0]
    assert one["found_right"] + one["found_wrong"] <= all_["found_right"] + all_["found_wrong"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pasages", "x"), "Unknown analysis 'pasages'. Did you mean 'passages'"),
        (("passages",), "needs a run"),
        (("passages", "nobody"), "nobody"),
        (("size", "x", "--size", "gpt"), "expected MODEL=BILLIONS"),
        (("size", "x", "--size", "gpt=nan"), "expected MODEL=BILLIONS"),
    ],
)
def test_bad_input_is_one_line(command, arguments, said):
    done = command("analyse", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_written_and_a_scorer_without_scores(ran, tmp_path):
    done = ran("analyse", "passages", *RUNS, "--plot", str(tmp_path / "no" / "x.svg"))
    assert done.returncode == 2
    assert "Cannot write" in done.stderr
    done = ran("analyse", "passages", *RUNS, "--scorer", "strickt")
    assert "Did you mean 'strict'" in done.stderr
