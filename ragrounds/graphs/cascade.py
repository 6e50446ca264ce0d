"""`cascade`: a cheap agent first, and another one where the first is not certain (FrugalGPT: Chen et al., 2023;
by agreement as Yue et al., 2024).

`when` names the measure of certainty; below `threshold` the agent `then` answers:

* ``agreement``: the share of `samples` attempts of the first agent that give its most frequent answer;
* ``confidence``: the model's stated confidence in the first answer, from 0 to 1;
* ``probability``: the geometric mean of the probabilities of the tokens of the first agent's last reply. They are asked
  for with its answer, which makes that call differ from the call of the agent alone;
* ``abstention``: 1 where the first answer can be read, else 0.

Sees the options: the agents inside, as they do alone, and `decide` by ``confidence``. What is not known (a server
without token probabilities, a reply without a number) counts as no certainty. Differs: thresholds are given, where the
papers learn them; `analyse routing` shows what a learned one gains.
"""

from __future__ import annotations

import math
import re

from ragrounds.base.contracts import Attempted, Context
from ragrounds.base.records import Message
from ragrounds.graphs.answer_prompts import question_with_options
from ragrounds.graphs.model_text import ending, without_thought
from ragrounds.graphs.samples import Samples, SampleUpdate, epochs, most_frequent, sample
from ragrounds.graphs.shapes import ask_object, number, read_object
from ragrounds.graphs.state import END, START, Graph, Runtime, State, Ways, choice, graph_of, int_parameter

AGENTS = ("first", "then")
PROMPTS = ("cascade/confidence",)
WAYS = ("agreement", "confidence", "probability", "abstention")


def build() -> Graph:
    """Build the graph START → draw, once or for each sample → decide (→ then) → END."""
    from langgraph.types import Send

    def spread(state: Samples, runtime: Runtime[Context]) -> object:
        """Return the attempts of the first agent: several for ``agreement``, else one."""
        context = runtime.context
        samples = int_parameter(context, "samples", 5) if way(context) == "agreement" else 1
        return [Send("draw", sample_state) for sample_state in epochs(context, samples)]

    nodes = {"draw": draw, "decide": decide, "then": run_other}
    ways: Ways = {
        START: (spread, ["draw"]),
        # The first agent's answer was accepted, or the other agent runs.
        "decide": (lambda state: END if "answer" in state else "then", ["then", END]),
    }
    return graph_of(Samples, nodes, ways)


def way(context: Context) -> str:
    """Return the measure of certainty.

    Raises:
        UserError: it is unknown.
    """
    return choice(context, "when", WAYS)


async def draw(state: Samples, runtime: Runtime[Context]) -> SampleUpdate:
    """Run an attempt of the first agent."""
    return await sample(runtime, state, "first", likely=way(runtime.context) == "probability")


async def decide(state: Samples, runtime: Runtime[Context]) -> State:
    """Return the first agent's answer if it is certain enough."""
    context, samples = runtime.context, state["drawn"]
    preferred, votes = most_frequent(samples)
    certainty: float | None
    if way(context) == "agreement":
        certainty = votes / len(samples)
    elif way(context) == "confidence":
        certainty = await _ask_confidence(context, preferred)
    elif way(context) == "probability":
        certainty = preferred.probability
    else:
        certainty = 1.0 if preferred.read else 0.0
    threshold = number(context, "threshold", 0.7)
    certainty_text = "unknown" if certainty is None else f"{certainty:.3f}"
    context.note("certainty", f"{way(context)} {certainty_text}, threshold {threshold:g}")
    if certainty is None or certainty < threshold:
        return {}
    return {"answer": preferred.text, "choice": preferred.choice}


async def run_other(state: Samples, runtime: Runtime[Context]) -> State:
    """Run an attempt of the other agent."""
    attempt = await runtime.context.attempt_of("then", epoch=runtime.context.epoch)
    return {"answer": attempt.text, "choice": attempt.choice}


async def _ask_confidence(context: Context, first: Attempted) -> float | None:
    """Ask the model for its confidence in an answer, as a share; ``None`` if the reply states none."""
    question, language = question_with_options(context), context.stem.language

    def prompt(answer: str) -> tuple[Message, ...]:
        """Render the prompt with this answer."""
        return context.prompts.render("cascade/confidence", language, question=question, answer=answer)

    visible_answer = ending(
        context, without_thought(first.text), context.room(prompt(""), role="judging"), role="judging"
    )
    fields = {"confidence": {"type": "number", "minimum": 0, "maximum": 100}}
    return read_confidence(await ask_object(context, prompt(visible_answer), fields, role="judging"))


def read_confidence(text: str) -> float | None:
    """Return a confidence from 0 to 100 in a model's reply, as a share; ``None`` if it states none."""
    value: object = read_object(text).get("confidence")
    if value is None and (match := re.fullmatch(r"[^\d-]{0,30}?(\d{1,3}(?:\.\d{1,9})?)\s*%?\W*", text.strip())):
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value / 100 if 0 <= value <= 100 else None
