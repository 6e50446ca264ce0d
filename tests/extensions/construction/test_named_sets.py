"""A registered set by its name through the commands: searched, checked for missing labels, mended, registered again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.extensions.construction.test_missing import folder_of_the_sample, truth_of
from tests.servers.process import running


@pytest.mark.slow
def test_a_set_goes_from_add_to_build_and_back(command: Cli, tmp_path: Path, home: Path) -> None:
    folder, out = tmp_path / "tiny", tmp_path / "mended"
    labelled = folder_of_the_sample(folder)
    added = command("data", "add", "beir", str(folder))
    assert added.returncode == 0, added.stderr
    assert "Its name is beir/tiny." in added.stderr
    found = [
        json.loads(command("retrieve", "--benchmark", name, "--retriever", "bm25", "--json").stdout)
        for name in ("beir/tiny", f"beir:{folder}")
    ]
    assert found[0]["nDCG@10"] == found[1]["nDCG@10"] > 0
    assert found[0]["unknown_documents"] == 0

    (tmp_path / "truth.json").write_text(json.dumps(truth_of(folder, labelled)))
    with running("extensions.construction.builder_server", "--truth", str(tmp_path / "truth.json")) as server:
        built = command(
            *("build", "false-negatives", "beir/tiny", "--out", str(out), "--model", "openai:grader", "--limit", "5"),
            *("--base-url", server.url, "--display", "none", "--sheet-size", "0"),
        )
    assert built.returncode == 0, built.stderr
    assert command("data", "add", "beir/mended", str(out)).returncode == 0
    verified = command("data", "verify", "beir/mended", "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["checked"]["files"]["corpus.jsonl"] is True
    with (home / "benchmarks/beir--mended/queries.jsonl").open("a") as queries:
        queries.write("\n")
    verified = command("data", "verify", "beir/mended")
    assert verified.returncode == 1
    assert "the SHA-256 of queries.jsonl is not the card's" in verified.stderr
