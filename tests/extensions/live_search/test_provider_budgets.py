"""What search providers allow: lengths, rates, waits; what a failure means for the searches that follow."""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from collections.abc import Callable

import httpx
import pytest

from ragrounds.base.contracts import SearchNote, Used
from ragrounds.base.errors import GaveUp, StopRun
from ragrounds.base.request_pace import SLEEPING
from ragrounds.base.specs import parse
from ragrounds.evals.engine.scheduler import AttemptSemaphore
from ragrounds.extensions.live_search import provider_budget, provider_client
from ragrounds.extensions.live_search.provider_budget import (
    ProviderBudget,
    SearchFailed,
    SearchRefused,
    fitted,
    requested_wait,
)
from ragrounds.extensions.live_search.providers import SearchProvider
from ragrounds.extensions.live_search.retrievers.web import WebSearcher
from ragrounds.tools.search_notes import SEARCH_NOTES, SEARCH_REQUESTS
from tests.extensions.live_search.answers import KEY, sent

FOUND = {"results": [{"title": "T", "url": "http://a", "content": "S", "score": 0.9}]}
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    monkeypatch.setenv("BRAVE_API_KEY", "brave-key-0123456789")


def replied(status: int = 200, body: object = FOUND, **headers: str) -> httpx.Response:
    return sent(json.dumps(body).encode(), status, **{name.replace("_", "-"): v for name, v in headers.items()})


def tavily(answer: Answer, said: str = "rate=10000") -> SearchProvider:
    return SearchProvider(f"tavily[{said}]", transport=httpx.MockTransport(answer))


def scripted(*replies: httpx.Response | Exception) -> tuple[Answer, list[tuple[float, str]]]:
    """Gives these replies, then results; and when it was asked what."""
    asked: list[tuple[float, str]] = []
    left = list(replies)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((time.monotonic(), json.loads(request.content)["query"]))
        reply = left.pop(0) if left else replied()
        if isinstance(reply, Exception):
            raise reply
        return reply

    return answer, asked


@pytest.mark.parametrize(
    ("query", "limits", "sent"),
    [
        ("short query", {"length": 400}, "short query"),
        ("one two three four", {"length": 13}, "one two three"),
        ("one two three four", {"length": 12}, "one two"),
        ("one two three four", {"words": 2}, "one two"),
        ("one  two\nthree", {"length": 13}, "one two three"),
        ("字" * 20, {"length": 7}, "字" * 7),
        ("𝒳𝒳𝒳", {"length": 3}, "𝒳"),
        ("word " * 60, {"length": 400, "words": 50}, " ".join(["word"] * 50)),
    ],
)
def test_a_query_is_cut_after_a_word_and_that_is_noted(query: str, limits: dict[str, int], sent: str) -> None:
    with SEARCH_NOTES.collecting() as notes:
        assert fitted(query, ProviderBudget(rate=1, **limits), "brave") == sent
    cut = sent != " ".join(query.split())
    assert [note.what for note in notes] == (["query_cut"] if cut else [])


async def test_nothing_above_the_limit_leaves() -> None:
    answer, asked = scripted()
    with SEARCH_NOTES.collecting() as notes:
        await tavily(answer).search("chest pain " * 60, 3)
    assert len(asked[0][1]) == 395
    assert notes == [
        SearchNote(
            "query_cut",
            "tavily takes 400 characters: the query's first 395 of 659 characters (72 of 120 words) were searched for",
        )
    ]


async def test_requests_leave_at_the_rate_whoever_makes_them() -> None:
    answer, asked = scripted()
    one, other = tavily(answer, "rate=50"), tavily(answer, "rate=50")
    began = time.monotonic()
    await asyncio.gather(*(searched.search(f"q{n}", 1) for n in range(5) for searched in (one, other)))
    assert len(asked) == 10
    resolution = time.get_clock_info("monotonic").resolution
    for number, (moment, _) in enumerate(sorted(asked)):  # a busy machine makes each later, none earlier
        assert moment - began >= number / 50 - resolution


async def test_retry_after_has_every_search_wait() -> None:
    answer, asked = scripted(replied(429, {"detail": {"error": "slow down"}}, retry_after="0.3"))
    search = tavily(answer)
    first = asyncio.create_task(search.search("first", 1))
    await asyncio.sleep(0.1)
    await search.search("second", 1)
    assert [hit.title for hit in await first] == ["T"]
    moments = [moment for moment, _ in asked]
    assert len(moments) == 3
    assert min(moments[1:]) - moments[0] >= 0.3


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({}, None),
        ({"x-ratelimit-remaining": "0, 1500", "x-ratelimit-reset": "1, 1419704"}, 1.0),
        ({"x-ratelimit-remaining": "0, 0", "x-ratelimit-reset": "1, 1419704"}, 1419704.0),
        ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": "9"}, None),
    ],
)
def test_how_long_a_provider_asks_to_wait(headers: dict[str, str], wait: float | None) -> None:
    assert requested_wait(headers) == wait


def test_a_date_to_wait_for() -> None:
    asked = requested_wait({"retry-after": email.utils.formatdate(time.time() + 30, usegmt=True)})
    assert asked == pytest.approx(30, abs=2)


async def test_a_wait_beyond_the_budget_ends_the_run() -> None:
    answer, asked = scripted(replied(429, {}, retry_after="86400"))
    with pytest.raises(
        StopRun, match=r"answered 429\. It asks to wait 86,400 s, and wait=300 is the most.*goes on from"
    ):
        await tavily(answer).search("q", 1)
    assert len(asked) == 1


