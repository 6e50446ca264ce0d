"""`ragrounds export` as a user gives it."""


def test_a_file_that_is_there_is_not_written_over(command, tmp_path):
    assert command("run", "--agent", "direct", "--display", "none", "--limit", "2").returncode == 0
    lines = tmp_path / "out.jsonl"
    assert command("export", "jsonl", "direct", "--out", str(lines)).returncode == 0
    assert len(lines.read_text().splitlines()) == 2
    again = command("export", "jsonl", "direct", "--out", str(lines))
    assert again.returncode == 2
    assert "--force" in again.stderr


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
