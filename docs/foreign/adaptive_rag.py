"""Adaptive RAG by LangGraph's recipe: a router decides whether a question is looked up, searched for elsewhere, or
answered at once; then passages and answer are graded."""

import os
from typing import Literal, TypedDict

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.graph import END, START, StateGraph
from notes import WordRetriever, documents
from pydantic import BaseModel, Field


class Route(BaseModel):
    """Where a question is looked up."""

    source: Literal["notes", "elsewhere"] = Field(description="'notes' for clinical questions, else 'elsewhere'")


class Verdict(BaseModel):
    """A yes or a no."""

    binary_score: Literal["yes", "no"] = Field(description="'yes' or 'no'")


class State(TypedDict, total=False):
    """What the steps share."""

    question: str
    documents: list[Document]
    generation: str
    tries: int


def build() -> StateGraph:
    """Build the graph; the notes are embedded once, here."""
    model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), streaming=bool(os.environ.get("STREAM")))
    embeddings = OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False)
    notes = InMemoryVectorStore.from_documents(documents(), embeddings).as_retriever(search_kwargs={"k": 2})
    elsewhere = WordRetriever(k=2)

    def route(state: State) -> Literal["from_notes", "from_elsewhere"]:
        chosen = model.with_structured_output(Route, method="json_schema").invoke(
            [("system", "You send questions to a source."), ("human", state["question"])]
        )
        return "from_notes" if chosen.source == "notes" else "from_elsewhere"

    def from_notes(state: State) -> State:
        return {"documents": notes.invoke(state["question"])}

    def from_elsewhere(state: State) -> State:
        return {"documents": elsewhere.invoke(state["question"])}

    def generate(state: State) -> State:
        found = "\n\n".join(one.page_content for one in state["documents"])
        text = "".join(
            str(part.content) for part in model.stream(f"Passages:\n{found}\n\nEnd with a letter.\n{state['question']}")
        )
        return {"generation": text, "tries": state.get("tries", 0) + 1}

    def graded(state: State) -> Literal["from_elsewhere", "__end__"]:
        found = "\n\n".join(one.page_content for one in state["documents"])
        verdict = model.with_structured_output(Verdict).invoke(f"Facts: {found}\n\nAnswer: {state['generation']}")
        return END if verdict.binary_score == "yes" or state["tries"] >= 2 else "from_elsewhere"

    graph = StateGraph(State)
    for step in (from_notes, from_elsewhere, generate):
        graph.add_node(step.__name__, step)
    graph.add_conditional_edges(START, route)
    graph.add_edge("from_notes", "generate")
    graph.add_edge("from_elsewhere", "generate")
    graph.add_conditional_edges("generate", graded)
    return graph
