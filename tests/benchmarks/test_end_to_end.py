"""Benchmarks of every kind through the command line, a graph and a model server on loopback."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.data

RUNS = [
    ("link/umls:{}/umls_kg", "strict"),
    ("link[options=46]:{}/umls_kg", "robust"),
    ("kqa:{}/kqa", "rouge-l"),
    ("r2med/biology:{}/r2med_demo/dataset/Biology-demo", "rouge-l"),
    ("cmedteb/retrieval:{}/cmedteb_care/data/stage2/stage2-medteb-retrieval.jsonl", "strict"),
    ("pubmedqa/test:{}/pubmedqa", "strict"),
    ("ddi/test:{}/ddi", "triplets"),
]


@pytest.mark.parametrize(("reference", "scorer"), RUNS)
def test_a_run(command, server, data, reference, scorer):
    done = command(
        *("run", "--benchmark", reference.format(data), "--agent", "direct", "--model", "openai:test"),
        *("--base-url", server.url, "--limit", "6", "--display", "none", "--json"),
        OPENAI_API_KEY="none",
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert row["statuses"] == {"completed": row["questions"]}
    scored = command("score", row["run"], "--scorer", scorer, "--json")
    assert scored.returncode == 0, scored.stderr
    assert f"{row['questions']} scores" in scored.stderr
