"""Ways in which a model server misbehaves.

``NAME`` alone: the first try of a prompt meets the fault, the second is answered. ``NAME-always``: every try.
``NAME-now``: this try.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from aiohttp import web

_REPLY = '{"step_by_step_thinking": "After a fault.", "answer_choice": "A"}'


async def misbehave(
    name: str, tries: int, request: web.Request, completion: Callable[..., bytes]
) -> web.StreamResponse:
    """Answer as the fault `name` says."""
    always = name.endswith(("-always", "-now"))
    kind = name.removesuffix("-always").removesuffix("-now")
    if tries > 1 and not always:
        return web.Response(body=completion([_REPLY], "fault", ""), content_type="application/json")
    match kind:
        case "429":
            return _error(429, "rate_limit_exceeded", "slow down")
        case "429-retry-after":
            return _error(429, "rate_limit_exceeded", "slow down", {"Retry-After": "1"})
        case "429-long":
            return _error(429, "rate_limit_exceeded", "come back tomorrow", {"Retry-After": "86400"})
        case "429-quota":
            return _error(429, "insufficient_quota", "you have no credit")
        case "500" | "503":
            return _error(int(kind), "server_error", "something broke")
        case "401":
            key = request.headers.get("authorization", "")
            return _error(401, "invalid_api_key", f"Incorrect API key provided: {key}")
        case "404":
            return _error(404, "model_not_found", "no such model")
        case "400":
            return _error(400, "invalid_request_error", "temperature must be 1")
        case "context":
            return _error(400, "context_length_exceeded", "maximum context length is 4096 tokens, you sent 9000")
        case "filter":
            return _error(400, "content_filter", "the prompt was filtered")
        case "filter-finish":
            body = completion(["I am"], "fault", "", "content_filter")
            return web.Response(body=body, content_type="application/json")
        case "empty":
            return web.Response(body=completion([], "fault", ""), content_type="application/json")
        case "null-content":
            body = json.loads(completion([""], "fault", ""))
            body["choices"][0]["message"]["content"] = None
            return web.json_response(body)
        case "malformed":
            return web.Response(body=b'{"choices": [{"mess', content_type="application/json")
        case "array":
            return web.Response(body=b"[1, 2]", content_type="application/json")
        case "html":
            return web.Response(text="<html>Please log in</html>", content_type="text/html")
        case "no-usage":
            body = json.loads(completion([_REPLY], "fault", ""))
            del body["usage"]
            return web.json_response(body)
        case "hang":
            await asyncio.sleep(3600)
            raise AssertionError("unreachable")
        case "trickle":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for _ in range(3600):
                await response.write(b" ")
                await asyncio.sleep(0.1)
            return response
        case "cut":
            response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"choices": [')
            assert request.transport is not None
            request.transport.close()
            return response
        case "drop":
            assert request.transport is not None
            request.transport.close()
            return web.Response()
    raise AssertionError(f"no fault named {name}")


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status, headers=headers)
