"""A model with a card, over the completions API of a real server."""

from aiohttp import web
from aiohttp.test_utils import TestServer

from ragrounds.contracts import Request
from ragrounds.models.providers import open_model
from ragrounds.records import Message, Usage


async def test_a_turn_is_continued_over_the_completions_api():
    seen = []

    async def complete(request):
        seen.append(await request.json())
        usage = {"prompt_tokens": 7, "completion_tokens": 2}
        return web.json_response({"choices": [{"text": " heparin.", "finish_reason": "stop"}], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    async with TestServer(app) as running:
        model = open_model(f'openai:epfl-llm/meditron-7b[base_url="{running.make_url("/v1")}",temperature=0]')
        reply = await model.complete(Request(messages=(Message("user", "Which?"),), prefix="It is", stop=("</a>",)), [])
        await model.close()
    assert (reply.text, reply.usage) == (" heparin.", Usage(input=7, output=2))
    assert seen[0]["prompt"].endswith("### User:\nWhich?\n\n### Assistant:\nIt is")
    assert seen[0]["stop"] == ["</a>", "###", "User:", "\n\n\n"]
    assert seen[0]["temperature"] == 0
    assert model.window == 4096
