"""`ragrounds export` as a user gives it."""

import json

import pytest

from ragrounds.extensions.retrieval.trec import read_run


@pytest.mark.slow
def test_files_by_command(command, tmp_path):
    assert command("run", "--display", "none", "--limit", "5").returncode == 0
    lines = tmp_path / "out.jsonl"
    made = command("export", "jsonl", "direct", "vanilla_rag[top_k=8]", "--out", str(lines))
    assert made.returncode == 0, made.stderr
    assert len([json.loads(line) for line in lines.read_text().splitlines()]) == 10
    again = command("export", "jsonl", "direct", "--out", str(lines))
    assert again.returncode == 2
    assert "--force" in again.stderr
    folder = tmp_path / "trec"
    made = command("export", "trec", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]", "--out", str(folder))
    assert made.returncode == 0, made.stderr
    runs = sorted(folder.glob("*.run"))
    assert [max(len(found) for found in read_run(path).values()) for path in runs] == [1, 8]
    nothing = command("export", "trec", "direct", "--out", str(folder))
    assert nothing.returncode == 2
    assert "searched nothing" in nothing.stderr
    both = command("export", "otel", "direct")
    assert both.returncode == 2
    assert "--endpoint" in both.stderr


def test_nothing_is_sent_without_an_address(command, listening):
    named = {"PHOENIX_COLLECTOR_ENDPOINT": listening.url, "LANGFUSE_HOST": listening.url}
    tracing = {
        "LANGSMITH_ENDPOINT": listening.url,
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "planted-0123456789",
    }
    refused = command("export", "otel", "direct", **named, **tracing)
    assert refused.returncode == 2
    assert "--endpoint" in refused.stderr
    assert command("run", "--display", "none", "--limit", "3", **named, **tracing).returncode == 0
    assert listening.requests == []
