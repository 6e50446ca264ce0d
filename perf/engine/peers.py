"""The peers, each as a program of its own: `python peers.py NAME QUESTIONS URL CONCURRENCY OUT`.

They ask the same server the same questions, one call each. Inspect and lm-eval run with their default settings but for
the server's address and the number of calls in flight; each needs the environment it is installed in.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def prompts(path: Path) -> list[str]:
    lines = [json.loads(line) for line in path.open(encoding="utf-8")]
    return [line["question"] + "\n" + "\n".join(f"{k}. {v}" for k, v in line["options"].items()) for line in lines]


async def pooled(ask: Any, asked: list[str], concurrency: int) -> None:
    waiting = iter(asked)

    async def work() -> None:
        for prompt in waiting:
            await ask(prompt)

    await asyncio.gather(*(work() for _ in range(concurrency)))


async def bare_aiohttp(path: Path, url: str, concurrency: int, out: Path) -> None:
    import aiohttp
    import msgspec

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(prompt: str) -> None:
            body = msgspec.json.encode({"model": "perf", "messages": [{"role": "user", "content": prompt}]})
            headers = {"Content-Type": "application/json"}
            async with session.post(f"{url}/chat/completions", data=body, headers=headers) as answer:
                msgspec.json.decode(await answer.read())

        await pooled(ask, prompts(path), concurrency)


async def bare_openai(path: Path, url: str, concurrency: int, out: Path) -> None:
    import openai

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=openai.DefaultAioHttpClient())

    async def ask(prompt: str) -> None:
        await client.chat.completions.create(model="perf", messages=[{"role": "user", "content": prompt}])

    await pooled(ask, prompts(path), concurrency)


async def chat_openai(path: Path, url: str, concurrency: int, out: Path) -> None:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="perf", base_url=url, api_key="none", max_retries=0)  # type: ignore[arg-type]
    await pooled(model.ainvoke, prompts(path), concurrency)


async def chat_openai_graph(path: Path, url: str, concurrency: int, out: Path) -> None:
    from typing import TypedDict

    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict, total=False):
        prompt: str
        plan: str
        reply: str
        answer: str

    model = ChatOpenAI(model="perf", base_url=url, api_key="none", max_retries=0)  # type: ignore[arg-type]

    async def prepare(state: State) -> State:
        return {"plan": "answer"}

    async def call(state: State) -> State:
        return {"reply": str((await model.ainvoke(state["prompt"])).content)}

    async def settle(state: State) -> State:
        return {"answer": state["reply"]}

    graph = StateGraph(State)
    for name, node, before in (("prepare", prepare, START), ("ask", call, "prepare"), ("settle", settle, "ask")):
        graph.add_node(name, node)
        graph.add_edge(before, name)
    graph.add_edge("settle", END)
    built = graph.compile()
    await pooled(lambda prompt: built.ainvoke({"prompt": prompt}), prompts(path), concurrency)


def three_bare_nodes() -> Any:
    """Return a compiled LangGraph graph with the same three nodes and no model."""
    from typing import TypedDict

    from langgraph.graph import END, START, StateGraph

    class State(TypedDict, total=False):
        prompt: str
        plan: str
        reply: str
        answer: str

    async def prepare(state: State) -> State:
        return {"plan": "answer"}

    async def call(state: State) -> State:
        return {"reply": "A"}

    async def settle(state: State) -> State:
        return {"answer": state["reply"]}

    graph = StateGraph(State)
    for name, node, before in (("prepare", prepare, START), ("ask", call, "prepare"), ("settle", settle, "ask")):
        graph.add_node(name, node)
        graph.add_edge(before, name)
    graph.add_edge("settle", END)
    return graph.compile()


async def bare_graph(path: Path, url: str, concurrency: int, out: Path) -> None:
    """The three bare nodes."""
    built = three_bare_nodes()
    await pooled(lambda prompt: built.ainvoke({"prompt": prompt}), prompts(path), concurrency)


def inspect(path: Path, url: str, concurrency: int, out: Path) -> None:
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import answer
    from inspect_ai.solver import generate

    os.environ["OPENAI_API_KEY"], os.environ["OPENAI_BASE_URL"] = "none", url
    samples = [Sample(input=prompt, target="A") for prompt in prompts(path)]
    task = Task(dataset=samples, solver=generate(), scorer=answer("letter"))
    evaluate(
        task,
        model="openai/perf",
        model_args={"responses_api": False},
        max_connections=concurrency,
        max_samples=concurrency,
        log_dir=str(out),
        display="none",
    )


def lm_eval(path: Path, url: str, concurrency: int, out: Path) -> None:
    import lm_eval.evaluator
    from lm_eval.tasks import TaskManager

    out.mkdir(parents=True, exist_ok=True)
    lines = [{"prompt": prompt, "answer": "A"} for prompt in prompts(path)]
    (out / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    task = {
        "task": "perf",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(out / "data.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["<END>"], "max_gen_toks": 300},
        "metric_list": [{"metric": "exact_match"}],
    }
    os.environ["OPENAI_API_KEY"] = "none"
    address = f"{url}/chat/completions"
    lm_eval.evaluator.simple_evaluate(
        model="local-chat-completions",
        model_args=f"model=perf,base_url={address},num_concurrent={concurrency},max_retries=1,tokenized_requests=False",
        tasks=[task],
        task_manager=TaskManager(include_defaults=False),
        apply_chat_template=True,
    )


if __name__ == "__main__":
    name, file, server, flying, folder = sys.argv[1:]
    peer = globals()[name]
    begun = time.perf_counter()
    done = peer(Path(file), server, int(flying), Path(folder))
    if asyncio.iscoroutine(done):
        asyncio.run(done)
    print(json.dumps({"seconds": time.perf_counter() - begun}))
