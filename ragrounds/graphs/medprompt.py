"""`medprompt`: the nearest solved questions with the model's own reasoning, votes on shuffled options.

Nori et al. (2023), Section 4. The `examples` (5) solved questions nearest to this one are reasoned through by the model
itself; where it reaches another answer than the given one, the example is left out. The others are shown as earlier
turns of the conversation.
Of `votes` (5) each shows the options in an order of its own; the letters are mapped back, and the option that most
votes name is the answer, the earlier one of equals.

The solved questions are the prompt `medprompt/examples`, a JSON object a line with `question`, `options`, `answer` and,
where there is any, `reasoning`; custom examples are in a folder of prompts.

Sees the options: `solve`; nothing is searched. Differs: nearest by words (TF-IDF), the paper's by embeddings; only the
nearest are reasoned through, once for all questions. A long question has no options to shuffle: it is answered once,
with those examples that have no options.
"""

from __future__ import annotations

import functools
import heapq
import json
import math
import operator
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import structs

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message
from ragrounds.base.text import words
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import vote
from ragrounds.graphs.state import Graph, Runtime, int_parameter, switch
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import letter, majority

PROMPTS = (*ANSWERING, "medprompt/examples")


class Solved(msgspec.Struct, frozen=True):
    """A solved question."""

    question: str
    answer: str
    """Letter of an option; for a long question, the text."""
    options: dict[str, str] = {}
    reasoning: str = ""

    def __post_init__(self) -> None:
        if self.options and self.answer not in self.options:
            raise ValueError(f"the answer {self.answer!r} is the letter of none of its options")


class State(Shared, total=False):
    nearest: list[dict[str, Any]]
    """Solved questions, nearest first."""
    example_turns: list[tuple[str, str]]
    """Turns of the examples: the model's prompt, and its answer."""
    number: int
    """Number of a vote, from 0."""
    votes: Annotated[list[str], operator.add]
    replies: Annotated[list[str], operator.add]


def build() -> Graph:
    """Build the graph START → recall → explain → solve, for each vote → answer → END."""

    def attempts(state: State, context: Context) -> list[State]:
        votes = int_parameter(context, "votes", 5) if context.question.options else 1
        return [{"example_turns": state["example_turns"], "number": number} for number in range(votes)]

    return vote(State, recall, explain, attempts=attempts, attempt=solve, after=[answer])


async def recall(state: State, runtime: Runtime[Context]) -> State:
    """Find the nearest solved questions of the same kind. The question itself is left out."""
    context, stem_words = runtime.context, words(runtime.context.stem.text)
    solved, vectors, weights = _read(context.prompts.text("medprompt/examples", context.stem.language))
    query, choice = _vector(stem_words, weights), bool(context.question.options)
    near = [
        (sum(weight * vector.get(term, 0.0) for term, weight in query.items()), -index)
        for index, (example, vector) in enumerate(zip(solved, vectors, strict=True))
        if bool(example.options) == choice and (vector != query or words(example.question) != stem_words)
    ]
    nearest = [solved[-index] for _, index in heapq.nlargest(int_parameter(context, "examples", 5, 0), near)]
    if not nearest:
        context.note("no_examples", "no solved question of this kind; none is shown")
    return {"nearest": [structs.asdict(example) for example in nearest]}


async def explain(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for reasoning on the examples that have none."""
    context, turns = runtime.context, list[tuple[str, str]]()
    for solved in (Solved(**fields) for fields in state["nearest"]):
        example = structs.replace(context.question, id="", text=solved.question, options=solved.options)
        prompt = answer_prompt(context, question=example)
        answer_json = json.dumps(
            {"step_by_step_thinking": solved.reasoning, "answer_choice": solved.answer}, ensure_ascii=False
        )
        text = answer_json if solved.options else f"{solved.reasoning}\nAnswer:\n{solved.answer}".strip()
        if solved.options and not solved.reasoning and switch(context, "explain", True):
            text = without_thought((await context.ask(prompt)).text)
            if letter(text, solved.options) != solved.answer:
                context.note(
                    "wrong_example", f"this one was answered wrongly and is not shown: {solved.question[:200]}"
                )
                continue
        turns.append((prompt[-1].content, text))
    return {"example_turns": turns}


async def solve(state: State, runtime: Runtime[Context]) -> State:
    """Ask for a vote: the examples, then the question with its options in an order of this vote's own."""
    context, question = runtime.context, runtime.context.question
    letters = list(question.options)
    random.Random(f"{context.seed}/{state['number']}").shuffle(letters)
    shuffled = {label: question.options[letter] for label, letter in zip(question.options, letters, strict=True)}
    *system, last = answer_prompt(context, question=structs.replace(question, options=shuffled))
    turns: list[Message] = []
    for user, text in state["example_turns"]:
        more = [*turns, Message("user", user), Message("assistant", text)]
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
    counts = ", ".join(f"{option or 'none'} {number}" for option, number in Counter(votes).most_common())
    return {"answer": json.dumps({"step_by_step_thinking": f"Votes: {counts}", "answer_choice": votes[best]})}


@functools.lru_cache(maxsize=4)
def _read(text: str) -> tuple[list[Solved], list[dict[str, float]], dict[str, float]]:
    """Return the solved questions, their vectors, and each term's weight."""
    try:
        solved = [msgspec.json.decode(line, type=Solved) for line in text.split("\n") if line.strip()]
    except msgspec.MsgspecError as error:
        raise UserError(f"The prompt medprompt/examples holds a JSON object a line: {error}.") from error
    holders = Counter(term for example in solved for term in set(words(example.question)))
    weights = {term: math.log((1 + len(solved)) / (1 + number)) + 1 for term, number in holders.items()}
    return solved, [_vector(words(example.question), weights) for example in solved], weights


def _vector(terms: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the tf-idf vector of some terms, scaled to length 1."""
    vector = {term: number * weights[term] for term, number in Counter(terms).items() if term in weights}
    length = math.hypot(*vector.values()) or 1.0
    return {term: weight / length for term, weight in vector.items()}
