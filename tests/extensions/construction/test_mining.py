"""`ragrounds build relevance-mining` end to end: a real server; counts and judgements as they are worked out apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ragrounds.evals.benchmarks import load, select
from tests.beir_folders import write_beir
from tests.conftest import Cli
from tests.extensions.construction.annotating import Committee, Mined, counted, read_lines
from tests.servers.process import Running, running

SPECS = ("bm25", "bm25[analyser=plain]", 'dense[model="import:tests.tools.embedding_doubles:Hashing"]')
PANEL = ("small-1", "small-2", "small-3", "small-4")
DEPTH, MOST, SEED = 8, 10, 3


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running("extensions.construction.annotator") as started:
        yield started


def mining(server: Running, source: Source, out: Path) -> list[str]:
    committee = [part for spec in SPECS for part in ("--retriever", spec)]
    panel = [part for model in PANEL for part in ("--panel", f"openai:{model}")]
    bounds = ["--positive", str(source.positive), "--negative", str(source.negative), "--seed", str(SEED)]
    depths = ["--top-k", str(DEPTH), "--candidates", str(MOST), "--limit", str(source.limit)]
    shared = ["--model", "openai:grader", "--base-url", server.url, "--display", "none", "--out", str(out)]
    asked = ["build", "relevance-mining", source.questions, "--corpus", source.corpus]
    return [*asked, *committee, *panel, *bounds, *depths, *shared]


class Source(NamedTuple):
    """What a benchmark is made of, and the bounds of its positives and negatives."""

    questions: str
    corpus: str
    limit: int
    positive: int
    negative: int


@pytest.fixture
def source() -> Source:
    """The shipped sample."""
    return Source("sample", "sample", 107, 8, 4)


@pytest.mark.slow
def test_from_questions_to_a_benchmark_that_is_replayed(
    command: Cli, home: Path, source: Source, server: Running, tmp_path: Path
) -> None:
    out = tmp_path / "mined"
    asked_for = mining(server, source, out)
    done = command(*asked_for, "--json")
    assert done.returncode == 0, done.stderr
    before = server.stats()
    again = command(*asked_for, "--json")
    assert server.stats() == before, "nothing is asked twice"
    assert again.stdout == done.stdout

    loaded = load(source.questions, home)
    drawn = select(loaded, limit=source.limit, seed=SEED).questions
    expected = Mined(
        loaded, drawn, Committee(SPECS, source.corpus, home), PANEL, DEPTH, MOST, source.positive, source.negative
    )
    card = json.loads(done.stdout)
    lines = counted(card)
    assert lines.pop("sample")[:2] == (len(loaded), source.limit)
    assert {stage: line for stage, line in lines.items() if stage in expected.stages()} == expected.stages()
    assert card["made"]["figures"]["documents"] == expected.documents()
    assert card["benchmark"]["size"] == expected.stages()["verify"][1]
    positives = {(id, doc) for id, fates in expected.judged.items() for doc in fates.get("positive", ())}
    rows = read_lines(out / "qrels.jsonl")
    assert {(row["q_id"], row["p_id"]) for row in rows if row["score"]} == {
        (id.partition("/")[2], document) for id, document in positives
    }
    assert card["made"]["seed"] == SEED
    assert card["made"]["prompts"].keys() == {
        "build/open_question", "build/reasoning_path", "build/two_axes", "choice/direct"
    }  # fmt: skip
    assert set(card["made"]["models"]) == {"model", "panel_1", "panel_2", "panel_3", "panel_4"}
    ends = {row["id"]: (row["stage"], row["reason"]) for row in read_lines(out / "rejected.jsonl")}
    assert all(row["detail"] for row in read_lines(out / "rejected.jsonl")), "each with the case itself"
    # What is dropped after the graph goes by the query's id, which lacks the dataset's name.
    assert {id: ends.get(id) or ends.get(id.partition("/")[2]) for id in expected.ends} == expected.ends
    malformed = {stage for stage, reason in ends.values() if reason == "malformed output"}
    assert malformed == expected.spoilt_stages()
    assert malformed == {"difficulty", "open", "reason", "grade"}

    scored = command("retrieve", "--benchmark", f"r2med:{out}", "--retriever", "bm25", "--json")
    assert scored.returncode == 0, scored.stderr
    found = json.loads(scored.stdout)
    assert found["queries"] == card["benchmark"]["size"]
    assert found["unknown_documents"] == 0
    assert 0 < found["nDCG@10"] <= 1
    assert card["benchmark"]["name"] == "r2med/mined"
    added = command("data", "add", "r2med/mined", str(out))
    assert added.returncode == 0, added.stderr
    known = json.loads(command("data", "show", "r2med/mined", "--json").stdout)["benchmark"]
    assert (known["name"], known["size"]) == ("r2med/mined", found["queries"])
    run = command(
        "run", "--benchmark", "r2med/mined", "--agent", "vanilla_rag[top_k=3]", "--corpus", f"r2med:{out}",
        "--model", "baseline:extractive", "--display", "none", "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    [row] = json.loads(run.stdout)["rows"]
    assert row["statuses"] == {"completed": found["queries"]}


@pytest.mark.slow
def test_other_bounds_ask_no_model_again(command: Cli, server: Running, tmp_path: Path) -> None:
    out = tmp_path / "mined"
    strict = command(*mining(server, Source("sample", "sample", 40, 8, 4), out), "--json")
    assert strict.returncode == 0, strict.stderr
    asked = server.stats()
    mild = command(*mining(server, Source("sample", "sample", 40, 6, 5), out), "--json")
    assert mild.returncode == 0, mild.stderr
    assert server.stats() == asked
    first, second = (json.loads(done.stdout)["made"]["figures"]["documents"] for done in (strict, mild))
    assert first["graded"] == second["graded"]
    assert first["positive"] < second["positive"]
    assert first["dropped"] > second["dropped"]


def test_grades_that_were_paid_for_are_kept_where_nothing_qualifies(
    command: Cli, server: Running, tmp_path: Path
) -> None:
    out = tmp_path / "mined"
    done = command(*mining(server, Source("sample", "sample", 4, 10, 0), out))
    assert done.returncode == 2, "no document has 10 on both axes"
    assert f"No item was kept, so {out} contains no benchmark" in done.stderr.replace("\n", " ")
    assert "grades.jsonl has every grade that was given" in done.stderr.replace("\n", " ")
    grades = read_lines(out / "grades.jsonl")
    assert len(grades) > 10
    assert not (out / "corpus.jsonl").exists()
    asked = server.stats()
    assert command(*mining(server, Source("sample", "sample", 4, 4, 3), out)).returncode == 0
    assert server.stats() == asked, "with other bounds no model is asked again"
    assert len(read_lines(out / "grades.jsonl")) == len(grades)


def test_what_cannot_be_mined_is_said_before_anything_is_asked(command: Cli, tmp_path: Path) -> None:
    common = ["--out", str(tmp_path / "x"), "--model", "openai:grader"]
    folder = write_beir(tmp_path / "bare", {"d": "Because."}, {"q": "Why?"}, [("q", "d")])
    bare = f"beir:{folder}"
    cases = {
        "expected 0 ≤ negative < positive": ["sample", "--corpus", "sample", "--positive", "4"],
        "given twice": ["sample", "--corpus", "sample", "--panel", "openai:a", "--panel", "openai:a"],
        "several corpora": ["sample", "--corpus", f"sample+{bare}"],
        "no items are left; all 1 were dropped (it has no answer)": [bare, "--corpus", "sample"],
    }
    for message, options in cases.items():
        done = command("build", "relevance-mining", *options, *common)
        assert done.returncode == 2, message
        assert message in done.stderr
    assert not (tmp_path / "x").exists()
