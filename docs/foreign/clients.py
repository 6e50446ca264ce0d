"""The same question by clients of every kind; each is imported where it is used."""

import json
import os

URL = os.environ.get("OPENAI_BASE_URL", "")
PATH = "/chat/completions"


def body(question: str, **more: object) -> dict[str, object]:
    """What is posted."""
    return {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": question}], **more}


def text(reply: dict) -> str:
    """What is read."""
    return str(reply["choices"][0]["message"]["content"])


def in_threads(question: str) -> str:
    """Requests, four at once."""
    from concurrent.futures import ThreadPoolExecutor

    import requests

    def one(turn: int) -> str:
        return text(requests.post(URL + PATH, json=body(f"{question}\nTurn {turn}."), timeout=60).json())

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, range(4)))[-1]


async def aiohttp_stream(question: str) -> str:
    """aiohttp, streamed, with the usage in the last chunk."""
    import aiohttp

    said = ""
    asked = body(question, stream=True, stream_options={"include_usage": True})
    async with aiohttp.ClientSession() as session, session.post(URL + PATH, json=asked) as reply:
        async for line in reply.content:
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                said += (choices[0]["delta"].get("content") or "") if choices else ""
    return said


def own_transport(question: str) -> str:
    """An httpx client with a transport of its own."""
    import httpx

    with httpx.Client(transport=httpx.HTTPTransport(retries=1)) as client:
        return text(client.post(URL + PATH, json=body(question), timeout=60).json())


def urllib_alone(question: str) -> str:
    """Python's own urllib."""
    from urllib.request import Request, urlopen

    asked = Request(URL + PATH, json.dumps(body(question)).encode(), {"Content-Type": "application/json"})
    with urlopen(asked, timeout=60) as reply:
        return text(json.load(reply))


def child(question: str) -> str:
    """A Python of its own, with requests."""
    import subprocess
    import sys

    code = (
        "import json,sys,requests; print(requests.post(sys.argv[1], json=json.load(sys.stdin), timeout=60).text)",
        URL + PATH,
    )
    done = subprocess.run([sys.executable, "-c", *code], input=json.dumps(body(question)), text=True, stdout=-1)
    return text(json.loads(done.stdout))


def forked(question: str) -> str:
    """Two forked children at once."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(own_requests, [f"{question}\nTurn {turn}." for turn in range(2)])[-1]


def own_requests(question: str) -> str:
    """One call by requests."""
    import requests

    return text(requests.post(URL + PATH, json=body(question), timeout=60).json())


def curl(question: str) -> str:
    """libcurl: no line of Python is between it and the network."""
    from curl_cffi import requests

    return text(requests.post(URL + PATH, json=body(question), timeout=60).json())


def websocket(question: str) -> str:
    """A websocket."""
    from websockets.sync.client import connect

    with connect(URL.replace("http", "ws", 1) + "/socket", proxy=None) as socket:
        socket.send(question)
        return str(socket.recv())


def grpc_call(question: str) -> str:
    """gRPC, at a port of its own (GRPC_TARGET)."""
    import grpc

    with grpc.insecure_channel(os.environ["GRPC_TARGET"]) as channel:
        ask = channel.unary_unary(
            "/notes.Doctor/Ask", request_serializer=str.encode, response_deserializer=bytes.decode
        )
        return str(ask(question, timeout=30))
