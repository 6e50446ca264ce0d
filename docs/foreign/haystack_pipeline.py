"""A Haystack pipeline: BM25, a prompt, a chat generator."""

from haystack import Document, Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.dataclasses import ChatMessage
from plain_notes import NOTES

store = InMemoryDocumentStore()
store.write_documents([Document(content=note["text"], meta={"title": note["title"]}) for note in NOTES])
template = (
    "{% for one in documents %}{{ one.content }}\n{% endfor %}\nEnd with the letter of one option.\n{{ question }}"
)
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=3))
pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user(template)], required_variables=["question"]))
pipeline.add_component("generator", OpenAIChatGenerator(model="gpt-4o-mini"))
pipeline.connect("retriever.documents", "prompt.documents")
pipeline.connect("prompt.prompt", "generator.messages")


def ask(question: str) -> str:
    """Run it."""
    done = pipeline.run({"retriever": {"query": question}, "prompt": {"question": question}})
    return str(done["generator"]["replies"][0].text)
