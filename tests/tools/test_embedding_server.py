"""What a server of embeddings may reply. Each kind is sent by a real server."""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.specs import parse
from ragrounds.tools.index import embedders
from ragrounds.tools.index.cards import encoding_of
from ragrounds.tools.index.embedders import Encoding, OpenAIEmbedder, Vectors
from ragrounds.tools.index.embedding_servers import embedding_models, with_fingerprints
from tests.servers.raw_replies import KINDS, RawServer, raw_server

KEY = "sk-test-0123456789abcdefghijkl"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(embedders, "FIRST_WAIT", 0.01)


async def embed(server: RawServer, kind: str, tries: int = 1, seconds: float = 10) -> tuple[Vectors, int | None]:
    """The vectors of three texts, as one kind of reply gives them."""
    assert kind in KINDS
    embedder = OpenAIEmbedder(Encoding(model=f"openai:{kind}", base_url=server.url, metric="ip"), seconds, tries)
    return await asyncio.to_thread(embedder.metered, ["a", "b", ""])


@pytest.mark.parametrize(
    "kind",
    ["plain", "one chunk", "gzip", "raw deflate", "trailers", "bom", "http 1.0 without length", "json as text/html"],
)
async def test_vectors_are_read_whatever_their_wrapping(kind: str) -> None:
    async with raw_server() as server:
        vectors, tokens = await embed(server, kind)
    assert vectors.tolist() == [[1.0, 0.0, 0.5], [1.0, 1.0, 0.5], [1.0, 2.0, 0.5]]
    assert tokens == 12
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind.startswith("usage") and "than" not in kind] + ["no usage"],
)
async def test_tokens_that_cannot_be_true_are_unknown(kind: str) -> None:
    async with raw_server() as server:
        vectors, tokens = await embed(server, kind)
    assert (vectors.shape, tokens) == ((3, 3), None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "said", "asked"),
    [
        ("gzip of 100 MB", "more than 33,554,432 bytes unpacked", 1),
        ("1 GB, not packed", "more than 33,554,432 bytes received", 1),
        ("2,500,000 empty lists", "lists and objects", 1),
        ("vectors of texts", "not one for each", 1),
        ("vectors of NaN", "not one for each", 1),
        ("vectors of two lengths", "different lengths", 1),
        ("no choices", "0 vectors for 3 texts", 1),
        ("nested 90,000 deep, in content", "too deep", 2),
        ("choices null", "not a list of vectors", 2),
        ("html", "not a list of vectors", 2),
        ("closed at once", "disconnected", 2),
        ("429", "429", 2),
        ("400", "400: ", 1),
        ("401 with the key", r"401: .*\[key\]", 1),
    ],
)
async def test_what_is_no_answer_is_one_line(kind: str, said: str, asked: int) -> None:
    gc.collect()  # an embedder of an earlier test is not closed at the bottom of a deep recursion
    async with raw_server() as server:
        with pytest.raises(UserError, match=said) as told:
            await embed(server, kind, tries=2)
        assert len(server.hits) == asked
    assert KEY not in str(told.value)
    assert "\n" not in str(told.value)


async def test_a_server_that_never_finishes_is_given_up() -> None:
    async with raw_server() as server:
        with pytest.raises(UserError, match=r"no complete answer within 0.3 s"):
            await embed(server, "a byte now and then", seconds=0.3)


async def test_a_redirect_is_not_followed() -> None:
    async with raw_server() as server:
        with pytest.raises(StopRun, match=r"redirects to http://127.0.0.2:\d+ \(307\)"):
            await embed(server, "307 to another host", tries=3)
        assert len(server.hits) == 1


@pytest.mark.parametrize(
    "text", ["dense[model=openai:x[{}]]", 'dense[model="openai:x[{}]"]', "dense[model=openai:x,{}]"]
)
def test_the_address_stands_inside_the_model_as_of_chat_models_or_beside_it(text: str) -> None:
    spec = parse(text.format("base_url=http://127.0.0.1:9/v1"))
    assert encoding_of(spec)[0] == Encoding(model="openai:x", base_url="http://127.0.0.1:9/v1")
    assert list(embedding_models(spec)) == ["openai:x[base_url=http://127.0.0.1:9/v1]"]
    assert str(with_fingerprints(spec, {})) == "dense[base_url=http://127.0.0.1:9/v1,model=openai:x]"


@pytest.mark.parametrize("query", ["api_key=abcdef", "subscription-key=1", "sig=a%2Fb", f"x={KEY}"])
def test_an_address_with_a_key_is_refused(query: str) -> None:
    with pytest.raises(UserError, match="with a key") as told:
        Encoding(model="openai:m", base_url=f"https://host.example/v1?api-version=3&{query}")
    assert query.partition("=")[2] not in str(told.value)
    Encoding(model="openai:m", base_url="https://host.example/v1?api-version=3")
