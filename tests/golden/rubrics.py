"""HealthBench's rubric beside the recorded outputs of simple-evals: scores, replies of the grader, aggregates."""

from __future__ import annotations

from statistics import fmean

import numpy as np

from ragrounds.evals.scorers.rubric import MET, NOT_MET, CriterionForm, part_scores
from ragrounds.extensions.diagnostics.analyses.rubric import rubric_parts
from tests.golden.cases import Case, Comparison, near
from tests.scorers.test_rubric import run_of, scored


def _score(case: Case) -> bool:
    """The points of the criteria that are met over the positive points."""
    return near(scored(case["points"], case["met"]).value, case["score"], absolute=1e-12)


def _parse(case: Case) -> bool | None:
    """Which grade a reply gives, if any; their program dies of a reply that is a bare value."""
    if isinstance(case["accepted"], str):
        return None
    grade = "" if not case["accepted"] else MET if case["parsed"]["criteria_met"] else NOT_MET
    return CriterionForm().strict(case["text"]) == grade


def _aggregate(case: Case) -> bool:
    """Each tag's score of each example, the clipped means over the examples, and their bootstrap."""
    scores, metadata, values = [], {}, []
    for number, example in enumerate(case["examples"]):
        criteria = example["rubric"]
        columns = ([criterion[key] for criterion in criteria] for key in ("points", "met", "tags"))
        score = scored(*columns, f"q{number}")
        parts = {"overall_score": score.value, **part_scores(score, example["example_tags"])}
        if parts.keys() != example["metrics"].keys():
            return False
        if not all(near(parts[name], value, absolute=1e-12) for name, value in example["metrics"].items()):
            return False
        tags: dict[str, str] = {}
        for tag in example["example_tags"]:
            key, _, text = tag.partition(":")
            tags[key] = f"{tags[key]}, {text}" if key in tags else text
        metadata[f"q{number}"] = tags
        scores.append(score)
        values.append(score.value)
    figures = {
        "overall_score" if part.part == "all" else part.part: part.figure
        for part in rubric_parts(run_of(scores, metadata))
    }
    names = [name for name in case["metrics"] if not name.endswith(":n_samples")]
    np.random.seed(case["bootstrap_seed"])
    draws = [np.clip(np.mean(np.random.choice(values, len(values))), 0, 1) for _ in range(1000)]
    return (
        set(figures) == set(names)
        and all(near(figures[name].value, case["metrics"][name], absolute=1e-12) for name in names)
        and all(figures[name].n == case["metrics"][f"{name}:n_samples"] for name in names)
        and near(figures["overall_score"].value, case["score"], absolute=1e-12)
        and near(fmean(values), case["unclipped_mean"], absolute=1e-12)
        and near(float(np.std(draws)), case["bootstrap_std_score"], absolute=1e-12)
    )


COMPARISONS = (
    Comparison("healthbench_score", "ragrounds judge --kind rubric", True, _score),
    Comparison("healthbench_grader_parse", "ragrounds judge --kind rubric", True, _parse, what="replies"),
    Comparison("healthbench_aggregate", "ragrounds analyse rubric", True, _aggregate, what="tags and clipped means"),
)
