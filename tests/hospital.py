"""A store as a hospital's team would have it after a day: four agents, a tenth of the calls refused, judges, an arena.

Everything is made by the public command line against a server on loopback whose replies depend only on the prompt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ragrounds.extensions.stand_in.replies import reply_to
from tests.golden_outputs.scenario import Scenario
from tests.servers.http_script import Asked, Told, answering

AGENTS = {
    "direct_cot": "direct_cot",
    "vanilla_rag[top_k=8]": "vanilla_rag[top_k=8]",
    "search_o1": "search_o1",
    "Hospital app": './app.py:graph as "Hospital app"',
}
"""Name in tables → text of the agent."""
_APP = """
from typing import TypedDict
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

class State(TypedDict, total=False):
    question: str
    options: dict
    answer: str

model = ChatOpenAI(model="hospital", base_url="{url}", api_key="none", max_retries=0)

def answer(state):
    options = "\\n".join(f"{{letter}}. {{text}}" for letter, text in (state.get("options") or {{}}).items())
    form = '{{"answer_choice": "A"}}'
    prompt = f"### Question\\n{{state['question']}}\\n\\n### Options\\n{{options}}\\n\\nReply in the form {{form}}"
    return {{"answer": model.invoke(prompt).content}}

builder = StateGraph(State)
builder.add_node("answer", answer)
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
graph = builder.compile()
"""
_PRICES = {"any": (3, 9), "hospital": (2, 7), "judge": (1, 5), "nodder": (1, 4)}
"""Model → dollars per million tokens, in and out."""


class Hospital(NamedTuple):
    """The store, and what its commands printed when they made it."""

    home: Path
    printed: Mapping[str, tuple[str, str]]
    """Command → standard output and standard error."""


def reply(asked: Asked, before: int) -> Told:
    """Answer as the stand-in does; of agents' prompts block, fail, refuse and leave open four in a hundred each."""
    if asked.method == "GET":
        return Told({"data": [{"id": "any"}]}) if asked.path.endswith("/models") else Told({}, 404)
    body = asked.body
    model, prompt = body["model"], str(body["messages"][-1]["content"])
    lot = int(hashlib.sha256(f"{model}\n{prompt}".encode()).hexdigest()[:8], 16) % 100
    is_agent = model in ("any", "hospital")
    if is_agent and lot < 4:
        return Told({"error": {"code": "content_filter", "message": "The prompt was blocked."}}, 400)
    if is_agent and lot < 8:
        return Told({"error": {"message": "out of memory"}}, 500, {"Retry-After": "0"})
    answer = reply_to(body["messages"], model, stops=body.get("stop") or (), max_tokens=body.get("max_tokens"))
    text = answer.text
    if is_agent and lot < 16:
        text = "I cannot help with that." if lot < 12 else "It depends."
    elif model == "judge" and lot < 6:
        text = "Both have their merits."
    elif model == "nodder":  # fails its probes
        text = '{"grade": "equivalent"}'
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": answer.finish}
    usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.reply_tokens}
    return Told({"model": model, "choices": [choice], "usage": usage})


def write_hospital(folder: Path) -> Hospital:
    """Run four agents on the sample benchmark, judge them, and play an arena and a counterfactual."""
    home, printed = folder / "home", dict[str, tuple[str, str]]()
    home.mkdir()
    prices = (f'["openai:{name}"]\ninput = {i}\noutput = {o}\n' for name, (i, o) in _PRICES.items())
    (home / "prices.toml").write_text("".join(prices))
    with answering(reply) as server, pytest.MonkeyPatch.context() as patch:
        url = f"{server.url}/v1"
        (folder / "app.py").write_text(_APP.format(url=url))
        patch.chdir(folder)
        for name, value in (("RAGROUNDS_HOME", str(home)), ("OPENAI_API_KEY", "none"), ("COLUMNS", "200")):
            patch.setenv(name, value)
        scenario, on_server = Scenario(folder, url), ("--base-url", url, "--alias", "ward")

        def command(key: str, *arguments: str, code: int = 0) -> None:
            printed[key] = scenario.say(*arguments, code=code), scenario.talk

        agents = [word for text in AGENTS.values() for word in ("--agent", text)]
        command("run", "run", *agents, "--model", "openai:any", *on_server, "--display", "json", code=3)
        first, second, third, _ = AGENTS
        judged = ("--kind", "equivalence", "--probes", "6", *on_server)
        command("judge", "judge", first, second, *judged, "--judge", "openai:judge")
        command("nodder", "judge", third, *judged, "--judge", "openai:nodder", code=3)
        command("arena", "arena", "play", first, second, third, "--judge", "openai:judge", *on_server)
        changed = ("counterfactual", second, "--limit", "8", "--display", "json")
        command("counterfactual", *changed)
    return Hospital(home, printed)
