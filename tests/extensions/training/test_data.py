"""Texts and pairs, the diversity filter, and mining. Needs no torch."""

import gzip

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.training.data import Example, diverse, read_pairs, read_texts, sentences
from ragrounds.extensions.training.hard_negatives import (
    MarginVerifier,
    MinedCandidates,
    NegativeCandidate,
    mine,
    open_verifier,
)
from ragrounds.extensions.training.spec import Mining, Pairs, Texts
from tests.extensions.training.tiny import lines, write_world


def test_sentences_by_their_length():
    text = "One two three. Four five six seven! Short. e.g. this 2.5 mg dose is not cut. 头痛怎么办。发烧吃什么药？"
    assert list(sentences([text], (3, 8))) == [
        "One two three.",
        "Four five six seven!",
        "头痛怎么办。",
        "发烧吃什么药？",
    ]


def test_texts_of_files_and_corpora(tmp_path):
    world = write_world(tmp_path / "world")
    lines(tmp_path / "q.jsonl", [{"q": "Is it  so?", "a": ["Yes.", "No."]}, {"q": "Is it so?", "a": []}])
    of_fields = read_texts([Texts(file=str(tmp_path / "q.jsonl"), fields=("q", "a"), cut="whole")], 0)
    assert sorted(of_fields) == ["Is it so?", "No.", "Yes."]
    corpus = Texts(source=f"beir:{world}", cut="whole", limit=5)
    first, again, other = read_texts([corpus], 1), read_texts([corpus], 1), read_texts([corpus], 2)
    assert len(first) == 5
    assert first == again != other


def test_packed_files_are_read(tmp_path):
    with gzip.open(tmp_path / "q.jsonl.gz", "wt") as file:
        file.write('{"q": "one", "p": "two"}\n\n{"q": "three", "p": ""}\n')
    assert read_pairs([Pairs(file=str(tmp_path / "q.jsonl.gz"), query="q", positive="p")], 0) == [Example("one", "two")]


def test_each_query_and_each_positive_once(tmp_path):
    rows = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")]
    lines(tmp_path / "p.jsonl", [{"query": query, "pos": [positive]} for query, positive in rows])
    pairs = read_pairs([Pairs(file=str(tmp_path / "p.jsonl"))], 0)
    assert sorted((each.query, each.positive) for each in pairs) == [("a", "x"), ("c", "z")]


def test_pairs_of_judgements_and_of_titles(tmp_path):
    world = write_world(tmp_path / "world")
    lines(
        world / "corpus.jsonl", [{"_id": "d0", "title": "T", "text": "body"}, {"_id": "d1", "title": "", "text": "x"}]
    )
    (world / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td1\t0\n")
    judged = read_pairs([Pairs(benchmark=f"beir:{world}")], 0)
    assert [each.positive for each in judged] == ["T. body"]
    assert read_pairs([Pairs(source=f"beir:{world}")], 0) == [Example("T", "body")]


def test_cares_own_samples(data):
    """The authors' committed training samples load as they are."""
    folder = data / "cmedteb_care" / "data"
    pairs = read_pairs([Pairs(file=str(path)) for path in sorted((folder / "stage2").glob("*.jsonl"))], 0)
    assert len(pairs) > 10
    assert any(example.negatives for example in pairs)
    aligned = sorted((folder / "stage1").glob("*.jsonl"))
    texts = read_texts([Texts(file=str(path), fields=("query",), cut="whole") for path in aligned], 0)
    assert len(texts) > 10


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (Pairs(file="absent.jsonl"), "There is no file 'absent.jsonl'"),
        (Pairs(file="p.jsonl", query="question"), "no line with texts in the fields 'question' and 'pos'"),
        (Pairs(file="broken.jsonl"), "Cannot read line 2"),
    ],
)
def test_wrong_files(tmp_path, monkeypatch, entry, said):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "p.jsonl", [{"query": "a", "pos": ["b"]}])
    (tmp_path / "broken.jsonl").write_text('{"query": "a", "pos": ["b"]}\n{"query": \n')
    with pytest.raises(UserError, match=said):
        read_pairs([entry], 0)


