"""Wrappers over other agents on scripted replies: who is asked what, what is shared, limits, and any reply at all."""

from __future__ import annotations

from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragrounds.agents.agent import open_agent, subagent, with_retriever
from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Reply, TokenLogprob, Usage
from ragrounds.evals.trace.traces import steps
from ragrounds.graphs.best_of import read_choice
from ragrounds.graphs.cascade import read_confidence
from tests.graphs.playing import CHOICE, LONG, play, text_of
from tests.graphs.test_any_model import EXAMPLES, REPLIES
from tests.graphs.test_strategies import HostileScript, pays_for_no_call_twice, short

WRAPPERS = (
    "self_consistency[samples=3]",
    "self_consistency[of=ircot[steps=2],samples=2]",
    "cascade[samples=3]",
    "cascade[when=confidence]",
    "cascade[when=probability]",
    "cascade[then=self_consistency[samples=2],when=abstention]",
    "best_of[of=vanilla_rag[top_k=2],samples=3]",
)
MOST = (3, 6, 4, 3, 2, 3, 4)
"""The most model calls of each."""
NODES = (
    "draw/answer",
    "draw/reason draw/answer",
    "draw/answer then/answer",
    "draw/answer decide then/answer",
    "draw/answer then/answer",
    "draw/answer then/draw/answer",
    "draw/answer judge",
)
"""Nodes of each that ask the model, after the nodes around them."""


def said(letter: str) -> str:
    return f'{{"step_by_step_thinking": "…", "answer_choice": "{letter}"}}'


A, B, C = map(said, "ABC")


@pytest.mark.parametrize(
    ("agent", "script", "calls", "answer", "notes"),
    [
        ("self_consistency[samples=3]", [A, B, B], "ma ma ma", B, []),
        ("self_consistency[samples=4]", [A, B, B, A], "ma ma ma ma", A, []),
        ("self_consistency[samples=3]", ["Who knows?", "?", C], "ma ma ma", C, []),
        ("self_consistency[samples=2]", ["Who knows?", "?"], "ma ma", "Who knows?", ["no_votes"]),
        ("self_consistency[of=vanilla_rag[top_k=1],samples=1]", [B], "s ma", B, []),
        ("cascade[samples=3]", [A, A, A], "ma ma ma", A, ["certainty"]),
        ("cascade[samples=3]", [A, A, B, C], "ma ma ma s ma", C, ["certainty"]),
        ("cascade[samples=3,threshold=0.6]", [B, A, A], "ma ma ma", A, ["certainty"]),
        ("cascade[when=confidence]", [A, '{"confidence": 70}'], "ma mj", A, ["certainty"]),
        ("cascade[when=confidence]", [A, "69 %", B], "ma mj s ma", B, ["certainty"]),
        ("cascade[when=confidence]", [A, "Very.", B], "ma mj s ma", B, ["certainty"]),
        ("cascade[when=abstention]", [A], "ma", A, ["certainty"]),
        ("cascade[when=abstention]", ["I do not know.", B], "ma s ma", B, ["certainty"]),
        ("cascade[when=probability]", [A, B], "ma s ma", B, ["certainty"]),
        ("best_of[samples=2]", [A, A], "ma ma", A, []),
        ("best_of[samples=2]", [A, B, "no"], "ma ma mj", A, ["unreadable_choice"]),
        ("cascade[first=cascade[when=abstention],when=abstention]", [A], "ma", A, ["certainty", "certainty"]),
    ],
)
async def test_scripted_replies_give_these_calls_and_this_answer(agent, script, calls, answer, notes):
    played = await play(agent, script)
    assert played.attempt.status == "completed", played.attempt.reason
    assert (short(played.calls), played.attempt.text, played.notes) == (calls, answer, notes)


async def test_an_answer_of_the_judges_choice():
    def script(request):
        asked = text_of(request)
        if "### Answer 1" not in asked:
            return next(texts)
        return f'{{"best": {1 if asked.index(C) < asked.index(A) else 2}}}'

    texts = iter([A, C])
    assert (await play("best_of[samples=2]", script)).attempt.text == C


@pytest.mark.parametrize(("logprob", "answer"), [(-0.1, A), (-0.9, B)])
async def test_a_reply_that_is_probable_enough_is_kept(logprob, answer):
    def script(request):
        tokens = (TokenLogprob("x", logprob), TokenLogprob("y", logprob)) if request.logprobs is not None else None
        return Reply(text=A if tokens else B, usage=Usage(), logprobs=tokens)

    assert (await play("cascade[when=probability]", script)).attempt.text == answer


async def test_samples_are_the_agents_own_attempts_and_are_shared():
    """Sample 0 is the agent's call of epoch 0; more samples, another wrapper and a cascade find them in the journal."""
    texts = cycle([A, B, C])
    agents = ["direct_cot", "self_consistency[samples=2]", "best_of[samples=2]", "cascade[samples=3]"]
    made = []
    for count in range(1, 5):
        played = await play(agents[:count], lambda request: next(texts))
        made.append(len([one for one in played.model.requests if "Answer 1" not in text_of(one)]))
    # One, one more sample, none, a third; by agreement the cascade then asks its second agent.
    assert made == [1, 2, 2, 4]


async def test_steps_of_the_agent_inside_stand_inside_the_wrappers():
    played = await play("cascade[first=vanilla_rag,when=abstention,then=self_consistency[samples=2]]", ["?", A, B])
    found = [(step.node, step.parent) for step in steps(played.attempt.events)]
    names = dict(enumerate(node for node, _ in found))
    assert [(node, names.get(parent, "")) for node, parent in found] == [
        ("draw", ""), ("retrieve", "draw"), ("answer", "draw"), ("decide", ""), ("then", ""), ("draw", "then"),
        ("draw", "then"), ("answer", "draw"), ("answer", "draw"), ("answer", "then"),
    ]  # fmt: skip


