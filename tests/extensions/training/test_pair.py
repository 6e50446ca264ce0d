"""What is written: a folder that sentence-transformers loads in three ways, and `tools` as a dense retriever."""

import json

import numpy as np
import pytest

from tests.extensions.training.tiny import needs_torch, sentence, write_file

needs_torch()

TEXTS = [sentence(number) for number in range(5)]


@pytest.fixture
def pair(opened):
    from ragrounds.extensions.training.card import write_pair

    run = opened(more="", student='layers = [0]\nprefix = "title "')
    state = run.recipe("both")
    return run, state, write_pair(run, "both", state)


def test_it_loads_in_three_ways(pair):
    from sentence_transformers import SentenceTransformer

    run, state, folder = pair
    whole = SentenceTransformer(str(folder))
    queries, documents = whole.encode_query(TEXTS), whole.encode_document(TEXTS)
    prefixed = [f"title {text}" for text in TEXTS]
    np.testing.assert_array_equal(queries, SentenceTransformer(str(folder / "query")).encode(prefixed))
    np.testing.assert_array_equal(documents, SentenceTransformer(str(folder / "document")).encode(TEXTS))
    np.testing.assert_array_equal(queries, run.open_query(state).encode(prefixed))
    assert not np.allclose(whole.encode_query(TEXTS), whole.encode_query(prefixed), atol=1e-3)
    assert whole.similarity(queries, documents).shape == (5, 5)


def test_it_is_a_retriever(pair, world, tmp_path):
    from ragrounds.extensions.training.evaluation import pair_spec
    from ragrounds.tools.retriever import open_searcher

    run, state, folder = pair
    by_stage = open_searcher(pair_spec(run, state), f"beir:{world}", tmp_path)
    spec = f'dense[model="{folder}/query",document_model="{folder}/document",query_prefix="title ",store=faiss]'
    released = open_searcher(spec, f"beir:{world}", tmp_path)
    for text in TEXTS:
        found = by_stage.find(text, 5)
        assert [(hit.id, hit.score) for hit in found] == [(hit.id, hit.score) for hit in released.find(text, 5)]


def test_another_query_encoder_searches_the_same_vectors(pair, world, tmp_path):
    """A pair's query encoder can be replaced, and nothing is encoded anew."""
    from ragrounds.tools.retriever import open_searcher

    run, _, folder = pair
    spec = 'dense[model="{}",document_model="{}",store=faiss]'
    for query in (folder / "query", run.training.query.model):
        open_searcher(spec.format(query, folder / "document"), f"beir:{world}", tmp_path)
    assert len(list(tmp_path.glob("indexes/*/dense-*/vectors.f32"))) == 1


def test_the_card_says_how_it_was_made(pair, tmp_path):
    _, _, folder = pair
    text = (folder / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: sentence-transformers\n")
    for part in ("| align | kind align, epochs 4", "| joint |", "Seed 3", "60 read (texts.jsonl)", "encode_query"):
        assert part in text, part
    assert str(tmp_path) not in text  # no path of this machine


def test_the_commands(command, tmp_path, world, teacher):
    file = str(write_file(tmp_path, world, teacher))
    done = command("train", "care", file, "--recipe", "stage-1", "--out", "made", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["counts"]["pairs"] == 40
    assert told["pairs"][0]["recipe"] == "stage-1"
    assert "align: step" in done.stderr
    again = command("train", "care", file, "--recipe", "stage-1", "--out", "made")
    assert again.returncode == 0
    assert "align: step" not in again.stderr
    assert "ragrounds retrieve --retriever" in again.stdout
    assert "what training took on cpu" in again.stdout
    (row,) = [line.split() for line in again.stdout.splitlines() if line.startswith("stage-1 ")]
    (cost,) = told["pairs"][0]["stages"].values()
    assert row[:5] == ["stage-1", "align", f"{cost['steps']:,}", f"{cost['examples']:,}", f"{cost['tokens']:,}"]


def test_the_table(command, tmp_path, world, teacher):
    file = str(write_file(tmp_path, world, teacher))
    chosen = ["--recipe", "stage-1", "--recipe", "distilled", "--out", "made", "--rounds", "1"]
    done = command("train", "evaluate", file, *chosen, "--json")
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    assert [row["name"] for row in table["rows"]] == ["teacher", "stage-1", "distilled"]
    (quality,) = table["quality"]
    assert quality["queries"] == 12
    assert quality["transductive"] is False
    pairs = {(each["first"], each["second"]) for each in quality["comparisons"]}
    assert pairs == {("teacher", "stage-1"), ("teacher", "distilled"), ("stage-1", "distilled")}
    assert table["rows"][0]["speed"]["ratio"] == 1
    assert table["rows"][1]["query_parameters"] < table["rows"][0]["query_parameters"]
    for row in table["rows"]:  # the figures are what `retrieve` gives for the same retriever
        searched = command(
            "retrieve",
            "--benchmark",
            f"beir:{world}",
            "--retriever",
            row["retriever"],
            "--measure",
            "nDCG@10",
            "--json",
        )
        assert json.loads(searched.stdout)["nDCG@10"] == quality["values"][row["name"]]
    shown = command("train", "evaluate", file, *chosen, COLUMNS="160")
    assert shown.returncode == 0
    assert "stage-1 - distilled" in shown.stdout


def test_training_on_what_is_evaluated_is_said(command, tmp_path, world, teacher):
    file = str(write_file(tmp_path, world, teacher))
    queries = f'{{file="{world}/queries.jsonl", fields=["text"], cut="whole"}}'
    texts = f'texts=[{{source="beir:{world}", cut="whole"}}, {queries}]'
    done = command(
        "train", "evaluate", file, "--recipe", "stage-1", "--out", "o", "--rounds", "0", "--set", texts, "--json"
    )
    (quality,) = json.loads(done.stdout)["quality"]
    assert (quality["transductive"], quality["queries_trained"]) == (True, 12)
    assert json.loads(done.stdout)["rows"][0]["speed"] is None
