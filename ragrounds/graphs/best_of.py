"""`best_of`: several attempts of one agent, and the one that a judge model prefers (Stiennon et al., 2020).

Samples are those of `self_consistency`. The judge (``judge=openai:NAME``, else the agent's model) sees the question
with its options and all answers, without their reasoning in tags, in an order sampled by question and epoch. Answers
that are alike are not judged.

Sees the options: the agent inside, as it does alone, and `judge`. Differs: a model is asked in words, where the paper
trains a reward model. Notices: `unreadable_choice` (the first sample is taken).
"""

from __future__ import annotations

import random
import re

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import question_with_options
from ragrounds.graphs.model_text import ending, without_thought
from ragrounds.graphs.samples import Samples, attempts, draw
from ragrounds.graphs.shapes import ask_object, read_object, vote
from ragrounds.graphs.state import Graph, Runtime, State

AGENTS = ("of",)
PROMPTS = ("best_of/judge",)


def build() -> Graph:
    """Build the graph START → draw, once for each sample → judge → END."""
    return vote(Samples, attempts=attempts, attempt=draw, after=[judge])


async def judge(state: Samples, runtime: Runtime[Context]) -> State:
    """Ask the judge model for the best answer."""
    context, samples = runtime.context, state["drawn"]
    # In reverse, so that of equal answers the first sample's index stays.
    order = list({sample.text: index for index, sample in reversed(list(enumerate(samples)))}.values())
    random.Random(context.seed).shuffle(order)
    preferred = samples[0]
    if len(order) > 1:
        question = question_with_options(context)

        def prompt(answers: str) -> tuple[Message, ...]:
            """Render the prompt with these answers."""
            return context.prompts.render("best_of/judge", context.stem.language, question=question, answers=answers)

        room = context.room(prompt(""), role="judging")
        room_for_each = None if room is None else room // len(order) - 8
        texts = [
            ending(context, without_thought(samples[index].text), room_for_each, role="judging") for index in order
        ]
        listed = "\n\n".join(f"### Answer {number}\n{text}" for number, text in enumerate(texts, 1))
        best_field = {"type": "integer", "minimum": 1, "maximum": len(order)}
        reply = await ask_object(context, prompt(listed), {"best": best_field}, role="judging")
        best = read_choice(reply, len(order))
        if best is None:
            context.note("unreadable_choice", "the judge names no answer; the first sample is taken")
        else:
            preferred = samples[order[best - 1]]
    return {"answer": preferred.text, "choice": preferred.choice}


def read_choice(text: str, answer_count: int) -> int | None:
    """Return the number of the answer that a judge names, from 1; ``None`` if it names none."""
    value: object = read_object(text).get("best")
    if value is None and (match := re.fullmatch(r"[^\d-]{0,30}?(\d{1,3})\W*", text.strip())):
        value = int(match[1])
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= answer_count else None
