"""A LlamaIndex workflow: retrieve, rerank with the model, answer."""

import json
import os
from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.openai import OpenAI

notes = [json.loads(line) for line in Path(__file__).with_name("notes.jsonl").read_text(encoding="utf-8").splitlines()]
documents = [Document(text=note["text"], id_=note["id"], metadata={"title": note["title"]}) for note in notes]
llm = OpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0)
index = VectorStoreIndex.from_documents(documents, embed_model=OpenAIEmbedding(model="text-embedding-3-small"))


class Found(Event):
    """What a search gave."""

    query: str
    nodes: list[NodeWithScore]


class Ordered(Event):
    """The same, the most useful first."""

    query: str
    nodes: list[NodeWithScore]


class NotesWorkflow(Workflow):
    """Three steps from a question to an answer."""

    @step
    async def retrieve(self, event: StartEvent) -> Found:
        """Find the nearest notes."""
        found = await index.as_retriever(similarity_top_k=3).aretrieve(event.query)
        return Found(query=event.query, nodes=found)

    @step
    async def rerank(self, event: Found) -> Ordered:
        """Let the model say which note helps most."""
        listed = "\n".join(f"{i + 1}. {node.get_content()}" for i, node in enumerate(event.nodes))
        said = await llm.acomplete(f"Which of these notes helps most? Answer with its number.\n{listed}\n{event.query}")
        first = next((int(letter) - 1 for letter in str(said) if letter in "123"), 0)
        ordered = sorted(range(len(event.nodes)), key=lambda i: i != first)
        return Ordered(query=event.query, nodes=[event.nodes[i] for i in ordered])

    @step
    async def answer(self, event: Ordered) -> StopEvent:
        """Answer from the notes."""
        found = "\n\n".join(node.get_content() for node in event.nodes)
        said = await llm.acomplete(f"Notes:\n{found}\n\nEnd with the letter of one option.\n{event.query}")
        return StopEvent(result=str(said))


async def ask(question: str) -> str:
    """Run it on a question."""
    return str(await NotesWorkflow(timeout=60).run(query=question))
