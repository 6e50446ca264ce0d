"""A chat-completions server for `ragrounds build`: a model whose every move is scripted.

The script (JSON) gives each report, by its first 80 characters, a key and a fate; the key (``k17``) goes through all
that the model writes, so that later prompts can be answered by the fate too. Fates: ``kept``, ``none``, ``bad STAGE``
(malformed as often as it is asked), ``once STAGE`` (malformed the first time alone), and what the checks must find:
``invented``, ``early``, ``leak``, ``later``, ``beside``, ``plain``, ``other answer``, ``rewritten leak``,
``checker no``. ``refused STAGE`` ends there by the provider's content filter; ``broken STAGE`` is an HTTP error the
first time it is asked.

The truth (JSON) gives each query, by its text, the relevant documents by the first 60 characters of their text; such a
document is labelled A, every other one D. What is listed under ``malformed`` is never labelled in a way that can be
read: queries, or single documents as ``query|document``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.account import serve
from tests.servers.openai_server import completion

STAGES = {
    "say what each one adds": "significance",
    "into a timeline": "timeline",
    "from the timeline of a case": "question",
    "is what the report was published for": "follows",
    "You rewrite examination questions": "rewrite",
    "You check rewritten examination questions": "unchanged",
    "You label how well passages": "labels",
}
MALFORMED = {
    "significance": '{"kind": "poem", "significance": "New."}',
    "timeline": '{"timeline": "first one thing, then another"}',
    "question": '{"decision": 99, "case": "A case.", "question": "What now?", "answer": "This."}',
    "follows": "It is hard to say.",
    "rewrite": 'Here you are: {"question": "A pati',
    "unchanged": '{"unchanged": "perhaps"}',
}
"""One kind a stage: not among the words allowed, another type, out of range, no verdict, cut off, no value."""
_FENCED = re.compile(r"### ([^\n]+)\n<<<\n(.*?)\n>>>", re.DOTALL)
_NAMED = re.compile(r"^(p\d+):\n<<<\n(.*?)\n>>>", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"\bk\d+\b")


class Server:
    """State of one server process."""

    def play(self, script: dict[str, str], truth: dict[str, list[str]]) -> None:
        """Follow a script from now on, and count from 0."""
        self.truth = truth
        self.keys: dict[str, str] = {start: f"k{number}" for number, start in enumerate(script)}
        self.fates: dict[str, str] = {self.keys[start]: fate for start, fate in script.items()}
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.models: Counter[str] = Counter()

    async def take_script(self, request: web.Request) -> web.Response:
        self.play(**await request.json())
        return web.json_response({})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        digest = hashlib.sha256(json.dumps([body["messages"], body["model"]]).encode()).hexdigest()[:16]
        self.asked[digest] += 1
        fate = self.fate(body["messages"])
        if fate == f"broken {self.stage(body['messages'])}" and self.asked[digest] == 1:
            return web.json_response({"error": {"message": "bad luck", "type": "invalid_request_error"}}, status=400)
        text = self.answer(body["messages"], self.asked[digest])
        finish = "content_filter" if fate == f"refused {self.stage(body['messages'])}" else "stop"
        prompt = body["messages"][-1]["content"]
        response = web.Response(body=completion([text], body["model"], prompt, finish), content_type="application/json")
        try:
            await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            return response
        self.answered[digest] += 1
        self.models[f"{body['model']} {self.stage(body['messages'])}"] += 1
        return response

    def stage(self, messages: list[dict[str, str]]) -> str:
        return next(stage for words, stage in STAGES.items() if words in messages[0]["content"])

    def _labels(self, prompt: str) -> str:
        query, passages = _FENCED.findall(prompt)[0][1], _NAMED.findall(prompt)
        malformed = self.truth["malformed"]
        if query in malformed or any(f"{query}|{start(text)}" in malformed for _, text in passages):
            return "None of them is any good."
        return json.dumps({name: "A" if start(text) in self.truth[query] else "D" for name, text in passages})

    def key(self, messages: list[dict[str, str]]) -> str:
        given = dict(_FENCED.findall(messages[-1]["content"]))
        if "Report" in given:
            return self.keys[given["Report"][:80]]
        found = _KEY.search(messages[-1]["content"])
        assert found is not None, messages
        return found.group()

    def fate(self, messages: list[dict[str, str]]) -> str:
        return "" if self.stage(messages) == "labels" else self.fates[self.key(messages)]

    def answer(self, messages: list[dict[str, str]], occurrence: int) -> str:
        if "You label how well passages" in messages[0]["content"]:
            return self._labels(messages[-1]["content"])
        stage, given = self.stage(messages), dict(_FENCED.findall(messages[-1]["content"]))
        key = self.key(messages)
        fate = self.fates[key]
        if fate == f"bad {stage}" or (fate == f"once {stage}" and occurrence == 1):
            return MALFORMED[stage]
        return str(getattr(self, f"_{stage}")(key, fate, given))

    def _significance(self, key: str, fate: str, given: dict[str, str]) -> str:
        kind = "none" if fate == "none" else "treatment"
        text = f"The report {key} shows what was done in the end."
        return f"<think>Let me see {{}}.</think>\n{json.dumps({'kind': kind, 'significance': text})}"

    def _timeline(self, key: str, fate: str, given: dict[str, str]) -> str:
        events = sentences(given["Report"].partition("\n")[2] or given["Report"])
        events = events if len(events) > 2 else [*events, "They were followed.", "They went home."]
        return "```json\n" + json.dumps({"timeline": [f"In {key}: {events[0]}", *events[1:-1], last(events)]}) + "\n```"

    def _question(self, key: str, fate: str, given: dict[str, str]) -> str:
        events = [line.partition(". ")[2] for line in given["Timeline"].split("\n")]
        answer = " ".join(events[-1].split()[:8])
        case = f"In {key}, the story began so."
        if fate == "invented":
            answer = "A purple elephant was given by mouth"
        elif fate == "early":
            answer = " ".join(events[0].split()[2:8])
        elif fate == "leak":
            case += f" Then {answer.upper()} was considered."
        elif fate == "later":
            case, answer = f"{case} {events[-1]}", " ".join(events[-2].split()[:8])
        decision = len(events) - (fate == "later")
        return json.dumps({"decision": decision, "case": case, "question": "What is next?", "answer": answer})

    def _follows(self, key: str, fate: str, given: dict[str, str]) -> str:
        said = "no" if fate == "beside" else "yes"
        return f'The answer was weighed.\n{{"follows": "{said}"}}'

    def _rewrite(self, key: str, fate: str, given: dict[str, str]) -> str:
        asked, answer = given["Question"], given["Answer, not to be changed"]
        made: dict[str, Any] = {"question": f"{asked} A cat lives there.", "distractors": ["A cat lives there."]}
        if fate == "plain":
            made["distractors"] = []
        elif fate == "other answer":
            made["answer"] = "Something else entirely"
        elif fate == "rewritten leak":
            made["question"] += f" Some say: {answer}"
        return json.dumps(made)

    def _unchanged(self, key: str, fate: str, given: dict[str, str]) -> str:
        said = "no" if fate == "checker no" else "yes"
        return f'Both were read. {{"unchanged": "{said}"}}'

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "asked": sum(self.asked.values()),
                "answered": sum(self.answered.values()),
                "by_model": dict(self.models),
            }
        )


def start(text: str) -> str:
    """What a document is known by: its text without its title."""
    return text.rpartition("\n")[2][:60]


def sentences(text: str) -> list[str]:
    """A text's sentences, blanks collapsed."""
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", " ".join(text.split())) if sentence.strip()]


def last(events: list[str]) -> str:
    """The last event, with words of its own, so that no report gives it away by chance."""
    return f"Thereupon whatever helps was undertaken deliberately: {events[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", type=Path)
    script = parser.parse_args().script
    server = Server()
    server.play(json.loads(script.read_text(encoding="utf-8")) if script else {}, {})
    routes = {"POST /script": server.take_script, "GET /stats": server.stats}
    serve({"POST /v1/chat/completions": server.complete, **routes})


if __name__ == "__main__":
    main()
