"""Routing: oracle, mixture and learned policies, by outcomes whose truth is known, and over stored runs."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.base.records import Question
from ragrounds.evals.analyses.analysis import AnalysisOptions
from ragrounds.extensions.routing.analyses.routing import RoutingData, conclusion
from ragrounds.extensions.routing.analyses.routing import routed as measured
from ragrounds.extensions.routing.policies import (
    Outcomes,
    chances,
    folds_of,
    learned,
    mixture_weights,
    oracle,
    other_folds_means,
)
from ragrounds.graphs.router import Policy, pieces, question_features, read_policy
from tests.servers.any_form import AnyForm, any_form


def outcomes(scores, costs, known=None, seen=None, clusters=None, strata=None):
    count = len(scores)
    return Outcomes(
        scores=np.asarray(scores, dtype=float),
        costs=np.tile(np.asarray(costs, dtype=float), (count, 1)),
        prior_features=np.zeros((count, 1)) if known is None else known,
        seen=np.zeros((count, 1)) if seen is None else seen,
        texts=("",) * count,
        clusters=tuple(clusters or map(str, range(count))),
        strata=tuple(strata or ("b",) * count),
    )


def skilled(seed, count=400, epochs=1):
    """Two agents, each good at one kind of question; the feature says the kind."""
    generator = np.random.default_rng(seed)
    kind = generator.random(count) < 0.5
    right = np.stack([np.where(kind, 0.9, 0.4), np.where(kind, 0.4, 0.9)], axis=1)
    scores = generator.random((count, 2, epochs)) < right[:, :, None]
    return kind, scores, np.column_stack([kind, generator.normal(size=(count, 5))])


def test_a_router_finds_who_is_good_at_what():
    kind, scores, known = skilled(1)
    made = outcomes(scores, (1, 2), known)
    routed = chances(made, 0).routed(made, math.inf)
    assert np.mean(routed.choices == np.where(kind, 0, 1)) > 0.95
    assert routed.values.mean() > made.means.mean(axis=0).max() + 0.15


def test_the_worth_of_a_right_answer_decides_what_is_paid():
    _, scores, known = skilled(2)
    made = outcomes(scores, (1, 10), known)
    learned = chances(made, 0)
    spent = [learned.routed(made, worth).costs.mean() for worth in (0.1, 5, 25, 1000)]
    assert spent == sorted(spent)
    assert spent[0] == 1
    assert spent[-1] > 4


def test_a_cascade_pays_for_the_first_answer_too():
    _, scores, known = skilled(3)
    made = outcomes(scores, (1, 10), seen=known)
    assert chances(made, 0).routed(made, math.inf).values.mean() < 0.75  # a router does not see it
    routed = chances(made, 0, cascade=True).routed(made, math.inf)
    assert routed.values.mean() > 0.8
    assert set(routed.costs[routed.choices == 1]) == {11.0}
    assert set(routed.costs[routed.choices == 0]) == {1.0}


def test_no_question_is_routed_by_what_was_learned_from_its_duplicates():
    generator = np.random.default_rng(4)
    right = np.repeat(generator.random((60, 2, 1)) < 0.5, 8, axis=0)  # eight copies of each question
    known = np.repeat(generator.normal(size=(60, 40)), 8, axis=0)  # that tell the question
    clusters = [str(place // 8) for place in range(480)]
    made = outcomes(right, (1, 2), known, clusters=clusters)
    alone = outcomes(right, (1, 2), known)
    apart, together = (chances(each, 0).routed(each, math.inf).values.mean() for each in (made, alone))
    assert together > 0.65  # what cross-fitting by question alone would have called skill
    assert apart < 0.6


def test_the_control_learns_nothing():
    _, scores, known = skilled(5)
    made = outcomes(scores, (1, 2), known)
    values = [chances(made, seed, shuffled=True).routed(made, math.inf).values.mean() for seed in range(5)]
    assert np.mean(values) < made.means.mean(axis=0).max() + 0.03


def test_of_two_epochs_an_oracle_takes_no_luck_for_skill():
    scores = np.random.default_rng(6).random((4000, 3, 2)) < 0.5
    assert oracle(outcomes(scores[:, :, :1], (1, 1, 1))).values.mean() > 0.85
    assert abs(oracle(outcomes(scores, (1, 1, 1))).values.mean() - 0.5) < 0.03


def test_an_oracle_takes_the_cheaper_of_equals():
    assert oracle(outcomes([[[1], [1]], [[0], [0]], [[0], [1]]], (2, 1))).choices.tolist() == [1, 1, 1]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 10)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_a_mixture_keeps_to_its_budget_and_beats_every_agent_that_fits_it(agents, place):
    accuracies, costs = np.array(agents).T
    budget = costs.min() + place * (costs.max() - costs.min())
    weights = mixture_weights(accuracies, costs, budget)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= -1e-12).all()
    assert weights @ costs <= budget + 1e-6
    assert weights @ accuracies >= accuracies[costs <= budget].max() - 1e-9


def test_the_agent_of_the_other_folds_is_picked_without_the_question():
    generator = np.random.default_rng(7)
    made = outcomes(generator.random((60, 3, 1)) < 0.5, (1, 2, 3), clusters=[str(place // 3) for place in range(60)])
    folds, means = folds_of(made, 0), other_folds_means(made, 0)
    assert all(len(set(folds[place : place + 3])) == 1 for place in range(0, 60, 3))
    for fold in range(5):
        assert means[folds == fold] == pytest.approx(
            np.tile(made.means[folds != fold].mean(axis=0), (sum(folds == fold), 1))
        )
    two = outcomes(np.repeat([[[1.0]], [[0.0]]], [10, 30], axis=0), (1,), strata=["a"] * 10 + ["b"] * 30)
    assert other_folds_means(two, 0) == pytest.approx(np.full((40, 1), 0.5)), "datasets count alike"


@pytest.mark.parametrize("alike", [True, False])
def test_equal_agents_make_no_router_worse(alike):
    count, called = 200, 0
    for seed in range(5):
        generator = np.random.default_rng(seed)
        _, scores, known = skilled(seed, count)
        if alike:
            scores = generator.random((count, 5, 1)) < 0.6
        made = outcomes(scores, range(1, scores.shape[1] + 1), known)
        asked = [Question(id=str(place), benchmark="b", text="") for place in range(count)]
        arms = tuple(f"arm {place}" for place in range(scores.shape[1]))
        data = RoutingData(outcomes=made, arms=arms, questions=asked, measure="cost_uncached")
        found = measured(data, AnalysisOptions(scorer="robust", seed=seed))
        called += not found.router.gain.low <= (0.0 if alike else 0.25) <= found.router.gain.high
        assert found.picked.gain.difference == 0.0
    assert called <= 1


def test_a_budget_is_kept_and_compared_with_what_it_can_buy():
    _, scores, known = skilled(8)
    made = outcomes(scores, (0.001, 0.02), known)
    asked = [Question(id=str(place), benchmark="b", text="") for place in range(400)]
    data = RoutingData(outcomes=made, arms=("cheap", "dear"), questions=asked, measure="cost_uncached")
    for budget in (0.1, 0.5, 1.0, 3.0):
        found = measured(data, AnalysisOptions(scorer="robust", budget=budget))
        single, router = found.affordable
        assert max(single.cost, router.cost) <= budget / 100 + 1e-9
        assert router.gain.difference == pytest.approx(router.score.value - single.score.value)
        assert set(single.shares) <= ({"cheap"} if budget < 2 else {"cheap", "dear"})
        assert conclusion(found).startswith("Within the budget ")
    assert router.gain.low > 0.1
    with pytest.raises(
        UserError, match=r"No agent keeps to .budget. 0.05: the cheapest costs 0.1 \$ per 100 questions"
    ):
        measured(data, AnalysisOptions(scorer="robust", budget=0.05))
    assert not measured(data, AnalysisOptions(scorer="robust")).affordable


def test_datasets_count_alike():
    made = outcomes(np.zeros((3, 1, 1)), (1,), strata=("a", "a", "b"))
    assert made.weights.tolist() == [0.25, 0.25, 0.5]


def first(question: str) -> str:
    """Good at questions on the heart."""
    return "A" if "heart" in question else "B"


def second(question: str) -> str:
    """Good at all others."""
    return "B" if "heart" in question else "A"


def third(question: str) -> str:
    """The first again."""
    return first(question)


@pytest.fixture
def runs(tmp_path):
    lines = [
        {"id": str(i), "question": f"{'heart' if i % 2 else 'liver'} {i}?", "options": {"A": "yes", "B": "no"}}
        | {"answer": "A", "group": "heart" if i % 2 else "liver"}
        for i in range(60)
    ]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return rr.run(f"jsonl:{path}", [first, second, third], progress=False, home=tmp_path / "home").runs


def test_over_stored_runs(runs, tmp_path):
    found = rr.analyse("routing", [run.id for run in runs[:2]], home=tmp_path / "home")
    record = found.result.record
    assert record.router.score.value == 1.0
    assert record.router.gain.low > 0.3
    assert record.oracle.score.value == 1.0
    # The other folds of two equal agents tend to pick the one that is worse on a question's own.
    assert record.router.gain.difference == pytest.approx(1.0 - record.picked.score.value)
    assert record.picked.score.value <= 0.5
    assert found.result.table.title.startswith("Routing gains +")
    assert "takes luck for skill" in found.result.table.note
    with pytest.raises(UserError, match="two runs or more"):
        rr.analyse("routing", [runs[0].id], home=tmp_path / "home")


def test_without_a_gain_it_says_so(runs, tmp_path):
    found = rr.analyse("routing", [runs[0].id, runs[2].id], home=tmp_path / "home")
    assert found.result.table.title.startswith("Routing gains nothing that can be shown over ")


@pytest.fixture
def models():
    """A loopback server with a model that is right of the heart, and another one that is right of all else."""

    def says(body):
        heart = "heart" in body["messages"][-1]["content"]
        return json.dumps({"answer_choice": "A" if heart == (body["model"] == "first") else "B"})

    with any_form() as server:
        server.says = says
        yield server


ROUTER = """
from langchain.agents import create_agent
from langchain.agents.middleware import ModelChoice, ModelRouterMiddleware
from langchain_core.decisions import BaseDecisionModel, ChoiceAnswer, ClassifierResponse
from langchain_openai import ChatOpenAI

