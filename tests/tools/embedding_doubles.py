"""Embeddings and retrievers that tests name by import path."""

import hashlib

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever


class Hashing(Embeddings):
    """Bags of hashed words: texts with the same words have the same vector."""

    calls: list[int] = []
    fails_after = None

    def embed_documents(self, texts):
        if Hashing.fails_after is not None and len(Hashing.calls) >= Hashing.fails_after:
            raise KeyboardInterrupt
        Hashing.calls.append(len(texts))
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        vector = np.zeros(16)
        for word in text.lower().replace(".", " ").split():
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % 16] += 1
        return (vector + 0.001).tolist()


class Broken(Hashing):
    def embed_query(self, text):
        return [float("nan")] * 16


class Two(BaseRetriever):
    """Always the same two documents."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [
            Document(page_content=f"about {query}", metadata={"source": "s1", "title": "T", "id": 7}),
            Document(page_content="more", id="x"),
        ]


def make_store():
    """A LangChain vector store, made when it is asked for."""
    from langchain_core.vectorstores import InMemoryVectorStore

    store = InMemoryVectorStore(Hashing())
    store.add_texts(["gout and uric acid", "asthma in children", "asthma"], ids=["g", "c", "a"])
    return store


def make_llama_index():
    """A LlamaIndex retriever."""
    from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    class Fixed(LlamaRetriever):
        def _retrieve(self, query_bundle):
            texts = [("n1", "asthma", 0.9), ("n2", "gout", 0.3)]
            return [
                NodeWithScore(node=TextNode(id_=i, text=t, metadata={"source": "doc"}), score=s) for i, t, s in texts
            ]

    return Fixed()


NOTHING = 3
