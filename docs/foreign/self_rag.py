"""Self-RAG by LangGraph's recipe: passages are graded, and so is the answer, for its support and for its use."""

import os
from typing import Literal, TypedDict

from langchain_core.documents import Document
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from notes import WordRetriever
from pydantic import BaseModel, Field

ROUNDS = 2
model = ChatOpenAI(
    model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0, streaming=bool(os.environ.get("STREAM"))
)
retriever = WordRetriever(k=2)


class GradeDocuments(BaseModel):
    """Whether a passage is about the question."""

    binary_score: Literal["yes", "no"] = Field(description="'yes' or 'no'")


class GradeHallucinations(BaseModel):
    """Whether an answer is borne out by the passages."""

    binary_score: Literal["yes", "no"] = Field(description="'yes' or 'no'")


class GradeAnswer(BaseModel):
    """Whether an answer answers the question."""

    binary_score: Literal["yes", "no"] = Field(description="'yes' or 'no'")


class State(TypedDict, total=False):
    """What the steps share."""

    question: str
    query: str
    documents: list[Document]
    generation: str
    rounds: int


def verdict(schema: type[BaseModel], prompt: str) -> bool:
    """Have the model say yes or no, by function calling."""
    graded = model.with_structured_output(schema, method="function_calling").invoke(prompt)
    return graded.model_dump()["binary_score"] == "yes"


async def retrieve(state: State) -> State:
    """Search with the newest wording."""
    found = await retriever.ainvoke(state.get("query", state["question"]))
    return {"documents": found, "rounds": state.get("rounds", 0) + 1}


def grade_documents(state: State) -> State:
    """Keep the passages that are about the question."""
    asked = state["question"]
    return {
        "documents": [
            one for one in state["documents"] if verdict(GradeDocuments, f"Passage: {one.page_content}\nAsked: {asked}")
        ]
    }


def next_after_grading(state: State) -> Literal["transform_query", "generate"]:
    """Answer where something is left."""
    return "generate" if state["documents"] or state["rounds"] >= ROUNDS else "transform_query"


async def transform_query(state: State) -> State:
    """Write the question anew."""
    reply = await model.ainvoke(f"Write this question anew, better for a search:\n{state['question']}")
    return {"query": str(reply.content)}


async def generate(state: State) -> State:
    """Answer from the passages."""
    found = "\n\n".join(one.page_content for one in state["documents"])
    reply = await model.ainvoke(f"Passages:\n{found}\n\nAnswer and end with a letter.\n{state['question']}")
    return {"generation": str(reply.content)}


def grade_generation(state: State) -> Literal["generate", "transform_query", "__end__"]:
    """End where the answer is borne out and answers the question."""
    found = "\n\n".join(one.page_content for one in state["documents"])
    supported = verdict(GradeHallucinations, f"Facts: {found}\n\nAnswer: {state['generation']}")
    useful = verdict(GradeAnswer, f"Asked: {state['question']}\n\nAnswer: {state['generation']}")
    return END if (supported and useful) or state["rounds"] >= ROUNDS else "transform_query"


workflow = StateGraph(State)
workflow.add_node("retrieve", retrieve)
workflow.add_node("grade_documents", grade_documents)
workflow.add_node("transform_query", transform_query)
workflow.add_node("generate", generate)
workflow.add_edge(START, "retrieve")
workflow.add_edge("retrieve", "grade_documents")
workflow.add_conditional_edges("grade_documents", next_after_grading)
workflow.add_edge("transform_query", "retrieve")
workflow.add_conditional_edges("generate", grade_generation)
