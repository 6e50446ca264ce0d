"""An arena and its votes in PostgreSQL are what they are in SQLite."""

from ragrounds.evals.store.arenas import Vote
from ragrounds.extensions.arena.ratings import rate
from ragrounds.extensions.arena.verdicts import combine_judgements, matches_of
from tests.extensions.arena.staging import Stage, by_strength, stage
from tests.judges.doubles import Scripted


async def test_judgements_votes_and_ratings(url, tmp_path):
    votes = [
        Vote(voter=voter, question_id=question, first=first, second=second, axis=axis, outcome=outcome)
        for voter, question, first, second, outcome in (("ann", "q1", 0, 2, "first"), ("bob", "q2", 1, 2, "tie"))
        for axis in ("usefulness", "knowledge")
    ]
    kept = []
    for place in (None, url):
        with stage(tmp_path, 6, place) as store:
            judge = Scripted(by_strength)
            staged = Stage(store, [judge])
            await staged.play()
            await Stage(store, [judge]).play()
            assert len(judge.requests) == 3 * 6 * 2, "what is judged already is not asked again"
            number = staged.keeper.add(staged.arena)
            staged.keeper.add_votes(number, votes)
            staged.keeper.add_votes(number, votes)
            matches = combine_judgements(staged.arena, staged.judgements)
            cast = staged.keeper.votes(number)
            kept.append(
                (
                    sorted((m.question_id, m.first, m.second, m.panel(0), m.panel(1)) for m in matches),
                    rate(matches_of(staged.arena, matches, 0), replicates=50).order,
                    sorted((v.voter, v.question_id, v.first, v.second, v.axis, v.outcome) for v in cast),
                )
            )
    assert kept[0] == kept[1]
    assert len(kept[0][0]) == 18
    assert kept[0][1] == ("strong", "middle", "weak")
    assert len(kept[0][2]) == 4
