"""A LlamaIndex query engine: notes in a vector index, the three nearest, and a model that answers from them."""

import json
import os
from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.openai import OpenAI

notes = [json.loads(line) for line in Path(__file__).with_name("notes.jsonl").read_text(encoding="utf-8").splitlines()]
documents = [Document(text=note["text"], id_=note["id"], metadata={"title": note["title"]}) for note in notes]
index = VectorStoreIndex.from_documents(documents, embed_model=OpenAIEmbedding(model="text-embedding-3-small"))
engine = index.as_query_engine(
    llm=OpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0), similarity_top_k=3
)
