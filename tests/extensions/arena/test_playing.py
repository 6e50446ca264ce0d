import asyncio
import json
import signal

import pytest

from ragrounds.base.errors import Interrupted, StopRun, UserError
from ragrounds.extensions.arena.ratings import rate
from ragrounds.extensions.arena.verdicts import combine_judgements, matches_of
from ragrounds.models.faults import CallFailed
from tests.extensions.arena.staging import Stage, add_run, by_strength, shown, stage
from tests.judges.doubles import Scripted


@pytest.fixture
def store(tmp_path):
    with stage(tmp_path) as opened:
        yield opened


def played(staged):
    return combine_judgements(staged.arena, staged.judgements)


async def test_full_asks_both_orders_of_every_pair_on_every_question(store):
    judge = Scripted(by_strength)
    staged = Stage(store, [judge])
    assert "every question" in await staged.play()
    assert len(judge.requests) == 3 * 12 * 2
    matches = played(staged)
    assert len(matches) == 36
    assert {match.panel(0) for match in matches} == {"first"}
    assert rate(matches_of(staged.arena, matches, 0), replicates=50).order == ("strong", "middle", "weak")
    assert len(staged.heard) == 36


async def test_the_judge_is_blind(store):
    judge = Scripted(by_strength)
    await Stage(store, [judge]).play()
    for request in judge.requests:
        system, user = (message.content for message in request.messages)
        assert not any(word in system for word in ("strong", "middle", "weak", "openai"))
        assert "openai" not in user
    orders = [tuple(label for label, _ in shown(request.messages[1].content)) for request in judge.requests]
    assert set(orders) == {("A", "B"), ("B", "A")}


def _say(word):
    return json.dumps({"usefulness": word, "knowledge": word})


async def test_one_order_is_drawn_by_seed(store):
    staged = Stage(store, [Scripted(lambda prompt, occurrence: _say(shown(prompt)[0][0]))], orders="one")
    await staged.play()
    matches = played(staged)
    assert len(staged.judgements) == 36
    assert {match.panel(0) for match in matches} == {"first", "second"}


async def test_one_call_for_each_axis_as_published(store):
    judge = Scripted(by_strength)
    staged = Stage(store, [judge], calls="apart")
    await staged.play()
    assert len(judge.requests) == 3 * 12 * 2 * 2
    assert all(
        ("usefulness:" in request.messages[0].content) != ("knowledge:" in request.messages[0].content)
        for request in judge.requests
    )
    assert {match.judges[0] for match in played(staged)} == {("first", "first")}


async def test_an_empty_answer_loses_and_equal_answers_tie_without_a_judge(tmp_path):
    with stage(tmp_path, 3) as store:
        add_run(store, "silent", ["", "", "middle says 2. strength=2"])
        judge = Scripted(by_strength)
        staged = Stage(store, [judge], runs=("middle", "silent"))
        await staged.play()
        assert judge.requests == []
        ways = sorted((one.how, one.outcomes) for one in staged.judgements)
        assert ways[:4] == [("empty", "11"), ("empty", "11"), ("empty", "22"), ("empty", "22")]
        assert ways[4:] == [("identical", "=="), ("identical", "==")]
        assert [match.panel(0) for match in played(staged)].count("first") == 2


async def test_playing_again_asks_nothing(store):
    judge = Scripted(by_strength)
    await Stage(store, [judge], schedule="adaptive").play()
    asked = len(judge.requests)
    again = Stage(store, [judge], schedule="adaptive")
    await again.play()
    assert len(judge.requests) == asked
    assert sum(one.cost_paid for one in again.judgements) == pytest.approx(0.001 * asked)


async def test_a_failed_call_is_missing_and_asked_again_next_time(store):
    broken = True
    judge = Scripted(lambda prompt, o: CallFailed if broken and "case 3" in prompt else by_strength(prompt))
    staged = Stage(store, [judge])
    await staged.play()
    missing = [match for match in played(staged) if match.panel(0) is None]
    assert len(missing) == 3
    broken = False
    await Stage(store, [judge]).play()
    assert {match.panel(0) for match in played(staged)} == {"first"}
    assert len(staged.judgements) == 72


async def test_an_unparsable_verdict_is_missing_on_its_axis_alone(store):
    judge = Scripted(lambda prompt, occurrence: json.dumps({"usefulness": shown(prompt)[0][0], "knowledge": "both"}))
    staged = Stage(store, [judge], tries=2)
    await staged.play()
    assert {match.judges[0] for match in played(staged)} == {("tie", None)}
    assert len(judge.requests) == 36 * 2 * 2


async def test_the_budget_stops_the_schedule_and_says_so(store):
    judge = Scripted(by_strength, price=0.125)  # sums without rounding: 20 calls cost the budget, and no more
    staged = Stage(store, [judge])
    said = await staged.play(max_cost=2.5, concurrency=1)
    assert "$2.5" in said
    assert "26 matches" in said
    assert len(judge.requests) == 20
    # Going on with the same budget asks nothing; with a larger one, the rest.
    await Stage(store, [judge]).play(max_cost=2.5, concurrency=1)
    assert len(judge.requests) == 20
    assert "every question" in await Stage(store, [judge]).play(max_cost=50.0)
    assert len(judge.requests) == 72


