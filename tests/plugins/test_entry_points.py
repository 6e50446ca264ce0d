"""What installed packages add: what is left out and why, and that nothing else suffers from it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ragrounds
from ragrounds.api.doctor import doctor
from ragrounds.base import plugins
from ragrounds.base.errors import UserError
from ragrounds.base.plugins import imported, is_import_path
from ragrounds.evals.analyses.analysis import ANALYSES, Analysis, analyses, find_analysis

ANALYSIS = """
from ragrounds.evals.analyses.analysis import Analysis
MADE = Analysis(name="{name}", summary="s", needs="n", measure=len, table=len, picture=len)
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package of one module: its name, its entry points, its code."""
    modules: list[str] = []
    monkeypatch.syspath_prepend(tmp_path)

    def write(package: str, entries: str, code: str, version: str = "1.2", group: str = "analyses") -> None:
        described = tmp_path / f"{package}-{version}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (described / "entry_points.txt").write_text(f"[ragrounds.{group}]\n{entries}\n")
        (tmp_path / f"{package}.py").write_text(code)
        modules.append(package)
        plugins._entries.cache_clear()

    yield write
    for name in modules:
        sys.modules.pop(name, None)
    plugins._entries.cache_clear()
    plugins._LOADED.clear()
    plugins._SAID.clear()


def test_an_entry_point_adds_a_name(install: Install) -> None:
    install("plug_good", "mine = plug_good:MADE", ANALYSIS.format(name="mine"))
    assert find_analysis("mine") is analyses()["mine"]
    assert ANALYSES.origin("mine") == "plug_good 1.2"
    assert ANALYSES.origin("flips") == ANALYSES.origin("nothing") == ""
    assert ANALYSES.additions()[0].fault == ""


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (
            "1 / 0",
            "failed: ZeroDivisionError: division by zero (plug_bad.py, line 1)",
        ),
        ("import sys; sys.exit(5)", "tried to end the process"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("class Rude(BaseException): pass\nraise Rude('\\x1b[2J two\\nlines')", "Rude: "),
        ("MADE = 5", "gives int: expected an Analysis"),
        ("MADE = int", "gives int: expected an Analysis"),
        ("OTHER = 5", "AttributeError"),
        ("def MADE(): raise KeyError('x')", "KeyError"),
        (ANALYSIS.format(name="mine").replace("measure=len", "measure=5"), "its 'measure' is int, expected a function"),
        (ANALYSIS.format(name="mine").replace('"n"', "7"), "its 'needs' is int, expected a text"),
        (ANALYSIS.format(name="another"), "the entry point's name is 'mine', the object's 'another'; call both alike"),
    ],
)
def test_a_broken_one_is_left_out_and_named(
    install: Install, caplog: pytest.LogCaptureFixture, code: str, fault: str
) -> None:
    install("plug_bad", "mine = plug_bad:MADE", code)
    install("plug_fine", "fine = plug_fine:MADE", ANALYSIS.format(name="fine"))
    assert set(analyses()) == {*ANALYSES.shipped(), "fine"}
    assert set(analyses()) == {*ANALYSES.shipped(), "fine"}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("The analysis 'mine' of the package plug_bad 1.2 (entry point 'plug_bad:MADE' of ragrounds.")
    assert fault in line
    assert "\x1b" not in line
    assert "\n" not in line
    (broken,) = [each for each in ANALYSES.additions() if each.fault]
    assert (broken.name, broken.package, broken.version) == ("mine", "plug_bad", "1.2")
    assert find_analysis("flips").name == "flips"
    assert find_analysis("fine").name == "fine"
    with pytest.raises(UserError, match=r"The analysis 'mine' of the package plug_bad 1.2 .* cannot be used"):
        find_analysis("mine")


def test_a_broken_one_is_not_imported_for_another_name(install: Install, tmp_path: Path) -> None:
    install("plug_writer", "other = plug_writer:MADE", f"open({str(tmp_path / 'ran')!r}, 'w')\n1 / 0")
    assert find_analysis("flips").name == "flips"
    assert not (tmp_path / "ran").exists()


def test_a_name_that_ships_cannot_be_taken(install: Install, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w')\n" + ANALYSIS.format(name="flips")
    install("plug_thief", "flips = plug_thief:MADE", code)
    assert analyses()["flips"] is ANALYSES.shipped()["flips"]
    assert find_analysis("flips") is ANALYSES.shipped()["flips"]
    assert ANALYSES.additions()[0].fault == "the name is that of an analysis that ships with ragrounds."
    assert not (tmp_path / "ran").exists()
    with pytest.raises(UserError, match="has the name 'flips', but an analysis of this name ships"):
        ANALYSES.imported("plug_thief:MADE")


def test_a_name_of_two_packages_is_nobodys(install: Install) -> None:
    install("plug_one", "mine = plug_one:MADE", ANALYSIS.format(name="mine"))
    install("plug_two", "mine = plug_two:MADE", ANALYSIS.format(name="mine"))
    assert "mine" not in analyses()
    assert [each.fault for each in ANALYSES.additions()] == [
        "the name is added by plug_two 1.2 too; uninstall one of them.",
        "the name is added by plug_one 1.2 too; uninstall one of them.",
    ]
    with pytest.raises(UserError, match=r"plug_two 1\.2 too"):
        find_analysis("mine")
    assert find_analysis("plug_one:MADE").name == "mine"


def test_doctor_names_what_is_broken_and_groups_that_there_are_not(install: Install, tmp_path: Path) -> None:
    install("plug_bad", "mine = plug_bad:MADE", "1 / 0")
    install("plug_odd", "x = y:z", "", group="analysis")
    said = "\n".join(doctor(home=tmp_path).lines())
    assert "broken: importing the package plug_bad 1.2 failed: ZeroDivisionError" in said
    assert "there is no such group. Did you mean 'ragrounds.analyses'" in said


@pytest.mark.parametrize("name", ["my/own", "my name", "mine[k=1]", "1st", "päckchen"])
def test_a_name_that_cannot_be_typed_is_refused(install: Install, name: str) -> None:
    install("plug_odd", f"{name} = plug_odd:MADE", ANALYSIS.format(name=name))
    assert ANALYSES.additions()[0].fault.startswith("a name begins with a letter")


def test_what_it_prints_goes_to_standard_error(
    install: Install, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    install("plug_loud", "mine = plug_loud:MADE", "print('hello')\n" + ANALYSIS.format(name="mine"))
    assert "mine" in analyses()
    assert capsys.readouterr().out == ""
    assert "the package plug_loud 1.2 printed while it was imported: 'hello'" in caplog.text


def test_import_paths() -> None:
    for text in ("a:b", "a.b:C", "./x.py:F", "/tmp/some place/x.py:F", "a.b:C.d"):
        assert is_import_path(text), text
    for text in ("a", "a.b", "openai:gpt-4o-mini", "x.py", ":b", "a:", "a:1", "a[k=b:c]"):
        assert not is_import_path(text), text


def test_a_file_and_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plug_beside.py").write_text("from plug_helper import NAME\n" + ANALYSIS.replace('"{name}"', "NAME"))
    (tmp_path / "plug_helper.py").write_text("NAME = 'beside'\n")
    for path in ("plug_beside:MADE", "./plug_beside.py:MADE", f"{tmp_path}/plug_beside.py:MADE"):
        assert imported(path, Analysis, "an Analysis").name == "beside", path
    assert sys.path[-1] == str(tmp_path)  # behind everything that is installed
    (tmp_path / "json.py").write_text(ANALYSIS.format(name="json"))
    with pytest.raises(UserError, match=r"'json' has no 'MADE'.*give \./json\.py:MADE"):
        imported("json:MADE", Analysis, "an Analysis")
    assert imported("./json.py:MADE", Analysis, "an Analysis").name == "json"
    with pytest.raises(UserError) as missed:
        imported("./plug_beside.py:MAD", Analysis, "an Analysis")
    assert str(missed.value) == "'./plug_beside.py' has no 'MAD'. Did you mean 'MADE'?"
    (tmp_path / "plug_takes.py").write_text("def takes(much): return much\n")
    with pytest.raises(UserError, match="gives function: expected an Analysis, or a function that makes one without"):
        imported("plug_takes:takes", Analysis, "an Analysis")
    with pytest.raises(UserError, match=r"There is no file 'nothing\.py'"):
        imported("nothing.py:MADE", Analysis, "an Analysis")
    with pytest.raises(UserError, match="There is no module 'plug_nothing'"):
        imported("plug_nothing:MADE", Analysis, "an Analysis")
    (tmp_path / "plug_ends.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(UserError, match="tried to end the process"):
        imported("./plug_ends.py:MADE", Analysis, "an Analysis")
    for name in ("plug_beside", "plug_helper", "plug_takes"):
        sys.modules.pop(name, None)


def test_a_file_beside_the_package_itself(tmp_path: Path) -> None:
    """In a clone: what it imports of the package is the one that runs."""
    (tmp_path / "ragrounds").symlink_to(Path(ragrounds.__file__).parent)
    (tmp_path / "plug_clone.py").write_text(ANALYSIS.format(name="clone"))
    assert imported(f"{tmp_path}/plug_clone.py:MADE", Analysis, "an Analysis").name == "clone"


def test_what_fails_in_use_says_where(tmp_path: Path, home: Path) -> None:
    from ragrounds.evals.analyses.analysis import AnalysisOptions
    from ragrounds.evals.benchmarks import load
    from ragrounds.tools.retriever import open_searcher

    (tmp_path / "fails.py").write_text(
        "from ragrounds.evals.analyses.analysis import Analysis\n"
        "from ragrounds.evals.benchmarks.family import Family\n"
        "from ragrounds.tools.retriever import Retriever\n"
        "def fail(*given):\n"
        "    raise KeyError('unheard of')\n"
        "A = Analysis(name='a', summary='s', needs='n', measure=fail, table=fail, picture=fail, scored=False)\n"
        "F = Family(name='f', items=fail, file='a file')\n"
        "R = Retriever(name='r', summary='s', example='r', open=fail)\n"
    )
    said = r"failed: KeyError: 'unheard of' \(fails\.py, line 5\)"
    with pytest.raises(UserError, match=f"The analysis 'a' {said}"):
        find_analysis(f"{tmp_path}/fails.py:A")(None, [None], AnalysisOptions())  # type: ignore[arg-type, list-item]
    with pytest.raises(UserError, match=f"The benchmark 'f' {said}"):
        load(f"{tmp_path}/fails.py:F:{tmp_path}", home)
    with pytest.raises(UserError, match=f"The retriever 'r' {said}"):
        open_searcher(f"{tmp_path}/fails.py:R", "sample", home)


def test_an_export_format_says_what_its_options_lack(tmp_path: Path) -> None:
    from ragrounds.extensions.exchange.formats import EXPORTS

    code = (
        "from typing import Annotated\nfrom msgspec import Meta, Struct\n"
        "from ragrounds.extensions.exchange.formats import ExportFormat\n"
        "class Bare(Struct):\n    level: int = 2\n"
        "class Open(Struct):\n    level: Annotated[int, Meta(description='d')]\n"
        "def made(options, name='e', **more):\n"
        "    return ExportFormat(name=name, summary='s', writes='file', options=options, **more)\n"
        "BARE = made(Bare, parts=len)\nOPEN = made(Open, parts=len)\nNONE = made(5, parts=len)\n"
        "NOTHING = made(Struct, parts=5)\nSTORE = made(Struct, name='store', parts=len)\n"
    )
    (tmp_path / "formats.py").write_text(code)
    for name, lacks in {
        "BARE": "its option 'level' has no description",
        "OPEN": "its option 'level' has no default",
        "NONE": "its options are no class of msgspec.Struct",
        "NOTHING": "its 'parts' is int, expected a function",
        "STORE": "give the format another name",
    }.items():
        with pytest.raises(UserError, match=lacks):
            EXPORTS.resolve(f"{tmp_path}/formats.py:{name}")


AGENTS_CODE = """
from ragrounds.agents.agent import Card, Limits
from ragrounds.graphs.direct import build as own
from ragrounds.graphs.user_graph import agent

