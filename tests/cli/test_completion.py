"""What a shell offers when Tab is pressed, by Typer's protocol of the environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragrounds.api import names
from ragrounds.cli import completion
from ragrounds.cli.entry import command_tree
from tests.conftest import Cli

Ask = Callable[[str], list[str]]


def words(line: str) -> int:
    """The place of the word that is completed."""
    return len(shlex.split(line.replace("'", ""))) - (not line.endswith(" "))


@pytest.fixture
def ask(cli: Cli) -> Ask:
    """What Bash is told of a line, in a process of its own."""

    def asked(line: str) -> list[str]:
        done = cli(_RAGROUNDS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(words(line)))
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip().splitlines()

    return asked


def offered(complete: completion.Completer, beginning: str) -> list[str]:
    """What a completer offers, in this process."""
    return [text for text, _ in complete(beginning)]


@pytest.fixture
def runs(command: Cli) -> None:
    """Three runs in the store."""
    assert command("run", "--limit", "3", "--display", "none").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ragrounds export tr", ["trec"]),
        ("ragrounds run --agent search", ["search_o1", "search_r1"]),
        ("ragrounds run --agent va", ["vanilla_rag", "vanilla_rag["]),
        ("ragrounds run --agent=va", ["vanilla_rag", "vanilla_rag["]),
        ("ragrounds run --agent 'vanilla_rag[top_k=8,prompti", ["vanilla_rag[top_k=8,prompting=cot]"]),
        ("ragrounds run --benchmark mirage/b", ["mirage/bioasq"]),
        ("ragrounds score direct --scorer str", ["strict"]),
        ("ragrounds retrieve --retriever bm25[", ["bm25[analyser=lucene-english,k1=0.9,b=0.4]"]),
        ("ragrounds judge run x --kind eq", ["equivalence"]),
        ("ragrounds run --corpus samp", ["sample"]),
        ("ragrounds run --corpus one+samp", ["one+sample"]),
        ("ragrounds data show mirage/pub", ["mirage/pubmedqa"]),
        ("ragrounds analyse succ", ["success"]),
        ("ragrounds jud", ["judge"]),
        ("ragrounds agents s", ["show"]),
        ("ragrounds run --epo", ["--epochs"]),
        ("ragrounds export inspect --o", ["--out"]),
        ("ragrounds nothing of that kind", []),
    ],
)
def test_a_line_goes_on(ask: Ask, line: str, expected: list[str], home: Path) -> None:
    assert ask(line)[: len(expected) or None] == expected
    assert not home.exists()


def test_paths_follow_a_family(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "my file.json").write_text("")
    assert ask("ragrounds run --benchmark 'mirage:data/m") == ["mirage:data/mine/", "mirage:data/my file.json"]
    assert ask("ragrounds run --corpus 'beir:da") == ["beir:data/"]
    assert ask("ragrounds run --agent ./da") == ["./data/"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "beginning", ["compare", "show", "trace --format text", "runs rm", "export jsonl", "judge run"]
)
def test_runs_are_offered_and_the_store_is_not_touched(runs: None, ask: Ask, home: Path, beginning: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}
    found = ask(f"ragrounds {beginning} ")
    assert found[:3] == ["vanilla_rag[top_k=8]", "vanilla_rag[top_k=1]", "direct"]
    assert found[5].startswith("direct-")
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before


def test_an_attempt_is_a_run_and_a_question(runs: None, home: Path) -> None:
    assert offered(completion.attempts, "dir")[0] == "direct/"
    questions = offered(completion.attempts, "vanilla_rag[top_k=8]/")
    assert len(questions) == 3
    assert all(one.startswith("vanilla_rag[top_k=8]/sample/") for one in questions)


def test_runs_are_offered_while_somebody_works_at_the_store(runs: None, home: Path) -> None:
    from ragrounds.evals.store.store import Store

    with Store(home) as store:
        store.runs()
        assert "direct" in offered(completion.RUNS, "")


def test_each_name_has_a_line_about_it(runs: None, cli: Cli) -> None:
    line = "ragrounds compare dir"
    done = cli(_RAGROUNDS_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args", _TYPER_COMPLETE_ARGS=line)
    told = [line.split("\t") for line in done.stdout.splitlines()]
    assert told[0][0] == "direct"
    assert all("sample" in about for _, about in told)


@pytest.mark.parametrize("broken", ["store", "settings", "home"])
def test_nothing_is_said_of_what_cannot_be_read(cli: Cli, home: Path, tmp_path: Path, broken: str) -> None:
    environment = {"_RAGROUNDS_COMPLETE": "complete_bash", "COMP_WORDS": "ragrounds compare ", "COMP_CWORD": "2"}
    if broken == "store":
        home.mkdir()
        (home / "store.sqlite").write_bytes(b"no store at all" * 100)
    elif broken == "settings":
        (tmp_path / "settings.toml").write_text("home = [")
        environment["RAGROUNDS_CONFIG"] = str(tmp_path / "settings.toml")
    else:
        home.write_text("a file")
    done = cli(**environment)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_names_are_those_that_the_objects_have(home: Path) -> None:
    from ragrounds.agents.agent import names as agents
    from ragrounds.evals.analyses.analysis import analyses
    from ragrounds.evals.benchmarks import all_cards
    from ragrounds.evals.benchmarks.family import families
    from ragrounds.evals.exchange.formats import export_formats
    from ragrounds.evals.judges.methods import judge_methods
    from ragrounds.evals.scorers import all_scorers
    from ragrounds.graphs import catalogue
    from ragrounds.tools.cards import cards
    from ragrounds.tools.corpora import FAMILIES
    from ragrounds.tools.retriever import retrievers

    def said(found: list[names.Name]) -> set[str]:
        assert len({one.text for one in found}) == len(found)
        return {one.text for one in found}

    assert said(names.agents()) == set(agents())
    assert said(names.analyses()) == set(analyses())
    assert said(names.scorers()) == set(all_scorers())
    assert said(names.retrievers()) == {*retrievers(), *cards()}
    assert said(names.formats()) == set(export_formats())
    assert said(names.graphs()) == set(catalogue.names())
    assert said(names.judge_kinds()) == set(judge_methods())
    assert said(names.benchmarks()) == {card.name for card in all_cards()} | {"csv:", "jsonl:"}
    assert {*names.benchmark_families(), "sample"} == set(families())
    assert set(names.corpus_families()) == set(FAMILIES)
    assert dict(names.scorers()) == {name: made.summary for name, made in all_scorers().items()}


def test_the_store_is_where_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragrounds.settings import read_settings

    file = tmp_path / "settings.toml"
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(file))
    for text in ("", f'home = "{tmp_path}/a"\n', f'home = "{tmp_path}/a"\nstore = "postgresql://host/runs"\n'):
        file.write_text(text)
        assert names.store_place() == (read_settings().home, read_settings().store)
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path / "b"))
    monkeypatch.setenv("RAGROUNDS_STORE", "postgresql://other/runs")
    assert names.store_place() == (read_settings().home, read_settings().store)


def test_runs_of_postgresql(url: str, home: Path, command: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGROUNDS_STORE", url)
    assert command("run", "--limit", "2", "--agent", "direct", "--display", "none").returncode == 0
    assert offered(completion.RUNS, "dire")[0] == "direct"
    assert len(offered(completion.attempts, "direct/")) == 2


def test_what_installed_packages_add_is_offered_without_running_it(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "site" / "wards-1.2.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: wards\nVersion: 1.2\n")
    groups = ("agents", "benchmarks", "scorers", "retrievers", "analyses")
    (folder / "entry_points.txt").write_text(
        "".join(f"[ragrounds.{group}]\nward-{group} = wards_that_fail:X\n" for group in groups)
    )
    (tmp_path / "site" / "wards_that_fail.py").write_text("raise SystemExit('ran')")
    path = os.pathsep.join(filter(None, [str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")]))
    for words, group in (
        ("run --agent", "agents"),
        ("run --benchmark", "benchmarks"),
        ("score x --scorer", "scorers"),
        ("retrieve --retriever", "retrievers"),
        ("analyse", "analyses"),
    ):
        done = cli(
            PYTHONPATH=path,
            _RAGROUNDS_COMPLETE="complete_fish",
            _TYPER_COMPLETE_FISH_ACTION="get-args",
            _TYPER_COMPLETE_ARGS=f"ragrounds {words} war",
        )
        assert done.stdout.splitlines()[0] == f"ward-{group}\tadded by wards 1.2"
        assert done.stderr == ""


def parameters() -> Iterator[tuple[str, Any]]:
    """Every command with its parameters."""

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "list_commands"):
            context = command.context_class(command)
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), f"{path} {name}".strip())
        else:
            yield from ((path, parameter) for parameter in command.params)

    yield from walk(command_tree(), "")


def test_completers_are_of_options_and_arguments_that_there_are() -> None:
    found = list(parameters())
    options = {name for _, one in found for name in one.opts}
    assert set(completion.OPTIONS) <= options
    arguments = {(path, one.name) for path, one in found if one.param_type_name == "argument"}
    assert {key for key in completion.ARGUMENTS if key[0]} <= arguments
    # Runs are offered wherever a command takes some, and one name means one thing everywhere.
    takes_runs = {path for path, one in found if one.param_type_name == "argument" and one.name in ("run", "runs")}
    assert {"compare", "show", "judge run", "trace", "report", "export store"} <= takes_runs
    for path, one in found:
        if one.param_type_name == "argument" and one.name not in ("run", "runs"):
            text = " ".join((one.help or "").split()).lower()
            assert not text.startswith(("a run", "runs:")), (path, one.name)


def test_the_script_of_a_shell_is_printed(cli: Cli) -> None:
    shown = cli("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_RAGROUNDS_COMPLETE=complete_bash" in shown.stdout
