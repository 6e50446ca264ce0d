import io
import re

import pytest
from rich.console import Console

from ragrounds.base.errors import UserError
from ragrounds.evals.store.arenas import Vote
from ragrounds.extensions.arena.cli import vote
from ragrounds.extensions.arena.functions import Voting, voting
from ragrounds.extensions.arena.verdicts import ballots, combine_judgements, matches_of_votes
from tests.extensions.arena.staging import Stage, add_run, by_strength, stage
from tests.judges.doubles import Scripted


@pytest.fixture
async def staged(tmp_path):
    with stage(tmp_path, 6) as store:
        ready = Stage(store, [Scripted(by_strength)])
        await ready.play()
        yield ready


def votes_of(ready, voter, *axes):
    names = axes or tuple(axis.name for axis in ready.arena.axes)
    return Voting(arena_store=ready.keeper, arena=ready.arena, lineup=ready.field, voter=voter, axes=names)


async def test_a_vote_is_kept_once_and_a_skipped_pair_is_no_match(staged):
    given = [("ann", "q1", 0, 2, "usefulness", "first"), ("bob", "q2", 0, 1, "usefulness", "tie")]
    given += [("bob", "q2", 0, 1, "knowledge", "tie"), ("human", "q3", 1, 2, "knowledge", "skip")]
    names = ("voter", "question_id", "first", "second", "axis", "outcome")
    votes = [Vote(**dict(zip(names, one, strict=True))) for one in given]
    number = staged.keeper.add(staged.arena)
    staged.keeper.add_votes(number, votes)
    staged.keeper.add_votes(number, votes)
    assert len(staged.keeper.votes(number)) == 4
    matches = matches_of_votes(staged.arena, votes, "usefulness")
    assert matches.score.tolist() == [1.0, 0.5]
    assert len(matches_of_votes(staged.arena, votes, "knowledge")) == 1


async def test_ballots_are_blind_and_in_random_order(staged):
    played = combine_judgements(staged.arena, staged.judgements)
    drawn = list(ballots(staged.arena, staged.field, played, [], "ann"))
    assert len(drawn) == 18
    assert {(b.left_system < b.right_system) for b in drawn} == {True, False}
    assert [b.question_id for b in drawn] != sorted(b.question_id for b in drawn)
    one = drawn[0].vote("ann", "usefulness", "first")
    assert one.outcome == ("first" if drawn[0].left_system < drawn[0].right_system else "second")
    rest = list(ballots(staged.arena, staged.field, played, [one], "ann"))
    assert len(rest) == 17
    assert len(list(ballots(staged.arena, staged.field, played, [one], "bob"))) == 18


async def test_votes_are_cast_with_keys_and_kept_one_by_one(staged):
    keys = iter(["1", "x", "t", "2", "s", "q"])
    out = io.StringIO()
    console = Console(file=out, width=120)
    count = vote(votes_of(staged, "ann"), key=lambda: next(keys), console=console)
    votes = staged.keeper.votes(staged.keeper.add(staged.arena))
    assert count == len(votes) == 4
    assert sorted(v.outcome for v in votes if v.axis == "knowledge") == ["skip", "tie"]
    assert re.search(r"strength=\d", out.getvalue())  # an answer is shown; which one depends on the order
    assert not any(name in out.getvalue() for name in ("strong-1", "openai"))


async def test_voting_goes_on_where_it_stopped_and_keeps_to_a_limit(staged):
    def cast(limit):
        opened = votes_of(staged, "ann", "usefulness")
        return vote(opened, limit, key=lambda: "1", console=Console(file=io.StringIO()))

    assert cast(5) == 5
    assert cast(None) == 13
    assert cast(None) == 0


async def test_hostile_answers_are_shown_as_text(tmp_path):
    with stage(tmp_path, 2) as store:
        add_run(store, "evil", ["[bold red]strength=5[/] \x1b[2J"] * 2)
        ready = Stage(store, [Scripted(by_strength)], runs=("weak", "evil"))
        await ready.play()
        out = io.StringIO()
        vote(votes_of(ready, "a"), key=lambda: "q", console=Console(file=out, width=100))
    assert "[bold red]" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


async def test_an_unknown_axis_is_told(staged, tmp_path, monkeypatch):
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path))
    with pytest.raises(UserError, match="usefulness"), voting("", "ann", ["usefullness"]):
        pass
    with voting("", "ann") as opened:
        assert opened.axes == ("usefulness", "knowledge")