@agent(summary="Mine.", parameters={"times": 1})
def build():
    return own()

CARD = Card(graph="vanilla_rag", summary="Ours.", searches=True, parameters={"top_k": 3}, limits=Limits(calls=5))
NUMBER = 5
"""


def test_agents_of_packages(install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from ragrounds.agents.agent import installed_agents, open_agent, read_card

    entries = (
        "mine = plug_agents:build\nours = plug_agents:CARD\nnumber = plug_agents:NUMBER\ndirect = plug_agents:build"
    )
    install("plug_agents", entries, AGENTS_CODE, group="agents")
    found = open_agent("mine[times=2]")
    assert (found.spec, found.card.graph, found.parameters) == ("mine[times=2]", "plug_agents:build", {"times": 2})
    assert open_agent(found.spec) == found
    assert open_agent("ours[limits.calls=5,top_k=4]").spec == "ours[top_k=4]"
    assert read_card("ours").limits.calls == 5
    assert open_agent("plug_agents:CARD").card.graph == "vanilla_rag"
    assert read_card("direct").graph == "direct"
    assert set(installed_agents()) == {"mine", "ours"}
    said = [record.getMessage() for record in caplog.records]
    assert any("'number'" in line and "int, expected a function that gives a graph, or a Card" in line for line in said)
    assert any("'direct'" in line and "the name is that of an agent that ships with ragrounds" in line for line in said)
    with pytest.raises(UserError, match=r"The agent 'number' of the package plug_agents 1\.2 .*cannot be used"):
        open_agent("number")
    with pytest.raises(UserError, match=r"Unknown agent 'mein'.*Did you mean 'mine'"):
        open_agent("mein")