def _slowly(vectors, threshold, seeds, neighbours, most):
    """The filter as the paper tells it, one text after another."""
    index = []
    for position, vector in enumerate(vectors):
        near = sorted((float(vector @ vectors[other]) for other in index), reverse=True)[:neighbours]
        if position < seeds or sum(score > threshold for score in near) <= most:
            index.append(position)
    return index


@pytest.mark.parametrize("seeds", [0, 10, 300, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_diversity_filter_does_what_the_paper_says(seeds):
    draw = np.random.default_rng(seeds)
    centres = draw.normal(size=(40, 8))
    vectors = centres[draw.integers(40, size=600)] + 0.15 * draw.normal(size=(600, 8))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    kept = diverse(vectors, 0.9, seeds=seeds)
    assert kept.tolist() == _slowly(vectors, 0.9, seeds, 5, 1)
    assert (len(kept) == 600) == (seeds == 2000)


def test_what_lies_beyond_the_neighbours_is_not_counted():
    same = np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (10, 1))
    assert diverse(same, 0.5, seeds=0, neighbours=2, max_neighbours=2).tolist() == list(range(10))
    assert diverse(same, 0.5, seeds=0, neighbours=3, max_neighbours=2).tolist() == [0, 1, 2]
    assert diverse(same, 2, seeds=0).tolist() == list(range(10))  # Table 15's rows without a filter


class Told:
    """A verifier that knows: `yes` are relevant, `unsure` cannot be said."""

    def __init__(self, yes=(), unsure=()):
        self.yes, self.unsure, self.seen = yes, unsure, []

    def negatives(self, asked):
        self.seen += asked
        return [
            [None if one.text in self.unsure else one.text not in self.yes for one in each.candidates] for each in asked
        ]


def test_hard_negatives_are_the_nearest_that_do_not_answer():
    pool = ["p", "near", "nearer", "unsure", "far"]
    angles = np.array([0.0, 0.4, 0.2, 0.3, 2.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    query = np.array([[1.0, 0.0]], dtype=np.float32)
    verifier = Told(yes={"nearer"}, unsure={"unsure"})
    examples, counts = mine(
        [Example("q", "p", ("given",))], query, vectors[:1], pool, vectors, Mining(candidates=3), verifier
    )
    assert [one.text for one in verifier.seen[0].candidates] == ["nearer", "unsure", "near"]
    assert verifier.seen[0].positive == pytest.approx(1)
    assert examples == [Example("q", "p", ("given", "near"))]
    assert (counts.candidates, counts.negative, counts.positive, counts.unsaid, counts.without) == (3, 1, 1, 1, 0)


def test_of_an_example_without_a_negative_is_told():
    one = np.array([[1.0, 0.0]], dtype=np.float32)
    examples, counts = mine([Example("q", "p")], one, one, ["p"], one, Mining(), Told())
    assert (examples, counts.without) == ([Example("q", "p")], 1)


def test_the_margin():
    asked = MinedCandidates(
        Example("q", "p"),
        0.8,
        (NegativeCandidate("a", 0.79), NegativeCandidate("b", 0.75), NegativeCandidate("c", -0.1)),
    )
    assert MarginVerifier(0.95).negatives([asked]) == [[False, True, True]]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("margn", "Unknown verifier 'margn'. Did you mean 'margin'"),
        ("margin[shares=1]", "Unknown parameter of margin 'shares'"),
        ("margin[share=high]", "expected a number"),
        ('model[name=""]', "has no model"),
    ],
)
def test_wrong_verifiers(tmp_path, spec, said):
    with pytest.raises(UserError, match=said):
        open_verifier(spec, tmp_path)
