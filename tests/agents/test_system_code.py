"""What counts of a system's own source: code, named files, installed packages, environment variables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ragrounds.agents.systems.code import OwnSource, SystemCode, is_secret_name, system_code

MINE = """
import os
from pathlib import Path

import yaml
from somebodys_client import Client

from helper import ask

HERE = Path(__file__).parent
MODEL = os.environ.get("MODEL", "a")
KEY = os.environ["SOMEBODYS_API_KEY"]
SETTINGS = yaml.safe_load((HERE / "settings.yaml").read_text())


def prompt(name):
    return (HERE / "prompts" / f"{name}.md").read_text()


def answer(question):
    Path("last.txt").write_text(question)
    return ask(Client(), prompt("answer"), question)
"""
Read = Callable[[], SystemCode]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system's folder, and a package that is installed elsewhere."""
    made = tmp_path / "mine"
    (made / "prompts").mkdir(parents=True)
    (made / "mine.py").write_text(MINE)
    (made / "helper.py").write_text("def ask(client, *texts):\n    return client.ask(texts)\n")
    (made / "settings.yaml").write_text("model: a\n")
    (made / "prompts" / "answer.md").write_text("Answer.\n")
    monkeypatch.chdir(tmp_path)
    for name in ("MODEL", "SOMEBODYS_API_KEY", "DEPTH"):
        monkeypatch.delenv(name, raising=False)
    installed(tmp_path / "lib" / "site-packages", "somebodys-client", "1.0", requires="somebodys-wire")
    installed(tmp_path / "lib" / "site-packages", "somebodys-wire", "7")
    monkeypatch.syspath_prepend(str(tmp_path / "lib" / "site-packages"))
    return made


def installed(place: Path, name: str, version: str, requires: str = "") -> None:
    """Install a package, or another version of it."""
    module = name.replace("-", "_")
    (place / module).mkdir(parents=True, exist_ok=True)
    (place / module / "__init__.py").write_text(f'DEFAULT = "{version}"\n\n\nclass Client:\n    pass\n')
    for old in place.glob(f"{module}-*.dist-info"):
        old.joinpath("METADATA").unlink()
        old.rmdir()
    described = place / f"{module}-{version}.dist-info"
    described.mkdir()
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    described.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")


@pytest.fixture
def read(folder: Path) -> Read:
    return lambda: system_code(OwnSource(files=(folder / "mine.py",)))


def test_what_stands_in_it(read: Read) -> None:
    code = read()
    assert set(code.files) == {"settings.yaml", "answer.md"}
    assert code.packages["somebodys-client"] == "1.0"
    assert "pyyaml" in code.packages
    assert code.requirements == {"somebodys-wire": "7"}
    assert code.environment == {}


def test_comments_change_nothing_and_code_does(read: Read, folder: Path) -> None:
    before = read()
    (folder / "helper.py").write_text("# Politely.\n\ndef ask(client, *texts):\n    return (client.ask(texts))\n")
    assert read() == before
    (folder / "helper.py").write_text("def ask(client, *texts):\n    return client.ask(texts[::-1])\n")
    assert msgspec.structs.replace(read(), digest=before.digest) == before
    assert read().digest != before.digest


@pytest.mark.parametrize("name", ["settings.yaml", "prompts/answer.md"])
def test_a_named_file_counts_by_its_content(read: Read, folder: Path, name: str) -> None:
    before = read()
    (folder / name).write_text("model: another\n")
    after = read()
    assert (after.digest, [key for key in after.files if after.files[key] != before.files[key]]) == (
        before.digest,
        [Path(name).name],
    )


def test_files_that_it_does_not_name_or_writes_itself_do_not_count(read: Read, folder: Path, tmp_path: Path) -> None:
    before = read()
    (folder / "notes.txt").write_text("Nobody reads this.\n")
    (tmp_path / "last.txt").write_text("What was this?\n")
    assert read() == before


@pytest.mark.parametrize(
    "path",
    [
        '"prompts/system.md"',
        'HERE / "prompts" / f"{name}.md"',
        'os.path.join(HERE, "prompts", name + ".md")',
        'HERE.joinpath("prompts", "system.md")',
        'sorted((HERE / "prompts").iterdir())',
        'HERE / "prompts" / "sub" / ".." / "system.md"',
    ],
)
def test_ways_to_name_a_file(read: Read, folder: Path, path: str) -> None:
    (folder / "prompts" / "sub").mkdir()
    (folder / "mine.py").write_text(f"import os\nfrom pathlib import Path\nHERE = Path(__file__).parent\nIT = {path}\n")
    (folder / "prompts" / "system.md").write_text("Be brief.")
    (folder / "other.txt").write_text("No prompt.")
    before = read()
    (folder / "prompts" / "system.md").write_text("Be long.")
    after = read()
    assert before.files != after.files
    assert "other.txt" not in after.files


