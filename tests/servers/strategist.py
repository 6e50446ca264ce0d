"""A chat-completions server for tests that makes every strategy search, repeat itself, hit its limits and refine.

What it answers depends on the request alone. Which strategy asks is read from the system prompt; how the model behaves
for a question is drawn by the question's hash (`mood`), so that a whole benchmark meets every behaviour.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from aiohttp import web

from tests.servers.account import serve

ASK, ASKED = "<|begin_search_query|>", "<|end_search_query|>"
_QUESTION = re.compile(r"### Question\n(.*?)(?:\n\n### |\Z)", re.DOTALL)


def mood(text: str, moods: int) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % moods


def words(question: str, number: int) -> str:
    """Query `number` about a question."""
    found = re.findall(r"\w{5,}", question) or ["medicine"]
    return f"{found[number % len(found)]} {found[(number + 1) % len(found)]} {number}"


def answer(body: dict[str, Any]) -> dict[str, Any]:
    """The assistant's message for a request."""
    messages = body["messages"]
    first, last = messages[0]["content"], messages[-1]["content"] or ""
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    asked = _QUESTION.findall(prompt)
    question = asked[-1].strip() if asked else prompt
    so_far = "".join(m["content"] or "" for m in messages if m["role"] != "system").removeprefix(prompt)
    if "You read search results" in first:
        return {"content": f"Some of it helps.\n**Final information:** A finding about {question[:40]}."}
    if "one step at a time, each step a paragraph of its own" in first:
        return {"content": search_o1(question, so_far)}
    if "inside <think> and </think>" in first:
        return {"content": search_r1(question, so_far)}
    if "follow-up questions" in first:
        return {"content": further(question, last)}
    if "Write a passage" in first:
        return {"content": f"<think>Hm.</think>A passage on {words(question, 0)} and {words(question, 1)}."}
    if body.get("tools"):
        return tools(question, messages)
    if "answer_choice" in first or "answer_choice" in last:
        letter = "ABC"[mood(question, 3)]
        return {"content": json.dumps({"step_by_step_thinking": "I compared the options.", "answer_choice": letter})}
    return {"content": f"On {words(question, 0)}: yes, it does."}


def search_o1(question: str, text: str) -> str:
    """By mood: two searches; one repeated; on and on until told to stop; on and on whatever is told."""
    kind, searched = mood(question, 4), text.count(ASKED)
    told = "no further search is possible" in text
    if (kind == 0 and searched >= 2) or (kind == 1 and searched >= 3) or (kind == 2 and told):
        return "That settles it.\n\n\\boxed{yes}"
    number = 0 if kind == 1 else searched
    return f"\n\nI am not sure of step {searched}. {ASK}{words(question, number)}"


def search_r1(question: str, text: str) -> str:
    """By mood: two searches; no valid action first; searches without end."""
    kind, searched = mood(question, 3), text.count("<information>")
    if kind == 1 and "not a valid step" not in text:
        return "<think>I wonder.</think> Let me see."
    if kind < 2 and searched >= 2:
        return "<think>Enough.</think><answer>yes"
    return f"<think>I lack something.</think><search>{words(question, searched)}"


def further(question: str, prompt: str) -> str:
    """By mood: three new questions a round; the same ones again; nothing that can be read."""
    kind, known = mood(question, 3), prompt.count("Query: ")
    if kind == 2 and known == 0:
        return "I would rather answer at once."
    numbers = range(3) if kind == 1 else range(known, known + 3)
    return json.dumps({"analysis": "…", "queries": [f"What of {words(question, number)}?" for number in numbers]})


def tools(question: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """By mood: two searches; malformed arguments first; searches without end."""
    kind, results = mood(question, 3), sum(message["role"] == "tool" for message in messages)
    if kind < 2 and results >= 2:
        return {"content": "By what I found: yes."}
    arguments = "{oops" if kind == 1 and results == 0 else json.dumps({"query": words(question, results)})
    function = {"name": "search", "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call", "type": "function", "function": function}]}


async def complete(request: web.Request) -> web.Response:
    body = await request.json()
    message = {"role": "assistant", **answer(body)}
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    given = sum(len(m["content"] or "") for m in body["messages"]) // 4
    written = len(message["content"] or "") // 4
    usage = {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return web.json_response({"object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage})


if __name__ == "__main__":
    serve({"POST /v1/chat/completions": complete})
