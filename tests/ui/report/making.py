"""Runs with recorded calls, for the tests of the report and of the exports."""

import asyncio

from ragrounds.base.contracts import Entry, Request, SearchRequest, SearchResult
from ragrounds.base.records import Call, Called, Entered, Left, Message, Noted, Passage, Reply, Usage
from ragrounds.evals.store.journal import StoreJournal


def passage(number=1, text="Vitamin C cures scurvy.", **more):
    return Passage(
        id=f"d{number}#0",
        document=f"d{number}",
        title=f"Title {number}",
        text=text,
        corpus="made@1",
        score=10.0 - number,
        rank=number,
        retriever="bm25",
        **more,
    )


def traced_events(
    store,
    key,
    *,
    passages=None,
    query="scurvy",
    prompt="Answer.",
    reply="The answer is A.",
    error="",
    first=0,
    reasoning="",
):
    """Events of an attempt that searched, then asked a model; both calls stand in the journal of `store`. The steps
    are numbered from `first`."""
    found = tuple(passages or [passage()])
    search = Entry(
        key=f"{key:02x}" * 32,
        kind="search",
        actor="bm25",
        request=SearchRequest(corpus="made@1", query=query, k=len(found)),
    )
    asked = Request(messages=(Message("system", "You are careful."), Message("user", prompt)))
    model = Entry(key=f"{key + 1:02x}" * 32, kind="model", actor="test:model", request=asked)

    async def keep():
        journal = StoreJournal(store)

        async def results():
            return SearchResult(found)

        async def answered():
            return Reply(text=reply, reasoning=reasoning, usage=Usage(100, 10), model="test")

        await journal.once(search, results, SearchResult)
        await journal.once(model, answered, Reply)
        journal.close()

    asyncio.run(keep())
    ids = tuple(one.id for one in found)
    return (
        Entered(step=first, node="retrieve", at=1000.0),
        Called(
            step=first,
            call=Call(
                key=search.key, kind="search", role="searching", node="retrieve", actor="bm25", at=1000.1, seconds=0.2,
                passages=ids, cost_uncached=0.0,
            ),
        ),
        Noted(step=first, what="passage_cut", text="one passage was cut"),
        Left(step=first, seconds=0.4, changes={"passages": list(ids)}),
        Entered(step=first + 1, node="answer", at=1000.5),
        Called(
            step=first + 1,
            call=Call(
                key=model.key, kind="model", role="answering", node="answer", actor="test:model",
                at=1000.6, seconds=1.5, usage=Usage(100, 10), cost_uncached=0.01,
            ),
        ),
        Left(step=first + 1, seconds=1.7, changes={"answer": reply}, error=error),
    )  # fmt: skip
