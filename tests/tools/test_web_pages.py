"""Pages of the web: what is refused, what is read out of them. No test leaves this machine."""

import asyncio
import gzip

import pytest
from aiohttp import web

from ragrounds.tools.web_pages import Fetched, Fetcher, FetchFailed, FetchLimits, excerpt, extract, is_public
from tests.rows import each_row

pytest.importorskip("trafilatura")

_HTML = (
    "<html><head><title>Croup</title></head><body><nav>Menu one two</nav><article><h1>Croup</h1>"
    + "<p>Dexamethasone shortens croup in children, and a single dose is enough for most of them. </p>" * 6
    + "</article><script>evil()</script></body></html>"
)


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
    from ragrounds.tools import web_pages as fetching

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


@each_row(
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
