"""Counterfactuals on a real loopback server: what is asked again, what is found, and that runs never mix with them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.base.contracts import Request
from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold, Passage, Question, Reply
from ragrounds.evals.trace.traces import calls, searches_by
from ragrounds.extensions.counterfactual.changes import Change, Target
from tests.extensions.counterfactual.conftest import FACT, LETTERS, NUMBER, N, Parents, reply

ONE, THREE = "vanilla_rag[top_k=1]", "vanilla_rag[top_k=3]"


def by_change(found: Any) -> dict[str, Any]:
    return {effect.change: effect for effect in found.result.record.effects}


def test_what_a_passage_did_is_found(parents: Parents) -> None:
    changes = ["drop[passage=gold]", "keep[passage=gold]", "none", "reverse"]
    made = parents.counterfactual(THREE, changes)
    asked = parents.prompts()
    again = parents.counterfactual(THREE, changes)
    assert parents.prompts() == asked, "what is stored is not asked again"
    assert again.result.record == made.result.record
    found = rr.analyse("evidence", [parents.ids[THREE], parents.ids["direct"]], home=parents.home)
    effects = by_change(found)
    drop, keep, none, reverse = (effects[name] for name in changes)
    assert drop.before.value == 1.0
    assert drop.after.value == none.after.value == pytest.approx(0.25)  # always A
    assert drop.verdict == "effect"
    assert (drop.lost.value, drop.gained.value) == (pytest.approx(0.75), 0.0)
    assert (keep.difference.difference, reverse.difference.difference) == (0.0, 0.0)
    assert {keep.verdict, reverse.verdict} == {"within noise"}
    assert (drop.necessary.value, none.necessary.value) == (pytest.approx(0.75), pytest.approx(0.75))
    assert keep.sufficient.value == 1.0
    assert keep.necessary is reverse.necessary is drop.sufficient is None
    assert "identity[search=first]" in effects
    # direct says A: known are the questions whose answer that is, and they need no passage.
    assert (drop.known.difference, drop.unknown.difference) == (0.0, -1.0)


def test_before_the_change_nothing_is_asked_again(parents: Parents) -> None:
    """Counted at the server: what an attempt asks before its search is never sent again."""
    (parents.home / "prices.toml").write_text('["openai:m"]\ninput = 1000\noutput = 1000\n')
    effect = parents.effects("plan_search", "drop[passage=1]", limit=8)["drop[passage=1]"]
    planning = set()
    with parents.store() as store:
        parent = store.run(parents.ids["plan_search"])
        first = {}
        for attempt in store.attempts(parent):
            first[attempt.question_id] = key = next(calls(attempt.events)).key
            recorded = store.call(key, Request, Reply)
            assert recorded is not None
            planning.add(recorded[0].messages[-1].content)
        made = store.counterfactuals(parent)
        again = [attempt for run in made for attempt in store.attempts(run)]
    calls_again = [next(calls(attempt.events)) for attempt in again]
    assert [(call.key, call.cached) for call in calls_again] == [(first[one.question_id], True) for one in again]
    assert (len(made), len(again), len(planning)) == (2, 2 * 8, N)
    # The dropped passage's attempts: what they asked before the search costs its price, and was not paid again.
    costs = [
        (call.cost_uncached, call.cached)
        for one in again
        for call in calls(one.events)
        if one.run in effect.counterfactuals
    ]
    assert effect.paid == pytest.approx(sum(cost for cost, cached in costs if not cached))
    assert 0 < effect.paid < sum(cost for cost, _ in costs)
    assert not planning & set(parents.prompts())
    assert len(parents.prompts()) >= 2 * 8  # behind the search the identity asks again, and the change asks anew


def test_later_searches_follow_from_the_change(parents: Parents) -> None:
    agent = "ircot[top_k=1,steps=2]"
    effects = parents.effects(agent, ["swap[passage=1]", "none[search=last]"], limit=6)
    with parents.store() as store:
        parent = store.run(parents.ids[agent])
        attempts = {one.question_id: one for one in store.attempts(parent)}
        (swapped,) = (
            one for one in store.counterfactuals(parent) if "swap" in one.identity["counterfactual"]["change"]
        )
        changed = list(store.attempts(swapped))
        assert len(changed) == 6
        for attempt in changed:
            (then, *_), (now, *_) = (searches_by(store, one) for one in (attempts[attempt.question_id], attempt))
            assert then == now  # the journal keeps what was found; the attempt got something else
            shown = next(call.passages for call in calls(attempt.events) if call.kind == "search")
            assert shown != tuple(one.id for one in then.passages)
    assert effects["swap[passage=1]"].reached.value == 1.0
    assert {"identity[search=first]", "identity[search=last]"} <= set(effects)


def passages(*documents: str) -> tuple[Passage, ...]:
    return tuple(
        Passage(id=f"{document}#0", document=document, title="", text=document, corpus="c", rank=rank)
        for rank, document in enumerate(documents, 1)
    )


def test_a_passage_is_swapped_for_none_that_holds_the_answer_or_is_there_already() -> None:
    """Other questions found, at the rank of the swapped passage: a gold document, one that was found, and another."""
    gold = Gold(question_id="q", answer="A", documents=("gold", "gold too"))
    question = Question(id="q", benchmark="b", text="?", options={"A": "yes", "B": "no"})
    others = [passages("x", "gold too"), passages("x", "near"), passages("x"), passages("x", "other")]
    change = Change("swap[passage=gold]")
    found = passages("near", "gold")
    changed = change.kind.passages(change.spec, found, Target(question, gold, "seed", of_others=others))
    assert [(one.document, one.rank) for one in changed] == [("near", 1), ("other", 2)]
    unchanged = change.kind.passages(change.spec, found, Target(question, gold, "seed", of_others=others[:3]))
    assert unchanged == found


def test_an_added_text_is_argued_for(parents: Parents, tmp_path: Path) -> None:
    poison = tmp_path / "poison.txt"
    poison.write_text("A newer report\n{question} It is {wrong}, surely, and {{question}} is text.")
    parents.server.script = lambda prompt, before: json.dumps(
        {"answer_choice": next((letter for letter in LETTERS if f"It is finding {letter}" in prompt), "A")}
    )
    effect = parents.effects(ONE, f"add[file={poison}]", limit=8)[f"add[file={poison}]"]
    assert (effect.argued.value, effect.argued_before.value, effect.after.value) == (1.0, 0.0, 0.0)
    assert any("A newer report" in prompt for prompt in parents.prompts())


def test_who_cites_what_changes_nothing_cites_after_the_fact(tmp_path: Path, parents: Parents) -> None:
    """The model names the first document, and answers A whatever it says, but for every fourth question."""

    def cites(prompt: str, before: int) -> str:
        number = NUMBER.findall(prompt)[-1]
        letters = [letter for fact, letter in FACT.findall(prompt) if fact == number]
        letter = "A" if int(number) % 4 else (letters or ["B"])[0]
        return json.dumps({"step_by_step_thinking": "By Document [0].", "answer_choice": letter})

    parents.server.script = cites
    changes = ["drop[passage=1]", "drop[passage=2]"]
    # The parent's answers name no document.
    silent = parents.counterfactual(THREE, changes, limit=4, journal="fresh")
    where = {"home": parents.home, "progress": False}
    run = rr.run(f"jsonl:{parents.folder}/q.jsonl", "vanilla_rag[top_k=2]", corpus=f"beir:{parents.folder}/corpus",
                 model="openai:m", base_url=parents.server.url, limit=8, **where)  # fmt: skip
    citing = rr.counterfactual(run.ids, changes=changes, samples=1, **where)
    html = rr.report(run.ids, tmp_path / "r.html", home=parents.home).read_text()
    first, second = (effect for effect in silent.result.record.effects if not effect.is_identity)
    assert (first.cited.value, second.cited.value, first.cited_unmoved) == (0.0, 0.0, None)
    assert "cite" not in silent.result.table.note
    first, second = (effect for effect in citing.result.record.effects if not effect.is_identity)
    assert (first.cited.value, second.cited.value) == (1.0, 0.0)
    assert first.cited_unmoved.value == pytest.approx(0.75)
    assert "they cite after the fact" in citing.result.table.note
    assert "What each change of the evidence does to the score" in html
    assert '<path fill="var(--line)"' in html


def test_failures_are_no_effect(parents: Parents) -> None:
    parents.counterfactual(THREE, "reverse")
    parents.server.script = lambda prompt, before: None if int(NUMBER.findall(prompt)[-1]) < 8 else reply(prompt)
    failing = parents.effects(THREE, "duplicate[passage=1]")["duplicate[passage=1]"]
    assert (failing.failed, failing.difference.difference) == (8, -0.5)
    assert failing.settled.difference == 0.0
    assert failing.verdict == "open: failures"
    parents.server.script = lambda prompt, before: None
    found = parents.counterfactual(THREE, "none")
    assert found.result.record.unanswered == (f"none of {THREE}",)
    assert f"Without any answer, and left out: none of {THREE.partition('[')[0]}" in found.result.table.note
    with parents.store() as store:
        made = store.counterfactuals(store.run(parents.ids[THREE]))
        assert [len(store.summaries(one)) for one in made] == [N] * 4


def test_counterfactuals_are_no_runs(parents: Parents) -> None:
    parents.counterfactual(ONE, "none", limit=5)
    with parents.store() as store:
        changed = store.counterfactuals(store.run(parents.ids[ONE]))
        assert [len(store.done(one)) for one in changed] == [5, 5]
    with pytest.raises(UserError, match="is a counterfactual: it is read with the run that it changes"):
        rr.compare([parents.ids[ONE], changed[0].id], home=parents.home)
    assert {one.id for one in rr.runs(home=parents.home)} == set(parents.ids.values())
    found = rr.analyse("evidence", parents.ids[ONE], home=parents.home)
    assert {effect.questions for effect in found.result.record.effects} == {5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("dorp", "'dorp' is no change. Did you mean 'drop'?"),
        ("drop[rank=1]", "drop has no parameter 'rank'"),
        ("none[search=second]", "search is 'second'; expected first, middle, last, all"),
        ("drop[passage=0]", "passage is 0; expected gold, a rank (1, 2, …), or an id"),
        ("identity", "The identity is always measured"),
        ("truncate[share=2]", "expected a number from 0 up to below 1"),
        ("add", "needs file=PATH"),
        ("add[file=nowhere.txt]", "nowhere.txt"),
        ("query", "needs text=…"),
    ],
)
def test_a_wrong_change_is_refused_in_a_line(parents: Parents, change: str, message: str) -> None:
    with pytest.raises(UserError) as refused:
        parents.counterfactual(ONE, change, limit=1)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_queries_and_models(parents: Parents) -> None:
    query = 'query[text="case number 0"]'
    where = {"home": parents.home, "progress": False}
    run = rr.run(f"jsonl:{parents.folder}/q.jsonl", [ONE, "direct"], corpus=f"beir:{parents.folder}/corpus", epochs=2,
                 model="openai:m", base_url=parents.server.url, limit=8, **where)  # fmt: skip
    found = rr.counterfactual(run.ids, changes=[query, 'model[model="openai:other"]'], samples=1, **where)
    effects = {(effect.agent, effect.change): effect for effect in found.result.record.effects}
    assert effects[ONE, query].difference.difference < -0.5
    # Six of eight questions become wrong: 2 / 2**6, times four changes by Holm.
    assert effects[ONE, query].p == pytest.approx(4 * 2 / 2**6)
    assert {row[2] for row in found.result.table.rows} == {"", "-", "0.1250", "1.0000"}
    assert effects["direct", query].touched.value == 0.0
    assert Counter(body["model"] for body in parents.server.bodies)["other"] == 8 * 2 * 2


def test_an_added_text_need_not_stay_where_it_was(
    parents: Parents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read once, where the command is given, and kept with the counterfactual."""
    monkeypatch.chdir(tmp_path)
    Path("poison.txt").write_text("A newer report\nIt is {wrong}, surely.")
    parents.counterfactual(ONE, "add[file=poison.txt]", limit=4)
    assert sum("A newer report" in prompt for prompt in parents.prompts()) == 4
    Path("poison.txt").unlink()
    found = rr.analyse("evidence", parents.ids[ONE], home=parents.home)
    assert set(by_change(found)) == {"identity[search=first]", "add[file=poison.txt]"}


def test_passages_removed_one_by_one_are_set_against_all_together(parents: Parents) -> None:
    changes = ["drop[passage=1]", "drop[passage=2]", "drop[passage=2,search=last]", "drop[passage=d3]", "none"]
    found = parents.counterfactual(THREE, changes, limit=2)
    assert "2 passages removed one by one" in found.result.table.note


def test_each_text_of_an_added_file_has_its_own_effect(parents: Parents, tmp_path: Path) -> None:
    file = tmp_path / "added.txt"
    for limit, text in ((1, "First\nNothing."), (2, "Second\nNothing."), (1, "First\nNothing.")):
        file.write_text(text)
        found = parents.counterfactual(ONE, f"add[file={file}]", limit=limit)
    added = [effect for effect in found.result.record.effects if not effect.is_identity]
    assert [effect.questions for effect in added] == [1, 2]
    assert len({row[0] for row in found.result.table.rows}) == 3
