"""`debate`: agents answer, are shown what the others answered, answer again, and the majority counts (Du et al., 2023).

Each of `agents` (3) answers on its own; in every further one of `rounds` (2, the first included) each sees its own
last answer and those of the others. The answer that most agents give in the last round is taken, the earlier one of
equals. With ``final=moderator`` one more call decides; with ``personas=true`` the agents are a bold thinker, a critic
and a decider in turn: both together are MedAgentsBench's multi-persona arm.

Sees the options: `speak` and `answer`; nothing is searched. Differs: an agent sees its last answer, not all its turns.
A long question has no majority: a moderator writes its answer. Agents that are asked the same are samples of one call,
and differ by the model's temperature alone.
"""

from __future__ import annotations

import operator
from typing import Annotated

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.shapes import vote
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter, switch
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import letter, majority, numbered, say

PROMPTS = (*ANSWERING, *(f"debate/{name}" for name in ("persona1", "persona2", "persona3", "again", "moderate")))

_FINAL = ("majority", "moderator")


class State(Shared, total=False):
    replies: Annotated[list[str], operator.add]
    """All replies, round by round."""
    agent: int
    """Agent of a reply, from 0."""


def build() -> Graph:
    """Build the graph START → convene → speak, for each agent → convene … → answer → END."""

    def attempts(state: State, context: Context) -> list[State]:
        """Return a state for each agent; none after the last round."""
        replies, agents = state.get("replies", []), int_parameter(context, "agents", 3)
        if len(replies) >= agents * int_parameter(context, "rounds", 2):
            return []
        return [{"replies": replies[-agents:], "agent": agent} for agent in range(agents)]

    return vote(State, convene, attempts=attempts, attempt=speak, after=[answer], more={"speak": "convene"})


async def convene(state: State, runtime: Runtime[Context]) -> State:
    """Begin a round, after all agents of the previous round have replied."""
    choice(runtime.context, "final", _FINAL)  # checked before any call is paid for
    return {}


async def speak(state: State, runtime: Runtime[Context]) -> State:
    """Ask an agent for its answer, with the others' last answers if there are any."""
    context, replies, agent = runtime.context, state["replies"], state["agent"]
    role = f"debate/persona{agent % 3 + 1}" if switch(context, "personas", False) else ""
    persona = context.prompts.text(role, context.stem.language) if role else ""
    if not replies:
        return {"replies": [await say(context, role, "answer")]}
    other_answers = numbered([text for index, text in enumerate(replies) if index != agent])
    sections = {"Your last answer": replies[agent], "Answers of the others": other_answers}
    return {"replies": [await say(context, "debate/again", "answer", sections, persona=persona)]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Take the majority's answer, or ask a moderator to decide."""
    context, last = runtime.context, state["replies"][-int_parameter(runtime.context, "agents", 3) :]
    if choice(context, "final", _FINAL) == "moderator" or not context.question.options:
        return {"answer": await say(context, "debate/moderate", "answer", {"Answers": numbered(last)})}
    best = majority([letter(text, context.question.options) for text in last])
    if best < 0:
        context.note("no_majority", "no agent's option could be read; the first one's reply is given")
    return {"answer": last[max(best, 0)]}
