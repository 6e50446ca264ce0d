"""Search providers on loopback: SearXNG, Tavily and NCBI's E-utilities, as their pages describe them.

Tavily refuses queries over its limit (400) and answers 429 with ``Retry-After`` to one request in so many. What each
was asked is counted: ``/stats``."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import defaultdict, deque
from typing import Any

from aiohttp import web

from tests.servers.account import serve

KEY = "tvly-loopback-0123456789abcdef"
_BOOK = (
    "<PubmedBookArticle><BookDocument><PMID>900</PMID><Book><BookTitle>Reviews of Genes</BookTitle><PubDate><Year>2019"
    "</Year></PubDate></Book><ArticleTitle>A chapter on {word}</ArticleTitle><Abstract><AbstractText>What a chapter "
    "says of {word}.</AbstractText></Abstract></BookDocument></PubmedBookArticle>"
)
_ARTICLE = (
    "<PubmedArticle><MedlineCitation><PMID>{id}</PMID><Article><Journal><JournalIssue><PubDate><Year>2020</Year></PubDate>"
    "</JournalIssue><Title>J</Title></Journal><ArticleTitle>An article on {word}</ArticleTitle><Abstract><AbstractText>"
    "What an article says of {word}.</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
)


class Providers:
    """What the providers do, and what they were asked."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.counts: defaultdict[str, int] = defaultdict(int)
        self.longest: defaultdict[str, int] = defaultdict(int)
        self.most: defaultdict[str, int] = defaultdict(int)
        """Requests in one second, at most."""
        self._last: defaultdict[str, deque[float]] = defaultdict(deque)
        self._closed_until = 0.0
        self._word = ""

    def asked(self, who: str, query: str) -> None:
        """Count a request."""
        now = time.monotonic()
        self.counts[who] += 1
        self.longest[who] = max(self.longest[who], len(query))
        last = self._last[who]
        last.append(now)
        while last[0] < now - 1:
            last.popleft()
        self.most[who] = max(self.most[who], len(last))

    async def searxng(self, request: web.Request) -> web.Response:
        """Results with scores."""
        form = await request.post() if request.method == "POST" else request.query
        query = str(form["q"])
        self.asked("searxng", query)
        return web.json_response({"query": query, "results": _rows(query)})

    async def tavily(self, request: web.Request) -> web.Response:
        """Results, or a refusal, or 429."""
        now = time.monotonic()
        body = await request.json()
        query = body["query"]
        self.asked("tavily", query)
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"detail": {"error": "Unauthorized: missing or invalid API key."}}, status=401)
        if self.given.used_up and self.counts["tavily"] > self.given.used_up:
            said = "This request exceeds your plan's set usage limit."
            return web.json_response({"detail": {"error": said}}, status=432)
        if now < self._closed_until:
            self.counts["tavily while closed"] += 1
        if self.given.every and self.counts["tavily"] % self.given.every == 0:
            self.counts["tavily 429"] += 1
            self._closed_until = now + self.given.retry_after
            headers = {"Retry-After": f"{self.given.retry_after:g}"}
            return web.json_response({"detail": {"error": "Too many requests."}}, status=429, headers=headers)
        if len(query) > self.given.limit:
            self.counts["tavily refused"] += 1
            said = f"Query is too long. Max query length is {self.given.limit} characters."
            return web.json_response({"detail": {"error": said}}, status=400)
        return web.json_response({"query": query, "results": _rows(query)[: body["max_results"]]})

    async def esearch(self, request: web.Request) -> web.Response:
        """Nothing for a query of more than five words, unless any of them is enough."""
        form = await request.post()
        query = str(form["term"])
        self.asked("pubmed", query)
        every = len(query.split()) > 5 and " OR " not in query
        self._word = query.split()[0].strip('"')
        ids = [] if every else ["2", "900", "3"][: int(str(form["retmax"]))]
        return web.json_response({"esearchresult": {"count": str(len(ids)), "idlist": ids}})

    async def efetch(self, request: web.Request) -> web.Response:
        """An article, a chapter, an article."""
        form = await request.post()
        self.asked("pubmed", "")
        made = [_BOOK if one == "900" else _ARTICLE.format(id=one, word="{word}") for one in str(form["id"]).split(",")]
        body = "".join(made).format(word=self._word)
        return web.Response(text=f"<PubmedArticleSet>{body}</PubmedArticleSet>", content_type="text/xml")

    async def stats(self, request: web.Request) -> web.Response:
        """What was asked."""
        return web.json_response({"counts": self.counts, "longest": self.longest, "most": self.most})


def _rows(query: str) -> list[dict[str, Any]]:
    """Three results that depend on the query."""
    digest = hashlib.sha256(query.encode()).hexdigest()
    words = query.split()
    return [
        {
            "title": f"Page {digest[place : place + 6]}",
            "url": f"http://pages.example/{digest[place : place + 12]}",
            "content": " ".join(words[place * 5 : place * 5 + 25]) or "A page.",
            "score": round(1 - 0.1 * place, 2),
        }
        for place in range(3)
    ]


def main() -> None:
    """Serve until terminated; prints the port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--every", type=int, default=0, help="429 to every so manieth request")
    parser.add_argument("--retry-after", type=float, default=1.0)
    parser.add_argument("--used-up", type=int, default=0, help="requests that the plan has")
    parser.add_argument("--port", type=int, default=0)
    providers = Providers(parser.parse_args())
    routes = {
        "* /searxng/search": providers.searxng,
        "POST /tavily/search": providers.tavily,
        "POST /eutils/esearch.fcgi": providers.esearch,
        "POST /eutils/efetch.fcgi": providers.efetch,
        "GET /stats": providers.stats,
    }
    serve(routes, providers.given.port)


if __name__ == "__main__":
    main()
