"""The release gate: what a policy may say, how its tiers make a verdict, and that its tests and intervals agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.extensions.gate.one_sided import OneSided, bets_on, log_mean_exp, lower_end, questions_to, reach
from ragrounds.extensions.gate.policy import FollowedGate, Policy, read_policy
from tests.rows import each_row

RUNS = '[runs]\nnew = "vanilla_rag"\nold = "direct"\n'
CRITICAL = '[critical]\n"right" = "accuracy(new) > 50%"\n'


def policy(*rules: str, head: str = "") -> Policy:
    return read_policy("\n".join([head, RUNS, *(rules or [CRITICAL])]), "p.toml")


@each_row(
    ("text", "said"),
    [
        ("[runs", "Expected ']'"),
        (RUNS, "needs [critical] with at least a rule that must hold"),
        (RUNS + "[critical]\n", "needs [critical] with at least a rule"),
        (CRITICAL, "needs [runs] with at least a name for each agent"),
        ("[runs]\n" + CRITICAL, "needs [runs]"),
        ("eror = 0.1\n" + RUNS + CRITICAL, "has no key 'eror'. Did you mean 'error'?"),
        ("error = 0.5\n" + RUNS + CRITICAL, "Expected `float` < 0.5 - at `$.error`"),
        ("error = 0.0\n" + RUNS + CRITICAL, "Expected `float` > 0.0 - at `$.error`"),
        ("error = true\n" + RUNS + CRITICAL, "Expected `float`, got `bool`"),
        ("seed = 'x'\n" + RUNS + CRITICAL, "Expected `int`, got `str`"),
        (RUNS + "[critical]\nx = 3\n", "got `int`"),
        (RUNS + "[critical]\nx = { claim = 'accuracy(new) > 1%', tier = 'b' }\n", "unknown field `tier`"),
        (RUNS + "[critical]\nx = 'accuracy(new) > '\n", "critical rule 'x': Cannot read the claim"),
        (RUNS + "[critical]\nx = 'acuracy(new) > 5%'\n", "Did you mean 'accuracy'"),
        (RUNS + "[critical]\nx = 'accuracy(now) > 5%'\n", "'now' is not in [runs]"),
        (RUNS + "[critical]\nx = 'accuracy(new) > 5% @ 95%'\n", "leave it out, and set error"),
        (RUNS + "[critical]\nx = 'separated(new, old)'\n", "separated() has no side that fails"),
        (RUNS + "[critical]\nx = 'cost(new) < 0.01'\n", "cost has no upper bound; add most"),
        (RUNS + "[critical]\nx = { claim = 'accuracy(new) > 5%', most = 2 }\n", "most goes with a cost"),
        (RUNS + "[critical]\nx = { claim = 'cost(new) < 1', most = 0 }\n", "Expected `float` > 0"),
        (RUNS + "[critical]\nx = { claim = 'cost(new) < tokens(old)', most = 2 }\n", "different units"),
        (RUNS + "[critical]\nx = 'failed(new) <= 0'\n", "allow for some"),
        (RUNS + "[critical]\nx = 'accuracy(new) > 100%'\n", "end of what there can be"),
        (RUNS + "[critical]\nx = 'accuracy(new) > 0%'\n", "end of what there can be"),
        (RUNS + "[critical]\nx = 'accuracy(new) - accuracy(new) > -5%'\n", "compares a run with itself"),
        (RUNS + 'again = "direct"\n' + CRITICAL, "two names of [runs] mean the same run"),
        (RUNS + CRITICAL + "[advisory]\ny = 'accuracy(nw) > 5%'\n", "advisory rule 'y': 'nw' is not in [runs]"),
    ],
)
def test_a_faulty_policy_is_said_with_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        read_policy(text, "p.toml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("The policy 'p.toml'")


def follow(made: Policy, values: dict[str, list[float | None]], dataset: str = "d") -> FollowedGate:
    """A gate over questions whose measures (``accuracy(new)``) are these, until it decides."""
    gate = FollowedGate(made, {name: name for name in made.runs})
    for place in range(len(next(iter(values.values())))):
        question = Question(id=str(place), benchmark=dataset, text="?", options={"A": "a", "B": "b"}, kind="choice")
        gate.add(QuestionRound(((question,),)), lambda measure, run, id: values[f"{measure}({run})"][int(id)])
        if gate.verdict != "UNDECIDED":
            break
    return gate


RIGHT, WRONG = {"accuracy(new)": [1.0] * 60}, {"accuracy(new)": [0.0] * 60}
OTHERS = "".join(f"[supporting]\n{rules}\n" for rules in ['"a" = "failed(new) < 50%"\n"b" = "empty(new) < 50%"'])


def test_critical_rules_decide() -> None:
    assert follow(policy(), RIGHT).verdict == "GO"
    assert follow(policy(), WRONG).verdict == "NO-GO"
    mixed = {"accuracy(new)": [1.0, 0.0] * 30}
    undecided = follow(policy(), mixed)
    assert undecided.verdict == "UNDECIDED"
    assert next(undecided.verdicts()).needs is None  # it is at its limit
    two = policy(CRITICAL + '"safe" = "failed(new) < 50%"')
    assert follow(two, RIGHT | {"failed(new)": [0.0] * 60}).verdict == "GO"
    assert follow(two, RIGHT | {"failed(new)": [1.0, 0.0] * 30}).verdict == "UNDECIDED"
    assert follow(two, RIGHT | {"failed(new)": [1.0] * 60}).verdict == "NO-GO"


def test_supporting_rules_decide_by_more_than_half_and_advisory_ones_never() -> None:
    both = policy(CRITICAL + OTHERS)
    mixed = {"accuracy(new)": [1.0, 0.0] * 30}
    good, bad = [0.0] * 60, [1.0] * 60
    assert follow(both, mixed | {"failed(new)": bad, "empty(new)": good}).verdict == "UNDECIDED"
    assert follow(both, mixed | {"failed(new)": bad, "empty(new)": bad}).verdict == "NO-GO"
    assert follow(both, RIGHT | {"failed(new)": bad, "empty(new)": [0.0, 1.0] * 30}).verdict == "GO"
    advised = policy(CRITICAL + OTHERS.replace("supporting", "advisory"))
    gate = follow(advised, RIGHT | {"failed(new)": bad, "empty(new)": bad})
    assert gate.verdict == "GO"
    assert [one.claim.decision for one in gate.verdicts()] == ["holds", "fails", "fails"]


def test_more_rules_make_it_harder_to_fail_and_not_to_hold() -> None:
    one, three = policy(), policy(CRITICAL + OTHERS)
    rest: dict[str, list[float | None]] = {"failed(new)": [0.0, 1.0] * 30, "empty(new)": [0.0, 1.0] * 30}
    assert follow(one, RIGHT).questions == follow(three, RIGHT | rest).questions
    assert follow(one, WRONG).questions < follow(three, WRONG | rest).questions


@pytest.mark.parametrize(("limit", "needs"), [("95.05%", 100), ("95.1%", None)])
def test_a_decision_is_looked_for_in_a_hundred_times_the_questions(limit: str, needs: int | None) -> None:
    gate = follow(policy(f"[critical]\nx = 'accuracy(new) > {limit}'"), {"accuracy(new)": [1.0]})
    assert next(gate.verdicts()).needs == needs


def test_what_is_not_known_never_decides() -> None:
    gate = follow(policy(), {"accuracy(new)": [None] * 60})
    (rule,) = gate.verdicts()
    assert gate.verdict == "UNDECIDED"
    assert (rule.claim.conditions[0].low, rule.claim.conditions[0].high) == (0.0, 1.0)
    assert "60 not known" in rule.claim.conditions[0].reason
    some: list[float | None] = [1.0] * 60
    some[0] = None
    assert follow(policy(), {"accuracy(new)": some}).questions > follow(policy(), RIGHT).questions


def test_costs_count_up_to_their_most_and_it_is_said() -> None:
    made = policy("[critical]\nx = { claim = 'cost(new) < 0.05', most = 0.1 }")
    cheap = follow(made, {"cost(new)": [0.001] * 200})
    assert cheap.verdict == "GO"
    assert "above most" not in follow(made, {"cost(new)": [0.1]}).state.conditions[0].reason
    dear = follow(made, {"cost(new)": [5.0, None] * 100})
    (rule,) = dear.verdicts()
    assert dear.verdict == "UNDECIDED"
    assert "above most = 0.1 count as it" in rule.claim.conditions[0].reason
    assert follow(made, {"cost(new)": [5.0] * 200}).verdict == "NO-GO"


def test_a_rule_of_another_dataset_counts_nothing_here() -> None:
    made = policy(CRITICAL.replace('"accuracy(new) > 50%"', '{ claim = "accuracy(new) > 50%", dataset = "e" }'))
    gate = follow(made, RIGHT)
    assert gate.verdict == "UNDECIDED"
    assert "no question of e was counted" in next(gate.verdicts()).claim.conditions[0].reason
    assert follow(made, RIGHT, "e").verdict == "GO"


@pytest.mark.parametrize("relation", [">", "<", ">=", "<="])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_decision_and_its_interval_never_contradict(relation: str, share: float) -> None:
    generator = np.random.default_rng([ord(relation[0]), int(share * 10)])
    made = policy(f"[critical]\nx = 'accuracy(new) - accuracy(old) {relation} 5%'")
    for _ in range(10):
        new, old = (list(map(float, generator.random(300) < one)) for one in (share, 0.5))
        gate = follow(made, {"accuracy(new)": list(new), "accuracy(old)": list(old)})
        condition = gate.state.conditions[0]
        assert condition.low is not None
        assert condition.high is not None
        assert condition.value is not None
        assert condition.low <= condition.value <= condition.high
        above, below = condition.low > 0.05, condition.high < 0.05
        wanted = {"holds": above, "fails": below} if relation[0] == ">" else {"holds": below, "fails": above}
        assert wanted.get(condition.decision, not above and not below)


def test_the_capital_is_what_it_is_by_hand() -> None:
    values, limit = [1.0, 0.0, 0.5, 1.0], 0.3
    test = OneSided(limit)
    made = [test.add(value) for value in values][-1]
    bets = np.exp(bets_on(1.0, 0.5)) - 1  # a bet c on 1 at 1/2 makes 1 + c
    by_hand = np.mean([math.prod(1 - bet + bet * value / limit for value in values) for bet in bets])
    assert made == pytest.approx(math.log(by_hand))
    shown = next(n for n in range(1, 60) if np.mean((1 + bets) ** n) >= 1 / 0.05)  # all right, against 1/2
    assert follow(policy(), RIGHT).questions == shown
    test = OneSided(0.5)
    error = math.exp(-[test.add(1.0) for _ in range(5)][-1])
    reached = policy(head=f"error = {error!r}")  # the capital after five questions, and no more
    assert [follow(reached, values).questions for values in (RIGHT, WRONG)] == [5, 5]
    array = np.array(values)
    end = lower_end(array, made)
    assert end == pytest.approx(limit)
    assert float(log_mean_exp(bets_on(array, limit).sum(axis=0))) == pytest.approx(made)
    found = questions_to(np.array([1.0] * 3 + [0.0]), 0.5, reach(0.05), 1_000)
    assert found is not None
    assert 10 < found < 60
    assert questions_to(np.array([1.0, 0.0]), 0.5, reach(0.05), 1_000) is None


@pytest.mark.parametrize("count", [9, 10])
def test_ten_stored_questions_have_the_interval_of_the_tables(count: int) -> None:
    """Of fewer the interval is that of bets, which end where a capital is reached, whatever else was counted."""
    gate = FollowedGate(made := policy(), {name: name for name in made.runs})
    questions = [Question(id=str(place), benchmark="d", text="?", kind="choice") for place in range(count)]
    gate.test(questions, lambda measure, run, id: float(int(id) % 3 > 0), "robust", 1)
    (condition,) = gate.state.conditions
    bets = follow(made, {"accuracy(new)": [float(place % 3 > 0) for place in range(count)]}).state.conditions[0]
    assert (condition.low == bets.low) == (count < 10)
