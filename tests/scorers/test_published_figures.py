"""The authors' own replies, scored again: every figure here is published or follows from the published files."""

import gzip
import json
from collections import Counter
from functools import cache

import pytest

from ragrounds.evals.benchmarks import load
from ragrounds.evals.scorers import find_scorer
from ragrounds.evals.stats import binomial_error, paired_difference
from ragrounds.evals.stats.sign_flips import sign_flip_test
from tests.scorers.making import attempt

DATASETS = ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")


@pytest.fixture(scope="module")
def scored(data, tmp_path_factory):
    benchmark = load(f"mirage:{data}/mirage/benchmark.json", tmp_path_factory.mktemp("home"))
    questions = {question.id: question for question in benchmark.questions}

    @cache
    def rows(setting):
        with gzip.open(data / "mirage" / "predictions" / f"gpt-35-turbo-16k_{setting}.jsonl.gz", "rt") as lines:
            return [json.loads(line) for line in lines]

    @cache
    def scores(setting, scorer, dataset):
        made = []
        for row in rows(setting):
            if row["dataset"] == dataset:
                name = f"{dataset}/{row['id']}"
                tried = attempt(row["raw"][0]) if row["raw"] else attempt("", "failed")
                made.append(find_scorer(scorer).score(tried, questions[name], benchmark.golds[name]))
        return made

    return scores


def percent(scores):
    return round(100 * sum(score.value for score in scores) / len(scores), 2)


@pytest.mark.data
@pytest.mark.parametrize(
    ("setting", "scorer", "figures", "mean"),
    [
        ("cot", "mirage", [72.91, 64.89, 55.13, 36.00, 74.11], 60.61),
        ("rag_32", "mirage", [75.48, 66.61, 58.04, 67.40, 90.29], 71.57),
        ("rag_32", "strict", [74.66, 65.59, 53.45, 67.40, 90.29], 70.28),
    ],
)
def test_accuracies(scored, setting, scorer, figures, mean):
    columns = [scored(setting, scorer, dataset) for dataset in DATASETS]
    assert [percent(column) for column in columns] == figures
    assert round(sum(100 * sum(s.value for s in column) / len(column) for column in columns) / 5, 2) == mean


@pytest.mark.data
@pytest.mark.parametrize(
    ("setting", "errors"),
    [("cot", [1.35, 1.34, 0.77, 2.15, 1.76]), ("rag_32", [1.30, 1.32, 0.76, 2.10, 1.19])],
)
def test_errors(scored, setting, errors):
    columns = [[score.value for score in scored(setting, "mirage", dataset)] for dataset in DATASETS]
    assert [round(100 * binomial_error(sum(column) / len(column), len(column)), 2) for column in columns] == errors


@pytest.mark.data
def test_retrieval_helps_beyond_chance(scored):
    def values(setting):
        return [score.value for dataset in DATASETS for score in scored(setting, "mirage", dataset)]

    datasets = [dataset for dataset in DATASETS for _ in scored("cot", "mirage", dataset)]
    alike = [""] * len(datasets)
    assert sign_flip_test(values("cot"), values("rag_32"), alike, alike).p < 1e-19
    difference = paired_difference(values("cot"), values("rag_32"), datasets)
    assert 100 * difference.value == pytest.approx(71.57 - 60.61, abs=0.01)
    assert difference.low > 0.09
    assert difference.high < 0.13


@pytest.mark.data
def test_the_528_that_match_no_pattern(scored):
    counts = Counter(score.answer_status for score in scored("rag_32", "strict", "medmcqa"))
    assert counts == {"answered": 3_655, "abstained": 499, "refused": 17, "unreadable": 12}
    assert sum(counts.values()) - counts["answered"] == 528


@pytest.mark.data
def test_empty_lists_of_replies_are_counted(scored):
    none = {dataset: sum(s.answer_status == "empty" for s in scored("cot", "strict", dataset)) for dataset in DATASETS}
    assert none == {"mmlu": 0, "medqa": 6, "medmcqa": 27, "pubmedqa": 0, "bioasq": 1}


@pytest.mark.data
def test_robust_differs_where_a_reply_names_several_options(scored):
    pairs = zip(scored("rag_32", "strict", "medmcqa"), scored("rag_32", "robust", "medmcqa"), strict=True)
    moved = [(strict, robust) for strict, robust in pairs if strict.prediction != robust.prediction]
    assert sum("names several options" in robust.reason for _, robust in moved) == 43
    assert len(moved) <= 45
