"""The circuit breaker: a run most of whose attempts fail ends, all its agents on the same questions, and is resumed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply, Usage
from ragrounds.evals.engine.circuit_breaker import CircuitBreaker, FailureLimit, failure_limit
from ragrounds.evals.store.store import Store
from ragrounds.models.faults import CallFailed
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, questions
from tests.servers.any_form import AnyForm

DOWN = CallFailed("connection", "cannot connect to the server")
FINE = Reply(text='{"answer_choice": "A"}', usage=Usage(10, 5))


@pytest.mark.parametrize(
    ("given", "read"),
    [("20%", FailureLimit(share=0.2)), ("12.5 %", FailureLimit(share=0.125)), ("100%", FailureLimit(share=1.0)),
     ("50", FailureLimit(count=50)), (7, FailureLimit(count=7)), ("never", FailureLimit())],
)  # fmt: skip
def test_a_share_a_number_or_never(given: str | int, read: FailureLimit) -> None:
    assert failure_limit(given) == read
    assert failure_limit(str(read)) == read


@pytest.mark.parametrize("given", ["0%", "101%", "0", "-3", "0.2", "many", "", True, "5 0", "٣"])
def test_what_is_neither_is_refused(given: str) -> None:
    with pytest.raises(UserError, match="expected a share such as 20%"):
        failure_limit(given)


async def test_a_dead_server_does_not_burn_every_question_and_the_rest_is_resumed(store: Store) -> None:
    asked, golds = questions(40)
    model = ScriptedModel(say=lambda request: DOWN)
    two = [planned(store, agent, asked, golds, model) for agent in ("direct", "direct_cot")]
    breaker = CircuitBreaker(failure_limit("50%"))
    await replayed(store, two, asked, golds, concurrency=4, stops=[breaker])
    assert "20 of 20 attempts of direct" in breaker.reached()
    assert "--fail-after 50%" in breaker.reached()
    assert "20 of them by: connection: cannot connect to the server" in breaker.reached()
    done = [store.done(one.run) for one in two]
    assert done[0] == done[1], "agents stay comparable on the same questions"
    assert 20 <= len(done[0]) <= 24
    again = [planned(store, agent, asked, golds, ScriptedModel()) for agent in ("direct", "direct_cot")]
    await replayed(store, again, asked, golds, stops=[CircuitBreaker(failure_limit("50%"))])
    assert [Counter(store.done(one.run).values()) for one in again] == [Counter(completed=40)] * 2


async def test_one_broken_agent_among_good_ones_is_found(store: Store) -> None:
    asked, golds = questions(30)
    good = [planned(store, agent, asked, golds) for agent in ("direct", "direct_cot", "vanilla_rag")]
    broken = planned(store, "cot_refine", asked, golds, ScriptedModel(say=lambda request: DOWN))
    breaker = CircuitBreaker(failure_limit("50%"))
    await replayed(store, [*good, broken], asked, golds, concurrency=2, stops=[breaker])
    assert "attempts of cot_refine failed" in breaker.reached()
    assert len({frozenset(store.done(one.run)) for one in [*good, broken]}) == 1


@pytest.mark.slow
async def test_a_server_that_dies_late_is_found_by_the_last_attempts(store: Store) -> None:
    asked, golds = questions(500)
    model = ScriptedModel()

    def say(request: Request) -> Reply | Exception:
        return FINE if len(model.asked) <= 300 else DOWN

    model.say = say
    one = planned(store, "direct", asked, golds, model)
    breaker = CircuitBreaker(failure_limit("50%"))
    await replayed(store, [one], asked, golds, concurrency=1, stops=[breaker])
    assert "50 of the last 100 attempts" in breaker.reached()
    assert Counter(store.done(one.run).values()) == Counter(completed=300, failed=50)


@pytest.mark.parametrize(("limit", "failed"), [("3", 3), ("never", 20), ("60%", 20)])
async def test_a_number_counts_in_all_and_never_ends_nothing(store: Store, limit: str, failed: int) -> None:
    asked, golds = questions(40)
    model = ScriptedModel()

    def say(request: Request) -> Reply | Exception:
        return DOWN if len(model.asked) % 2 else FINE

    model.say = say
    one = planned(store, "direct", asked, golds, model)
    await replayed(store, [one], asked, golds, concurrency=1, stops=[CircuitBreaker(failure_limit(limit))])
    assert Counter(store.done(one.run).values())["failed"] == failed


def test_the_command_says_what_failed_and_how_to_go_on(command: Cli, tmp_path: Path, served: AnyForm) -> None:
    path = tmp_path / "many.jsonl"
    options = {"A": "one", "B": "two"}
    many = [{"id": f"q{i}", "question": f"Number {i}?", "options": options, "answer": "A"} for i in range(30)]
    path.write_text("".join(json.dumps(one) + "\n" for one in many))
    words = ["run", "--benchmark", f"jsonl:{path}", "--agent", "direct", "--display", "none"]
    model = ("--model", "openai:m[tries=1]", "--base-url", served.url)
    served.fails = [500] * 30
    down = command(*words, *model, "--concurrency", "4")
    assert 20 <= len(served.asked) <= 24
    [line] = [line for line in down.stderr.splitlines() if line.startswith("Ended early: ")]
    assert "20 of 20 attempts of direct failed (--fail-after 50%)" in line
    assert "by: server: later" in line
    assert "the same command resumes" in line
    assert down.returncode == 3
    refused = command(*words, "--fail-after", "half")
    assert (refused.returncode, "--fail-after 'half': expected a share such as 20%" in refused.stderr) == (2, True)
    served.fails.clear()
    up = command(*words, *model)
    assert up.returncode == 0, up.stderr
    assert "30 model calls made" in up.stderr
