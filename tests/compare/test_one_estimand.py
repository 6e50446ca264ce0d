"""Gates, claims and tables measure one figure: questions weigh alike in a dataset, datasets alike, clusters widen."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import table_mean
from ragrounds.evals.compare.stopped_runs import all_records, early_stops, stop_records
from ragrounds.evals.engine.question_order import QuestionRound, cluster_rounds, draw_rounds
from ragrounds.evals.stats.sequential import ConfidenceSequence
from ragrounds.evals.store.store import Store
from ragrounds.extensions.gate.counted_tests import error_share
from ragrounds.extensions.gate.policy import GateStop, read_policy
from tests.compare.making import add_run, questions

RUNS = '[runs]\nnew = "new"\nold = "old"\n'
GAIN = "accuracy(new) - accuracy(old)"


def policy(claim, head="", more=""):
    return read_policy(f"{head}\n{RUNS}[critical]\nx = '{claim}'\n{more}", "p.toml")


def gate(store, runs, claim, **parts):
    stop = GateStop(policy(claim, **parts), dict(zip(("new", "old"), runs, strict=True)), store.questions(runs[0])[0])
    stop.test(store)
    return stop


def uneven_questions(generator):
    """Questions of one to three datasets, each with clusters of one to eight questions."""
    asked = []
    for dataset in range(generator.integers(1, 4)):
        for number in range(generator.integers(8, 15)):
            size = int(generator.choice([1, 1, 1, 2, 3, 8]))
            cluster = f"case {number}" if size > 1 else ""
            ids = [f"{dataset}/{number}/{index}" for index in range(size)]
            asked += [replace(questions(1, f"x/{dataset}", cluster=cluster)[0], id=id) for id in ids]
    return asked


@pytest.mark.parametrize("seed", range(12))
def test_the_gates_figure_after_all_questions_is_that_of_compare(store, seed):
    generator = np.random.default_rng(seed)
    asked, epochs = uneven_questions(generator), int(generator.integers(1, 4))

    def answers(chosen):
        # The effect goes with the size of a cluster, which is where weights matter.
        return [
            list(map(float, generator.random(epochs) < (0.8 if one.cluster else 0.3)))
            if one.id in chosen
            else [...] * epochs
            for one in asked
        ]

    everything = {one.id for one in asked}
    runs = [add_run(store, name, asked, answers(everything), epochs=epochs, scorer="robust") for name in ("new", "old")]
    tests = compare(store, runs).tables[0].pairs[0].tests
    for claim in (f"{GAIN} > 0.01", "accuracy(new) > 0.5", "1 > 2 * accuracy(old)"):
        condition = gate(store, runs, claim).gate.state.conditions[0]
        (table,) = check_claims(store, runs, [claim.replace("(new)", "(new-run)").replace("(old)", "(old-run)")])
        assert condition.value == round(table.conditions[0].value, 12)
        assert condition.low <= condition.value <= condition.high
        assert condition.questions == table.conditions[0].questions == len(asked)
    assert gate(store, runs, f"{GAIN} > 0.01").gate.state.conditions[0].value == round(-tests.difference, 12)

    # The same for runs that a gate follows: it counts a cluster of every dataset a round.
    counted = {one.id for drawn in draw_rounds(asked, 5) for one in drawn.questions}
    runs = [
        add_run(store, name, asked, answers(counted), epochs=epochs, scorer="robust", id=f"{name}-part")
        for name in ("new", "old")
    ]
    (exact,) = check_claims(store, runs, [f"{GAIN.replace(')', '-part)')} > 0.01"], common=True)
    limit = exact.conditions[0].value  # at its limit, so that it counts to the end
    stop = GateStop(
        policy(f"{GAIN} > {limit:.9f}", head="seed = 5"), dict(zip(("new", "old"), runs, strict=True)), asked
    )
    stop.read(store, failed=True)
    condition = stop.gate.state.conditions[0]
    assert (condition.value, condition.questions) == (round(limit, 12), len(counted))
    assert condition.low <= condition.value <= condition.high


def test_cases_that_differ_in_size_are_no_go_where_the_claim_is_false(tmp_path):
    asked = questions(60)
    asked += [
        replace(one, id=f"{one.id} of a case", cluster=f"case {at // 20}") for at, one in enumerate(questions(200))
    ]
    wrong = dict.fromkeys(range(60, 260), "The answer is B.")
    with Store(tmp_path) as store:
        add_run(store, "new", asked, [1.0] * 60 + [0.0] * 200, scorer="robust", texts=wrong)
    path = tmp_path / "policy.toml"
    path.write_text("[runs]\nnew = 'new-run'\n[critical]\nright = 'accuracy(new) > 50%'\n")
    result = rr.gate(path, home=tmp_path)
    (rule,) = result.rules
    assert (result.verdict, result.questions, result.available) == ("NO-GO", 260, 260)
    assert rule.claim.conditions[0].value == pytest.approx(60 / 260)
    assert "all answers, tested once" in str(result)
    path.write_text("seed = 7\n" + path.read_text())
    assert str(rr.gate(path, home=tmp_path)) == str(result)  # no order, so no seed to try
    with pytest.raises(rr.UserError, match="All answers of stored runs are tested"):
        rr.gate(path, home=tmp_path, max_questions=50)


def pair(store, accuracy=0.7, count=200, seed=0, **more):
    generator, asked = np.random.default_rng(seed), questions(count)
    right = [list(map(float, generator.random(count) < share)) for share in (accuracy, 0.5)]
    return [
        add_run(store, name, asked, values, scorer="robust", **more)
        for name, values in zip(("new", "old"), right, strict=True)
    ]


def test_tests_on_the_same_answers_are_counted_and_share_the_error(store):
    runs = pair(store)
    first = gate(store, runs, "accuracy(new) > 60%")
    assert (first.number, first.gate.error) == (1, pytest.approx(0.04))
    second = gate(store, runs, "accuracy(new) > 59%")
    assert (second.number, second.gate.error) == (2, pytest.approx(0.005))
    assert gate(store, runs, "accuracy(new) > 60%").number == 1  # the same test
    assert gate(store, runs, "accuracy(new) > 60%", head="seed = 3").number == 1
    advised = "[advisory]\ny = 'refused(new) < 50%'\n"
    assert gate(store, runs, "accuracy(new) > 60%", more=advised).number == 1  # it decides nothing
    assert gate(store, runs, "accuracy(new) > 60%", head="error = 0.04").number == 3
    assert gate(store, runs, "accuracy(new) > 60%", more=advised.replace("advisory", "supporting")).number == 4
    # Another number of epochs, or a part of the questions, of the same agents: answers that were seen before.
    identity = {"models": {"model": "test:model"}, "epochs": 2, "selection": {"limit": 50}}
    again = [add_run(store, run.agent, questions(50), [[1.0, 0.0]] * 50, epochs=2, scorer="robust", id=f"{run.agent}-2",
                     identity={**identity, "agent": run.agent}) for run in runs]  # fmt: skip
    assert gate(store, again, "accuracy(new) > 60%").number == 5
    # An agent with another model has other answers, whatever it is compared with.
    other = add_run(store, "other", questions(200), [1.0] * 200, scorer="robust")
    assert gate(store, [other, runs[1]], "accuracy(new) > 60%").number == 1
    assert sum(error_share(number) for number in range(1, 10_000)) == pytest.approx(1, abs=1e-4)
    assert math.isclose(error_share(3) * 30, 1)


def test_answers_that_are_added_later_are_another_test(store):
    runs = pair(store, accuracy=1.0)
    part = [add_run(store, name, questions(40), [1.0] * 20 + [...] * 20, scorer="robust", id=f"{name}-part",
                    identity={"agent": f"{name} part"}) for name in ("new", "old")]  # fmt: skip
    before = gate(store, part, "accuracy(new) > 60%")
    condition = before.gate.state.conditions[0]
    assert (before.gate.verdict, before.number, condition.missing) == ("UNDECIDED", 1, 20)
    assert "20 not known: counted as the worst for holds" in condition.reason
    assert (condition.value, condition.low < 0.5 < condition.high) == (1.0, True)
    new = add_run(store, "new", questions(40), [1.0] * 30 + [...] * 10, scorer="robust", id="new-more",
                  identity={"agent": "new part"})  # fmt: skip
    assert gate(store, [new, part[1]], "accuracy(new) > 60%").number == 2
    assert gate(store, runs, "accuracy(new) > 60%").gate.verdict == "GO"


def test_a_stored_test_leaves_the_run_as_it_was(store):
    runs = pair(store)
    gate(store, runs, "accuracy(new) > 60%")
    assert stop_records(store, runs[0]) == []
    assert early_stops(store, runs) == {}
    (record,) = all_records(store, runs[0])
    assert (record.fixed, record.number, record.runs) == (True, 1, ("new-run", "old-run"))


def test_a_followed_gate_is_counted_too(store):
    runs = pair(store, id=None)
    stop = GateStop(policy("accuracy(new) > 60%"), dict(zip(("new", "old"), runs, strict=True)), questions(200))
    stop.begin(store)
    assert (stop.number, gate(store, runs, "accuracy(new) > 60%").number) == (1, 2)
    stop.begin(store)
    assert stop.number == 1


def test_costs_and_few_answers_are_tested_by_betting(store):
    runs = pair(store, count=8, accuracy=1.0)
    assert gate(store, runs, "accuracy(new) > 50%").gate.verdict == "GO"
    rule = read_policy(RUNS + "[critical]\nx = { claim = 'cost(new) < 0.05', most = 0.1 }", "p.toml")
    stop = GateStop(rule, dict(zip(("new", "old"), runs, strict=True)), questions(8))
    stop.test(store)
    condition = stop.gate.state.conditions[0]
    assert condition.value == pytest.approx(0.01)
    assert 0 <= condition.low < 0.01 < condition.high <= 0.1


def test_what_an_undecided_stored_rule_needs_is_predicted_by_its_interval(store):
    runs = pair(store, count=100)
    share = gate(store, runs, "accuracy(new) > 1%").gate.state.conditions[0].value
    (rule,) = gate(store, runs, f"accuracy(new) > {share - 0.03:.4f}").gate.verdicts()
    assert rule.claim.decision == "undecided"
    assert 500 < rule.needs < 5_000
    (rule,) = gate(store, runs, f"accuracy(new) > {share - 0.0001:.6f}").gate.verdicts()
    assert rule.needs is None


def test_a_round_is_weighed_as_the_tables_weigh_it():
    asked = (
        [replace(one, cluster="three") for one in questions(3, "x/a")] + questions(4, "x/a")[3:] + questions(2, "x/b")
    )
    rounds = draw_rounds(asked, 0)
    assert {drawn.weights for drawn in rounds} == {(0.5, 1.0)}  # four questions in two clusters
    assert {drawn.largest for drawn in rounds} == {(1.5, 1.0)}
    assert sum(drawn.weigh(lambda _: 1.0)[1] for drawn in rounds) * 2.5 == pytest.approx(4)  # two rounds of weight 2
    assert rounds[0].weigh(lambda _: 1.0, "x/b") == (1.0, 1.0)
    assert rounds[0].weigh(lambda _: 1.0, "x/c") is None
    assert rounds[0].weigh(lambda one: None if one.benchmark == "x/b" else 1.0) is None
    values = {one.id: float(at % 2) for at, one in enumerate(asked)}
    drawn = [drawn.weigh(lambda one: values[one.id]) for drawn in cluster_rounds(asked)]
    assert max(weight for _, weight in drawn) == 1
    mean = sum(value for value, _ in drawn) / sum(weight for _, weight in drawn)
    assert mean == pytest.approx(table_mean(asked, [*values.values()]))


@pytest.mark.parametrize("giant", [0.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_one_giant_cluster_is_never_excluded_before_it_came(giant):
    # 100 questions alone and a case of 100: whatever it brings, the figure is 0.5.
    asked = questions(100) + [replace(one, id=f"{one.id} of it", cluster="it") for one in questions(100)]
    missed = 0
    for seed in range(100):
        sequence = ConfidenceSequence(0.0, 1.0)
        for drawn in draw_rounds(asked, seed):
            sequence.add(*drawn.weigh(lambda one: giant if one.cluster else 1 - giant))
        interval = sequence.interval
        missed += not interval.low <= 0.5 <= interval.high
    assert missed <= 5
    alone = [QuestionRound((drawn.parts[0],)).weigh(lambda one: giant if one.cluster else 1 - giant)
             for drawn in draw_rounds(asked, 0)]  # fmt: skip
    means = ConfidenceSequence(0.0, 1.0)
    for draw in alone:
        means.add(*draw)
    assert not means.interval.low <= 0.5 <= means.interval.high  # means of clusters have another mean
