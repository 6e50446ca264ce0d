"""What systems of somebody's own are set to: in an agent's text, in its file, by options; and what has no effect."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import ragrounds as rr
from ragrounds.agents.agent import code_named, open_agent, read_card
from ragrounds.agents.systems import place
from ragrounds.agents.systems.place import give, named_object
from ragrounds.agents.systems.process_choice import hosts_held
from ragrounds.agents.systems.settings import flat, read_table, with_model, with_tables
from ragrounds.base.errors import UserError
from tests.servers.process import Running

Command = Callable[..., subprocess.CompletedProcess[str]]
GRAPH = """
import os
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_store
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from parts.words import WORD

def reply(state: MessagesState, config: RunnableConfig):
    import library
    model = config["configurable"].get("model", "none")
    assert get_store().search(("known",)) == []
    get_store().put(("known",), "one", {})
    return {"messages": [AIMessage(f"{WORD} {library.WORD} {os.environ.get('APP_WORD')} {model}")]}

def ask(state: MessagesState):
    return {"messages": [AIMessage(str(interrupt({"choices": ["B", "C"]})))]}

def made(node):
    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph

graph = made(reply).compile()
asking = made(ask).compile()
"""


@pytest.fixture(scope="module")
def app_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An application in the layout of LangGraph's own template, whose host lives until the last test."""
    folder = tmp_path_factory.mktemp("app")
    parts, library = folder / "src" / "parts", folder / "library"
    parts.mkdir(parents=True)
    library.mkdir()
    (parts / "__init__.py").write_text("")
    (parts / "words.py").write_text("WORD = 'word'\n")
    (parts / "graph.py").write_text(GRAPH)
    (library / "library.py").write_text("WORD = 'of the library'\n")
    (folder / ".env").write_text("export APP_WORD='from the file'\nAPP_OTHER=other\n")
    says = {
        "dependencies": [".", "./library", "langchain_openai"],
        "graphs": {
            "first-agent": "./src/parts/graph.py:graph",
            "asking": {"path": "parts.graph:asking", "description": "Asks."},
        },
        "env": ".env",
    }
    (folder / "langgraph.json").write_text(json.dumps(says))
    (folder / "person.py").write_text("def choose(asked):\n    return asked['choices'][0]\n")
    (folder / "other.json").write_text("[]")
    with hosts_held():
        yield folder


@pytest.fixture
def app(app_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("APP_WORD", "APP_OTHER"):
        monkeypatch.setenv(name, "")  # to be as it was afterwards
        monkeypatch.delenv(name)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr(place, "_shared", {})
    monkeypatch.chdir(app_folder)
    return app_folder


def texts(result: rr.RunResult) -> set[str]:
    return {str(one.text) for one in result.to_pandas("attempts").itertuples()}


def run(agents: object, **options: object) -> rr.RunResult:
    return rr.run("sample", agents, limit=2, progress=False, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("langgraph.json", "which graph? Expected langgraph.json:NAME. It has: first-agent, asking"),
        ("langgraph.json:first-agnet", "Did you mean 'first-agent'"),
        ("nowhere.json:x", "Cannot read 'nowhere.json'"),
        ("other.json:x", "Expected a langgraph.json"),
    ],
)
def test_an_app_without_that_graph_tells_what_it_has(app: Path, name: str, message: str) -> None:
    with pytest.raises(UserError) as told:
        run(name)
    assert message in str(told.value)


def test_an_agent_s_file_names_a_system_and_who_answers(app: Path) -> None:
    folder = app / "agents"
    folder.mkdir()
    file = folder / "mine.toml"
    file.write_text('system = "../langgraph.json:asking"\non_interrupt = "../person.py:choose"\nas = "Mine"\n')
    result = run(str(file))
    assert texts(result) == {"B"}
    named = code_named(read_card(str(file)))
    assert named == ["parts.graph:asking", f"{folder}/../person.py:choose"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "x.py:y"\ngraph = "direct"', "both graph and system"),
        ('system = "direct"', "expected ./FILE.py:NAME"),
        ('summary = "Nothing."', "has neither a graph nor a system"),
    ],
)
def test_a_file_without_a_system_is_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_card(str(tmp_path / "mine.toml"))


