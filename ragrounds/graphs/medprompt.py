"""`medprompt`: the nearest solved questions with the model's own reasoning, votes on shuffled options.

Nori et al. (2023), Section 4. The `examples` (5) solved questions nearest to this one are reasoned through by the model
itself; where it reaches another answer than the given one, the example is left out. The others are shown as earlier
turns of the conversation.
Of `votes` (5) each shows the options in an order of its own; the letters are mapped back, and the option that most
votes name is the answer, the earlier one of equals.

The solved questions are the prompt `medprompt/examples`, a JSON object a line with `question`, `options`, `answer` and,
where there is any, `reasoning`; those of one's own stand in a folder of prompts.

Sees the options: `solve`; nothing is searched. Differs: nearest by words (TF-IDF), the paper's by embeddings; only the
nearest are reasoned through, once for all questions. A long question has no options to shuffle: it is answered once,
with those examples that have no options.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import random
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ragrounds.contracts import Context
from ragrounds.errors import UserError
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import vote
from ragrounds.graphs.state import Graph, Runtime, switch, whole
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import letter, majority
from ragrounds.records import Message, Question
from ragrounds.text import words

PROMPTS = (*ANSWERING, "medprompt/examples")


class Solved(msgspec.Struct, frozen=True):
    """A solved question."""

    question: str
    answer: str
    """The letter of an option; of a long question, the text."""
    options: dict[str, str] = {}
    reasoning: str = ""


class State(Shared, total=False):
    nearest: list[int]
    """Places in the file, nearest first."""
    shown: list[tuple[int, str]]
    """Places of the examples that are shown, with their answers as the model would give them."""
    number: int
    """Of one vote, from 0."""
    votes: Annotated[list[str], operator.add]
    replies: Annotated[list[str], operator.add]


def build() -> Graph:
    """START → recall → explain → solve, for each vote → answer → END."""
    return vote(State, recall, explain, attempts=_attempts, attempt=solve, after=[answer])


def _attempts(state: State, context: Context) -> list[State]:
    votes = whole(context, "votes", 5) if context.question.options else 1
    return [{"shown": state["shown"], "number": number} for number in range(votes)]


async def recall(state: State, runtime: Runtime[Context]) -> State:
    """Find the nearest solved questions of the same kind; one that is the question itself is left out."""
    context = runtime.context
    solved, vectors, weights = _file(context)
    asked = _vector(context.stem.text, weights)
    near = [
        (sum(weight * vector.get(term, 0.0) for term, weight in asked.items()), -place)
        for place, vector in enumerate(vectors)
        if vector != asked and bool(solved[place].options) == bool(context.question.options)
    ]
    nearest = [-place for _, place in sorted(near, reverse=True)[: whole(context, "examples", 5, 0)]]
    if not nearest:
        context.note("no_examples", "no solved question of this kind; none is shown")
    return {"nearest": nearest}


async def explain(state: State, runtime: Runtime[Context]) -> State:
    """Have the model reason through those that come without reasoning."""
    context, shown = runtime.context, list[tuple[int, str]]()
    for place in state["nearest"]:
        one = _file(context)[0][place]
        given = json.dumps({"step_by_step_thinking": one.reasoning, "answer_choice": one.answer}, ensure_ascii=False)
        text = given if one.options else f"{one.reasoning}\nAnswer:\n{one.answer}".strip()
        if one.options and not one.reasoning and switch(context, "explain", True):
            text = without_thought((await context.ask(answer_prompt(context, question=_question(context, one)))).text)
            if letter(text, one.options) != one.answer:
                context.note("wrong_example", f"example {place + 1} was answered wrongly and is not shown")
                continue
        shown.append((place, text))
    return {"shown": shown}


async def solve(state: State, runtime: Runtime[Context]) -> State:
    """One vote: the examples, then the question with its options in an order of this vote's own."""
    context, question = runtime.context, runtime.context.question
    letters = list(question.options)
    random.Random(f"{context.seed}/{state['number']}").shuffle(letters)
    shuffled = {label: question.options[letter] for label, letter in zip(question.options, letters, strict=True)}
    *system, last = answer_prompt(context, question=replace(question, options=shuffled))
    turns: list[Message] = []
    for place, text in state["shown"]:
        user = answer_prompt(context, question=_question(context, _file(context)[0][place]))[-1]
        more = [*turns, user, Message("assistant", text)]
        if context.room([*system, *more, last]) == 0:
            context.note("window_full", f"only the nearest {len(turns) // 2} examples fit the window")
            break
        turns = more
    reply = (await context.ask([*system, *turns, last])).text
    label = letter(reply, shuffled)
    return {"replies": [reply], "votes": [letters[list(shuffled).index(label)] if label else ""]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Count the votes."""
    votes, best = state["votes"], majority(state["votes"])
    if not runtime.context.question.options:
        return {"answer": state["replies"][0]}
    if best < 0:
        runtime.context.note("no_majority", "no vote's option could be read; the first one's reply is given")
        return {"answer": state["replies"][0]}
    counts = ", ".join(f"{one or 'none'} {number}" for one, number in Counter(votes).most_common())
    return {"answer": json.dumps({"step_by_step_thinking": f"Votes: {counts}", "answer_choice": votes[best]})}


def _question(context: Context, one: Solved) -> Question:
    """A solved question as one of the attempt's own kind."""
    return replace(context.question, id="", text=one.question, options=one.options)


def _file(context: Context) -> tuple[list[Solved], list[dict[str, float]], dict[str, float]]:
    return _read(context.prompts.text("medprompt/examples", context.stem.language))


@functools.lru_cache(maxsize=4)
def _read(text: str) -> tuple[list[Solved], list[dict[str, float]], dict[str, float]]:
    """The solved questions, their vectors, and each term's weight."""
    try:
        solved = [msgspec.json.decode(line, type=Solved) for line in text.splitlines() if line.strip()]
    except msgspec.MsgspecError as error:
        raise UserError(f"The prompt medprompt/examples holds a JSON object a line: {error}.") from error
    held = Counter(term for one in solved for term in set(words(one.question)))
    weights = {term: math.log((1 + len(solved)) / (1 + number)) + 1 for term, number in held.items()}
    return solved, [_vector(one.question, weights) for one in solved], weights


def _vector(text: str, weights: Mapping[str, float]) -> dict[str, float]:
    vector = {term: number * weights[term] for term, number in Counter(words(text)).items() if term in weights}
    length = math.hypot(*vector.values()) or 1.0
    return {term: weight / length for term, weight in vector.items()}
