"""Embedders behind an API, and a user's own LangChain embeddings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ragrounds.contracts import Used
from ragrounds.errors import UserError
from ragrounds.tools.embedding import Encoding, Vectors, finished, joined
from ragrounds.tools.importing import imported
from ragrounds.tools.using import USED

_BATCH = 128


class _Joined:
    """What has no pairs: titles and texts are joined, prefixes put before them."""

    def __init__(self, encoding: Encoding) -> None:
        if encoding.join == "pair" or encoding.pooling != "model" or encoding.document_model:
            raise UserError(
                f"{encoding.model!r} takes one text at a time and pools by itself: join=pair, pooling and "
                "document_model are for local weights."
            )
        self._encoding = encoding

    def _prefixed(self, documents: Sequence[tuple[str, str]]) -> list[str]:
        how = self._encoding.join
        return [self._encoding.document_prefix + joined(title, text, how) for title, text in documents]

    def _asked(self, texts: Sequence[str]) -> list[str]:
        return [self._encoding.query_prefix + text for text in texts]


class OpenAIEmbedder(_Joined):
    """OpenAI's embeddings API, and servers that speak it."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__(encoding)
        from openai import OpenAI

        if not encoding.base_url and not os.environ.get("OPENAI_API_KEY"):
            raise UserError(f"{encoding.model!r} needs the environment variable OPENAI_API_KEY, or base_url=….")
        key = os.environ.get("OPENAI_API_KEY", "none")
        self._client = OpenAI(base_url=encoding.base_url or None, api_key=key, max_retries=5)
        self._model = encoding.model.removeprefix("openai:")
        self._hosted = not encoding.base_url

    def queries(self, texts: Sequence[str]) -> Vectors:
        vectors, tokens = self.metered(texts)
        USED.tell(Used(f"openai:{self._model}", tokens, self._hosted))
        return vectors

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        return self._vectors(self._prefixed(documents))[0]

    def metered(self, texts: Sequence[str]) -> tuple[Vectors, int | None]:
        return self._vectors(self._asked(texts))

    def _vectors(self, texts: list[str]) -> tuple[Vectors, int | None]:
        from openai import OpenAIError

        rows: list[list[float]] = []
        tokens: int | None = 0
        for start in range(0, len(texts), _BATCH):
            # An empty text is refused by the API; a blank has a vector.
            batch = [text or " " for text in texts[start : start + _BATCH]]
            try:
                reply = self._client.embeddings.create(model=self._model, input=batch, encoding_format="float")
            except OpenAIError as problem:
                raise UserError(f"The embedding model {self._model!r} gave no vectors: {problem}.") from None
            rows += [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
            counted = getattr(reply.usage, "prompt_tokens", None)  # other servers leave it out
            tokens = None if tokens is None or counted is None else tokens + counted
        return finished(rows, self._encoding), tokens


class ImportedEmbedder(_Joined):
    """A LangChain ``Embeddings`` named by its import path."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__(encoding)
        from langchain_core.embeddings import Embeddings

        made: Any = imported(encoding.model.removeprefix("import:"), Embeddings, "a LangChain Embeddings")
        self._embeddings: Embeddings = made

    def queries(self, texts: Sequence[str]) -> Vectors:
        return finished([self._embeddings.embed_query(text) for text in self._asked(texts)], self._encoding)

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        return finished(self._embeddings.embed_documents(self._prefixed(documents)), self._encoding)
