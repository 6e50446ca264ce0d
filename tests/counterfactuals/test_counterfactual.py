"""Counterfactuals on a real loopback server: what is asked again, what is found, and that runs never mix with them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.contracts import Request
from ragrounds.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls, searches_by
from ragrounds.records import Reply
from tests.servers.scripted_http import Scripted, scripted

LETTERS = "ABCD"
MARK = re.compile(r"FACT(\d+): the right option of it is ([A-D])")
NUMBER = re.compile(r"case number (\d+)\b")
N = 40


@pytest.fixture
def benchmark(tmp_path: Path) -> str:
    """Questions, and a corpus in which one document says the answer of each."""
    corpus = tmp_path / "corpus"
    (corpus / "qrels").mkdir(parents=True)
    documents, questions = [], []
    for place in range(N):
        right = LETTERS[place % 4]
        text = f"Report on case number {place}. FACT{place}: the right option of it is {right}."
        documents.append({"_id": f"d{place}", "title": f"Case {place}", "text": text})
        questions.append(
            {
                "id": f"q{place}",
                "question": f"What holds for case number {place}?",
                "options": {letter: f"finding {letter}{place}" for letter in LETTERS},
                "answer": right,
                "documents": [f"d{place}"],
            }
        )
    (corpus / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in questions))
    return str(tmp_path)


def reply(prompt: str, before: int) -> str:
    """The letter that the first fact about the case in the prompt says; without one, always A."""
    asked = NUMBER.findall(prompt)
    said = next((letter for number, letter in MARK.findall(prompt) if asked and number == asked[-1]), "A")
    return json.dumps({"step_by_step_thinking": "As it says.", "answer_choice": said})


@contextmanager
def made(
    benchmark: str, agents: list[str], epochs: int = 1
) -> Iterator[tuple[Scripted, dict[str, object], rr.RunResult]]:
    with scripted(reply) as server:
        where: dict[str, object] = {"home": f"{benchmark}/home", "progress": False}
        run = rr.run(
            f"jsonl:{benchmark}/q.jsonl", agents, corpus=f"beir:{benchmark}/corpus", model="openai:m",
            base_url=server.url, epochs=epochs, **where,
        )  # fmt: skip
        yield server, where, run


def changes_of(found: object) -> dict[str, object]:
    return {one.change: one for one in found.result.record.effects}  # type: ignore[attr-defined]


def test_what_a_passage_did_is_found(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=3]", "direct"]) as (server, where, run):
        found = rr.counterfactual(
            run.ids, changes=["drop[passage=gold]", "keep[passage=gold]", "none", "reverse"], **where
        )
        asked = Counter(json.dumps(body["messages"]) for body in server.bodies)
        again = rr.counterfactual(
            run.ids, changes=["drop[passage=gold]", "keep[passage=gold]", "none", "reverse"], **where
        )
        assert Counter(json.dumps(body["messages"]) for body in server.bodies) == asked  # stored: nothing is asked
    effects = changes_of(found)
    rag = [one for one in found.result.record.effects if one.agent.startswith("vanilla")]
    drop, keep, none, reverse = (next(one for one in rag if one.change == name) for name in (
        "drop[passage=gold]", "keep[passage=gold]", "none", "reverse"))  # fmt: skip
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
    assert drop.known.difference == 0.0
    assert drop.unknown.difference == -1.0
    assert again.result.record == found.result.record


def test_before_the_change_nothing_is_asked_again(benchmark: str) -> None:
    """Counted at the server: what an attempt asks before its search is never sent again."""
    with made(benchmark, ["plan_search"]) as (server, where, run):
        before = [json.dumps(body["messages"]) for body in server.bodies]
        rr.counterfactual(run.ids, changes=["drop[passage=1]"], samples=1, **where)
        later = [json.dumps(body["messages"]) for body in server.bodies][len(before) :]
        planning = set()
        with Store(Path(str(where["home"]))) as store:
            (parent,) = store.runs()
            first = {}
            for attempt in store.attempts(parent):
                first[attempt.question_id] = key = next(calls(attempt.events)).key
                recorded = store.call(key, Request, Reply)
                assert recorded is not None
                planning.add(recorded[0].messages[-1].content)
            for one in store.counterfactuals(parent):
                for attempt in store.attempts(one):
                    call = next(calls(attempt.events))
                    assert (call.key, call.cached) == (first[attempt.question_id], True)
    assert len(planning) == N
    assert not planning & {json.loads(messages)[-1]["content"] for messages in later}
    assert len(later) >= 2 * N  # behind the search the identity asks again, and the change asks anew


def test_later_searches_follow_from_the_change(benchmark: str) -> None:
    with made(benchmark, ["ircot[top_k=1,steps=2]"]) as (_, where, run):
        found = rr.counterfactual(run.ids, changes=["swap[passage=1]", "none[search=last]"], samples=1, **where)
        with Store(Path(str(where["home"]))) as store:
            (parent,) = store.runs()
            attempts = {one.question_id: one for one in store.attempts(parent)}
            (swapped,) = (
                one for one in store.counterfactuals(parent) if "swap" in one.identity["counterfactual"]["change"]
            )
            for attempt in store.attempts(swapped):
                then = searches_by(store, attempts[attempt.question_id])
                now = searches_by(store, attempt)
                assert then[0] == now[0]  # the journal keeps what was found; the attempt got something else
                [shown] = [call.passages for call in calls(attempt.events) if call.kind == "search"][:1]
                assert shown != tuple(one.id for one in then[0].passages)
    effects = changes_of(found)
    assert effects["swap[passage=1]"].reached.value == 1.0  # type: ignore[attr-defined]
    assert {"identity[search=first]", "identity[search=last]"} <= set(effects)


def test_an_added_text_is_argued_for(benchmark: str) -> None:
    poison = Path(benchmark) / "poison.txt"
    poison.write_text("A newer report\n{question} It is {wrong}, surely, and {{question}} is text.")

    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (server, where, run):
        server.script = lambda prompt, before: json.dumps(
            {"answer_choice": next((letter for letter in LETTERS if f"It is finding {letter}" in prompt), "A")}
        )
        found = rr.counterfactual(run.ids, changes=[f"add[file={poison}]"], samples=1, **where)
        sent = [body["messages"][-1]["content"] for body in server.bodies]
    (effect,) = (one for one in found.result.record.effects if not one.is_identity)
    assert effect.argued.value == 1.0
    assert effect.argued_before.value == 0.0
    assert effect.after.value == 0.0
    assert any("A newer report" in prompt for prompt in sent)


def test_who_cites_what_changes_nothing_cites_after_the_fact(benchmark: str) -> None:
    """The model names the first document, and answers A whatever stands there, but for every fourth question."""

    def said(prompt: str, before: int) -> str:
        number = int(NUMBER.findall(prompt)[-1])
        letter = "A" if number % 4 else next((one for n, one in MARK.findall(prompt) if int(n) == number), "B")
        return json.dumps({"step_by_step_thinking": "By Document [0].", "answer_choice": letter})

    with made(benchmark, ["vanilla_rag[top_k=2]"]) as (server, where, run):
        server.script = said
        found = rr.counterfactual(run.ids, changes=["drop[passage=1]", "drop[passage=2]"], journal="fresh", **where)
        table = found.result.table
        html = rr.report(run.ids, Path(benchmark) / "r.html", home=where["home"]).read_text()
    first, second = (one for one in found.result.record.effects if not one.is_identity)
    # The parent's answers are of the first script, which names no document.
    assert first.cited.value == second.cited.value == 0.0
    assert first.cited_unmoved is None
    assert "cite" not in table.note
    assert "What each change of the evidence does to the score" in html
    assert '<path fill="var(--line)"' in html
    with scripted(said) as server:
        home = f"{benchmark}/other"
        run = rr.run(f"jsonl:{benchmark}/q.jsonl", ["vanilla_rag[top_k=2]"], corpus=f"beir:{benchmark}/corpus",
                     model="openai:m", base_url=server.url, home=home, progress=False)  # fmt: skip
        found = rr.counterfactual(run.ids, changes=["drop[passage=1]", "drop[passage=2]"], home=home, progress=False)
    first, second = (one for one in found.result.record.effects if not one.is_identity)
    assert (first.cited.value, second.cited.value) == (1.0, 0.0)
    assert first.cited_unmoved.value == pytest.approx(0.75)
    assert "they cite after the fact" in found.result.table.note


def test_questions_are_drawn_until_it_is_known(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        found = rr.counterfactual(run.ids, changes="none", samples=1, until=10, **where)
        none = changes_of(found)["none"]
        assert (none.questions, none.verdict) == (32, "effect")  # type: ignore[attr-defined]
        assert none.difference.p_always < 0.05  # type: ignore[attr-defined]
        assert none.difference.low < none.difference.difference < none.difference.high < 0  # type: ignore[attr-defined]
        assert "holds at any number" in found.result.table.note
        with pytest.raises(UserError, match=r"drew its questions with .seed. 0 before"):
            rr.counterfactual(run.ids, changes="none", samples=1, until=10, seed=1, **where)
        # What is not known at 32 goes on to the last question, and is then like any other.
        found = rr.counterfactual(run.ids, changes="reverse", samples=1, until=10, **where)
        reverse = changes_of(found)["reverse"]
        assert (reverse.questions, reverse.difference.p_always) == (N, None)  # type: ignore[attr-defined]
        with pytest.raises(UserError, match=r"until. is 0; expected points"):
            rr.counterfactual(run.ids, changes="reverse", samples=1, until=0, **where)


def test_the_last_question_of_those_that_the_scorer_reads_is_the_last(benchmark: str) -> None:
    """Other questions, of another scorer, are not waited for."""
    with Path(f"{benchmark}/q.jsonl").open("a") as file:
        for place in range(N):
            line = {"id": f"long{place}", "question": f"Why {place}?", "answer": "So.", "facts": [["so"]]}
            file.write(json.dumps(line) + "\n")
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        found = rr.counterfactual(run.ids, changes="none", samples=1, until=1, **where)
    none = changes_of(found)["none"]
    assert (none.questions, none.difference.n, none.difference.p_always) == (N, N, None)  # type: ignore[attr-defined]
    assert none.difference.difference == pytest.approx(-0.75)  # type: ignore[attr-defined]


def test_failures_are_no_effect(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=2]"]) as (server, where, run):
        rr.counterfactual(run.ids, changes="reverse", samples=1, **where)
        server.script = lambda prompt, before: None if int(NUMBER.findall(prompt)[-1]) < 10 else reply(prompt, before)
        found = rr.counterfactual(run.ids, changes="duplicate[passage=1]", samples=1, **where)
        effects = changes_of(found)
        failing = effects["duplicate[passage=1]"]
        assert (failing.failed, failing.difference.difference) == (10, -0.25)  # type: ignore[attr-defined]
        assert failing.settled.difference == 0.0  # type: ignore[attr-defined]
        assert failing.verdict == "open: failures"  # type: ignore[attr-defined]
        server.script = lambda prompt, before: None
        found = rr.counterfactual(run.ids, changes="none", samples=1, **where)
        assert found.result.record.unanswered == ("none of vanilla_rag[top_k=2]",)
        assert "Without any answer, and left out: none of vanilla_rag" in found.result.table.note
        with Store(Path(str(where["home"]))) as store:
            counts = {one.agent: len(store.summaries(one)) for one in store.counterfactuals(store.runs()[0])}
        assert N in counts.values()


def test_counterfactuals_are_no_runs(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        rr.counterfactual(run.ids, changes=["none"], samples=1, limit=10, **where)
        home = Path(str(where["home"]))
        with Store(home) as store:
            (parent,) = store.runs()
            changed = store.counterfactuals(parent)
            assert len(changed) == 2
            assert {len(store.done(one)) for one in changed} == {10}
        with pytest.raises(UserError, match="is a counterfactual: it is read with the run that it changes"):
            rr.compare([parent.id, changed[0].id], home=home)
        assert [one.id for one in rr.runs(home=home)] == [parent.id]
        found = rr.analyse("evidence", parent.id, home=home)
        assert {one.questions for one in found.result.record.effects} == {10}


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_a_wrong_change_is_refused_in_a_line(benchmark: str, change: str, said: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run), pytest.raises(UserError) as refused:
        rr.counterfactual(run.ids, changes=[change], samples=1, limit=2, **where)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_queries_and_models(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=1]", "direct"], epochs=2) as (server, where, run):
        found = rr.counterfactual(
            run.ids,
            changes=['query[text="case number 0"]', 'model[model="openai:other"]'],
            samples=1,
            limit=24,
            **where,
        )
        names = Counter(body["model"] for body in server.bodies)
    rag = {one.change: one for one in found.result.record.effects if one.agent.startswith("vanilla")}
    assert rag['query[text="case number 0"]'].verdict == "effect"
    assert names["other"] == 24 * 2 * 2
    direct = {one.change: one for one in found.result.record.effects if one.agent == "direct"}
    assert direct['query[text="case number 0"]'].touched.value == 0.0


def test_an_added_text_need_not_stay_where_it_was(benchmark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read once, where the command is given, and kept with the counterfactual."""
    elsewhere = Path(benchmark) / "elsewhere"
    elsewhere.mkdir()
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (server, where, run):
        monkeypatch.chdir(elsewhere)
        Path("poison.txt").write_text("A newer report\nIt is {wrong}, surely.")
        rr.counterfactual(run.ids, changes=["add[file=poison.txt]"], samples=1, limit=4, **where)
        assert sum("A newer report" in body["messages"][-1]["content"] for body in server.bodies) == 4
    Path("poison.txt").unlink()
    found = rr.analyse("evidence", run.ids, home=str(where["home"]))
    assert {one.change for one in found.result.record.effects} == {"identity[search=first]", "add[file=poison.txt]"}


