"""A chat-completions server on loopback that stands for a model: it searches several times, and judges.

It answers as the product's own stand-in does, by the words that it was shown, and differs from it in Search-o1: by the
question it searches one to four times, now and then with the same query again. `--latency SECONDS` waits before each
reply, `--faults SHARE` answers that share of the questions with an error 400. `--blocks N` gives it the memory of a
vLLM server (`tests/servers/prefixes.py`), `--thought N` so many characters more of reasoning a reply. Prints its port
when it listens; `GET /asked` gives the number of requests that it has had, `GET /blocks` what its memory found.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import random
import re
import sys
from pathlib import Path

from aiohttp import web

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # and not this folder, whose coverage.py numba would take for the package

from ragrounds.extensions.stand_in.replies import reply_to  # noqa: E402
from tests.servers.openai_server import written  # noqa: E402
from tests.servers.prefixes import BlockPool  # noqa: E402

ASK, ASKED = "<|begin_search_query|>", "<|end_search_query|>"
_QUESTION = re.compile(r"### Question\n(.*?)(?:\n\n### |\Z)", re.DOTALL)


def drawn(text: str, sides: int) -> int:
    """A number below `sides`, the same for the same text."""
    return int(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12], 16) % sides


def question_of(messages: list[dict[str, str]]) -> str:
    """The question that a request is about."""
    user = next((one["content"] for one in messages if one["role"] == "user"), "")
    found = _QUESTION.findall(user)
    return found[-1].strip() if found else user


def thought(messages: list[dict[str, str]]) -> str | None:
    """The next chunk of Search-o1's reasoning that ends in a query; ``None``: it has searched enough."""
    question = question_of(messages)
    so_far = "\n".join(one["content"] for one in messages if one["role"] == "assistant")
    searched, wanted = so_far.count(ASK), 1 + drawn(question, 4)
    if searched >= wanted:
        return None
    words = list(dict.fromkeys(re.findall(r"[^\W\d_]{5,}", question))) or ["medicine"]
    number = 0 if wanted == 3 and searched == 2 else searched  # the third query of some is the first again
    query = " ".join(words[number * 3 : number * 3 + 5] or words[-4:])
    return f"Step {searched + 1} is not certain yet.\n\n{ASK}{query}"


def reasoning(text: str, size: int) -> str:
    """So many characters of words that depend on the text alone."""
    drawn_words, words = random.Random(text), "then dose sign risk care case test drug rate pain".split()
    return " ".join(drawn_words.choices(words, k=size // 5)) + ".\n\n" if size else ""


def reply(body: dict[str, object], thought_size: int = 0) -> dict[str, object]:
    """The body of the response to a request."""
    messages = [{"role": str(one["role"]), "content": str(one.get("content") or "")} for one in body["messages"]]  # type: ignore[attr-defined]
    model, stop = str(body["model"]), body.get("stop")
    stops = [stop] if isinstance(stop, str) else [str(one) for one in stop or ()]  # type: ignore[attr-defined]
    made = reply_to(messages, model, stops=stops)
    text = made.text
    if ASK in messages[0]["content"] and (chunk := thought(messages)) is not None:
        text = chunk
    elif "compared words" not in text and drawn(model + question_of(messages), 23) == 0:
        text = "I cannot say which of these it is."  # now and then a reply that holds no answer
    text = reasoning(str(messages), thought_size) + text
    size = len(text) // 4 + 1
    usage = {"prompt_tokens": made.prompt_tokens, "completion_tokens": size, "total_tokens": made.prompt_tokens + size}
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "made", "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


async def serve(latency: float, faults: float, thought_size: int = 0, blocks: int = 0) -> None:
    """Listen at a free port until the process is ended."""

    asked = 0
    memory = BlockPool(blocks) if blocks else None

    async def count(request: web.Request) -> web.Response:
        return web.Response(text=str(asked))

    async def complete(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        body = await request.json()
        made, messages = reply(body, thought_size), body["messages"]
        async with contextlib.AsyncExitStack() as running:
            if memory:
                said = made["choices"][0]["message"]["content"]  # type: ignore[index]
                prompt = written(messages) + "<assistant>" * (messages[-1]["role"] != "assistant")
                found = await running.enter_async_context(memory.running(prompt, said, body.get("priority", 0)))
                made["usage"] |= {"prompt_tokens_details": {"cached_tokens": found // 4}}  # type: ignore[operator]
            await asyncio.sleep(latency)
        if faults and drawn(question_of(messages), 1000) < 1000 * faults:
            return web.json_response({"error": {"message": "this request is refused"}}, status=400)
        return web.json_response(made)

    async def found_blocks(request: web.Request) -> web.Response:
        return web.json_response([memory.found, memory.looked, memory.best] if memory else [0, 0, 0])

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "stand-in", "object": "model"}]})

    application = web.Application(client_max_size=64 * 2**20)
    application.add_routes(
        [web.post("/v1/chat/completions", complete), web.get("/v1/models", models), web.get("/asked", count)]
    )
    application.add_routes([web.get("/blocks", found_blocks)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--faults", type=float, default=0.0)
    parser.add_argument("--thought", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=0)
    options = parser.parse_args()
    asyncio.run(serve(options.latency, options.faults, options.thought, options.blocks))
