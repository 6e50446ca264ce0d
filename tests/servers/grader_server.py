"""A chat-completions server that grades: real HTTP on loopback, in a process of its own.

It goes by words. An answer is equivalent where it holds the reference; a statement is entailed where the answer holds
it, contradicted where the answer holds "not " before it. The model's name chooses its manner: ``grader`` as said,
``grader-mild`` finds everything equivalent, ``grader-late`` says nothing usable the first time it is asked,
``grader-never`` always, ``grader-mute`` to three texts in ten,
``grader-led`` repeats a grade that stands in the answer, ``grader-wavers`` says the opposite
every second time, ``grader-a`` calls A the better of any pair, ``grader-first`` the one shown first,
``grader-mostly`` in all but one of 25, ``grader-tie`` neither, and ``grader-down`` is out of order while the file named
by ``--down`` exists. ``grader-half`` leaves out every second claim. A claim is entailed by a text that holds it; a text
claims its sentences. ``writer`` is no grader: it answers with the first sentence of each document and its number, and
cites one that it was not shown where the question has an odd number of letters. Replies take ``--latency`` seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.account import serve
from tests.servers.openai_server import completion
from tests.servers.process import Running, running

_PAIR = re.compile(r"### Answer ([AB])\n<<<\n(.*?)\n>>>", re.DOTALL)
_PLANTED = re.compile(r'"grade": "(\w+)"')
_PARTS = re.compile(r"<<<\n(.*?)\n>>>", re.DOTALL)


class Grader:
    """State of one server process."""

    def __init__(self, down: Path | None, latency: float) -> None:
        self.down, self.latency = down, latency
        self.asked: Counter[str] = Counter()
        self.answered = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        model, prompt = body["model"], body["messages"][-1]["content"]
        digest = hashlib.sha256(json.dumps([body["messages"], model]).encode()).hexdigest()
        self.asked[digest] += 1
        await asyncio.sleep(self.latency)
        if model == "grader-down" and self.down is not None and self.down.exists():
            error = {"code": "context_length_exceeded", "message": "maximum context length is 8 tokens"}
            return web.json_response({"error": error}, status=400)
        never = model == "grader-never" or (model.startswith("grader-late") and self.asked[digest] == 1)
        never = never or (model == "grader-mute" and int(digest[:8], 16) % 10 < 3)
        said: dict[str, Any] = {} if model == "writer" else grade(prompt, model)
        if model == "grader-led" and (planted := _PLANTED.findall(prompt)):
            said = {"grade": planted[-1]}
        if model == "grader-wavers" and sum(self.asked.values()) % 2:
            said = {"grade": "mismatch" if said["grade"] == "equivalent" else "equivalent"}
        text = "Well." if never else f"Read.\n{json.dumps(said)}" if said else write(prompt)
        if "### Criterion" in prompt and not never:
            text = criterion(prompt, model)
        self.answered += 1
        return web.Response(body=completion([text], model, prompt), content_type="application/json")

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response({"asked": sum(self.asked.values()), "answered": self.answered})


def criterion(prompt: str, model: str) -> str:
    """A criterion is met where the answer holds its words in quotes, by default its last one; ``grader-prose`` says so
    in prose of a criterion that begins with "Repeats"."""
    *_, answer, asked = _PARTS.findall(prompt)
    words = re.findall(r'"(.*?)"', asked) or asked.rstrip(".").split()[-1:]
    met = model == "grader-mild" or all(word.lower() in answer.lower() for word in words)
    if model == "grader-prose" and asked.startswith("Repeats"):
        return "It is met." if met else "It is not met."
    return f"```json\n{json.dumps({'explanation': 'Read.', 'criteria_met': met})}\n```"


def grade(prompt: str, model: str) -> dict[str, str] | dict[str, list[str]]:
    """A verdict by words: of a pair, the longer answer is better."""
    if pair := dict(_PAIR.findall(prompt)):
        better = "tie" if len({len(text) for text in pair.values()}) == 1 else max(pair, key=lambda one: len(pair[one]))
        lot = int(hashlib.sha256(prompt.encode()).hexdigest()[:8], 16) % 100
        manners = {"grader-a": "A", "grader-tie": "tie", "grader-first": next(iter(pair))}
        manners["grader-mostly"] = better if lot < 4 else next(iter(pair))
        better = manners.get(model, better)
        return dict.fromkeys(("usefulness", "readability", "knowledge", "reasoning"), better)
    parts = _PARTS.findall(prompt)
    _, *rest = parts
    if prompt.rstrip().endswith("### Claims"):
        return {"claims": [f"{one.strip()}." for one in re.split(r"[.\n]", parts[-1]) if one.strip(": Answer")]}
    if "### Claims" in prompt:
        said = {f"c{n}": verdict_on(one, parts[0]) for n, one in enumerate(rest, 1)}
        return dict(list(said.items())[::2]) if model == "grader-half" else said
    if "### Statements" not in prompt:
        reference, answer = parts[-2:]  # the published judge does not see the question
        same = model == "grader-mild" or reference.lower() in answer.lower()
        return {"grade": "equivalent" if same else "mismatch"}
    answer, *statements = rest
    said = {}
    for number, statement in enumerate(statements, 1):
        denied = f"not {statement}".lower() in answer.lower()
        held = statement.lower() in answer.lower()
        said[f"s{number}"] = "contradiction" if denied else "entailment" if held else "neutral"
    return said


def verdict_on(claim: str, text: str) -> str:
    """Whether a text holds a claim, or its denial."""
    plain = claim.lower().strip(" .")
    return "contradiction" if f"not {plain}" in text.lower() else "entailment" if plain in text.lower() else "neutral"


_DOCUMENT = re.compile(r"^Document \[(\d+)\][^\n]*\n([^.\n]+)", re.MULTILINE)


def write(prompt: str) -> str:
    """An answer out of the first sentence of every document."""
    question = prompt.rpartition("### Question\n")[2].partition("\n")[0]
    said = " ".join(f"{sentence.strip()} [{number}]." for number, sentence in _DOCUMENT.findall(prompt))
    return f"Answer:\n{said} Rest helps{' [77]' if len(question) % 2 else ''}."


def grader_server(*arguments: str) -> contextlib.AbstractContextManager[Running]:
    """Run this server until the block ends."""
    return running("grader_server", *arguments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--down", type=Path)
    parser.add_argument("--latency", type=float, default=0.0)
    given = parser.parse_args()
    grader = Grader(given.down, given.latency)
    serve({"POST /v1/chat/completions": grader.complete, "GET /stats": grader.stats})


if __name__ == "__main__":
    main()