@pytest.mark.slow
def test_the_options_of_the_command_line(app: Path, command: Command) -> None:
    os.chdir(app)
    ran = ("run", "--limit", "2", "--display", "none", "--agent", "langgraph.json:first-agent")
    done = command(*ran, "--config", "model=gpt-x")
    assert done.returncode == 0, done.stderr
    assert "langgraph.json:first-agent[config.model=gpt-x]" in done.stdout
    mixed = command(*ran, "--agent", "vanilla_rag", "--corpus", "sample")
    assert "--corpus is ignored for langgraph.json:first-agent" in " ".join(mixed.stderr.split()), mixed.stderr
    for options, message in (
        (("--model", "openai:x"), "--model has no effect on langgraph.json:first-agent"),
        (("--temperature", "0.5"), "--temperature has no effect"),
        (("--corpus", "sample"), "its own code searches. Leave it out."),
        (("--retriever", "bm25[k1=1.5]"), "changes nothing"),
        (("--context", "depth=3"), "no context_schema"),
        (("--config", "model"), "expected KEY=VALUE"),
    ):
        refused = command(*ran, *options)
        assert refused.returncode != 0
        assert message in " ".join(refused.stderr.split()), refused.stderr


@pytest.mark.parametrize("key", ["model=openai:x", "retriever=bm25[k1=1.5]", "question_only=false", "prompts=folder"])
def test_what_has_no_effect_on_a_system_is_an_error(app: Path, key: str) -> None:
    with pytest.raises(UserError, match=f"{key.partition('=')[0]} has no effect"):
        run(f"langgraph.json:first-agent[{key}]")
    with pytest.raises(UserError, match="is for your own systems"):
        run("direct", config={"a": 1})


@pytest.mark.parametrize(
    "given", ["api_key=hidden-words", "auth.token=hidden-words", "other=sk-hiddenwords0123456789ABCDEFG"]
)
def test_a_key_is_not_taken_into_an_agent_s_text(app: Path, given: str) -> None:
    with pytest.raises(UserError, match="looks like a key") as told:
        run("langgraph.json:first-agent", config=[given])
    assert "hidden" not in str(told.value)
    assert open_agent("langgraph.json:first-agent[config.max_tokens=5]").card.config == {"max_tokens": 5}


def test_a_model_is_set_where_the_file_says(app: Path) -> None:
    file = app / "mine.toml"
    file.write_text('system = "langgraph.json:first-agent"\nmodel_field = "config.model"\n')
    result = run("mine.toml", model="openai:gpt-z")
    assert result.runs[0].agent == "mine.toml[config.model=openai:gpt-z]"
    assert texts(result) == {"word of the library from the file openai:gpt-z"}
    assert (
        with_model("mine.toml[config.model=own]", read_card("mine.toml"), "openai:x") == "mine.toml[config.model=own]"
    )
    with pytest.raises(UserError, match="takes only a model's name"):
        run("mine.toml", model="openai:gpt-z[temperature=0]")
    file.write_text('system = "langgraph.json:first-agent"\nmodel_field = "model"\n')
    with pytest.raises(UserError, match=r"expected config\.KEY or context\.KEY"):
        run("mine.toml", model="openai:gpt-z")


def test_tables_are_read_and_written_alike() -> None:
    table = {"a": {"b": 1, "c": [1, None]}, "d": "true", "e": True, "f": 0.5, "g": None, "h": "x y"}
    text = with_tables("mine.py:graph", table, {"i": 1})
    card = open_agent_card(text)
    assert (card["config"], card["context"]) == (table, {"i": 1})
    assert dict(flat({"a": {"b": 1}})) == {"a.b": 1}
    assert read_table(["a.b=1", 'c=["x"]', "d=plain text", "configurable.e=2"], "--config") == {
        "a": {"b": 1},
        "c": ["x"],
        "d": "plain text",
        "e": 2,
    }


def open_agent_card(text: str) -> dict[str, object]:
    """The tables of an agent's text, without opening the file that it names."""
    from ragrounds.agents.card import Card
    from ragrounds.agents.systems.settings import with_setting
    from ragrounds.base.specs import parse

    card = Card(graph="mine.py:graph")
    for key, value in parse(text).parameters.items():
        _, card = with_setting(card, key, value)
    return {"config": card.config, "context": card.context}


def three_lines(question: str) -> str:
    """A function as somebody writes it in a notebook."""
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    reply = httpx.post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=body).json()
    return str(reply["choices"][0]["message"]["content"])


def test_objects_are_agents(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    before = server.account().calls
    inside = lambda question: "B"  # noqa: E731 - as it is given
    result = run({"Three lines": three_lines, "Always B": inside, "Ours": "direct"}, model="baseline:extractive")
    assert [run.agent for run in result.runs] == [f"{__name__}:three_lines", "__main__:lambda", "direct"]
    assert server.account().calls - before == 2
    rows = {row.agent: row.name for row in result.comparison.rows}
    assert rows["__main__:lambda"] == "Always B"
    again = run([inside])
    assert again.runs[0].id == result.runs[1].id, "the same function is the same run"
    with pytest.raises(UserError, match="an object of this process"):
        run([inside], workers=2)


def test_an_object_of_another_process_is_told() -> None:
    assert give([len, len]) == ["builtins:len", "builtins:len"]
    with pytest.raises(UserError, match="was an object of another process"):
        named_object("__main__:no_such_thing_here")
