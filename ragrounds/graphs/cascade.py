"""`cascade`: a cheap agent first, and another one where the first is not certain (FrugalGPT: Chen et al., 2023;
by agreement as Yue et al., 2024).

`when` says what certainty is; below `threshold` the agent `then` answers:

* ``agreement``: the share of `samples` attempts of the first agent that give its most frequent answer;
* ``confidence``: what the model says of the first answer when it is asked, from 0 to 1;
* ``probability``: the geometric mean of the probabilities of the tokens of the first agent's last reply. They are asked
  for with its answer, which makes that another call than the agent alone makes;
* ``abstention``: 1 where the first answer can be read, else 0.

Sees the options: the agents inside, as they do alone, and `decide` by ``confidence``. What is not known (a server
without token probabilities, a reply without a number) counts as no certainty. Differs: thresholds are given, where the
papers learn them; `analyse routing` shows what a learned one gains.
"""

from __future__ import annotations

import math
import re

from ragrounds.base.contracts import Attempted, Context
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import asked
from ragrounds.graphs.model_text import ending, without_thought
from ragrounds.graphs.samples import Drawn, Samples, epochs, most_frequent, sample
from ragrounds.graphs.shapes import number, read_object
from ragrounds.graphs.state import END, START, Graph, Runtime, State, graph_of, whole, word

AGENTS = ("first", "then")
PROMPTS = ("cascade/confidence",)
WAYS = ("agreement", "confidence", "probability", "abstention")


def build() -> Graph:
    """START → draw, once or for each sample → decide (→ then) → END."""
    nodes = {"draw": draw, "decide": decide, "then": then}
    return graph_of(Samples, nodes, {START: (_spread, ["draw"]), "decide": (_onward, ["then", END])})


def way(context: Context) -> str:
    """What certainty is.

    Raises:
        UserError: something else.
    """
    given = word(context, "when", "agreement")
    if given not in WAYS:
        raise UserError(f"Unknown when={given}.{nearest(given, WAYS)} Known: {', '.join(WAYS)}.")
    return given


def _spread(state: Samples, runtime: Runtime[Context]) -> object:
    from langgraph.types import Send

    context = runtime.context
    samples = whole(context, "samples", 5) if way(context) == "agreement" else 1
    return [Send("draw", one) for one in epochs(context, samples)]


async def draw(state: Samples, runtime: Runtime[Context]) -> Drawn:
    """Have the first agent answer."""
    return await sample(runtime, state, "first", likely=way(runtime.context) == "probability")


async def decide(state: Samples, runtime: Runtime[Context]) -> State:
    """Give the first agent's answer, where it is certain enough."""
    context, drawn = runtime.context, state["drawn"]
    kept, votes = most_frequent(drawn)
    given: float | None
    if way(context) == "agreement":
        given = votes / len(drawn)
    elif way(context) == "confidence":
        given = await _stated(context, kept)
    elif way(context) == "probability":
        given = kept.probability
    else:
        given = 1.0 if kept.read else 0.0
    threshold = number(context, "threshold", 0.7)
    shown = "unknown" if given is None else f"{given:.3f}"
    context.note("certainty", f"{way(context)} {shown}, threshold {threshold:g}")
    return {"answer": kept.text, "choice": kept.choice} if given is not None and given >= threshold else {}


def _onward(state: Samples, runtime: Runtime[Context]) -> str:
    return END if "answer" in state else "then"


async def then(state: Samples, runtime: Runtime[Context]) -> State:
    """Have the other agent answer."""
    given = await runtime.context.attempt_of("then", epoch=runtime.context.epoch)
    return {"answer": given.text, "choice": given.choice}


async def _stated(context: Context, first: Attempted) -> float | None:
    question, language = asked(context), context.stem.language

    def prompt(answer: str) -> tuple[Message, ...]:
        """With this answer."""
        return context.prompts.render("cascade/confidence", language, question=question, answer=answer)

    shown = ending(context, without_thought(first.text), context.room(prompt(""), role="judging"), role="judging")
    return read_confidence((await context.ask(prompt(shown), role="judging")).text)


def read_confidence(text: str) -> float | None:
    """A confidence from 0 to 100 in what a model wrote, as a share; ``None``: there is none."""
    said = without_thought(text)
    value: object = read_object(said).get("confidence")
    if value is None and (found := re.fullmatch(r"[^\d-]{0,30}?(\d{1,3}(?:\.\d{1,9})?)\s*%?\W*", said.strip())):
        value = float(found[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value / 100 if 0 <= value <= 100 else None