async def test_a_refused_query_finds_nothing_and_is_noted() -> None:
    refusal = replied(400, {"detail": {"error": f"Too long, said the key {KEY}."}})
    answer, asked = scripted(replied(), refusal)
    searcher = WebSearcher(parse("web[provider=tavily]"), provider=tavily(answer))
    assert len(await searcher.search("fine", 3)) == 1
    with SEARCH_NOTES.collecting() as notes, SEARCH_REQUESTS.collecting() as used:
        assert await searcher.search("odd", 3) == []
    assert [(note.what, note.text) for note in notes] == [
        (
            "search_refused",
            "tavily answered 400: Too long, said the key [key]. This search found nothing. The query was 'odd'.",
        )
    ]
    assert used == []
    assert len(asked) == 2


async def test_requests_are_counted_with_their_price() -> None:
    answer, _ = scripted()
    with SEARCH_REQUESTS.collecting() as used:
        await tavily(answer).search("q", 1)
        await tavily(answer, "price=0.5,rate=1000").search("q", 1)
    assert used == [
        Used("search:tavily", None, hosted=True, requests=1, each=0.008),
        Used("search:tavily", None, hosted=True, requests=1, each=0.5),
    ]


async def test_a_provider_that_takes_no_query_at_all_ends_the_run() -> None:
    searcher = WebSearcher(
        parse("web[provider=tavily]"), provider=tavily(lambda request: replied(400, {"detail": {"error": "Bad."}}))
    )
    for number in range(49):
        assert await searcher.search(f"q{number}", 1) == []
    with pytest.raises(StopRun, match=r"each of the first 50 queries, so it is not the queries.*Bad"):
        await searcher.search("q", 1)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"detail": {"error": "Unauthorized"}}, "answered 401: Unauthorized. Check TAVILY_API_KEY"),
        (432, {"detail": {"error": "This request exceeds your plan's set usage limit."}}, "plan is used up"),
        (400, {"message": "Not enough credits"}, "answered 400: Not enough credits"),
        (403, {}, "answered 403"),
    ],
)
async def test_what_every_further_search_would_meet_ends_the_run(status: int, body: object, said: str) -> None:
    with pytest.raises(StopRun, match=said):
        await tavily(lambda request: replied(status, body)).search("q", 1)


async def test_a_403_between_answers_is_about_its_query() -> None:
    answer, _ = scripted(replied(), replied(403, {"message": "blocked"}))
    search = tavily(answer)
    await search.search("one", 1)
    with pytest.raises(SearchRefused, match="403: blocked"):
        await search.search("two", 1)
    await search.search("three", 1)


async def test_no_key_is_asked_for_before_the_first_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY")
    search = SearchProvider("tavily")
    with pytest.raises(StopRun, match="needs the environment variable TAVILY_API_KEY"):
        await search.search("q", 1)


async def test_a_restart_is_outlived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.01)
    answer, asked = scripted(
        httpx.ConnectError("refused"), replied(503), httpx.ReadError("cut"), httpx.ConnectError("x")
    )
    assert len(await tavily(answer).search("q", 1)) == 1
    assert len(asked) == 5


async def test_a_provider_that_is_gone_ends_the_run_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.02)
    made = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal made
        made += 1
        raise httpx.ConnectError("nobody")

    search = tavily(answer, "rate=10000,wait=0.3")
    ended = await asyncio.gather(*(search.search(f"q{n}", 1) for n in range(20)), return_exceptions=True)
    assert {type(one) for one in ended} == {StopRun}
    assert "tavily has given no answer for" in str(ended[0])
    assert made < 100  # all of them wait together


async def test_faults_of_one_query_are_given_up_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.0)
    searcher = WebSearcher(parse("web[provider=tavily]"), provider=tavily(lambda request: replied(500)))
    with pytest.raises(GaveUp, match=r"answered 500 \(gave up after 7 tries\)\. The query was 'q'") as told:
        await searcher.search("q", 1)
    assert told.value.kind == "server"


async def test_an_answer_in_no_time_is_a_fault_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(provider_client, "SECONDS", 0.02)

    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    search = SearchProvider("tavily[rate=1000]", transport=httpx.MockTransport(silent))
    with pytest.raises(SearchFailed, match="did not answer"):
        await search.search("q", 1)


async def test_what_does_not_change_what_is_found_is_no_part_of_the_key() -> None:
    spec = parse('web[provider=tavily[rate=3,wait=9,price=0.1,length=300,url="http://127.0.0.1:9/t"]]')
    assert WebSearcher(spec).spec == "web[provider=tavily[length=300,url=http://127.0.0.1:9/t]]"
    assert WebSearcher(parse("web[provider=tavily[rate=3]]")).spec == "web[provider=tavily]"


async def test_scores_are_the_providers_own() -> None:
    answer, _ = scripted()
    searcher = WebSearcher(parse("web[provider=tavily]"), provider=tavily(answer))
    assert [hit.score for hit in await searcher.search("q", 1)] == [0.9]


async def test_attempts_that_make_room_for_others_get_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the scheduler runs them: whoever waits long gives a place away, and needs one to go on."""
    monkeypatch.setattr(provider_budget, "_LONG", 0.0)
    monkeypatch.setattr(provider_budget, "FIRST_WAIT", 0.02)
    answer, asked = scripted(*(httpx.ConnectError("down") for _ in range(6)))
    search, places = tavily(answer), AttemptSemaphore(12)

    async def attempt(number: int) -> int:
        SLEEPING.set(places.sleep)
        await places.acquire()
        found = await search.search(f"q{number}", 1)
        places.release()
        return len(found)

    async with asyncio.timeout(20):
        found = await asyncio.gather(*(asyncio.create_task(attempt(number)) for number in range(40)))
    assert found == [1] * 40
    assert len(asked) == 46
