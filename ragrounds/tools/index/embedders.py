"""Embedders turn texts into vectors. Queries and documents may have different encoders, prefixes and lengths.

A model is one of

* a card's name (``medcpt``, ``bge-large-en``: `ragrounds list retrievers`), which sets everything below;
* a Hugging Face id or a folder, for sentence-transformers (extra ``local``);
* ``openai:MODEL``, any server with OpenAI's API (``base_url=…``; the key is OPENAI_API_KEY);
* ``import:package.module:name``, a LangChain ``Embeddings`` object or something that makes one when it is called.
"""

from __future__ import annotations

import asyncio
import base64
import os
import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.base.addresses import check_http_address
from ragrounds.base.chunks import chunks
from ragrounds.base.contracts import EventCollector, Used
from ragrounds.base.errors import GaveUp, StopRun, UserError
from ragrounds.base.http import (
    BadReply,
    HttpAnswer,
    HttpClient,
    ReplyLimits,
    believed_count,
    close_in_background,
    in_background,
    is_transient_status,
    read_json,
    retry_after,
    root_cause,
    text_of,
)
from ragrounds.base.plugins import imported
from ragrounds.base.text import safe
from ragrounds.recorder.redaction import Redactor
from ragrounds.tools.index.weights import check_weights, load_weights, need_library, place_of_weights, weights_missing

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Vectors = npt.NDArray[np.float32]
Metric = Literal["ip", "cosine", "l2"]
Pooling = Literal["mean", "cls", "last", "model"]
Join = Literal["pair", "sentence", "sep", "line"]
Computed = Literal["", "float32", "float16", "bfloat16"]


class Encoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings by which texts become vectors. Together with the model's revision this is an embedder's identity."""

    model: Annotated[str, "the encoder of queries, and of documents where they have none of their own"]
    document_model: Annotated[str, "the encoder of documents"] = ""
    pooling: Annotated[Pooling, "mean, cls, last, or model for what the weights say"] = "model"
    metric: Annotated[Metric, "ip, cosine or l2"] = "cosine"
    """Inner product, cosine, or squared Euclidean distance, of which the smaller is the better."""
    normalise: Annotated[bool, "scale vectors to length 1"] = False
    query_prefix: Annotated[str, "text before every query"] = ""
    document_prefix: Annotated[str, "text before every document"] = ""
    query_length: Annotated[int, "tokens of a query; 0: the model's limit"] = 0
    document_length: Annotated[int, "tokens of a document; 0: the model's limit"] = 0
    join: Annotated[Join, "title and text as pair, sentence, sep or line"] = "sentence"
    """Form of a document's title and text: as a pair of inputs, as ``title. text`` (MedRAG), with ``[SEP]`` between, or
    on two lines.
    """
    dimensions: Annotated[int, "first numbers of a vector that are kept; 0: all"] = 0
    """The first dimensions of Matryoshka embeddings. They are normalised again after the cut."""
    kept: Annotated[Literal["", "float32", "float16"], "numbers of the stored vectors as float32 or float16"] = ""
    """Type of the stored numbers; float16 takes half the disk. Empty means float32."""
    dtype: Annotated[Computed, "what local weights compute in: float32, float16 or bfloat16; empty: as they are"] = ""
    device: Annotated[str, "where local weights compute, as cuda:0; several, joined with +, share the work"] = ""
    """Device as torch names it. If it is empty, torch chooses."""
    batch: Annotated[int, "texts at once; 0: 32"] = 0
    base_url: Annotated[str, "a server with OpenAI's API"] = ""
    alias: Annotated[str, "a name for that server, which may then move"] = ""
    fingerprint: Annotated[str, "which of the servers met at that address it is; set by ragrounds"] = ""
    """Fingerprint of the server; empty means the first server."""

    def __post_init__(self) -> None:
        if self.batch < 0:
            raise ValueError(f"batch={self.batch} is below 0")
        if (self.device or self.dtype) and self.model.startswith(("openai:", "import:")):
            raise ValueError(f"device and dtype are for local weights, and {self.model} is none")
        if self.base_url:
            check_http_address(self.base_url, "set OPENAI_API_KEY, which is never written anywhere")


class Embedder(Protocol):
    """Model that turns texts into vectors, a float32 row for each text."""

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries, float32, shape (texts, dimensions)."""

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        """Return the vectors of documents given as (title, text), float32, shape (documents, dimensions)."""


@runtime_checkable
class MeteredEmbedder(Protocol):
    """An embedder whose provider counts tokens."""

    def metered(self, texts: Sequence[str]) -> tuple[Vectors, int | None]:
        """Return the vectors of `texts` as queries, and the provider's count of tokens; ``None`` if not reported."""


