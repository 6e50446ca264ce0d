"""Somebody's own system: another model, prompt, package or variable is another run, and back again is the first one.

Everything goes through the command line; the model server is real, on loopback, and counts what it is asked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Ran

BY_OPENAI = """
import os

from openai import OpenAI

client = OpenAI(base_url="{url}", api_key="none")

def answer(prompt: str) -> str:
    said = client.chat.completions.create(
        model={model}, temperature=0, messages=[{{"role": "user", "content": prompt}}]
    )
    return said.choices[0].message.content
"""
GRAPH = """
from typing import TypedDict

import urllib3
from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph

client = urllib3.PoolManager()


class State(TypedDict, total=False):
    question: str
    answer: str


def say(state: State, config: RunnableConfig) -> State:
    model = config["configurable"].get("model", "a")
    asked = {{"model": model, "messages": [{{"role": "user", "content": state["question"]}}]}}
    said = client.request("POST", "{url}/chat/completions", json=asked)
    return {{"answer": said.json()["choices"][0]["message"]["content"]}}


graph = StateGraph(State).add_node("say", say).set_entry_point("say").compile()
"""


def test_a_model_in_a_file_that_the_code_reads(write: Any, ran: Any, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    write(model='SETTINGS["model"]', above='import json\nSETTINGS = json.loads((HERE / "settings.json").read_text())\n')
    settings.write_text('{"model": "a"}')
    first = ran("--limit", "1")
    settings.write_text('{"model": "b"}')
    second = ran("--limit", "1")
    assert (second.run != first.run, second.asked) == (True, 1)
    assert "the file settings.json changed;" in second.said
    settings.write_text('{"model": "a"}')
    assert ran("--limit", "1")[:2] == (first.run, 0)


def test_a_model_in_a_file_of_a_computed_name(write: Any, ran: Any, tmp_path: Path) -> None:
    """From a file of a name that is computed, which is read while a question is answered."""
    hidden = tmp_path / "model.cfg"
    write("Path(__file__).with_suffix('').parent.joinpath('model' + '.' + 'cfg').read_text()")
    hidden.write_text("a")
    first = ran("--limit", "1")
    hidden.write_text("b")
    second = ran("--limit", "1")
    assert (second.run != first.run, second.asked) == (True, 1)
    assert f"since {first.run}, the file model.cfg changed; only calls that are not in the journal" in second.said


@pytest.mark.slow
def test_a_model_of_the_configuration(write: Any, ran: Any) -> None:
    write(text=GRAPH)
    agent = "./mine.py:graph"
    first = ran("--config", "model=a", agent=agent)
    second = ran("--config", "model=b", agent=agent)
    assert (second.run != first.run, second.asked) == (True, 3)
    assert ran(agent=f"{agent}[config.model=a]")[:2] == (first.run, 0)


def test_a_run_is_not_resumed_by_name_with_another_model(
    write: Any, ran: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ragrounds as rr

    write(model='os.environ["MODEL"]')
    first = ran("--limit", "1", MODEL="a")
    options: dict[str, Any] = {"limit": 1, "home": home, "progress": False, "only": first.run}
    monkeypatch.setenv("MODEL", "a")
    assert rr.run(agents="./mine.py:answer", **options).runs[0].id == first.run
    monkeypatch.setenv("MODEL", "b")
    with pytest.raises(rr.UserError, match=r"the variable MODEL changed \(b, was a\)"):
        rr.run(agents="./mine.py:answer", **options)


@pytest.mark.slow
def test_what_is_kept_and_shown(write: Any, ran: Any, command: Any, server: Any) -> None:
    write(model='os.environ["MODEL"]', text=BY_OPENAI)
    first = ran(MODEL="a", OPENAI_API_KEY="sk-abcdefghijklmnopqrst123456")
    shown = command("runs", "show", first.run, "--full").stdout
    assert f"openai:a[server={server.url}" in shown.replace("\n", "").replace(" ", "")
    for part in ("read: package", "openai", "read: variable", "MODEL =a", "read: code", "mine.py", "function"):
        assert part in shown
    assert "sk-abc" not in shown


@pytest.mark.slow
def test_a_model_that_is_a_package_s_default(forked_cli: Any, write: Any, server: Any, tmp_path: Path) -> None:
    """Another version of the package is another run, in a process of its own."""
    place = tmp_path / "lib" / "site-packages"
    installed = f"import sys\nsys.path.insert(0, {str(place)!r})\nsys.dont_write_bytecode = True\n"
    write(model="DEFAULT", above=f"{installed}from somebodys_models import DEFAULT\n")

    def run(version: str, model: str) -> Ran:
        for old in place.glob("*.dist-info"):
            old.joinpath("METADATA").unlink()
            old.rmdir()
        (place / "somebodys_models").mkdir(parents=True, exist_ok=True)
        (place / "somebodys_models" / "__init__.py").write_text(f'DEFAULT = "{model}"  # {version}\n')
        described = place / f"somebodys_models-{version}.dist-info"
        described.mkdir()
        described.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: somebodys_models\nVersion: {version}\n"
        )
        before = server.stats()["asked"]
        options = ("--agent", "./mine.py:answer", "--limit", "3", "--display", "none", "--json")
        done = forked_cli("run", *options)
        assert done.returncode == 0, done.stderr
        return Ran(json.loads(done.stdout)["rows"][0]["run"], server.stats()["asked"] - before, done.stderr)

    first = run("1.0", "a")
    second = run("2.0", "b")
    assert (second.run != first.run, second.asked) == (True, 3)
    assert "the package somebodys-models changed (2.0, was 1.0);" in second.said
    assert run("1.0", "a")[:2] == (first.run, 0)
    # The same model under another version: a run of its own, answered from the journal.
    third = run("1.1", "a")
    assert (third.run not in (first.run, second.run), third.asked) == (True, 0)


@pytest.mark.slow
def test_workers_take_the_models_from_who_planned_the_run(forked_cli: Any, write: Any, server: Any) -> None:
    write(model='os.environ["MODEL"]')
    options = ("--agent", "./mine.py:answer", "--limit", "4", "--display", "none", "--json", "--workers", "2")
    before = server.stats()["asked"]
    done = forked_cli("run", *options, MODEL="a")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["rows"][0]["run"]
    assert server.stats()["asked"] - before == 4
    again = forked_cli("run", *options, MODEL="a")
    assert json.loads(again.stdout)["rows"][0]["run"] == first
    assert server.stats()["asked"] - before == 4


def test_objects_of_a_session_are_known_by_their_sources(tmp_path: Path, server: Any) -> None:
    import ragrounds as rr

    source = 'MODEL = "a"\n' + BY_OPENAI.format(url=server.url, model="MODEL")
    file = tmp_path / "session.py"
    file.write_text(source)
    session: dict[str, Any] = {"__name__": "__main__", "__file__": str(file)}
    exec(compile(source, str(file), "exec"), session)
    options: dict[str, Any] = {"limit": 2, "home": tmp_path / "home", "progress": False}
    first = rr.run(agents=[session["answer"]], **options).runs[0].id
    session["MODEL"] = "b"
    second = rr.run(agents=[session["answer"]], **options).runs[0].id
    session["MODEL"] = "a"
    assert rr.run(agents=[session["answer"]], **options).runs[0].id == first != second


def test_a_model_that_an_object_holds_is_a_part_of_it() -> None:
    from langchain_core.language_models import FakeListChatModel

    from ragrounds.agents.systems.live_objects import object_source

    class Bot:
        __slots__ = ("model",)

        def __init__(self, text: str) -> None:
            self.model = FakeListChatModel(responses=[text])

        def ask(self, question: str) -> str:
            return str(self.model.invoke(question).content)

    one, same, other = Bot("A"), Bot("A"), Bot("B")
    one.ask("which?")
    assert object_source(one.ask) == object_source(same.ask) != object_source(other.ask)


def test_what_an_endpoint_is_asked(ran: Any, tmp_path: Path, server: Any) -> None:
    file = tmp_path / "ours.toml"

    def write(model: str, more: str = "") -> None:
        file.write_text(f'[endpoint]\nurl = "{server.url}"\nform = "openai"\nmodel = "{model}"\n{more}\n')

    write("a")
    first = ran(agent="./ours.toml")
    write("b")
    second = ran(agent="./ours.toml")
    assert (second.run != first.run, second.asked) == (True, 3)
    assert f"since {first.run}, the setting endpoint.model changed (b, was a)" in second.said
    write("a", "timeout = 5.0")
    assert ran(agent="./ours.toml")[:2] == (first.run, 0)


@pytest.mark.slow
def test_an_application_with_an_env_file(ran: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(text=GRAPH.replace('config["configurable"].get("model", "a")', 'os.environ["THEIR_MODEL"]'))
    file = tmp_path / "mine.py"
    file.write_text("import os\n" + file.read_text())
    (tmp_path / "langgraph.json").write_text(
        '{"graphs": {"g": "./mine.py:graph"}, "dependencies": ["."], "env": ".env"}'
    )
    found = []
    for model in ("a", "b", "a"):
        monkeypatch.delenv("THEIR_MODEL", raising=False)  # as in a process of its own
        (tmp_path / ".env").write_text(f"THEIR_MODEL={model}\nTHEIR_TOKEN=abcdefgh12345678\n")
        found.append(ran(agent="./langgraph.json:g"))
    assert [one.asked for one in found] == [3, 3, 0]
    assert found[0].run == found[2].run != found[1].run
    assert "the variable THEIR_MODEL changed (b, was a)" in found[1].said
    for name in ("THEIR_MODEL", "THEIR_TOKEN"):
        os.environ.pop(name, None)


INSIDE = """
from pathlib import Path
from typing import TypedDict

from langchain_core.language_models import FakeListChatModel
from langgraph.graph import StateGraph


class State(TypedDict, total=False):
    question: str
    answer: str


def build():
    model = FakeListChatModel(responses=[Path(__file__).with_name("said" + "." + "cfg").read_text()])

    def say(state: State) -> State:
        return {{"answer": model.invoke(state["question"]).content}}

    return StateGraph(State).add_node("say", say).set_entry_point("say").compile()
"""


@pytest.mark.slow
def test_a_model_inside_the_process(write: Any, ran: Any, tmp_path: Path) -> None:
    """It sends nothing: it is known by what it was made of."""
    write(text=INSIDE)
    found = []
    for said in ("A", "B", "A"):
        (tmp_path / "said.cfg").write_text(said)
        found.append(ran(agent="./mine.py:build"))
    assert found[0].run == found[2].run != found[1].run
    assert "the file said.cfg changed;" in found[1].said
