"""The web: what is refused, what providers answer, what is read out of pages. No test leaves this machine."""

import asyncio
import gzip
import json
from datetime import UTC, datetime

import httpx
import pytest
from aiohttp import web

from ragrounds.base.errors import GaveUp, StopRun, UserError
from ragrounds.base.specs import parse
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers import web as searching
from ragrounds.tools.web import provider_budget
from ragrounds.tools.web.live_searcher import LiveHit
from ragrounds.tools.web.pages import Fetched, Fetcher, FetchFailed, FetchLimits, excerpt, extract, is_public
from ragrounds.tools.web.provider_budget import SearchFailed
from ragrounds.tools.web.providers import SearchProvider
from ragrounds.tools.web.pubmed import PubMed, parsed

pytest.importorskip("trafilatura")

_HTML = (
    "<html><head><title>Croup</title></head><body><nav>Menu one two</nav><article><h1>Croup</h1>"
    + "<p>Dexamethasone shortens croup in children, and a single dose is enough for most of them. </p>" * 6
    + "</article><script>evil()</script></body></html>"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits between tries are none: what waits is tested beside."""
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.0)


@pytest.fixture
async def site():
    """A site on this machine; `site.hits` has the paths that were asked for."""
    hits = []
    released = asyncio.Event()

    async def page(request):
        hits.append(request.path)
        path = request.path
        if path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private\n")
        if path.startswith("/loop"):
            raise web.HTTPFound(f"/loop{int(path[5:] or 0) + 1}")
        if path == "/away":
            raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
        if path == "/hop":
            raise web.HTTPFound("/page")
        if path == "/private-hop":
            raise web.HTTPFound("/private/page")
        if path == "/big":
            return web.Response(body=b"x" * 200_000, content_type="text/plain")
        if path == "/bomb":
            packed = gzip.compress(b"x" * 3_000_000)
            return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})
        if path == "/image":
            return web.Response(body=b"x", content_type="image/png")
        if path == "/slow":
            await asyncio.wait_for(released.wait(), 60)
        if path == "/gone":
            raise web.HTTPNotFound
        return web.Response(text=_HTML, content_type="text/html")

    application = web.Application()
    application.router.add_get("/{tail:.*}", page)
    runner = web.AppRunner(application)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    application.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    application.hits = hits
    yield application
    released.set()
    await runner.cleanup()


@pytest.fixture
async def fetcher():
    made = Fetcher(FetchLimits(private=True, pause=0.0, size=100_000, seconds=2.0))
    yield made
    await made.close()


async def test_a_page_is_fetched_and_read(site, fetcher):
    got = await fetcher.fetch(f"{site.url}/hop")
    page = extract(got)
    assert page.url == f"{site.url}/page"
    assert page.title == "Croup"
    assert "Dexamethasone shortens croup" in page.text
    assert "evil" not in page.text
    assert site.hits[0] == "/robots.txt"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/loop", "redirects more than"),
        ("/private/x", "robots"),
        ("/private-hop", "robots"),
        ("/big", "more than 100,000 bytes"),
        ("/bomb", "more than 100,000 bytes"),
        ("/image", "image/png"),
        ("/gone", "404"),
    ],
)
async def test_what_is_refused(site, fetcher, path, reason):
    with pytest.raises(FetchFailed, match=reason):
        await fetcher.fetch(site.url + path)


async def test_a_page_that_takes_too_long_is_given_up(site):
    hurried = Fetcher(FetchLimits(private=True, pause=0.0, seconds=0.3))
    with pytest.raises(FetchFailed, match="longer than"):
        await hurried.fetch(f"{site.url}/slow")
    await hurried.close()


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://x/y", "http://user:secret@x/", "javascript:alert(1)", "", "http://", "nonsense"],
)
async def test_other_schemes_are_refused(fetcher, url):
    with pytest.raises(FetchFailed):
        await fetcher.fetch(url)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "2130706433"]
)
async def test_addresses_that_are_not_public_are_refused(host, site):
    fetcher = Fetcher(FetchLimits(pause=0.0, seconds=3.0))
    with pytest.raises(FetchFailed, match=r"not public|no address"):
        await fetcher.fetch(f"http://{host}:{site.url.rpartition(':')[2]}/page")
    await fetcher.close()
    assert site.hits == []


async def test_a_redirect_to_an_inner_address_is_refused(site, monkeypatch):
    """The first host passes for public; where it sends us does not."""
    from ragrounds.tools.web import pages as fetching

    real = fetching.public_address

    async def address(host, port):
        return "127.0.0.1" if host == "public.test" else await real(host, port)

    monkeypatch.setattr(fetching, "public_address", address)
    fetcher = Fetcher(FetchLimits(pause=0.0))
    port = site.url.rpartition(":")[2]
    page = await fetcher.fetch(f"http://public.test:{port}/page")
    assert page.url == f"http://public.test:{port}/page"
    with pytest.raises(FetchFailed, match=r"169\.254\.169\.254, which is not public"):
        await fetcher.fetch(f"http://public.test:{port}/away")
    await fetcher.close()


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("fd00::1", False),
        ("64:ff9b:1::7f00:1", False),
        ("::ffff:0:127.0.0.1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("::7f00:1", False),
        ("224.0.0.1", False),
        ("100.64.0.1", False),
    ],
)
def test_public_addresses(address, public):
    assert is_public(address) is public


def test_the_place_that_fits_a_snippet():
    text = "Start. " * 2000 + "Magnesium helps in severe asthma attacks. " + "End. " * 2000
    part = excerpt(text, "magnesium severe asthma", around=50)
    assert "Magnesium helps in severe asthma attacks." in part
    assert len(part) < 200
    assert excerpt(text, "nothing of that kind") == text[:6000]
    assert excerpt("", "x") == ""


def test_pages_without_text_are_told():
    with pytest.raises(FetchFailed, match="no text"):
        extract(Fetched(url="u", type="text/html", charset="utf-8", content=b"<html></html>"))
    with pytest.raises(FetchFailed, match="PDF"):
        extract(Fetched(url="u", type="application/pdf", charset="utf-8", content=b"%PDF-nonsense"))
    odd = Fetched(url="u", type="text/plain", charset="no-such-charset", content="Grüße".encode())
    assert extract(odd).text == "Grüße"


_ANSWERS = {
    'searxng[url="http://sx.test/"]': {
        "results": [{"title": "T", "url": "http://a", "content": "S"}, {"title": "none"}]
    },
    "tavily": {"results": [{"title": "T", "url": "http://a", "content": "S"}]},
    "brave": {"web": {"results": [{"title": "T", "url": "http://a", "description": "S"}]}},
    "serper": {"organic": [{"title": "T", "link": "http://a", "snippet": "S"}]},
}


def _sent(body, status=200, **headers):
    async def parts():
        yield body

    return httpx.Response(status, content=parts(), headers=headers)


@pytest.mark.parametrize("spec", _ANSWERS)
async def test_providers(spec, monkeypatch):
    for name in ("TAVILY_API_KEY", "BRAVE_API_KEY", "SERPER_API_KEY"):
        monkeypatch.setenv(name, "secret-key")
    asked = []

    def answer(request):
        asked.append(request)
        return _sent(json.dumps(_ANSWERS[spec]).encode())

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
        return _sent(response[1], response[0])

    search = SearchProvider("serper[wait=0,rate=1000]", transport=httpx.MockTransport(answer))
    with pytest.raises((SearchFailed, StopRun), match=reason) as told:
        await search.search("x", 3)
    assert "secret-key" not in str(told.value)


_KEY = "tvly-0123456789abcdefghij"


async def test_a_provider_that_redirects_stops_the_run(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", _KEY)
    asked = []

    def answer(request):
        asked.append(request)
        return _sent(b"", 307, location=f"http://elsewhere.example/search?key={_KEY}")

    search = SearchProvider("tavily", transport=httpx.MockTransport(answer))
    with pytest.raises(StopRun, match=r"api.tavily.com redirects to http://elsewhere.example \(307\)") as told:
        await search.search("x", 3)
    assert _KEY not in str(told.value)
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
    monkeypatch.setenv("TAVILY_API_KEY", _KEY)

    def answer(request):
        return _sent(body, **{"content-encoding": encoding})

    with pytest.raises(SearchFailed, match=reason):
        await SearchProvider("tavily[rate=1000]", transport=httpx.MockTransport(answer)).search("x", 3)


async def test_a_key_that_a_provider_repeats_is_taken_out(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", _KEY)
    row = {"title": f"T {_KEY}", "url": f"http://a/{_KEY}", "content": f"S {_KEY} of croup"}

    def answer(request):
        return _sent(json.dumps({"results": [row]}).encode())

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
            return _sent(b'{"esearchresult": {"idlist": ["2", "3"]}}')
        return _sent(_PUBMED)

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
    search = PubMed(parse("pubmed[rate=1000]"), transport=httpx.MockTransport(lambda request: _sent(b'{"error": "x"}')))
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
