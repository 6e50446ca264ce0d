"""`i_medrag`: rounds of follow-up questions, each answered by `vanilla_rag` (i-MedRAG: Xiong et al., 2024, Section 2).

Each round the model, given the question and the answers so far, writes `queries` follow-up questions; each is answered
by plain MedRAG without options, and question and answer are added to the findings. A round whose questions cannot be
read does not count, but no more than three of those are allowed. Then the answer is given.

A follow-up whose call fails is left out. ``loop=published`` is the authors' own loop (:mod:`.i_medrag_published`), and
``follow_ups_see_options=true`` with ``question_only=false`` shows the options when queries are written, as theirs does.

`ask_further` writes queries and sees the stem alone; the graphs that answer them get a question without options;
`answer` sees the options. Follow-up questions are looked up one after another, which keeps the order of calls fixed.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.base.specs import Value
from ragrounds.graphs import i_medrag_published as published
from ragrounds.graphs import vanilla_rag
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.graphs.model_text import ending, folded, without_thought, written_query
from ragrounds.graphs.shapes import answered
from ragrounds.graphs.state import END, START, Graph, Runtime, Ways, choice, graph_of, int_parameter, switch
from ragrounds.graphs.state import State as Shared

PROMPTS = (*vanilla_rag.PROMPTS, "i_medrag/ask_further", "i_medrag/ask_further_options", *published.PROMPTS)
SPARE = 3
"""Number of rounds that may be lost to unreadable questions."""

_MARK = r"(?:\d+\s*[.)、:](?!\d)|[-*•]|(?:question|query|q)\s*\d+\s*[.):])"
_LISTED = re.compile(rf"^[ \t]*{_MARK}[ \t]*(\S.*)$", re.I | re.M)
_NUMBERED = re.compile(rf"^{_MARK}\s+(?=\S)", re.I)
_HEADING = re.compile(r"^[#* \t]*(?:[\w-]+[ \t]){0,2}(?:queries|questions|追问|查询)[*: \t：]*$", re.I | re.M)


class FollowUp(TypedDict):
    """A follow-up question and its answer."""

    question: str
    answer: str


class State(published.State, total=False):
    findings: Annotated[list[FollowUp], operator.add]
    rounds: int


def build() -> Graph:
    """Build the graph.

    START → ask_further ⇄ look_up, then answer → END; or START → converse ⇄ extract, then finish or end → END.
    """

    def first(state: State, runtime: Runtime[Context]) -> str:
        return "converse" if choice(runtime.context, "loop", ("paper", "published")) == "published" else "ask_further"

    def after_asking(state: State, runtime: Runtime[Context]) -> str:
        return "look_up" if state["further"] else after_looking(state, runtime)

    def after_looking(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: the answer if all rounds, or all iterations, are used."""
        rounds = int_parameter(runtime.context, "rounds", 4)
        over = state.get("rounds", 0) >= rounds or state["iterations"] >= rounds + SPARE
        return "answer" if over else "ask_further"

    def step(state: State) -> str:
        return state["step"]

    nodes = {"ask_further": ask_further, "look_up": look_up, "answer": answer}
    nodes |= {name: getattr(published, name) for name in ("converse", "extract", "finish", "end")}
    ways: Ways = {
        START: (first, ["ask_further", "converse"]),
        "converse": (step, ["converse", "extract", "finish", "end"]),
        "extract": (step, ["converse", "end"]),
        "finish": END,
        "ask_further": (after_asking, ["look_up", "ask_further", "answer"]),
        "look_up": (after_looking, ["ask_further", "answer"]),
        "answer": END,
    }
    return graph_of(State, nodes, ways)


def nests(parameters: Mapping[str, Value]) -> bool:
    """Return True if another graph runs inside this one: see :func:`ragrounds.graphs.catalogue.nests`."""
    return True


async def ask_further(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for follow-up questions. Repeated questions are left out and noted."""
    context, stem = runtime.context, runtime.context.stem
    number, iteration = int_parameter(context, "queries", 3), state.get("iterations", 0) + 1

    values = {"question": stem.text, "number": str(number)}
    if options := switch(context, "follow_ups_see_options", False) and context.question.options:
        values["options"] = options_block(options)

    def prompt(findings: str) -> tuple[Message, ...]:
        """Render the prompt with the findings so far."""
        name = "ask_further_options" if "options" in values else "ask_further"
        return context.prompts.render(f"i_medrag/{name}", stem.language, known=findings, **values)

    findings = ending(context, _findings_text(state), context.room(prompt(""), role="querying"), role="querying")
    reply = await context.ask(prompt(findings), role="querying")
    previous = {folded(entry["question"]) for entry in state.get("findings", [])}
    further: list[str] = []
    for text in read_questions(without_thought(reply.text)):
        if folded(text) in previous:
            context.note("repeated_query", text[:200])
        elif len(further) < number:
            further.append(written_query(context, text).text)
            previous.add(folded(text))
    if not further:
        context.note("no_queries", f"iteration {iteration} gave no new question that could be read")
    return {"further": further, "iterations": iteration}


async def look_up(state: State, runtime: Runtime[Context]) -> State:
    """Answer each follow-up question by vanilla RAG, in a nested context."""
    answers: list[FollowUp] = []
    for text in state["further"]:
        reply = await published.looked_up(runtime.context, text)
        if reply is not None:
            answers.append({"question": text, "answer": without_thought(reply)})
    return {"findings": answers, "rounds": state.get("rounds", 0) + 1}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer, with the follow-up questions and their answers in place of documents."""
    return await answered(runtime.context, _findings_text(state))


def read_questions(text: str) -> list[str]:
    """Return the questions in a model's reply, without numbers before them.

    They come from a JSON object's ``queries``, from a JSON list, or else from the list under a heading of queries.
    Without a heading, the list entries that are questions count.
    """
    for begin, end in (("{", "}"), ("[", "]")):
        start, stop = text.find(begin), text.rfind(end)
        if 0 <= start < stop:
            try:
                read = json.loads(text[start : stop + 1], strict=False)
            except (ValueError, RecursionError):
                continue
            listed = read.get("queries") if isinstance(read, dict) else read
            if isinstance(listed, list):
                items = [_NUMBERED.sub("", entry.strip()) for entry in listed if isinstance(entry, str)]
                return [entry for entry in items if entry]
    headings = list(_HEADING.finditer(text))
    lines = [line.strip() for line in _LISTED.findall(text[headings[-1].end() :] if headings else text)]
    return lines if headings else [line for line in lines if line.endswith(("?", "？"))]


def _findings_text(state: State) -> str:
    """Return the follow-up questions and answers so far as text."""
    entries = state.get("findings", [])
    return "\n\n".join(f"Query: {entry['question']}\nAnswer: {entry['answer']}" for entry in entries) or "(none yet)"
