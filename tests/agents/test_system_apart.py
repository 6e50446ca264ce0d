"""Systems of one command share a process: what two of them cannot share is refused; one after the other is right."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ragrounds.agents.systems import place
from ragrounds.agents.systems.place import named_object
from ragrounds.base.errors import UserError
from ragrounds.evals.engine.plan import Recipe, open_agents

V1, V2 = "./v1/langgraph.json:agent", "./v2/langgraph.json:agent"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORD_OF_APP", "")  # to be as it was afterwards
    monkeypatch.delenv("WORD_OF_APP")
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in [each for each in sys.modules if each.partition(".")[0] in ("medbot", "wording")]:
        del sys.modules[name]
    monkeypatch.setattr(place, "_shared", {})
    return tmp_path


def app(version: str, *, env: str = "", package: bool = True) -> None:
    """A clone of an app: a package of its own with prompts in another module of it, or one file."""
    place = Path(version, "src", "medbot") if package else Path(version)
    place.mkdir(parents=True)
    prompt = f"SYSTEM = 'prompt of {version}'\n"
    imported = "from medbot.prompts import SYSTEM\n" if package else prompt
    (place / "graph.py").write_text(f"import os\n{imported}def agent(question):\n    return SYSTEM\n")
    if package:
        (place / "prompts.py").write_text(prompt)
    where = (place / "graph.py").relative_to(version)
    said = {"dependencies": ["."], "graphs": {"agent": f"./{where}:agent"}, "env": ".env"}
    Path(version, "langgraph.json").write_text(json.dumps(said))
    if env:
        Path(version, ".env").write_text(env)


def opened(*agents: str) -> list[str]:
    found = open_agents(Recipe(agents=agents), Path("home"))
    return [named_object(one.agent.card.graph)(None) for one in found]  # type: ignore[operator]


def test_two_versions_of_one_package_are_refused() -> None:
    app("v1")
    app("v2")
    with pytest.raises(UserError, match=r"each have their own module 'medbot.prompts'.* Run them in two commands"):
        opened(V1, V2)


@pytest.mark.slow
def test_one_after_the_other_in_one_process_is_refused_too() -> None:
    app("v1")
    app("v2")
    assert opened(V1) == opened(V1) == ["prompt of v1"]
    with pytest.raises(UserError, match=r"langgraph.json:agent each have their own module 'medbot.prompts'"):
        opened(V2)
    assert opened(V1) == ["prompt of v1"]


def test_other_values_of_one_variable_are_refused() -> None:
    app("v1", env="WORD_OF_APP=1\n", package=False)
    app("v2", env="WORD_OF_APP=2\n", package=False)
    with pytest.raises(UserError, match="each have their own environment variable WORD_OF_APP"):
        opened(V1, V2)
    assert os.environ["WORD_OF_APP"] == "1"
    Path("v2", ".env").write_text("WORD_OF_APP=1\n")
    assert opened(V1, V2) == ["prompt of v1", "prompt of v2"]


def test_what_the_user_set_comes_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("v3", "v4"):
        app(version, env=f"WORD_OF_SHELL={version}\n", package=False)
    monkeypatch.setenv("WORD_OF_SHELL", "shell")
    assert opened("./v3/langgraph.json:agent", "./v4/langgraph.json:agent") == ["prompt of v3", "prompt of v4"]
    assert os.environ["WORD_OF_SHELL"] == "shell"


def test_files_that_import_a_module_of_one_name_from_beside_them_are_refused() -> None:
    for name in ("one", "two"):
        Path(name).mkdir()
        Path(name, "wording.py").write_text(f"SYSTEM = {name!r}\n")
        Path(name, "mine.py").write_text("from wording import SYSTEM\ndef say(question):\n    return SYSTEM\n")
    assert opened("./one/mine.py:say") == ["one"]
    with pytest.raises(UserError, match="each have their own module 'wording'"):
        opened("./one/mine.py:say", "./two/mine.py:say")


def test_a_function_that_was_given_itself_is_called_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("given_itself.py").write_text(
        "import os\nWORD = os.environ['WORD_OF_APP']\ndef say(question):\n    return WORD\n"
    )
    monkeypatch.setenv("WORD_OF_APP", "1")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    (name,) = place.give([named_object("given_itself:say")])
    say = sys.modules["given_itself"].say
    monkeypatch.setenv("WORD_OF_APP", "2")
    assert place.give([say]) == [name] == ["given_itself:say"]
    assert named_object(name) is say


def test_an_app_whose_env_file_is_not_there_runs_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    app("clone")
    assert opened("./clone/langgraph.json:agent") == ["prompt of clone"]
    assert "its env is '.env', and there is no such file in its folder: no variable is set" in caplog.text
