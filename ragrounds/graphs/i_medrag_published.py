"""The loop of `i_medrag` as its authors' program runs it (``loop=published``; MedRAG, src/medrag.py).

A reply is free text with a section of queries, which a call of its own makes a list of. `rounds` + 3 iterations are
made; in those after the first `rounds` a reply is final where it says so, and is then asked for as JSON, whose letter
is the system's choice (MIRAGE's patterns know the key ``answer_choice`` alone and would read all of them as A). The
conversation is kept between iterations: where an iteration brought nothing new, the next one sends the same messages
again, with the replies since.

Faults are kept as they are: a round without queries that can be read is lost; if the iterations run out, the last
message of the conversation is the answer, an instruction of the program's own perhaps; "the answer isn't clear" is
final. One is not: the list is read as a Python literal, and nothing in it is run.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace
from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message, Speaker
from ragrounds.graphs import vanilla_rag
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.model_text import written_query
from ragrounds.graphs.state import Runtime, int_parameter, switch
from ragrounds.graphs.state import State as Shared
from ragrounds.models.faults import CallFailed

PROMPTS = tuple(f"i_medrag/{name}" for name in ("follow_up", "final", "extract", "as_json", "as_json_choice"))
SPARE = 3
"""Number of iterations besides the rounds."""
_LIST = 'output": ['
_STATED = re.compile(r"""["']answer["']\s{0,9}:\s{0,9}["']?\s{0,9}\(?([A-Za-z])\s{0,9}(?:["'}.:)]|$)""")
_NUMBER = re.compile(r"^\d+\.\s*")
_QUERIES, _ANSWER = "## Queries", "## Answer"


class PublishedTurn(TypedDict):
    """Message of the conversation, as it is stored in the state."""

    role: Speaker
    text: str


Step: TypeAlias = Literal["converse", "extract", "finish", "end"]


class State(Shared, total=False):
    turns: list[PublishedTurn]
    """Current conversation."""
    blocks: list[str]
    """Findings after each finished round. A state that begins with some continues after them."""
    context: str
    """Findings: queries with their answers."""
    before: str
    """Findings before the last iteration."""
    iterations: int
    finished: int
    """Number of rounds that the state began with."""
    further: list[str]
    step: Step


async def converse(state: State, runtime: Runtime[Context]) -> State:
    """Ask for queries, or after the last round for the answer."""
    context, all_rounds = runtime.context, int_parameter(runtime.context, "rounds", 4, least=0)
    iteration, blocks = state.get("iterations", 0), state.get("blocks", [])
    if not iteration:
        blocks = blocks[:all_rounds]
    finished = state["finished"] if iteration else len(blocks)
    findings = state["context"] if iteration else "".join(blocks[-1:])
    rounds, turns = all_rounds - finished, list(state.get("turns", []))
    if iteration < rounds:
        turns = _request(context, "follow_up", findings)
    elif findings != state.get("before") or len(turns) == 1:
        turns = _request(context, "final", findings)
    reply = await context.ask(_messages(turns), role="querying" if iteration < rounds else "answering")
    text = reply.text
    final = iteration >= rounds and (_ANSWER in text or "answer is" in text.lower())
    step: Step = "finish" if final else "converse"
    # Under question-only retrieval nothing is searched once the options were shown.
    may_search = iteration < rounds or switch(context, "follow_ups_see_options", False)
    if not final and _QUERIES in text and may_search:
        turns = turns[:-1]
        if text.rpartition(_QUERIES)[2].strip():
            step = "extract"
        else:
            context.note("no_queries", f"iteration {iteration + 1} gave no query")
    else:
        turns = [*turns, {"role": "assistant", "text": text}]
    over = iteration + 1 >= rounds + SPARE
    return {
        "iterations": iteration + 1,
        "finished": finished,
        "turns": turns,
        "before": findings,
        "context": findings,
        "blocks": blocks,
        "answer": text,
        "step": "end" if over and step == "converse" else step,
    }


async def extract(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the queries as a list, look each up, and add the answers to the findings."""
    context = runtime.context
    prompt = context.prompts.render("i_medrag/extract", context.stem.language, text=state["answer"])
    try:
        queries = read_list((await context.ask(prompt, role="querying")).text)
    except CallFailed as failed:
        context.note("follow_up_failed", f"the queries could not be made a list: {failed.message}")
        queries = None
    if queries is None:
        context.note("no_queries", "the list of queries could not be read")
        return {"step": _next(state, context)}
    findings = state["context"]
    for query in queries:
        if query.strip():
            reply = await looked_up(context, written_query(context, query, raw=True).text)
            if reply is not None:
                squeezed = re.sub(r"\s+", " ", reply)
                findings = f"{findings}\n\nQuery: {query}\nAnswer: {squeezed}".strip()
    return {"context": findings, "blocks": [*state["blocks"], findings], "step": _next(state, context)}


def _next(state: State, context: Context) -> Step:
    """Return the step after an extraction: the end if the iterations are used, else the conversation."""
    rounds = int_parameter(context, "rounds", 4, least=0) - state["finished"]
    return "end" if state["iterations"] >= rounds + SPARE else "converse"


async def finish(state: State, runtime: Runtime[Context]) -> State:
    """Ask for the accepted answer as JSON, in the same conversation."""
    context = runtime.context
    name = "as_json_choice" if context.question.options else "as_json"
    request = context.prompts.render(f"i_medrag/{name}", context.stem.language)
    reply = await context.ask((*_messages(state["turns"]), *request))
    return {"answer": reply.text, "choice": stated_letter(reply.text, context.question.options)}


def stated_letter(text: str, options: Mapping[str, str]) -> str:
    """Return the letter of the question's options that the key ``answer`` of a reply states last; empty if none."""
    stated = [letter if letter in options else letter.upper() for letter in _STATED.findall(text)]
    return next((letter for letter in reversed(stated) if letter in options), "")


async def end(state: State, runtime: Runtime[Context]) -> State:
    """Return the last message of the conversation, whatever it is, because the iterations ran out."""
    last = state["turns"][-1]
    runtime.context.note("no_answer", f"no reply was accepted; the last message is returned: the {last['role']}'s")
    return {"answer": last["text"]}


def read_list(text: str) -> list[str] | None:
    """Return the queries of a reply: the list after ``output": `` up to the last ``]``, without numbers before its
    entries, parsed as Python. Return ``None`` if there is no such list.
    """
    start, stop = text.find(_LIST), text.rfind("]")
    if not 0 <= start < stop:
        return None
    try:
        items: object = ast.literal_eval(text[start + len(_LIST) - 1 : stop + 1])
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(items, list) or not all(isinstance(entry, str) for entry in items):
        return None
    return [_NUMBER.sub("", entry.strip()) for entry in items]


async def looked_up(context: Context, text: str) -> str | None:
    """Return the answer of plain MedRAG, in a nested context, to a question without options.

    If a call fails, return ``None`` and add a note.
    """
    names = ("top_k", "order", "context_tokens", "document_format")
    parameters = {name: context.parameters[name] for name in names if name in context.parameters}
    nested = context.asking(replace(context.stem, text=text), role="reading", prompting="direct", **parameters)
    try:
        final_state = await _vanilla_rag().ainvoke({}, context=nested)
    except CallFailed as failed:
        context.note("follow_up_failed", f"{text[:200]}: {failed.message}")
        return None
    return str(final_state["answer"])


@functools.cache
def _vanilla_rag() -> Any:
    # Compiling takes longer than a step. A compiled graph holds no state of an attempt, so it can be shared.
    return vanilla_rag.build().compile()


def _request(context: Context, name: str, findings: str) -> list[PublishedTurn]:
    """Render the request for queries or for the final answer, with the options if they may be seen."""
    sees = name == "final" or switch(context, "follow_ups_see_options", False)
    options = context.question.options if sees else {}
    values = {"known": findings, "question": context.stem.text, "options": options_block(dict(sorted(options.items())))}
    if name == "follow_up":
        values["number"] = str(int_parameter(context, "queries", 3))
    return [
        {"role": message.role, "text": message.content}
        for message in context.prompts.render(f"i_medrag/{name}", context.stem.language, **values)
    ]


def _messages(turns: list[PublishedTurn]) -> tuple[Message, ...]:
    return tuple(Message(turn["role"], turn["text"]) for turn in turns)