def test_passages_removed_one_by_one_are_set_against_all_together(benchmark: str) -> None:
    changes = ["drop[passage=1]", "drop[passage=2]", "drop[passage=2,search=last]", "drop[passage=d3]", "none"]
    with made(benchmark, ["vanilla_rag[top_k=2]"]) as (_, where, run):
        found = rr.counterfactual(run.ids, changes=changes, samples=1, limit=4, **where)
    assert "2 passages removed one by one" in found.result.table.note


def test_each_text_of_an_added_file_has_its_own_effect(benchmark: str, tmp_path: Path) -> None:
    file = tmp_path / "added.txt"
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        for limit, text in ((3, "First\nNothing."), (5, "Second\nNothing."), (3, "First\nNothing.")):
            file.write_text(text)
            found = rr.counterfactual(run.ids, changes=f"add[file={file}]", samples=1, limit=limit, **where)
    added = [one for one in found.result.record.effects if not one.is_identity]
    assert [one.questions for one in added] == [3, 5]
    assert len({row[0] for row in found.result.table.rows}) == 3


def test_what_was_changed_before_draws_no_further_questions(benchmark: str) -> None:
    with made(benchmark, ["vanilla_rag[top_k=1]"]) as (_, where, run):
        rr.counterfactual(run.ids, changes="reverse", samples=1, limit=1, **where)
        found = rr.counterfactual(run.ids, changes="none", samples=1, until=90, **where)
    assert changes_of(found)["none"].questions == 32
