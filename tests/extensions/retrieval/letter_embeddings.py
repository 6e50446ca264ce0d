"""Embeddings of letters, named by import path."""

from langchain_core.embeddings import Embeddings


class Letters(Embeddings):
    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        return [text.count(letter) + 0.01 for letter in "abcdef"]


class Characters(Embeddings):
    """Bags of hashed characters."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        vector = [0.001] * 512
        for character in text:
            vector[ord(character) % 512] += 1
        return vector
