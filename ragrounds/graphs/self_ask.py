"""`self_ask`: the model asks itself follow-up questions, and a search answers them (Self-ask: Press et al., 2023).

The model says whether follow-up questions are needed, writes one, and stops where its answer is due; that answer is put
in and the model continues, until it writes "So the final answer is:". With ``retrieval=false`` it answers its own
follow-ups and writes on (the paper's Self-ask without a search engine). The paper's engine gives an answer in a few
words, Google's answer box; here `reading=true` has the `top_k` passages read for a short one; ``reading=false`` puts
the passages themselves in. If nothing was found the model answers by itself, as in the paper.

`follow_ups` bounds the questions (FlashRAG's five rounds; the paper's program has no limit).

Sees the options: `answer`, which maps the final answer to one of them (a long question's answer is the final answer
itself). Differs: the form is described in words and shown in one example of our own, where the paper gives four of its
data set; over the limit the model is asked to conclude.
"""

from __future__ import annotations

import operator
import re
from typing import Annotated

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import CONCLUDE
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.continuation import Part, asked_within, put_back, resumed, whole_text
from ragrounds.graphs.documents import render_documents
from ragrounds.graphs.model_text import written_query
from ragrounds.graphs.shapes import answered, concluded, loop, read
from ragrounds.graphs.state import Graph, Runtime, int_parameter, switch
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, *CONCLUDE, "continuing/go_on", "self_ask/ask", "self_ask/conclude")

QUESTION, ANSWER, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
_FOLLOW_UP = re.compile(rf"{QUESTION}([^\n]*)\n*{ANSWER}\s*\Z")


class State(Shared, total=False):
    parts: Annotated[list[Part], operator.add]
    """Text so far."""
    query: str
    """Follow-up question that waits for its answer; empty if the reasoning is finished."""
    follow_ups: int


def build() -> Graph:
    """Build the graph START → ask ⇄ look_up, ask → answer → END."""

    def over(state: State, context: Context) -> bool:
        # Over the limit once more: `look_up` then asks the model to conclude.
        return not state["query"] or state.get("follow_ups", 0) > int_parameter(context, "follow_ups", 5, least=0)

    return loop(State, ask, look_up, leave=ask, over=over, answer=answer)


async def ask(state: State, runtime: Runtime[Context]) -> State:
    """Continue the text up to the next follow-up question, or to its end."""
    context, stem, parts = runtime.context, runtime.context.stem, state.get("parts", [])
    prompt = context.prompts.render("self_ask/ask", stem.language, question=stem.text)
    messages, prefix = resumed(context, prompt, parts, lambda part: _part_text(context, part))
    stops = (ANSWER,) if switch(context, "retrieval", True) else ()
    reply = await asked_within(context, messages, len(parts) + 1, prefix=prefix, stop=stops)
    if reply is None:
        return {"query": ""}
    text = put_back(reply, {ANSWER: QUESTION}) if stops else reply.text
    match = _FOLLOW_UP.search(text) if stops and FINAL not in text else None
    if match and not match[1].strip():
        context.note("malformed_query", "an empty follow-up question; the reasoning ends here")
    return {"parts": [{"by": "model", "text": text}], "query": match[1].strip() if match else ""}


async def look_up(state: State, runtime: Runtime[Context]) -> State:
    """Search for the follow-up question and insert its answer. Over the limit, ask for the conclusion."""
    context, stem, count = runtime.context, runtime.context.stem, state.get("follow_ups", 0) + 1
    if count > int_parameter(context, "follow_ups", 5, least=0):
        context.note("search_limit", f"all {count - 1} follow-up questions were used: {state['query'][:200]}")
        instruction = context.prompts.text("self_ask/conclude", stem.language)
        return {"parts": [{"by": "search", "text": f"{instruction}\n"}], "follow_ups": count}
    query = written_query(context, state["query"])
    passages = await context.search(query, int_parameter(context, "top_k", 3))
    part: Part = {"by": "search", "passages": [passage.id for passage in passages]}
    if not passages:
        part = {"by": "search", "text": ""}
    elif switch(context, "reading", True):
        reading = await read(context, "long/rag_direct", passages, question=query.text)
        part = {"by": "search", "text": " ".join(reading.split()) + "\n"}
    return {"parts": [part], "follow_ups": count}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Map the final answer to an option. Without one, ask for the answer directly."""
    context, parts = runtime.context, state.get("parts", [])
    model_text = whole_text([part for part in parts if part["by"] == "model"], lambda part: part["text"])
    conclusion = model_text.rpartition(FINAL)[2].strip() if FINAL in model_text else ""
    if not conclusion:
        context.note("no_answer", "the reasoning reached no final answer; it is generated directly instead")
        return await answered(context)
    return await concluded(context, whole_text(parts, lambda part: _part_text(context, part)), conclusion)


def _part_text(context: Context, part: Part) -> str:
    """Return a part as it is written into the text."""
    if "passages" in part:
        return f"\n{render_documents([context.passage(id) for id in part['passages']])}\n"
    return part["text"] if part["by"] == "model" else f" {part['text']}"
