"""Commands and public functions, of installed packages and of extensions; an extension is a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ragrounds as rr
import ragrounds.extensions
from ragrounds.api.functions import FUNCTIONS, public_names
from ragrounds.base import hooks, plugins
from ragrounds.base.digests import code_digest
from ragrounds.base.errors import UserError
from ragrounds.cli.command_files import command_files
from ragrounds.cli.installed import COMMANDS
from ragrounds.tools.retriever import RETRIEVERS, Retriever
from tests.conftest import Cli

PACKAGES = Path(__file__).parent / "packages"
TALLY = (PACKAGES / "command" / "tally.py").read_text(encoding="utf-8")
COMMAND = '"""`ragrounds greet`: greet somebody."""\nimport typer\napp = typer.Typer()\n' + (
    '@app.command("greet")\ndef greet() -> None:\n    """Greet."""\n    typer.echo("Hello")\n'
)
RETRIEVER = "from ragrounds.tools.retriever import Retriever\n" + (
    'NONE = Retriever(name="none", summary="s", example="none", open=len)\n'
)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of the import path to which modules are added, and nothing known of it before and after."""

    def forget() -> None:
        for cached in (hooks.extensions, command_files, plugins._entries, plugins._discovered, plugins._of_own_module):
            cached.cache_clear()
        plugins._LOADED.clear()
        for name in [name for name in sys.modules if name.startswith(("plug_", "ragrounds.extensions.plug_"))]:
            del sys.modules[name]
        vars(rr).pop("tally", None)

    monkeypatch.syspath_prepend(tmp_path)
    ragrounds.extensions.__path__.append(str(tmp_path))
    forget()
    yield
    ragrounds.extensions.__path__.remove(str(tmp_path))
    forget()


@pytest.fixture
def install(fresh: None, tmp_path: Path) -> Callable[..., None]:
    """Install a package of one module, with these groups of entry points."""

    def write(package: str, code: str, **groups: str) -> None:
        described = tmp_path / f"{package}-1.2.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        entries = "".join(f"[ragrounds.{group}]\n{entry}\n" for group, entry in groups.items())
        (described / "entry_points.txt").write_text(entries)
        (tmp_path / f"{package}.py").write_text(code)
        plugins._entries.cache_clear()

    return write


def test_a_package_adds_a_command_and_a_public_function(install: Callable[..., None], command: Cli) -> None:
    install("plug_tally", TALLY, commands="tally = plug_tally:app", functions="tally = plug_tally:tally")
    assert command("run", "--agent", "direct", "--limit", "3", "--display", "none").returncode == 0
    assert "tally" in command("--help").stdout.partition("More (")[2]
    assert "tally" in dir(rr)
    assert "tally" not in rr.__all__
    assert "plug_tally" not in sys.modules, "listing imports nothing"
    assert command("tally", "direct").stdout == "completed 3\n"
    assert "A run: its id or its agent." in command("tally", "--help").stdout
    assert rr.tally("direct") == {"completed": 3}  # type: ignore[attr-defined]
    assert (COMMANDS.origin("tally"), FUNCTIONS.origin("tally")) == ("plug_tally 1.2", "plug_tally 1.2")


def test_names_that_ship_stay_and_what_is_broken_is_an_error_of_one_line(
    install: Callable[..., None], command: Cli
) -> None:
    entries = {
        "commands": "compare = plug_bad:app\nodd = plug_bad:app",
        "functions": "run = plug_bad:run\nodd = plug_bad:no",
    }
    install("plug_bad", "import typer\napp = typer.Typer()\nrun = len\n", **entries)
    assert "odd" in command("--help").stdout
    assert "Print what can be concluded" in command("compare", "--help").stdout
    assert rr.run.__module__ == "ragrounds.api.run"
    assert [one.fault[:16] for one in COMMANDS.additions()] == ["the name is that", ""]
    done = command("odd")
    assert (done.returncode, done.stderr) == (
        2,
        "ragrounds: The package plug_bad 1.2 adds 'odd', but has no such command.\n",
    )
    with pytest.raises(UserError, match=r"The public function 'odd' of the package plug_bad 1\.2 .*cannot be used"):
        rr.odd  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        rr.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_an_extension_is_one_folder(fresh: None, command: Cli, tmp_path: Path) -> None:
    """It adds a command, a function and a retriever, and is left out where one of its bases is missing."""
    extension = tmp_path / "plug_extension"
    (extension / "retrievers").mkdir(parents=True)
    (extension / "__init__.py").write_text('FUNCTIONS = ("ragrounds.extensions.plug_extension.counting:tally",)\n')
    (extension / "cli.py").write_text(COMMAND)
    (extension / "counting.py").write_text(TALLY)
    (extension / "retrievers" / "__init__.py").write_text("")
    (extension / "retrievers" / "none.py").write_text(RETRIEVER)
    assert command("greet").stdout == "Hello\n"
    assert "greet" in command("--help").stdout
    assert rr.tally.__module__ == "ragrounds.extensions.plug_extension.counting"  # type: ignore[attr-defined]
    assert {"tally", "study"} <= {*public_names()}
    assert isinstance(RETRIEVERS.find("none"), Retriever)
    assert {"none", "bm25"} <= RETRIEVERS.all().keys()

    (extension / "__init__.py").write_text('BASES = ("plug_missing",)\nFUNCTIONS = ()\n')
    for name in [name for name in sys.modules if "plug_extension" in name]:
        del sys.modules[name]
    for cached in (hooks.extensions, command_files):
        cached.cache_clear()
    assert "plug_extension" not in hooks.extensions()
    done = command("greet")
    assert done.returncode == 2
    assert "No such command 'greet'" in done.stderr


def test_what_is_imported_from_extend_is_part_of_a_digest(
    tmp_path: Path, fresh: None, edit: Callable[[str], None]
) -> None:
    (tmp_path / "plug_scorer.py").write_text((PACKAGES / "scorer" / "brevity.py").read_text(encoding="utf-8"))
    before = code_digest("plug_scorer", within=("ragrounds.evals.scorers",))
    edit("extend.py")
    assert code_digest("plug_scorer", within=("ragrounds.evals.scorers",)) == before
    edit("answer_status.py")
    assert code_digest("plug_scorer", within=("ragrounds.evals.scorers",)) != before
