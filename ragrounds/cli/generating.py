"""The model's part of `ragrounds retrieve --query-generation`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragrounds.evals.retrieval.generating import Generated
    from ragrounds.evals.retrieval.sets import QuerySet


def generated_queries(way: str, retriever: str, asked: QuerySet, model: str | None, base_url: str | None) -> Generated:
    """Let a model write the queries, journaled in the user's store; LameR reads what the retriever itself finds first.

    Raises:
        UserError: no model was named, or no such way.
    """
    import asyncio

    from ragrounds.cli.common import open_store, say, settings
    from ragrounds.cli.counting import counting
    from ragrounds.errors import UserError
    from ragrounds.evals.retrieval.generating import generate
    from ragrounds.evals.retrieval.rewriting import Rewriter
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.models.opening import open_model, with_defaults
    from ragrounds.models.prices import read_prices
    from ragrounds.tools.opening import open_searcher

    chosen = settings()
    named = model or chosen.model
    if named is None:
        raise UserError("--query-generation needs a model. Name one with --model, such as openai:gpt-4o-mini.")
    text = with_defaults(named, {"base_url": base_url or chosen.base_url})
    with open_store(chosen) as store, counting() as told:
        opened = open_model(text, read_prices(chosen.home / "prices.toml"))
        journal = StoreJournal(store)
        searcher = open_searcher(retriever, asked.corpus, chosen.home, progress=told)
        rewriter = Rewriter(way, {"model": opened}, searcher, journal)

        async def go() -> Generated:
            try:
                return await generate(
                    rewriter, asked.queries, concurrency=chosen.concurrency, progress=partial(told, f"writing, {way}")
                )
            finally:
                await opened.close()
                journal.close()

        made = asyncio.run(go())
    say(
        f"{way}: {journal.made:,} calls made, {journal.reused:,} from the journal, {len(made.failed):,} queries failed."
    )
    return made