@pytest.mark.parametrize(
    ("limit", "said"), [({"max_tokens": 2_000}, "2,000 tokens"), ({"max_seconds": 0.0}, "time budget of")]
)
async def test_tokens_and_time_have_limits_too(store, limit, said):
    judge = Scripted(by_strength)
    ended = await Stage(store, [judge]).play(concurrency=1, **limit)
    assert said in ended
    assert "matches of the schedule were not played" in ended
    asked = len(judge.requests)
    assert asked < 72
    assert "every question" in await Stage(store, [judge]).play()
    assert len(judge.requests) == 72


async def test_a_budget_needs_a_price(store):
    with pytest.raises(UserError, match="price_input"):
        await Stage(store, [Scripted(by_strength, price=None)]).play(max_cost=1.0)


async def test_a_judge_that_cannot_be_asked_ends_the_arena_and_keeps_what_is_done(store):
    def gone(prompt, occurrence):
        if len(judge.requests) > 10:
            raise StopRun("the key is wrong")
        return by_strength(prompt)

    judge = Scripted(gone)
    staged = Stage(store, [judge])
    with pytest.raises(StopRun, match="the key is wrong"):
        await staged.play(concurrency=1)
    assert len(staged.judgements) >= 9


async def test_cut_off_in_the_middle_it_ends_as_if_nothing_had_happened(store, tmp_path):
    calls = []

    def slow(prompt, occurrence):
        calls.append(prompt)
        if len(calls) == 15:
            task.cancel()
        return by_strength(prompt)

    staged = Stage(store, [Scripted(slow)], schedule="published", least=8)
    task = asyncio.ensure_future(staged.play(concurrency=4))
    with pytest.raises(asyncio.CancelledError):
        await task
    await Stage(store, [Scripted(by_strength)], schedule="published", least=8).play()
    with stage(tmp_path / "other") as other:
        whole = Stage(other, [Scripted(by_strength)], schedule="published", least=8)
        await whole.play()
        assert played(staged) == played(whole)


@pytest.mark.usefixtures("sigterm_is_not_handled")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_ctrl_c_lets_what_is_in_flight_finish(store, how):
    def interrupting(prompt, occurrence):
        if len(judge.requests) == 9:
            signal.raise_signal(how)
        return by_strength(prompt)

    judge = Scripted(interrupting)
    staged = Stage(store, [judge])
    with pytest.raises(Interrupted, match="the same call resumes"):
        await staged.play(concurrency=2)
    # Both matches in flight were finished, in both orders, and nothing was begun after them.
    assert len(staged.judgements) == len(judge.requests)
    assert 10 <= len(judge.requests) <= 12
    assert {(len(match.judges[0]), match.panel(0)) for match in played(staged)} == {(2, "first")}
    await Stage(store, [judge]).play()
    assert len(judge.requests) == 72


async def test_answers_that_do_not_fit_the_judge_are_cut_and_told(store):
    judge = Scripted(lambda prompt, occurrence: _say("tie"))
    judge.window = 2060
    staged = Stage(store, [judge])
    await staged.play()
    assert {one.how for one in staged.judgements} == {"cut"}
    judge.window = 100
    with pytest.raises(StopRun, match="window"):
        await Stage(store, [judge], seed=2).play()


async def test_a_judge_that_never_says_anything_is_not_asked_for_ever(store):
    judge = Scripted(lambda prompt, occurrence: "I would rather not.")
    staged = Stage(store, [judge], tries=1)
    assert "20 of the first 20 matches have no verdict" in await staged.play(concurrency=1)
    assert len(judge.requests) == 40


def test_the_live_line_counts_what_was_played(store, capsys):
    from ragrounds.extensions.arena.progress import LiveArena

    judge = Scripted(by_strength)
    staged = Stage(store, [judge])
    with LiveArena(staged.arena) as live:
        staged.heard = live
        live.append = live.observe
        asyncio.run(staged.play())
    assert "36 matches, 72 judge calls, $0.07" in capsys.readouterr().err


def test_a_match_without_verdicts_on_two_axes_is_one_match(store, capsys):
    from ragrounds.extensions.arena.progress import LiveArena

    staged = Stage(store, [Scripted(lambda prompt, occurrence: "I would rather not.")], tries=1)
    with LiveArena(staged.arena) as live:
        staged.heard = live
        live.append = live.observe
        asyncio.run(staged.play(concurrency=1))
    assert "20 matches, 40 judge calls" in (line := capsys.readouterr().err)
    assert line.rstrip().endswith(", 20 without a verdict")


async def test_what_a_broken_off_match_paid_is_on_the_bill_of_the_one_that_ends_it(store):
    whole = Stage(store, [Scripted(lambda prompt, occurrence: by_strength(prompt) if occurrence else "?")], seed=1)
    await whole.play()
    cut = Stage(store, [judge := Scripted(lambda prompt, occurrence: "?", name="other")], seed=1)

    def breaks(prompt, occurrence):
        if occurrence and len(judge.requests) > 20:
            raise StopRun("the judge is gone")
        return by_strength(prompt) if occurrence else "?"

    judge.say = breaks
    with pytest.raises(StopRun, match="the judge is gone"):
        await cut.play()
    judge.say = lambda prompt, occurrence: by_strength(prompt) if occurrence else "?"
    await cut.play()
    assert sum(one.calls for one in cut.judgements) == sum(one.calls for one in whole.judgements)
    for staged in (whole, cut):
        paid = sum(one.cost_paid for one in staged.judgements)
        assert paid > 0
        assert paid == pytest.approx(sum(one.cost_uncached for one in staged.judgements))