models = {{name: ChatOpenAI(model=name, base_url="{url}", api_key="none") for name in ("first", "second")}}


class ByWords(BaseDecisionModel):
    @property
    def _provider(self):
        return "words"

    def _classify(self, state, questions):
        name = "first" if "heart" in str(state) else "second"
        answer = ChoiceAnswer(type="choice", choice=name, probabilities={{name: 1.0}}, confidence=1.0)
        return ClassifierResponse(model="words", answers=dict.fromkeys(questions, answer))


choices = {{name: ModelChoice(model=model, criteria=name) for name, model in models.items()}}
router = ModelRouterMiddleware(choices=choices, instructions="Of the heart: first.", classifier=ByWords(model="words"))
graph = create_agent(model=models["first"], tools=[], middleware=[router])
"""


def written(path, start, count):
    lines = [
        {"id": str(i), "question": f"What of the {'heart' if i % 2 else 'liver'} in case {i}?", "answer": "A"}
        | {"options": {"A": "yes", "B": "no"}}
        for i in range(start, start + count)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return f"jsonl:{path}"


@pytest.mark.slow
def test_a_saved_router_runs_and_asks_what_its_agents_asked(models: AnyForm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"home": tmp_path / "home", "base_url": models.url, "progress": False}
    (tmp_path / "mine.py").write_text(ROUTER.format(url=models.url))
    agents = ["direct[model=openai:first]", "direct[model=openai:second]"]
    seen = written(tmp_path / "seen.jsonl", 0, 60)
    runs = [run.id for run in rr.run(seen, agents, **given).runs]
    (tmp_path / "saved").mkdir()
    saved = tmp_path / "saved" / "router.toml"
    rr.analyse("routing", runs, home=tmp_path / "home", save=saved)
    with pytest.raises(UserError, match="already exist"):
        rr.analyse("routing", runs, home=tmp_path / "home", save=saved)
    before = len(models.asked)
    again = rr.run(seen, str(saved), **given)
    assert len(models.asked) == before, "all is in the journal"
    told = rr.compare([again.runs[0].id], home=tmp_path / "home").comparison.notes
    assert any("the router was learned from the question" in note for note in told)
    new = rr.run(written(tmp_path / "new.jsonl", 100, 20), str(saved), **given)
    assert len(models.asked) == before + 20, "one agent a question"
    told = rr.compare([new.runs[0].id], home=tmp_path / "home").comparison.notes
    assert not any("learned from" in note for note in told)
    for made in (again, new):
        assert made.to_pandas("scores")["value"].eq(1.0).all()
    saved.with_suffix(".policy.json").write_text("{}")
    read_policy.cache_clear()
    with pytest.raises(UserError, match="differs from the policy"):
        rr.run(written(tmp_path / "third.jsonl", 200, 2), str(saved), **given)
    pytest.importorskip("langchain.agents.middleware.model_router", reason="needs LangChain's router")
    # A system that routes by itself stands beside the policies, and is no agent of theirs.
    own = rr.run(seen, "./mine.py:graph", **{**given, "base_url": None}).runs[0].id
    found = rr.analyse("routing", [*runs, own], home=tmp_path / "home").result
    (result,) = found.record.own
    assert (result.name, result.score.value, result.shares) == (own, 1.0, {runs[0]: 0.5, runs[1]: 0.5})
    assert result.gain.low > 0.3
    assert [one.name for one in found.record.singles] == runs
    assert f"{own} routes by itself: 50 % to {runs[0]}" in found.table.note


@given(st.text())
def test_pieces_of_words_are_scikit_learns(text):
    words = pytest.importorskip("sklearn.feature_extraction.text")
    made = words.TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 5)).build_analyzer()(text)
    assert sorted(pieces(text).elements()) == sorted(made)


def test_a_policy_gives_the_chances_of_the_model_that_was_learned():
    texts = tuple(f"What of {'heart' if i % 3 else 'liver'} number {i} and {'x' * (i % 5)}?" for i in range(80))
    asked = [Question(id=str(i), benchmark="b", text=text, group=str(i % 2)) for i, text in enumerate(texts)]
    names = ["0", "1", "b"]
    known = np.array([question_features(one, names) for one in asked])
    _, scores, _ = skilled(5, 80)
    table = Outcomes(
        scores=scores.astype(float), costs=np.ones((80, 2)), prior_features=known, seen=known, texts=texts,
        clusters=tuple(map(str, range(80))), strata=("b",) * 80,
    )  # fmt: skip
    from ragrounds.extensions.routing import policies

    features = policies._features(table, False)
    expected = policies._ridge(features, table.means).predict(features)
    model = learned(table)
    assert len(model.pieces) > 100
    policy = Policy(
        arms=("x", "y"), measure="", prices=(2.0, 1.0), names=tuple(names), intercepts=tuple(model.intercepts),
        known=tuple(map(tuple, model.prior_weights)), pieces=model.pieces,
    )  # fmt: skip
    for question, chances_ in zip(asked, expected, strict=True):
        assert policy.chances(question) == pytest.approx(list(chances_), abs=1e-6)
    assert policy.choose_agent([0.5, 0.5], 0.0) == 1
    assert policy.choose_agent([0.9, 0.5], 0.0) == 0
    assert policy.choose_agent([0.9, 0.5], 1.0) == 1
