"""Agent ``until_known``: search for the question, then for what the model misses, until a search finds nothing new."""

from ragrounds.extend import (
    Context,
    Message,
    Query,
    Runtime,
    State,
    agent,
    answer_from,
    join_passages,
    loop,
    read_passages,
    whole_number,
    written_query,
)


class Known(State, total=False):
    query: str
    searches: int
    new: int


async def search(state: Known, runtime: Runtime[Context]) -> Known:
    context, before = runtime.context, state.get("passages", [])
    query = written_query(context, state["query"]) if state.get("query") else Query.from_stem(context.stem)
    passages = join_passages(before, await context.search(query, whole_number(context, "top_k", 3)))
    return {"passages": passages, "new": len(passages) - len(before), "searches": state.get("searches", 0) + 1}


async def ask(state: Known, runtime: Runtime[Context]) -> Known:
    context = runtime.context
    known = await read_passages(context, "long/rag_direct", [context.passage(id) for id in state["passages"]])
    wanted = f"Write one query for what is still unknown.\n\n### Known\n{known}\n\n### Question\n{context.stem.text}"
    return {"query": (await context.ask((Message("user", wanted),), role="querying")).text}


async def answer(state: Known, runtime: Runtime[Context]) -> State:
    return await answer_from(runtime.context, [runtime.context.passage(id) for id in state["passages"]])


def over(state: Known, context: Context) -> bool:
    return not state["new"] or state["searches"] >= whole_number(context, "search_limit", 4)


@agent(summary="Search until nothing new is found.", searches=True, parameters={"top_k": 3, "search_limit": 4})
def build():
    return loop(Known, search, ask, leave=search, over=over, answer=answer)
