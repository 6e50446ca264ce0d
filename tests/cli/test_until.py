"""`ragrounds run --until`: decided early, said, kept, gone on with; and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Cli, succeeded

RUN = ["run", "--agent", "direct", "--agent", "vanilla_rag[top_k=8]", "--concurrency", "2"]
CLAIM = "separated(direct, vanilla_rag) @ 80%"


@pytest.mark.slow
def test_a_decided_claim_ends_the_run_and_stands(command: Cli) -> None:
    done = succeeded(command(*RUN, "--until", CLAIM, "--json", "--display", "plain"))
    assert f"holds: {CLAIM}   (accuracy by robust)" in done.stderr
    assert "(always valid), p = " in done.stderr
    assert f"{CLAIM}: holds, score(direct) - score(vanilla_rag) = -" in done.stderr  # the last line of the progress
    found = json.loads(done.stdout)
    watched = found["until"]["state"]
    condition = watched["conditions"][0]
    assert watched["decision"] == "holds"
    assert watched["questions"] <= found["questions"] < 89
    assert condition["high"] < 0
    assert condition["p"] <= 0.2
    tests = found["tables"][0]["pairs"][0]["tests"]
    assert tests["p_mcnemar"] is None
    assert tests["p_always"] is not None
    again = command(*RUN, "--until", CLAIM, "--json")
    assert json.loads(again.stdout) == found
    assert "0 model calls made" in again.stderr
    runs = [row["run"] for row in found["rows"]]
    shown = command("compare", *runs, "--full")
    assert "always-valid p" in shown.stdout
    assert "exact p" not in shown.stdout
    assert "depends on the results" in " ".join(shown.stdout.split())
    claimed = succeeded(command("compare", *runs, "--assert", CLAIM))
    assert "always valid" in claimed.stderr
    whole = json.loads(command(*RUN, "--json", "--display", "none").stdout)
    assert whole["stopped"] == {}
    assert whole["tables"][0]["pairs"][0]["tests"]["p_mcnemar"] is not None


def test_a_claim_may_name_an_agent_as_its_command_does(command: Cli) -> None:
    named = ["run", "--agent", 'direct as "My plain one"', "--max-questions", "5", "--json"]
    done = command(*named, "--until", "score(My plain one) > 0.99 @ 99%")
    assert "score(My plain one) > 0.99 @ 99%" in json.loads(done.stdout)["until"]["state"]["claim"], done.stderr
    refused = command(*named, "--until", "score(My plane one) > 0.99 @ 99%")
    assert "(My plain one). Did you mean 'My plain one'" in refused.stderr
    command("run", "--agent", "direct as Other", "--until", "score(My plain one) > 0.99 @ 99%")
    assert "My plain one" in command("runs", "ls").stdout, "a refused command renames no run"


def test_the_first_questions_are_those_of_a_limit_with_the_same_seed(command: Cli) -> None:
    watched = json.loads(command(*RUN, "--until", CLAIM, "--max-questions", "5", "--json", "--seed", "4").stdout)
    assert watched["questions"] == 5
    other = command(*RUN, "--until", CLAIM, "--max-questions", "5", "--seed", "5")
    assert other.returncode == 2
    assert "in the order of --seed 4. Give --seed 4, or --new" in other.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--until", "cost(direct) < 1 @ 95%"], "cost has no upper bound"),
        (["--until", "accuracy(direct) > 0.5"], "without a level"),
        (["--until", "separated(direct, cot)"], "'cot' matches none"),
        (["--until", "separated(direct"], "expected"),
        (["--until", CLAIM, "--seed", str(2**70)], "has at most 64 bits"),
        (["--max-questions", "5"], "--max-questions needs --until"),
    ],
)
def test_what_cannot_be_watched_is_one_line(command: Cli, options: list[str], said: str) -> None:
    done = command(*RUN, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3  # two lines name the runs
    assert json.loads(command("runs", "ls", "--json").stdout)["runs"] == []


def test_the_exit_code_says_what_came_of_the_claim(command: Cli) -> None:
    codes = {}
    for claim in ("accuracy(direct) > 99% @ 60%", "accuracy(direct) > 1% @ 60%", "accuracy(direct) > 30% @ 99%"):
        done = command("run", "--agent", "direct", "--until", claim, "--max-questions", "40", "--new", "--json")
        codes[json.loads(done.stdout)["until"]["state"]["decision"]] = done.returncode
    assert codes == {"fails": 1, "holds": 0, "undecided": 4}
    assert "4 a claim is undecided" in " ".join(command("--help").stdout.split())
