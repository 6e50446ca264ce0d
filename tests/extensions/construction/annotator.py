"""A chat-completions server that annotates: real HTTP on loopback, in a process of its own.

It goes by words, and what it says depends on the request alone. The system prompt tells what is asked: an option, a
question without options, a reasoning path, two grades, labels from S to D, three sentences. The model's name shifts its
labels (``labeller-1`` to ``labeller-3`` are of different opinions) and ``small-…`` answers options. About one request
in nine, by its hash, is answered with something that cannot be read, however often it is asked (`spoilt`). With
``--refused N`` the content filter meets about one in N of the requests for grades, labels and sentences (`refused`).

The rules are functions, so that a test can work out by itself what must come of them.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import re
from collections import Counter

from aiohttp import web

from tests.servers.account import serve
from tests.servers.openai_server import completion

_FENCED = re.compile(r"<<<\n(.*?)\n>>>", re.DOTALL)
_NAMED = re.compile(r"^(p\d+):\n<<<\n(.*?)\n>>>", re.DOTALL | re.MULTILINE)
_OPTION = re.compile(r"^([A-Z])\. (.*)$", re.MULTILINE)
GARBAGE = ("", "I would rather not say.", '{"relevance": 11, "support": -1, "p1": "E"}', '{"question": 3, "p1": ')


def words(text: str) -> set[str]:
    """Words of four letters or more; of Chinese, every two characters in a row."""
    chinese = "".join(re.findall(r"[\u4e00-\u9fff]+", text))
    return set(re.findall(r"[^\W\u4e00-\u9fff]{4,}", text.casefold())) | set(map("".join, itertools.pairwise(chinese)))


def share(text: str, passage: str) -> float:
    """Share of the text's words that the passage holds."""
    wanted = words(text)
    return len(wanted & words(passage)) / len(wanted) if wanted else 0.0


def lot(*texts: str) -> int:
    return int(hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12], 16)


def spoilt(kind: str, *texts: str) -> str | None:
    """What is said in place of an answer to these texts; ``None``: they are answered."""
    drawn = lot("spoilt", kind, *texts)
    return GARBAGE[drawn // 9 % len(GARBAGE)] if drawn % 9 == 0 else None


_PARTS = ("You grade how much one document", "You label how well passages", "You write test sentences")


def refused(one_in: int, *fenced: str) -> bool:
    """Whether the content filter meets a request with these texts."""
    return bool(one_in) and lot("refused", *fenced) % one_in == 0


def option(model: str, question: str, options: dict[str, str]) -> str:
    """What a small model chooses."""
    return sorted(options)[lot(model, question) % len(options)]


def opened(question: str, answer: str) -> str:
    """A question without options; some need them."""
    return "" if lot("opened", question) % 8 == 0 else f"{question} Say it in your own words."


def reasoning(question: str, answer: str) -> str:
    """A way from question to answer."""
    return f"The question speaks of {', '.join(sorted(words(question))[:6])}; from this follows {answer}."


def grades(question: str, answer: str, path: str, document: str) -> dict[str, int]:
    """Two grades."""
    return {
        "relevance": min(10, round(14 * share(answer, document))),
        "support": min(10, round(14 * share(path, document))),
    }


def label(model: str, query: str, passage: str) -> str:
    """A grade from S to D; each labeller is a little stricter than the one before."""
    strictness = (int(model[-1]) - 1) * 0.08 if model[-1].isdigit() else 0.0
    held = share(query, passage) - strictness
    return next((name for name, least in (("S", 0.7), ("A", 0.45), ("B", 0.3), ("C", 0.15)) if held >= least), "D")


def answer(system: str, user: str, model: str) -> str:
    """The reply to a prompt."""
    fenced = _FENCED.findall(user)
    if "You answer multiple-choice questions" in system:
        question = user.split("### Question\n")[1].split("\n\n### Options")[0]
        chosen = option(model, question, dict(_OPTION.findall(user.split("### Options\n")[1])))
        return _or(spoilt("option", model, question), {"answer_choice": chosen})
    if "turn a multiple-choice question" in system or "改写为没有选项" in system:
        question, _, right = fenced
        return _or(spoilt("open", question), {"question": opened(question, right)})
    if "Write down how a physician" in system or "请写出医生如何" in system:
        return _or(spoilt("reason", fenced[0]), {"reasoning": reasoning(*fenced)})
    if "You grade how much one document" in system or "评价一篇文档" in system:
        return _or(spoilt("grade", fenced[0], fenced[3]), grades(*fenced), "It offers something.\n")
    if "You label how well passages" in system or "请标注各段文字" in system:
        said = {name: label(model, fenced[0], text) for name, text in _NAMED.findall(user)}
        return _or(spoilt("label", model, *fenced), said)
    raise ValueError(f"not a prompt of a pipeline: {system[:80]}")


def _or(said: str | None, value: dict[str, object] | dict[str, str] | dict[str, int], before: str = "") -> str:
    return before + json.dumps(value) if said is None else said


class Annotator:
    """State of one server process."""

    def __init__(self, latency: float, one_in: int) -> None:
        self.latency = latency
        self.one_in = one_in
        self.asked: Counter[str] = Counter()
        self.by_model: Counter[str] = Counter()

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        system, user = (message["content"] for message in body["messages"])
        self.asked[hashlib.sha256(json.dumps([body["messages"], body["model"]]).encode()).hexdigest()] += 1
        self.by_model[body["model"]] += 1
        await asyncio.sleep(self.latency)
        text = answer(system, user, body["model"])
        met = system.startswith(_PARTS) and refused(self.one_in, body["model"], *_FENCED.findall(user))
        finish = "content_filter" if met else "stop"
        return web.Response(body=completion([text], body["model"], user, finish), content_type="application/json")

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"asked": sum(self.asked.values()), "prompts": len(self.asked), "by_model": dict(self.by_model)}
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--refused", type=int, default=0)
    options = parser.parse_args()
    server = Annotator(options.latency, options.refused)
    serve({"POST /v1/chat/completions": server.complete, "GET /stats": server.stats})


if __name__ == "__main__":
    main()
