"""Proxies of the environment: loopback is never proxied, NO_PROXY as curl reads it, and errors name the proxy."""

import asyncio
import socket
import threading

import pytest

from ragrounds.base.errors import StopRun
from ragrounds.base.proxies import proxy_of, proxy_words
from ragrounds.models.faults import Transient
from ragrounds.models.transport import Transport, Unreachable
from tests.servers.http_script import Told, answering

PROXY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def proxies(monkeypatch):
    """Remove the proxies of the environment, and set one."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    return monkeypatch


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.9.8.7", "localhost", "LOCALHOST.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
def test_loopback_is_never_proxied(host, proxies):
    proxies.setenv("NO_PROXY", "other.example")
    assert proxy_of(f"http://{host}:8000/v1") is None
    assert proxy_of("http://example.org/v1") == PROXY


@pytest.mark.parametrize(
    ("excluded", "url", "direct"),
    [
        ("*", "http://example.org", True),
        ("example.org", "http://example.org", True),
        ("EXAMPLE.org.", "http://Example.ORG", True),
        (".example.org", "http://example.org", True),
        ("example.org", "http://a.b.example.org", True),
        ("example.org", "http://notexample.org", False),
        ("example.org", "http://example.org.evil.net", False),
        ("a.example, example.net\tb.example c.example", "http://x.c.example", True),
        ("10.0.0.0/8", "http://10.20.30.40:8000", True),
        ("10.0.0.0/8", "http://11.20.30.40", False),
        ("10.1.2.3", "http://10.1.2.3", True),
        ("1.2.3", "http://10.1.2.3", False),
        ("10.0.0.0/99", "http://10.1.2.3", False),
        ("fd00::/8", "http://[fd12::1]:80", True),
        ("fd00::/8", "http://10.1.2.3", False),
        ("::1:2", "http://[::1:2]", True),
        ("[fd12::1]:8000", "http://[fd12::1]:8000", True),
        ("example.org:8000", "http://example.org:8000", True),
        ("example.org:8000", "http://example.org:8001", False),
        ("example.org:80", "http://example.org", True),
        ("example.org:443", "http://example.org", False),
        (",, ", "http://example.org", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_no_proxy_is_read_as_curl_reads_it(excluded, url, direct, name, proxies):
    proxies.setenv(name, excluded)
    assert (proxy_of(url) is None) is direct


def test_a_proxy_is_set_for_a_scheme_or_for_all(proxies):
    assert proxy_of("https://example.org") is None
    proxies.setenv("all_proxy", "proxy.example:3128")
    assert proxy_of("https://example.org") == "http://proxy.example:3128"
    assert proxy_of("http://example.org") == PROXY
    proxies.setenv("ALL_PROXY", "socks5://proxy.example:1080")
    proxies.delenv("all_proxy")
    assert proxy_of("https://example.org") is None


def ask(url):
    """Return the answer of a server to one request."""

    async def answer():
        transport = Transport(url, "key", 5.0)
        try:
            return await transport.post("/x", {})
        finally:
            await transport.close()

    return asyncio.run(answer())


def test_a_server_of_this_machine_answers_although_a_proxy_is_set():
    with answering(lambda request, before: Told({})) as server:
        assert ask(server.url).status == 200


def test_an_error_names_the_proxy_without_its_login(proxies):
    proxies.setenv("HTTP_PROXY", "http://name:pass-word@127.0.0.1:9")
    with pytest.raises(Unreachable) as failed:
        ask("http://model.example/v1")
    told = str(failed.value)
    assert "cannot connect to http://model.example/v1 through the proxy 127.0.0.1:9 of the environment" in told
    assert "pass-word" not in told
    assert proxy_words(None) == ""


def test_a_proxy_that_requires_a_login_is_named(proxies):
    with answering(lambda request, before: Told({}, 407)) as server:
        proxies.setenv("HTTP_PROXY", server.url)
        with pytest.raises(StopRun, match=r"through the proxy 127\.0\.0\.1:\d+ .*requires a login \(407\)"):
            ask("http://model.example/v1")


def test_a_proxy_that_cuts_the_connection_is_named(proxies):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxies.setenv("HTTP_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")

        def cut():
            connection, _ = listener.accept()
            connection.recv(1)
            connection.close()

        threading.Thread(target=cut, daemon=True).start()
        with pytest.raises(Transient, match=r"the connection through the proxy 127\.0\.0\.1:\d+ of .* was cut"):
            ask("http://model.example/v1")
