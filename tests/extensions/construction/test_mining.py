"""`ragrounds build relevance-mining` end to end: a real server; counts and judgements as they are worked out apart."""

from __future__ import annotations

from pathlib import Path

from tests.beir_folders import write_beir
from tests.conftest import Cli
from tests.extensions.construction.annotating import read_lines
from tests.servers.process import Running

SPECS = ("bm25", "bm25[analyser=plain]", 'dense[model="import:tests.tools.embedding_doubles:Hashing"]')
PANEL = ("small-1", "small-2", "small-3", "small-4")
DEPTH, MOST, SEED = 8, 10, 3


def mining(server: Running, out: Path, positive: int, negative: int) -> list[str]:
    committee = [part for spec in SPECS for part in ("--retriever", spec)]
    panel = [part for model in PANEL for part in ("--panel", f"openai:{model}")]
    bounds = ["--positive", str(positive), "--negative", str(negative), "--seed", str(SEED)]
    depths = ["--top-k", str(DEPTH), "--candidates", str(MOST), "--limit", "4"]
    shared = ["--model", "openai:grader", "--base-url", server.url, "--display", "none", "--out", str(out)]
    asked = ["build", "relevance-mining", "sample", "--corpus", "sample"]
    return [*asked, *committee, *panel, *bounds, *depths, *shared]


def test_grades_that_were_paid_for_are_kept_where_nothing_qualifies(
    command: Cli, annotator_server: Running, tmp_path: Path
) -> None:
    out = tmp_path / "mined"
    done = command(*mining(annotator_server, out, 10, 0))
    assert done.returncode == 2, "no document has 10 on both axes"
    assert f"No item was kept, so {out} contains no benchmark" in done.stderr.replace("\n", " ")
    assert "grades.jsonl has every grade that was given" in done.stderr.replace("\n", " ")
    grades = read_lines(out / "grades.jsonl")
    assert len(grades) > 10
    assert not (out / "corpus.jsonl").exists()
    asked = annotator_server.stats()
    assert command(*mining(annotator_server, out, 4, 3)).returncode == 0
    assert annotator_server.stats() == asked, "with other bounds no model is asked again"
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