def test_another_version_of_a_package_and_of_what_it_requires(read: Read, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "lib" / "site-packages"
    installed(place, "somebodys-client", "2.0", requires="somebodys-wire")
    assert read().packages["somebodys-client"] == "2.0"
    installed(place, "somebodys-wire", "8")
    assert read().requirements == {"somebodys-wire": "8"}


def test_variables_count_with_their_values_and_keys_do_not(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEBODYS_API_KEY", "sk-abcdefghijklmnop1234567890")
    monkeypatch.setenv("NOT_READ", "1")
    assert read().environment == {}
    monkeypatch.setenv("MODEL", "b")
    assert read().environment == {"MODEL": "b"}


@pytest.mark.parametrize(
    "source",
    [
        'import os\nDEPTH = os.getenv("DEPTH")',
        'from os import environ\nDEPTH = environ["DEPTH"]',
        'from settings_of_ours import read\nDEPTH = read("DEPTH")',
        "import os\n\n\nclass Options:\n    depth: int = 1\n\n\nREAD = [os.environ.get(one.upper()) for one in NAMES]",
        "from pydantic_settings import BaseSettings\n\n\nclass Options(BaseSettings):\n    depth: int = 1",
    ],
)
def test_ways_to_read_a_variable(read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    (folder / "mine.py").write_text(source)
    monkeypatch.setenv("DEPTH", "3")
    assert read().environment == {"DEPTH": "3"}


def test_an_env_file_counts_where_it_is_read(read: Read, folder: Path) -> None:
    (folder / "mine.py").write_text("from dotenv import load_dotenv\nload_dotenv()\n")
    (folder / ".env").write_text("export MODEL='b'\nSOMEBODYS_API_KEY=sk-abcdefghijklmnop1234567890\n")
    assert read().environment == {"MODEL": "b"}


def test_a_login_in_a_value_is_not_kept(read: Read, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.py").write_text('import os\nBASE = os.environ["DEPTH"]\n')
    monkeypatch.setenv("DEPTH", "http://me:swordfish@host/v1")
    assert read().environment == {"DEPTH": "http://[key]@host/v1"}


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("HF_TOKEN", True),
        ("DB_PASSWORD", True),
        ("aws_secret_access_key", True),
        ("MAX_TOKENS", False),
        ("MODEL", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("AUTHOR_MODEL", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_own_packages_are_followed_and_installed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    app = tmp_path / "src" / "our_app"
    (app / "nodes").mkdir(parents=True)
    (app / "__init__.py").write_text("")
    (app / "nodes" / "__init__.py").write_text("")
    (app / "graph.py").write_text("from our_app.nodes import search\nfrom importlib.resources import files\n")
    (app / "nodes" / "search.py").write_text(
        'from importlib.resources import files\nTEXT = files("our_app").joinpath("system.txt").read_text()\n'
    )
    (app / "system.txt").write_text("Answer.\n")
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    before = system_code(OwnSource(modules=("our_app.graph",)))
    assert set(before.files) == {"system.txt"}
    (app / "nodes" / "search.py").write_text("K = 3\n")
    after = system_code(OwnSource(modules=("our_app.graph",)))
    assert (after.digest != before.digest, after.files) == (True, {})
    with pytest.raises(ModuleNotFoundError):
        system_code(OwnSource(modules=("our_app.nowhere",)))


SESSION = """
import os

import somebodys_client

PROMPT = "Answer: "
OPTIONS = {"model": "a"}
asked = []


def put(question):
    return PROMPT + question


class Way:
    def __call__(self, question):
        asked.append(question)
        return somebodys_client.Client().ask(put(question), os.environ.get("MODEL"), OPTIONS)


way = Way()
"""


@pytest.fixture
def session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What a notebook's cells have left: its source is known to Python, and is no module's."""
    import linecache

    names: dict[str, object] = {"__name__": "__main__"}
    linecache.cache["<cell 1>"] = (len(SESSION), None, SESSION.splitlines(keepends=True), "<cell 1>")
    exec(compile(SESSION, "<cell 1>", "exec"), names)
    return names


@pytest.mark.parametrize("made", ["way", "put"])
def test_an_object_of_a_session_counts_with_what_it_finds_beside_it(session: dict[str, object], made: str) -> None:
    from ragrounds.agents.systems.live_objects import object_source

    def read() -> SystemCode:
        return system_code(object_source(session[made]))

    before = read()
    session["PROMPT"] = "Answer briefly: "
    assert read().digest != before.digest
    session["PROMPT"] = "Answer: "
    assert read() == before
    asked = session["asked"]
    assert isinstance(asked, list)
    asked.append("A question, which the system keeps itself.")
    assert read() == before
    session["UNUSED"] = 1
    assert read() == before
    if made == "way":
        assert (before.packages, before.requirements) == ({"somebodys-client": "1.0"}, {"somebodys-wire": "7"})
        session["OPTIONS"] = {"model": "b"}
        assert read().digest != before.digest


def test_models_that_an_object_holds() -> None:
    from langchain_core.runnables import RunnableLambda
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    from ragrounds.agents.systems.models_held import models_held

    key = "sk-abcdefghijklmnopqrst123456"
    chat = ChatOpenAI(model="a", temperature=0.5, base_url="http://127.0.0.1:1/v1", api_key=key)  # type: ignore[arg-type]
    embedder = OpenAIEmbeddings(model="small", api_key=key)  # type: ignore[arg-type]
    chain = RunnableLambda(lambda text: embedder.embed_query(text)) | chat.bind(stop=["X"])
    held = models_held({"chain": [chain]})
    assert [one.partition("[")[0] for one in held] == ["ChatOpenAI", "OpenAIEmbeddings"]
    assert "model=a" in held[0]
    assert "temperature=0.5" in held[0]
    assert "model=small" in held[1]
    assert "sk-abc" not in repr(held)