@pytest.mark.parametrize(("agent", "most"), [*zip(WRAPPERS, MOST, strict=True)])
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=6),
    question=st.sampled_from([CHOICE, LONG]),
    window=st.sampled_from([None, 300, 3000]),
)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
async def test_whatever_the_model_says_an_attempt_ends_within_its_limits(agent, most, replies, question, window):
    texts = cycle(replies)
    played = await play(agent, lambda request: next(texts), question, window=window)
    assert played.attempt.status == "completed", played.attempt.reason
    assert played.attempt.model_calls <= most
    assert played.attempt.text in {one if isinstance(one, str) else one.text for one in replies}


@pytest.mark.parametrize(("agent", "nodes"), [*zip(WRAPPERS, NODES, strict=True)])
async def test_hostile_replies_at_every_node(agent, nodes):
    script = HostileScript("?")  # a cascade goes on to its second agent
    async for played, replies in script.attempts(agent):
        assert played.attempt.status == "completed", (replies, played.attempt.reason)
    assert script.unsent == {node: [] for node in nodes.split()}


@pytest.mark.parametrize(("cap", "calls"), [("calls=1", 1), ("tokens=15", 1), ("cost=0.001", 1), ("calls=2", 2)])
@pytest.mark.parametrize("agent", ["self_consistency[of=ircot[steps=2],samples=1]", WRAPPERS[3], WRAPPERS[5]])
async def test_caps_hold_for_the_sum(agent, cap, calls):
    """What is asked one after the other; attempts at the same time are all begun before the first has ended."""
    capped = f"{agent[:-1]},limits.{cap}]"
    played = await play(capped, lambda request: Reply(text="?", usage=Usage(input=10, output=5)))
    assert played.attempt.status == "capped"
    assert played.attempt.model_calls <= calls


@pytest.mark.parametrize("agent", WRAPPERS)
async def test_a_cap_of_calls_holds_for_samples_at_the_same_time(agent):
    played = await play(f"{agent[:-1]},limits.calls=1]", lambda request: "?")
    assert played.attempt.status == "capped"
    assert played.attempt.model_calls + played.attempt.searches == 1


@pytest.mark.parametrize("agent", WRAPPERS)
async def test_an_attempt_that_was_killed_pays_for_no_call_twice(agent):
    await pays_for_no_call_twice(agent, "One.")


async def test_options_are_no_part_of_what_inner_agents_search_for():
    """Each agent inside keeps to question-only retrieval by itself: what one has answered is unknown to the other."""
    played = await play("cascade[first=direct_cot,then=ircot[steps=2],when=confidence]", [A, "1", "One.", "Two.", B])
    assert played.attempt.status == "completed", played.attempt.reason
    assert "zq" not in " ".join(played.shelf.queries)
    assert ["zq" in text_of(request) for request in played.model.requests] == [True, True, False, False, True]


def test_texts_are_canonical_and_what_has_no_effect_is_refused(tmp_path):
    assert open_agent("self_consistency[of=direct[prompting=direct],samples=5]").spec == "self_consistency[of=direct]"
    nested = "cascade[first=direct,then=self_consistency[of=vanilla_rag[top_k=2],samples=3]]"
    assert open_agent(nested).spec == nested
    assert [one.name for one in open_agent(nested).with_inner] == [
        "cascade",
        "direct",
        "self_consistency",
        "vanilla_rag",
    ]
    assert with_retriever(nested, "maxp[of=bm25]") == nested.replace("[top_k=2]", "[retriever=maxp[of=bm25],top_k=2]")
    outer = open_agent("best_of[judge=openai:j,model=openai:m,of=self_consistency[of=direct]]")
    assert [one.card.models for one in outer.with_inner] == [{"judge": "openai:j", "model": "openai:m"}] + [
        {"model": "openai:m"}
    ] * 2
    file = tmp_path / "mine.toml"
    file.write_text('graph = "self_consistency"\n[parameters]\nof = "./mine.toml"\nsamples = 2\n')
    for wrong, words in {
        "self_consistency[retriever=bm25]": "for the agent inside: of=AGENT",
        "self_consistency[of=direct[limits.calls=2]]": "hold for all agents inside",
        "self_consistency[of=nothing]": "Unknown agent",
        str(file): "more than 4 deep",
        "vanilla_rag[query_generation=answer[agent=best_of]]": "cannot run inside another",
    }.items():
        with pytest.raises(UserError, match=words):
            subagent(open_agent(wrong))


@pytest.mark.parametrize("agent", ["cascade[when=never]", "cascade[threshold=x]", "self_consistency[samples=0]"])
async def test_a_parameter_that_cannot_be_is_refused(agent):
    with pytest.raises(UserError, match=r"when|number"):
        await play(agent, lambda request: A)


def test_what_judges_write_is_read_leniently():
    assert [read_choice(text, 3) for text in ('{"best": 2}', "Answer 3.", "4", "0", "", '{"best": true}')] == [
        2, 3, None, None, None, None
    ]  # fmt: skip
    assert [read_confidence(text) for text in ('{"confidence": 50}', "80%", "-1", "1e9", '{"confidence": NaN}')] == [
        0.5, 0.8, None, None, None
    ]  # fmt: skip


async def test_long_answers_agree_where_their_words_do():
    asked = Question(id="q/3", benchmark="test/long", text="What?", kind="long")
    played = await play("self_consistency[samples=3]", ["One", " Two  words", "two words"], asked)
    assert played.attempt.text == " Two  words"