def joined(title: str, text: str, how: str) -> str:
    """Return a document as a single text."""
    if not title:
        return text
    if how == "sep":
        return f"{title} [SEP] {text}"
    if how == "line":
        return f"{title}\n{text}"
    return f"{title}{' ' if title.endswith(('.', '?', '!')) else '. '}{text}"


def finish_vectors(vectors: npt.ArrayLike, encoding: Encoding) -> Vectors:
    """Return vectors as float32, cut to their first dimensions and normalised if the encoding requires it.

    Raises:
        UserError: the vectors have fewer dimensions than required, or are not numbers.
    """
    finished: Vectors = np.ascontiguousarray(np.atleast_2d(np.asarray(vectors, dtype=np.float32)))
    if encoding.dimensions:
        if finished.shape[1] < encoding.dimensions:
            raise UserError(
                f"{encoding.model!r} gives {finished.shape[1]} dimensions: cannot keep {encoding.dimensions} of them."
            )
        finished = np.ascontiguousarray(finished[:, : encoding.dimensions])
    if not np.isfinite(finished).all():
        raise UserError(f"{encoding.model!r} gave vectors with values that are not finite numbers.")
    if encoding.normalise or encoding.metric == "cosine":
        norms = np.linalg.norm(finished, axis=1, keepdims=True)
        finished /= np.where(norms > 0, norms, 1)
    return finished


def check_embedder(encoding: Encoding) -> None:
    """Check that the weights of a local model are here or can be downloaded.

    This is done before a corpus is read for it, and before the library is loaded, which takes many seconds.

    Raises:
        UserError: the weights are not available, or sentence-transformers is not installed.
    """
    if encoding.model.startswith(("openai:", "import:")):
        return
    need_library(encoding.model)
    check_weights(encoding.model, encoding.document_model or encoding.model)


@lru_cache(maxsize=2)
def open_embedder(encoding: Encoding) -> Embedder:
    """Load the embedder of an encoding. The last two stay loaded, for retrievers that share a model.

    Raises:
        UserError: a library that it needs is not installed, or the weights are not available.
    """
    check_embedder(encoding)
    if encoding.model.startswith("openai:"):
        return OpenAIEmbedder(encoding)
    if encoding.model.startswith("import:"):
        return ImportedEmbedder(encoding)

    return LocalEmbedder(encoding)


USED = EventCollector[Used]("ragrounds_used")
"""Collector to which embedders on servers report the usage of a search.

The caller that began the search collects it.
"""


_POOLING_MODES = {"mean": "mean", "cls": "cls", "last": "lasttoken"}
_BATCH = 32


