"""`ragrounds export` as a user gives it."""

import json
import re
from pathlib import Path

import pytest

from ragrounds.extensions.exchange.formats import EXPORTS
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


NEW = """
from ragrounds.extensions.exchange.formats import ExportFormat, NoOptions, lines_file

FORMAT = ExportFormat(
    name="ids", summary="Ids of runs, a line each.", writes="file", options=NoOptions,
    parts=lambda export: iter([lines_file(lambda: (f"{run.id}\\n".encode() for run in export.runs))]),
)
"""


@pytest.mark.slow
def test_a_new_file_is_a_new_command(cli, command, tmp_path):
    """A format is found by its file: here one on the path of the package, in no other file named."""
    (tmp_path / "zz_ids.py").write_text(NEW)
    (tmp_path / "sitecustomize.py").write_text(
        f"import ragrounds.extensions.exchange.exporters as folder; folder.__path__.append({str(tmp_path)!r})"
    )
    assert command("run", "--display", "none", "--limit", "2", "--agent", "direct").returncode == 0
    listed = cli("export", "--help", PYTHONPATH=f"{Path.cwd()}:{tmp_path}")
    assert re.search(r"^  ids +Ids of runs, a line each$", listed.stdout, re.MULTILINE)
    made = cli("export", "ids", "direct", "--out", str(tmp_path / "ids.txt"), PYTHONPATH=f"{Path.cwd()}:{tmp_path}")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "ids.txt").read_text().startswith("direct-")


def test_every_format_says_what_it_is():
    for name, known in EXPORTS.all().items():
        assert known.name == name
        assert known.summary.endswith(".")


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
