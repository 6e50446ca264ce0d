"""The other families on the real files."""

from collections import Counter

import pytest

from ragrounds.base.files import convert, read_jsonl
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.benchmark import must_have, nice_to_have
from ragrounds.extensions.relations.families import ddi

pytestmark = pytest.mark.data


def test_pubmedqa(data, tmp_path):
    benchmark = load(f"pubmedqa:{data}/pubmedqa", tmp_path)
    assert benchmark.counts == {"pubmedqa/test": 500, "pubmedqa/cv": 500}
    labels = Counter(benchmark.golds[question.id].answer for question in benchmark.questions)
    assert labels == {"A": 552, "B": 338, "C": 110}
    mirage = load(f"mirage/pubmedqa:{data}/mirage/benchmark.json", tmp_path)
    test = {question.id for question in benchmark.questions if question.split == "test"}
    assert {question.id for question in mirage.questions} == test
    assert all(mirage.golds[id].answer == benchmark.golds[id].answer for id in test)


def test_kqa(data, tmp_path):
    benchmark = load(f"kqa:{data}/kqa", tmp_path)
    golds = benchmark.golds.values()
    assert len(benchmark) == 201
    assert (sum(len(must_have(gold)) for gold in golds), sum(len(nice_to_have(gold)) for gold in golds)) == (
        892,
        697,
    )


def test_ddi_positives(data, tmp_path):
    path = data / "ddi" / "ddi2013.jsonl"
    positives = Counter()
    for place, value in read_jsonl(path):
        document = convert(value, ddi.Document, path, place)
        positives[document.split.partition("/")[0]] += len(list(ddi.interactions(document, path, place)))
    assert positives == {"Train": 4_020, "Test": 979}
    benchmark = load(f"ddi:{path}", tmp_path)
    assert len(benchmark) == 1_017
    assert {benchmark.golds[q.id].answer for q in benchmark.questions if q.split == "ner"} == {"[]"}


def test_link_prediction(data, tmp_path):
    benchmark = load(f"link/umls:{data}/umls_kg", tmp_path)
    assert len(benchmark) == benchmark.card.size == 661
    assert {len(question.options) for question in benchmark.questions} == {4}
    many = load(f"link/umls[options=46]:{data}/umls_kg", tmp_path)
    assert max(len(question.options) for question in many.questions) == 46
    assert all(label.isdigit() for label in many.questions[0].options)
    balance = Counter(benchmark.golds[question.id].answer for question in benchmark.questions)
    assert min(balance.values()) > 0.15 * len(benchmark)


@pytest.mark.parametrize(
    ("reference", "size"),
    [
        ("r2med:{}/r2med_demo/dataset/Biology-demo", 2),
        ("beir:{}/beir/scifact", 300),
        ("beir:{}/beir/vaswani", 93),
        ("beir[split=train,language=zh]:{}/beir/zh_meddialog_im", 6_644),
        ("cmedteb/retrieval:{}/cmedteb_care/data/stage2/stage2-medteb-retrieval.jsonl", 20),
        ("cmedteb/sts:{}/cmedteb_care/data/stage2/stage2-medteb-sts.jsonl", 20),
        ("mrag/ddi:{}/ddi", 1_017),
        ("mrag/medmcqa:{}/mirage", 1_500),
        ("mrag/drkg:{}/umls_kg/train.txt", 1_500),
    ],
)
def test_sizes(data, tmp_path, reference, size):
    assert len(load(reference.format(data), tmp_path)) == size