class LocalEmbedder:
    """A single encoder, or an encoder for queries and another for documents."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        single_model = not encoding.document_model or encoding.document_model == encoding.model
        same = single_model and encoding.query_length == encoding.document_length
        self._batch = encoding.batch or _BATCH
        self._devices = encoding.device.split("+") if "+" in encoding.device else []
        """Devices that share the documents. Queries are few, and stay on the first device."""
        placement = (self._devices[0] if self._devices else encoding.device, encoding.dtype)
        self._queries = load_encoder(encoding.model, encoding.pooling, encoding.query_length, *placement)
        self._documents = (
            self._queries
            if same
            else load_encoder(
                encoding.document_model or encoding.model, encoding.pooling, encoding.document_length, *placement
            )
        )
        self._pool: dict[str, object] | None = None

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries, after the encoding's prefix was put before each."""
        return self._vectors(self._queries, [self._encoding.query_prefix + text for text in texts])

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        """Return the vectors of documents, their titles and texts joined as the encoding requires."""
        prefix = self._encoding.document_prefix
        how = self._encoding.join
        texts: list[str | list[str]] = [
            [prefix + title, text] if how == "pair" else prefix + joined(title, text, how) for title, text in documents
        ]
        if self._devices and len(texts) > len(self._devices):
            return self._vectors_by_pool(texts)
        return self._vectors(self._documents, texts)

    def _vectors_by_pool(self, texts: Sequence[str | list[str]]) -> Vectors:
        """Return the vectors of documents, computed by a process on each device.

        The processes end with this embedder.
        """
        model = self._documents
        if self._pool is None:
            self._pool = model.start_multi_process_pool(self._devices)
            weakref.finalize(self, model.stop_multi_process_pool, self._pool)
        share = -(-len(texts) // len(self._devices))
        vectors = model.encode(
            texts, pool=self._pool, batch_size=self._batch, chunk_size=share, show_progress_bar=False
        )
        return finish_vectors(vectors, self._encoding)

    def _vectors(self, model: SentenceTransformer, texts: Sequence[str | list[str]]) -> Vectors:
        vectors = model.encode(texts, batch_size=self._batch, show_progress_bar=False, convert_to_numpy=True)
        return finish_vectors(vectors, self._encoding)


def load_encoder(model: str, pooling: str, length: int, device: str = "", dtype: str = "") -> SentenceTransformer:
    """Load weights by id or from a folder, to a device, in a type of numbers.

    If these are empty, torch and the weights decide.

    Raises:
        UserError: sentence-transformers is not installed, or the weights are neither here nor available.
    """
    numbers = {"dtype": dtype} if dtype else {}
    if pooling == "model":
        encoder: SentenceTransformer = load_weights(
            "SentenceTransformer", model, device=device or None, model_kwargs=numbers
        )
        if length:
            encoder.max_seq_length = length
        return encoder
    need_library(model)
    check_weights(model)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    try:
        transformer = Transformer(place_of_weights(model), max_seq_length=length or None, model_kwargs=numbers)
        pooled = Pooling(transformer.get_embedding_dimension(), pooling_mode=_POOLING_MODES[pooling])
        return SentenceTransformer(modules=[transformer, pooled], device=device or None)
    except Exception as problem:  # the hub, the network and the file formats each have errors of their own
        raise weights_missing(model, f"{type(problem).__name__}: {problem}") from None


_TEXTS_AT_ONCE = 128


class _TextEmbedder:
    """An embedder that takes a single text for each document: title and text are joined, the prefix put before them."""

    def __init__(self, encoding: Encoding) -> None:
        if encoding.join == "pair" or encoding.pooling != "model" or encoding.document_model:
            raise UserError(
                f"{encoding.model!r} takes one text at a time and pools by itself: join=pair, pooling and "
                "document_model are for local weights."
            )
        self._encoding = encoding

    def _document_texts(self, documents: Sequence[tuple[str, str]]) -> list[str]:
        how = self._encoding.join
        return [self._encoding.document_prefix + joined(title, text, how) for title, text in documents]

    def _asked(self, texts: Sequence[str]) -> list[str]:
        return [self._encoding.query_prefix + text for text in texts]


OPENAI = "https://api.openai.com/v1"
VECTORS = ReplyLimits(size=32 << 20, values=2_000_000)
"""Limits of a reply: 128 vectors of 8,192 dimensions, as text."""
TRIES = 6
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second try, and the longest wait. The wait doubles before each further try."""


class _Row(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _TransientFault(Exception):
    """An answer after which the request is tried again. `wait` is the number of seconds that the server requires."""

    def __init__(self, kind: str, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.wait = wait


class OpenAIEmbedder(_TextEmbedder):
    """OpenAI's embeddings API, and servers that implement it. `seconds` is the time allowed for an answer."""

    def __init__(self, encoding: Encoding, seconds: float = 600.0, tries: int = TRIES) -> None:
        super().__init__(encoding)
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        if not encoding.base_url and not key:
            raise UserError(f"{encoding.model!r} needs the environment variable OPENAI_API_KEY, or base_url=….")
        self._redact = Redactor(key)
        headers = {"Authorization": f"Bearer {key or 'none'}", "Content-Type": "application/json"}
        self._client = HttpClient(encoding.base_url or OPENAI, headers, seconds, self._redact)
        weakref.finalize(self, close_in_background, self._client)
        self._seconds, self._tries = seconds, tries
        self._model = encoding.model.removeprefix("openai:")
        self._hosted = not encoding.base_url

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries, after the encoding's prefix was put before each.

        The tokens used are reported to :data:`USED`.
        """
        vectors, tokens = self.metered(texts)
        USED.report(Used(f"openai:{self._model}", tokens, self._hosted))
        return vectors

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        """Return the vectors of documents, their titles and texts joined as the encoding requires."""
        return self._vectors(self._document_texts(documents))[0]

    def metered(self, texts: Sequence[str]) -> tuple[Vectors, int | None]:
        """Return the vectors of queries, and the tokens that the server counted.

        The count is ``None`` if the server reports none, or one that cannot be true.
        """
        return self._vectors(self._asked(texts))

    def _vectors(self, texts: list[str]) -> tuple[Vectors, int | None]:
        """Request the vectors of texts in batches. The token count is ``None`` if any reply reports none."""
        import aiohttp

        rows: list[Vectors] = []
        tokens: int | None = 0
        for part in chunks(texts, _TEXTS_AT_ONCE):
            # An empty text is refused by the API; a blank has a vector.
            batch = [text or " " for text in part]
            try:
                batch_vectors, counted = in_background(self._request_vectors(batch))
            except (BadReply, _TransientFault, aiohttp.ClientError, OSError) as problem:
                message = str(problem) if isinstance(problem, BadReply | _TransientFault) else root_cause(problem)
                message = self._redact(safe(message).replace("\n", " "))[:500]
                kind = getattr(problem, "kind", "connection")
                raise GaveUp(
                    kind, f"The embedding model {self._model!r} gave no vectors{self._client.via}: {message}."
                ) from None
            rows += batch_vectors
            tokens = None if tokens is None or counted is None else tokens + counted
        if len({np.shape(row) for row in rows}) > 1:
            raise GaveUp("malformed", f"{self._encoding.model!r} gave vectors of different lengths.")
        return finish_vectors(np.array(rows), self._encoding), tokens

    async def _request_vectors(self, batch: list[str]) -> tuple[list[Vectors], int | None]:
        """Request the vectors of a batch, and try again after errors that may pass."""
        import aiohttp

        body = msgspec.json.encode({"model": self._model, "input": batch, "encoding_format": "float"})
        for number in range(1, self._tries + 1):
            try:
                return self._read(await self._client.send("POST", "/embeddings", body, limits=VECTORS), len(batch))
            except TimeoutError:
                problem: Exception = _TransientFault("timeout", f"no complete answer within {self._seconds:g} s")
            except (_TransientFault, aiohttp.ClientError, OSError) as error:
                problem = error
            if number == self._tries:
                raise problem
            requested_wait = problem.wait if isinstance(problem, _TransientFault) else None
            await asyncio.sleep(
                min(LONGEST_WAIT, FIRST_WAIT * 2 ** (number - 1) if requested_wait is None else requested_wait)
            )
        raise AssertionError("unreachable")

    def _read(self, answer: HttpAnswer, count: int) -> tuple[list[Vectors], int | None]:
        """Return the vectors of an answer in the order of the texts, and its count of tokens."""
        status = answer.status
        if status >= 400:
            message = f"{status}: {' '.join(text_of(answer.body[:4096], '').split())}"
            if is_transient_status(status):
                kind = "rate_limit" if status == 429 else "server"
                raise _TransientFault(kind, message, retry_after(answer.headers))
            if status in (401, 403, 404):
                plain = self._redact(safe(message).replace("\n", " "))[:500]
                raise StopRun(f"{self._client.base_url}: {plain}. Check the key, the model's name and the address.")
            raise BadReply("bad_request", message)
        try:
            reply = read_json(answer.body)
            rows = msgspec.convert(reply.get("data") if isinstance(reply, dict) else None, list[_Row])
        except ValueError as error:
            start = text_of(answer.body[:4096], "")
            raise _TransientFault(
                "malformed", f"not a list of vectors ({error}): {self._redact(start)[:120]!r}"
            ) from None
        indices = [row.index for row in rows]
        if not any(index is not None for index in indices):
            indices = list(range(len(rows)))
        if sorted(index for index in indices if index is not None) != list(range(count)):
            raise BadReply("malformed", f"{len(rows):,} vectors for {count:,} texts, or not one for each")
        vectors: list[Vectors] = [
            _unpack_vector(row.embedding)
            for _, row in sorted(zip(indices, rows, strict=True), key=lambda pair: pair[0] or 0)
        ]
        usage = reply.get("usage") if isinstance(reply, dict) else None
        if not isinstance(usage, dict):
            return vectors, None
        tokens, total = believed_count(usage.get("prompt_tokens")), believed_count(usage.get("total_tokens"))
        return vectors, None if tokens is not None and total is not None and total < tokens else tokens


def _unpack_vector(embedding: list[float] | str) -> Vectors:
    """Return a vector as an array. Some servers send it packed."""
    if not isinstance(embedding, str):
        return np.asarray(embedding, dtype=np.float32)
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
    except ValueError:
        raise BadReply("malformed", "a vector that is a text") from None


class ImportedEmbedder(_TextEmbedder):
    """A LangChain ``Embeddings`` named by its import path."""

    def __init__(self, encoding: Encoding) -> None:
        super().__init__(encoding)
        from langchain_core.embeddings import Embeddings

        path = encoding.model.removeprefix("import:")
        self._embeddings: Embeddings = imported(path, Embeddings, "a LangChain Embeddings")

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries, after the encoding's prefix was put before each."""
        return finish_vectors([self._embeddings.embed_query(text) for text in self._asked(texts)], self._encoding)

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        """Return the vectors of documents, their titles and texts joined as the encoding requires."""
        return finish_vectors(self._embeddings.embed_documents(self._document_texts(documents)), self._encoding)
