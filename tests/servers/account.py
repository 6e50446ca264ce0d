"""What a test server was paid for: every reply that holds a usage is added up, and `GET /account` tells the sums."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
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
