"""The ledger: sums of what the store holds, split by role, node and model; judging is in it; unknown is unknown."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Call, Reply, Run, Usage
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.runs import judge_runs
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.store import ledger as ledgers
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import Arena, ArenaJudgement, ArenaStore, Contestant, JudgementDetail
from ragrounds.evals.store.care.repricing import prices_of, reprice
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.ledger import LedgerLine, judging_of, ledger, store_judging_sums, unfinished
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.models.faults import CallFailed
from ragrounds.models.providers import open_model
from ragrounds.prompts.loader import PromptFolder
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, always, questions
from tests.judges.doubles import Scripted
from tests.servers.process import Running


async def filled(store: Store, model: ScriptedModel | None = None, count: int = 5) -> list[Run]:
    """Three runs: two share their calls, one searches."""
    asked, golds = questions(count)
    model = model or ScriptedModel()
    made = [
        planned(store, name, asked, golds, model)
        for name in ("direct", "direct[limits.calls=9]", "vanilla_rag[top_k=2]")
    ]
    await replayed(store, made, asked, golds)
    return [one.run for one in made]


async def test_sums_are_those_of_the_attempts_and_every_split_has_the_same_total(store: Store) -> None:
    runs = await filled(store)
    attempts = [attempt for run in runs for attempt in store.attempts(run)]
    for by in ((), ("run",), ("role",), ("node",), ("model",), ("role", "node", "model"), ("model", "run")):
        found = ledger(store, runs, by)
        assert found.total.cost_paid == pytest.approx(sum(attempt.cost_paid or 0 for attempt in attempts))
        assert found.total.cost_uncached == pytest.approx(sum(attempt.cost_uncached or 0 for attempt in attempts))
        assert found.total.usage == sum((attempt.usage or Usage() for attempt in attempts), start=Usage())
        assert found.total.model_calls == sum(attempt.model_calls for attempt in attempts)
        assert sum(line.model_calls for line in found.lines) == found.total.model_calls
        assert sum(line.known for line in found.lines) == pytest.approx(found.total.known)
    assert (found.total.cost_paid, found.total.cost_uncached) == pytest.approx((0.010, 0.015))
    roles = {line.role: line for line in ledger(store, runs, ["role"]).lines}
    assert (roles["searching"].model_calls, roles["searching"].searches) == (0, 5)
    assert roles["answering"].reused == 5
    named = ledger(store, runs, ["node", "model"]).lines
    assert {(line.node, line.model) for line in named} >= {("answer", "test:scripted"), ("retrieve", "scripted")}


async def test_an_unknown_price_makes_its_sums_unknown_and_no_others(store: Store) -> None:
    asked, golds = questions(3)
    priced = planned(store, "direct", asked, golds, ScriptedModel())
    free = planned(store, "direct_cot", asked, golds, ScriptedModel(spec="test:unpriced", cost=None))
    await replayed(store, [priced, free], asked, golds)
    found = ledger(store, [priced.run, free.run], ["model"])
    lines = {line.model: line for line in found.lines}
    assert lines["test:scripted"].cost_uncached == pytest.approx(0.003)
    unknown = lines["test:unpriced"]
    assert (unknown.cost_paid, unknown.cost_uncached, unknown.unpriced) == (None, None, 3)
    assert (found.total.cost_paid, found.total.cost_uncached) == (None, None)
    assert found.total.known == pytest.approx(0.003)


async def test_calls_without_a_reply_are_counted_and_cost_nothing_known(store: Store) -> None:
    def say(request: Request) -> Reply | Exception:
        if "number 1?" in request.messages[-1].content:
            return CallFailed("server", "gone. " * 200)  # long enough to be stored apart
        return always('{"answer_choice": "A"}')(request)

    runs = await filled(store, ScriptedModel(say=say), count=3)
    found = ledger(store, runs[:1], ["role"])
    assert (found.total.model_calls, found.total.failed) == (3, 1)
    assert found.total.cost_uncached == pytest.approx(0.002)
    nothing = await filled(
        store, ScriptedModel(say=lambda request: CallFailed("server", "gone"), spec="test:none"), count=1
    )
    total = ledger(store, nothing[:1]).total
    assert (total.model_calls, total.failed) == (1, 1)
    assert (total.usage, total.cost_uncached, total.cost_paid) == (None, None, 0.0)


async def test_judging_is_in_it_and_grading_again_does_not_make_it_free(store: Store) -> None:
    run = (await filled(store))[0]
    before = ledger(store, [run], ["role"]).total
    judge = Scripted(lambda prompt, occurrence: '{"grade": "equivalent"}', name="openai:judge")
    journal = StoreJournal(store)
    (graded,) = (
        await judge_runs(store, [run], LabelJudge(EQUIVALENCE, tries=2), [judge], journal, PromptFolder())
    ).runs
    await judge_runs(store, [run], LabelJudge(EQUIVALENCE, tries=2), [judge], journal, PromptFolder())
    journal.close()
    assert graded.calls == 5
    after = ledger(store, [run], ["role", "model"])
    (judging,) = (line for line in after.lines if line.role == "judging")
    assert judging.model == "openai:judge"
    assert judging.model_calls == 5
    assert judging.cost_paid == judging.cost_uncached == pytest.approx(graded.cost_paid)
    assert judging.usage == graded.usage
    assert after.total.cost_uncached == pytest.approx((before.cost_uncached or 0) + (graded.cost_uncached or 0))


async def test_arenas_stand_beside_runs(store: Store) -> None:
    runs = await filled(store)
    keeper = ArenaStore(store)
    systems = tuple(Contestant(name=run.agent, run=run.id) for run in runs[:2])
    arena = Arena(systems=systems, benchmark="t", questions="q", count=5, axes=(), judges=("openai:judge",), prompts={})
    number = keeper.add(arena)
    made = {"judge": 0, "part": 0, "outcomes": "1", "first": 0, "second": 1}
    judged = [
        ArenaJudgement(
            **made, question_id="t/0", number=0, calls=2, usage=Usage(100, 10), cost_paid=0.01, cost_uncached=0.02
        ),
        ArenaJudgement(
            **made, question_id="t/1", number=1, calls=1, usage=Usage(50, 5), cost_paid=0.0, cost_uncached=0.01
        ),
        ArenaJudgement(**made, question_id="t/2", number=2, how="identical"),
    ]
    for one in judged:
        await keeper.write(number, one, JudgementDetail({}, ()))
    assert {line.role for line in ledger(store, runs, ["role"]).lines} == {"answering", "searching"}
    found = ledger(store, runs, ["run", "role"], arenas=True)
    (line,) = (line for line in found.lines if line.run == arena.id)
    assert line == LedgerLine(
        run=arena.id,
        role="judging",
        model_calls=3,
        reused=1,
        usage=Usage(150, 15),
        cost_paid=0.01,
        cost_uncached=pytest.approx(0.03),
        known=pytest.approx(0.03),
    )


async def test_a_served_models_run_costs_its_busy_hours_and_the_journal_keeps_them(
    store: Store, server: Running
) -> None:
    asked, golds = questions(40)
    text = f'openai:plain[base_url="{server.url}",price_gpu_hour=36,gpus=2]'
    run = planned(store, "direct", asked, golds, open_model(text))
    await replayed(store, [run], asked, golds)
    keys = [call.key for attempt in store.attempts(run.run) for call in calls(attempt.events)]
    replies = [store.call(key, Request, Reply) for key in keys]
    busy = sum(reply[1].busy for reply in replies if reply)
    assert busy > 0
    found = ledger(store, [run.run]).total
    assert found.cost_paid == found.cost_uncached == pytest.approx(busy / 3600 * 36 * 2)
    again = planned(store, "direct[limits.calls=9]", asked, golds, open_model(text))
    await replayed(store, [again], asked, golds)
    hit = ledger(store, [again.run]).total
    assert (hit.cost_paid, hit.cost_uncached, hit.reused) == (0.0, pytest.approx(found.cost_uncached), 40)
    for one in (run, again):
        await one.models["model"].close()


def test_the_same_split_twice_is_refused(store: Store) -> None:
    with pytest.raises(UserError, match="twice"):
        ledger(store, [], ["role", "role"])


def test_the_command(command: Cli, home: Path) -> None:
    empty = command("ledger")
    assert (empty.returncode, empty.stdout) == (0, "")
    with Store(home) as store:
        asyncio.run(filled(store, ScriptedModel(spec="test:[bold]m", cost=0.25)))
    shown = command("ledger", "direct", "vanilla_rag[top_k=2]", "--by", "role,model", "--full")
    assert shown.returncode == 0, shown.stderr
    assert "test:[bold]m" in shown.stdout
    assert "$2.50" in shown.stdout
    assert shown.stdout.strip().splitlines()[-1].startswith("all")
    told = json.loads(command("ledger", "--by", "run", "--json").stdout)
    assert len(told["lines"]) == 3
    assert told["total"]["cost_paid"] == pytest.approx(2.5)
    wrong = command("ledger", "--by", "rôle")
    assert wrong.returncode == 2
    assert "'role'" in wrong.stderr
    assert command("ledger", "nobody").returncode == 2


async def test_what_broken_off_attempts_have_paid_is_told_beside_the_sums(store: Store, tmp_path: Path) -> None:
    asked, golds = questions(4)
    one = planned(store, "vanilla_rag[top_k=2]", asked, golds, ScriptedModel())
    await replayed(store, [one], asked, golds)
    whole = ledger(store, [one.run]).total
    assert unfinished(store, [one.run]).calls == 0
    first = asked[0].id
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.attempts).where(schema.attempts.c.question_id == first))
    left = unfinished(store, [one.run])
    assert left.calls == 1  # the search was free
    kept = ledger(store, [one.run]).total
    assert left.usage is not None
    assert kept.usage is not None
    assert left.usage + kept.usage == whole.usage
    await replayed(store, [one], asked, golds)
    assert unfinished(store, [one.run]).calls == 0
    assert ledger(store, [one.run]).total.cost_paid == whole.cost_paid


def test_judges_calls_are_decoded_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = planned(store, "direct", *questions(1)).run
    first, second, third = (
        Call(key=f"{n:064x}", kind="model", role="judging", node="judge", actor="openai:m", at=0.0, seconds=1.0,
             usage=Usage(1_000_000, 1), cost_uncached=None if n == 2 else 0.1)
        for n in range(3)
    )  # fmt: skip
    decompress, decoded = ledgers.decompress, list[bytes]()
    monkeypatch.setattr(ledgers, "decompress", lambda body: decoded.append(body) or decompress(body))  # type: ignore[func-returns-value]
    store.add_scores(run, [], [first, second])
    store_judging_sums(store, [run])
    assert len(decoded) == 2
    lines = judging_of(store, [run])
    assert (lines[run.id].model_calls, lines[run.id].cost_paid, len(decoded)) == (2, 0.2, 2)
    store.add_scores(run, [], [third])
    assert judging_of(store, [run])[run.id].cost_paid is None
    reprice(store, [run], prices_of(["openai:m[price_input=1,price_output=0]"]))
    decoded.clear()
    assert judging_of(store, [run])[run.id].cost_paid == pytest.approx(1.2)
    assert not decoded
    store.remove(run)
    with store.engine.connect() as connection:
        assert not [key for key in connection.execute(sa.select(schema.meta.c.key)).scalars() if run.id in key]
