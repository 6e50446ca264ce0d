"""Serving a test server's handlers on loopback, and what it was paid for: every reply that holds a usage is added up,
and `GET /account` tells the sums."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler


def counted(app: web.Application) -> web.Application:
    """Count the replies of a server from here on."""
    sums: Counter[str] = Counter()

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        if request.method == "POST" and isinstance(answer, web.Response) and answer.status == 200:
            body, usage = answer.body, dict[str, Any]()
            with contextlib.suppress(ValueError):  # a fault may be no JSON
                usage = json.loads(body if isinstance(body, bytes) else b"{}").get("usage") or {}
            sums["calls"] += 1
            sums["input"] += usage.get("prompt_tokens", 0)
            sums["output"] += usage.get("completion_tokens", 0)
        return answer

    async def account(request: web.Request) -> web.Response:
        return web.json_response({name: sums[name] for name in ("calls", "input", "output")})

    app.middlewares.append(count)
    app.router.add_get("/account", account)
    return app


def serve(routes: Mapping[str, Handler], port: int = 0, *middlewares: Any) -> None:
    """Answer on loopback until interrupted, and print the port. `routes`: ``METHOD /path`` → handler."""
    app = counted(web.Application(client_max_size=64 * 2**20, middlewares=middlewares))
    for route, handler in routes.items():
        app.router.add_route(*route.split(), handler)

    async def run() -> None:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
