"""Embeddings and retrievers that tests name by import path."""

import hashlib
from typing import ClassVar

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


def make_retriever():
    """That store behind a retriever of LangChain's."""
    return make_store().as_retriever()


def make_distances():
    """A store whose scores are distances."""
    from langchain_core.vectorstores import InMemoryVectorStore

    class Distances(InMemoryVectorStore):
        def similarity_search_with_score(self, query, k=4, **kwargs):
            found = [(Document(page_content=text, id=text), far) for text, far in (("a", 0.25), ("b", 0.5), ("c", 2.0))]
            return found[:k]

        async def asimilarity_search_with_score(self, query, k=4, **kwargs):
            return self.similarity_search_with_score(query, k)

    return Distances(Hashing())


class Scored(BaseRetriever):
    """Documents with their scores."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=text, metadata={"score": score}) for text, score in (("a", 7.5), ("b", 3))]


class Refused(Exception):
    """As clients of HTTP raise it: with the answer's status, and a key in its text."""

    def __init__(self, status):
        super().__init__(f"no answer for kq-7781-secret-of-ours:\n{status}")
        self.status_code = status


class Failing(BaseRetriever):
    """Fails at everything but one query."""

    status: ClassVar[int] = 503
    calls: ClassVar[int] = 0

    def _get_relevant_documents(self, query, *, run_manager):
        if query == "after":
            return [Document(page_content=query)]
        type(self).calls += 1
        raise Refused(type(self).status)


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
