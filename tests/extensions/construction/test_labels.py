"""`ragrounds build consensus-labels` end to end: a real server; kappa, counts and judgements as they are worked out
apart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ragrounds.evals.benchmarks import load
from ragrounds.extensions.construction.judged_sets import Corpus
from tests.conftest import Cli
from tests.extensions.construction.annotating import Committee, counted, judged_by_all, kappa, labelled, read_lines
from tests.servers.process import Running

SPECS = ("bm25", "bm25[analyser=plain]", 'dense[model="import:tests.tools.embedding_doubles:Hashing"]')
MODELS = ("labeller-1", "labeller-2", "labeller-3")
DEPTH, MOST, SEED = 6, 8, 1


def labels(server: Running, out: Path, at_once: int = 1) -> list[str]:
    committee = [part for spec in SPECS for part in ("--retriever", spec)]
    models = [part for model in MODELS for part in ("--labeller", f"openai:{model}")]
    depths = ["--top-k", str(DEPTH), "--candidates", str(MOST), "--batch-size", str(at_once), "--seed", str(SEED)]
    shared = ["--base-url", server.url, "--display", "none", "--out", str(out), "--json"]
    asked = ["build", "consensus-labels", "sample", "--corpus", "sample"]
    return [*asked, *committee, *models, *depths, *shared]


@pytest.mark.slow
def test_labels_kappa_and_counts_are_those_worked_out_by_hand(
    command: Cli, home: Path, annotator_server: Running, tmp_path: Path
) -> None:
    out = tmp_path / "labelled"
    done = command(*labels(annotator_server, out))
    assert done.returncode == 0, done.stderr
    before = annotator_server.stats()
    again = command(*labels(annotator_server, out))
    assert (annotator_server.stats(), again.stdout) == (before, done.stdout), "nothing is asked twice"

    texts = {question.id.partition("/")[2]: question.text for question in load("sample", tmp_path).questions}
    committee = Committee(SPECS, "sample", home)
    expected = labelled(texts, committee, MODELS, DEPTH, MOST)
    said = {(row["query"], row["document"]): tuple(row["grades"]) for row in read_lines(out / "grades.jsonl")}
    assert said == expected
    card = json.loads(done.stdout)
    found = card["made"]["figures"]["consensus"]
    assert found["pairs"] == len(expected)
    fates = {pair: judged_by_all(grades) for pair, grades in expected.items()}
    counts = Counter(fates.values())
    assert found["counts"] == {name: counts[name] for name in ("positive", "negative", "dropped", "unlabelled")}
    assert all(counts[name] for name in found["counts"])

    whole = [grades for grades in expected.values() if None not in grades]
    assert found["kappa"] == pytest.approx(kappa([[grades.count(g) for g in "SABCD"] for grades in whole]), abs=1e-9)
    two = [[sum(grade in ("S", "A") for grade in grades), sum(grade in "BCD" for grade in grades)] for grades in whole]
    assert found["kappa_relevant"] == pytest.approx(kappa(two), abs=1e-9)
    assert counts["dropped"] == sum(row["fate"] == "dropped" for row in read_lines(out / "grades.jsonl"))

    with_positive = {query for (query, _), fate in fates.items() if fate == "positive"}
    lines = counted(card)
    assert lines["verify"][:2] == (len(texts), len(with_positive))
    positive = {document for (_, document), fate in fates.items() if fate == "positive"}
    unclear = {
        document
        for (query, document), fate in fates.items()
        if query in with_positive and fate in ("dropped", "unlabelled")
    } - positive
    held = {row["_id"] for row in read_lines(out / "corpus.jsonl")}
    assert held == {passage.id for passage in Corpus("sample", home)} - unclear
    rows = [line.split("\t") for line in (out / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    assert {(query, document, grade) for query, document, grade in rows} == {
        (query, document, {"positive": "1", "negative": "0"}[fate])
        for (query, document), fate in fates.items()
        if query in with_positive and fate in ("positive", "negative") and document not in unclear
    }
    replies = {
        (query, model)
        for (query, document), grades in expected.items()
        for model, grade in zip(MODELS, grades, strict=True)
        if grade is None
    }
    rejected = read_lines(out / "rejected.jsonl")
    assert {bool(row["detail"]) for row in rejected} == {True}, "each with the case itself"
    bare = {row["id"] for row in rejected if row["reason"] == "no passage that all models find relevant"}
    assert bare == set(texts) - with_positive
    recorded = [row for row in rejected if row["stage"] == "label"]
    assert {(row["id"], f"labeller-{row['detail'].split()[1].rstrip(',')}") for row in recorded} == replies


@pytest.mark.slow
def test_the_sets_of_the_labels_are_added_and_replayed(command: Cli, annotator_server: Running, tmp_path: Path) -> None:
    out = tmp_path / "labelled"
    assert command(*labels(annotator_server, out, at_once=4)).returncode == 0
    added = command("data", "add", "beir/labelled", str(out))
    assert added.returncode == 0, added.stderr
    size = json.loads((out / "card.json").read_text())["benchmark"]["size"]
    assert f"{size:,} questions" in added.stderr
    guarded = command("retrieve", "--benchmark", f"beir:{out}", "--guard", str(out / "guard.jsonl"), "--json")
    assert guarded.returncode == 0, guarded.stderr
    reranked = command("retrieve", "--benchmark", f"rerank:{out / 'sets' / 'rerank.jsonl'}", "--json")
    assert 0 < json.loads(reranked.stdout)["MAP@10"] <= 1
    spec = 'dense[model="import:tests.tools.embedding_doubles:Hashing"]'
    alike = command("retrieve", "--benchmark", f"sts:{out / 'sets' / 'sts.jsonl'}", "--retriever", spec, "--json")
    assert alike.returncode == 0, alike.stderr
    assert command("data", "add", "cmedteb/labelled", str(out / "sets" / "rerank.jsonl")).returncode == 0
    run = command(
        "run", "--benchmark", "beir/labelled", "--agent", "direct", "--model", "baseline:extractive",
        "--display", "none", "--json",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def test_what_no_consensus_can_come_of_is_said_before_anything_is_asked(command: Cli, tmp_path: Path) -> None:
    common = ["build", "consensus-labels", "sample", "--corpus", "sample", "--out", str(tmp_path / "x")]
    one, two = ["--labeller", "openai:a"], ["--labeller", "openai:b"]
    cases = {
        "Consensus needs two or more models": one,
        "given twice: it would count twice": [*one, *one],
        "each once, not all": [*one, *two, "--relevant", "XY"],
        "The retriever 'bm25": [*one, *two, "--retriever", "bm25", "--retriever", "bm25[k1=0.9]"],
    }
    for message, options in cases.items():
        done = command(*common, *options)
        assert done.returncode == 2, message
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()
