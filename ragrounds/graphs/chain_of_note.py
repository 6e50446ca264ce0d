"""`chain_of_note`: a note on each document that was found, then the answer from the notes (Chain-of-Note: Yu et al.,
2023, Section 3).

The question is searched for; the model reads the documents one after another and writes a note on each (it answers the
question, it helps to infer the answer, or it has nothing to do with it), then what follows from them, or that the
answer is unknown. The answer is given from the notes, which take the place of `vanilla_rag`'s documents.

Sees the options: `answer`. Differs: notes and answer are two calls, so that what reads documents sees no options, where
the paper's model, trained on notes of ChatGPT's, writes both in one text; here any model is asked for them in words.
"""

from __future__ import annotations

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.shapes import answered, read, searched
from ragrounds.graphs.state import Graph, Runtime, graph_of, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (*ANSWERING, "chain_of_note/notes")


class State(Shared, total=False):
    notes: str


def build() -> Graph:
    """Build the graph START → search → take_notes → answer → END."""
    return graph_of(State, {"search": search, "take_notes": take_notes, "answer": answer})


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Search for the question's stem."""
    return {"passages": await searched(runtime.context, int_parameter(runtime.context, "top_k", 5))}


async def take_notes(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for notes on the documents, and for what follows from them."""
    passages = [runtime.context.passage(id) for id in state["passages"]]
    return {"notes": await read(runtime.context, "chain_of_note/notes", passages)}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer with the notes in place of documents."""
    return await answered(runtime.context, state["notes"])
