"""The web and PubMed: what providers answer, what is refused. No test leaves this machine."""

import gzip
import json
from datetime import UTC, datetime

import httpx
import pytest

from ragrounds.base.errors import GaveUp, StopRun, UserError
from ragrounds.base.specs import parse
from ragrounds.extensions.live_search import provider_budget
from ragrounds.extensions.live_search.live_searcher import LiveHit
from ragrounds.extensions.live_search.provider_budget import SearchFailed
from ragrounds.extensions.live_search.providers import SearchProvider
from ragrounds.extensions.live_search.pubmed import PubMed, parsed
from ragrounds.extensions.live_search.retrievers import web as searching
from ragrounds.tools.retriever import open_searcher
from tests.extensions.live_search.answers import KEY, sent
from tests.tools.test_web_pages import fetcher as fetcher
from tests.tools.test_web_pages import site as site

pytest.importorskip("trafilatura")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits between tries are none: what waits is tested beside."""
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.0)


_ANSWERS = {
    'searxng[url="http://sx.test/"]': {
        "results": [{"title": "T", "url": "http://a", "content": "S"}, {"title": "none"}]
    },
    "tavily": {"results": [{"title": "T", "url": "http://a", "content": "S"}]},
    "brave": {"web": {"results": [{"title": "T", "url": "http://a", "description": "S"}]}},
    "serper": {"organic": [{"title": "T", "link": "http://a", "snippet": "S"}]},
}


@pytest.mark.parametrize("spec", _ANSWERS)
async def test_providers(spec, monkeypatch):
    for name in ("TAVILY_API_KEY", "BRAVE_API_KEY", "SERPER_API_KEY"):
        monkeypatch.setenv(name, "secret-key")
    asked = []

    def answer(request):
        asked.append(request)
        return sent(json.dumps(_ANSWERS[spec]).encode())

    search = SearchProvider(spec, transport=httpx.MockTransport(answer))
    [hit] = await search.search("croup & dose", 3)
    assert (hit.title, hit.id, hit.text) == ("T", "http://a", "S")
    text = str(asked[0].url) + asked[0].content.decode()
    assert "croup" in text
    assert "secret-key" not in text


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        ((401, b"bad key secret-key"), "answered 401"),
        ((400, b'{"message": "bad query, key secret-key"}'), r"answered 400: bad query, key \[key\]"),
        ((200, b"<html>"), "not JSON"),
        ((200, b"[" * 100_000), "not JSON"),
        (httpx.ReadError("secret-key"), "did not answer"),
        (httpx.ConnectError("secret-key"), "no answer for"),
    ],
)
async def test_providers_that_fail_tell_no_key(response, reason, monkeypatch):
    monkeypatch.setenv("SERPER_API_KEY", "secret-key")

    def answer(request):
        if isinstance(response, Exception):
            raise response
        return sent(response[1], response[0])

    search = SearchProvider("serper[wait=0,rate=1000]", transport=httpx.MockTransport(answer))
    with pytest.raises((SearchFailed, StopRun), match=reason) as told:
        await search.search("x", 3)
    assert "secret-key" not in str(told.value)


async def test_a_provider_that_redirects_stops_the_run(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    asked = []

    def answer(request):
        asked.append(request)
        return sent(b"", 307, location=f"http://elsewhere.example/search?key={KEY}")

    search = SearchProvider("tavily", transport=httpx.MockTransport(answer))
    with pytest.raises(StopRun, match=r"api.tavily.com redirects to http://elsewhere.example \(307\)") as told:
        await search.search("x", 3)
    assert KEY not in str(told.value)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [
        (gzip.compress(b"[" + b" " * 50_000_000 + b"]"), "gzip", "more than 8,388,608 bytes unpacked"),
        (b" " * 9_000_000, "identity", "more than 8,388,608 bytes received"),
        (b"[[]" + b",[]" * 200_000 + b"]", "identity", "200,002 lists and objects"),
        (b"x", "br", "not asked for"),
    ],
)
async def test_what_a_provider_answers_is_bounded(body, encoding, reason, monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", KEY)

    def answer(request):
        return sent(body, **{"content-encoding": encoding})

    with pytest.raises(SearchFailed, match=reason):
        await SearchProvider("tavily[rate=1000]", transport=httpx.MockTransport(answer)).search("x", 3)


async def test_a_key_that_a_provider_repeats_is_taken_out(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    row = {"title": f"T {KEY}", "url": f"http://a/{KEY}", "content": f"S {KEY} of croup"}

    def answer(request):
        return sent(json.dumps({"results": [row]}).encode())

    [hit] = await SearchProvider("tavily", transport=httpx.MockTransport(answer)).search("x", 3)
    assert (hit.title, hit.id, hit.text) == ("T [key]", "http://a/[key]", "S [key] of croup")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ('searxng[url="http://localhost:1/?api_key=abc"]', "with a key as 'api_key'"),
        ('searxng[url="http://u:p@localhost:1/"]', "with a login"),
        ("bing", "search provider"),
        ("searxng", "address"),
        ("serper[k=3]", "no parameter 'k'"),
        ("tavily[rat=3]", "Did you mean 'rate'"),
        ("tavily[rate=0]", "> 0.0 - at `..rate`"),
        ("tavily[length=1.5]", "`int .*at `..length`"),
        ('tavily[url="https://elsewhere.example"]', "key_env=TAVILY_API_KEY"),
    ],
)
def test_providers_that_cannot_be_used(spec, reason, monkeypatch):
    for name in ("TAVILY_API_KEY", "SERPER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match=reason):
        SearchProvider(spec)


_PUBMED = b"""<?xml version="1.0"?><!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle//EN" "x.dtd">
<PubmedArticleSet><PubmedArticle><MedlineCitation><PMID>2</PMID><Article><Journal><JournalIssue><PubDate><Year>2020</Year>
</PubDate></JournalIssue><Title>J</Title></Journal><ArticleTitle>Croup <i>again</i></ArticleTitle><Abstract>
<AbstractText Label="AIM">One.</AbstractText><AbstractText>Two.</AbstractText></Abstract></Article></MedlineCitation>
</PubmedArticle></PubmedArticleSet>"""


async def test_pubmed(monkeypatch):
    monkeypatch.delenv("NCBI_API_KEY", raising=False)

    def answer(request):
        if "esearch" in str(request.url):
            assert b"croup" in request.content
            return sent(b'{"esearchresult": {"idlist": ["2", "3"]}}')
        return sent(_PUBMED)

    search = PubMed(parse("pubmed[rate=1000]"), transport=httpx.MockTransport(answer))
    [article] = await search.search("croup", 5)
    assert (article.id, article.title, article.text) == ("2", "Croup again", "AIM: One. Two.")


@pytest.mark.parametrize(
    "content", [b"not xml", b'<!DOCTYPE a [<!ENTITY x "y">]><PubmedArticleSet>&x;</PubmedArticleSet>']
)
def test_pubmed_answers_that_cannot_be_read(content):
    with pytest.raises(ValueError, match="XML that cannot be read"):
        parsed(content)


async def test_pubmed_lists_that_cannot_be_read():
    search = PubMed(parse("pubmed[rate=1000]"), transport=httpx.MockTransport(lambda request: sent(b'{"error": "x"}')))
    with pytest.raises(GaveUp, match="not a list"):
        await search.search("x", 2)


class _Fixed:
    spec = "fixed"

    def __init__(self, fails=False):
        self.fails = fails

    async def search(self, query, k):
        if self.fails:
            raise SearchFailed("fixed answered 503", "server")
        return [
            LiveHit(f"{query}/page", "T", "single dose is enough"),
            LiveHit("x", "", "s"),
        ][:k]


async def test_the_web_as_a_corpus(site, fetcher):
    spec = parse("web[provider=tavily,pages=true]")
    searcher = searching.WebSearcher(spec, provider=_Fixed(), fetcher=fetcher)
    found = await searcher.search(site.url, 5)
    assert "Dexamethasone shortens croup" in found[0].text
    assert found[1].text == "s"  # the page cannot be had: the snippet stands
    day = datetime.now(UTC).date().isoformat()
    assert searcher.corpus == "web@live"
    assert [(p.rank, p.corpus, p.retriever) for p in found] == [
        (1, f"web@{day}", "web[pages=true,provider=tavily]"),
        (2, f"web@{day}", "web[pages=true,provider=tavily]"),
    ]
    assert await searcher.search(" ", 3) == []
    with pytest.raises(GaveUp, match=r"503.*'croup'"):
        await searching.WebSearcher(spec, provider=_Fixed(fails=True), fetcher=fetcher).search("croup", 1)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("web", "needs a search provider"),
        ("web[provider=bing]", "provider"),
        ("web[provider=tavily,page=true]", "'pages'"),
    ],
)
def test_webs_that_make_no_sense(spec, reason, tmp_path):
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, "anything", tmp_path)
