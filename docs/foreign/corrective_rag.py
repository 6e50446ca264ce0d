"""Corrective RAG by LangGraph's recipe: each passage found is graded; where one is of no use, the question is written
anew and a second source is asked."""

import os
from typing import Literal, TypedDict

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from notes import WordRetriever
from pydantic import BaseModel, Field

model = ChatOpenAI(
    model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0, streaming=bool(os.environ.get("STREAM"))
)
near, far = WordRetriever(k=3), WordRetriever(k=6)


class GradeDocument(BaseModel):
    """Whether a passage is about the question."""

    binary_score: Literal["yes", "no"] = Field(description="'yes' or 'no'")


grader = ChatPromptTemplate.from_messages(
    [("system", "You grade whether a passage is about a question."), ("human", "{document}\n\nQuestion: {question}")]
) | model.with_structured_output(GradeDocument)
rewriter = (
    ChatPromptTemplate.from_messages(
        [("system", "You write questions anew so that a search finds more."), ("human", "{question}")]
    )
    | model
    | StrOutputParser()
)
writer = (
    ChatPromptTemplate.from_messages(
        [("system", "Answer from the passages; end with a letter."), ("human", "{documents}\n\n{question}")]
    )
    | model
    | StrOutputParser()
)


class State(TypedDict, total=False):
    """What the steps share."""

    question: str
    query: str
    documents: list[Document]
    generation: str


def retrieve(state: State) -> State:
    """Search with the question."""
    return {"documents": near.invoke(state["question"])}


def grade_documents(state: State) -> State:
    """Keep what is about the question."""
    kept = [
        one
        for one in state["documents"]
        if grader.invoke({"document": one.page_content, "question": state["question"]}).binary_score == "yes"
    ]
    return {"documents": kept}


def enough(state: State) -> Literal["transform_query", "generate"]:
    """Search elsewhere where something fell away."""
    return "generate" if len(state["documents"]) >= 2 else "transform_query"


def transform_query(state: State) -> State:
    """Write the question anew."""
    return {"query": rewriter.invoke({"question": state["question"]})}


def search_elsewhere(state: State) -> State:
    """Ask the second source."""
    return {"documents": [*state["documents"], *far.invoke(state["query"])]}


def generate(state: State) -> State:
    """Answer from what is left."""
    found = "\n\n".join(one.page_content for one in state["documents"])
    return {"generation": writer.invoke({"documents": found, "question": state["question"]})}


workflow = StateGraph(State)
workflow.add_node("retrieve", retrieve)
workflow.add_node("grade_documents", grade_documents)
workflow.add_node("transform_query", transform_query)
workflow.add_node("search_elsewhere", search_elsewhere)
workflow.add_node("generate", generate)
workflow.add_edge(START, "retrieve")
workflow.add_edge("retrieve", "grade_documents")
workflow.add_conditional_edges("grade_documents", enough)
workflow.add_edge("transform_query", "search_elsewhere")
workflow.add_edge("search_elsewhere", "generate")
workflow.add_edge("generate", END)
app = workflow.compile()
