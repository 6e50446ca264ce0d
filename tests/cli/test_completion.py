"""What a shell offers when Tab is pressed: by the protocol of the environment, and in Bash and fish themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragrounds.api import names
from ragrounds.cli import completion, shells
from ragrounds.cli.completion import bash_words, candidates
from ragrounds.cli.entry import command_tree
from tests.conftest import Cli

Ask = Callable[[str], list[str]]


@pytest.fixture
def ask(cli: Cli) -> Ask:
    """What Bash is told of a line, in a process of its own."""

    def asked(line: str) -> list[str]:
        done = cli(_RAGROUNDS_COMPLETE="complete_bash", COMP_LINE=line)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return asked


def offered(*words: str) -> list[str]:
    """What is offered for the last of these words, in this process."""
    return [text for text, _ in candidates(words[:-1], words[-1], command_tree)]


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
        ("ragrounds run --agent va", ["vanilla_rag", "vanilla_rag\\["]),
        ("ragrounds run --agent=va", ["vanilla_rag", "vanilla_rag\\["]),
        ("ragrounds run --agent 'vanilla_rag[top_k=8,prompti", ["vanilla_rag[top_k=8,prompting=cot]"]),
        ("ragrounds run --agent vanilla_rag\\[top_k=", ["32\\]"]),
        ("ragrounds run --agent vanilla_rag\\[retriever=bm", ["bm25", "bmretriever-410m", "bmretriever-2b"]),
        ("ragrounds run --benchmark mirage/b", ["mirage/bioasq"]),
        ("ragrounds score direct --scorer str", ["strict"]),
        ("ragrounds retrieve --retriever bm25\\[", ["bm25\\[analyser=lucene-english,k1=0.9,b=0.4\\]"]),
        ("ragrounds judge run x --kind eq", ["equivalence"]),
        ("ragrounds run --corpus samp", ["sample"]),
        ("ragrounds run --corpus one+samp", ["one+sample"]),
        ("ragrounds benchmarks show mirage/pub", ["mirage/pubmedqa"]),
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


def test_scripts_of_earlier_versions_are_answered(cli: Cli) -> None:
    """Typer's, which `--install-completion` wrote before: Bash's works on, the others offer nothing."""
    words = {"COMP_WORDS": "ragrounds run --agent search", "COMP_CWORD": "3"}
    done = cli(_RAGROUNDS_COMPLETE="complete_bash", **words)
    assert done.stdout.split() == ["search_o1", "search_r1"]
    done = cli(_RAGROUNDS_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="ragrounds run --agent search")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_paths_follow_a_family(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "data" / "my file.json").write_text("")
    assert ask("ragrounds run --benchmark mirage:data/m") == ["data/mine/", "data/my\\ file.json"]
    assert ask("ragrounds run --benchmark 'mirage:data/my") == ["mirage:data/my file.json"]
    assert ask("ragrounds run --corpus beir:da") == ["data/"]
    assert ask("ragrounds run --agent ./da") == ["./data/"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "beginning", ["compare", "show", "trace --format text", "runs rm", "export jsonl", "judge run"]
)
def test_runs_are_offered_and_the_store_is_not_touched(runs: None, ask: Ask, home: Path, beginning: str) -> None:
    before = {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]}
    found = ask(f"ragrounds {beginning} ")
    assert found[:3] == ["vanilla_rag\\[top_k=8\\]", "vanilla_rag\\[top_k=1\\]", "direct"]
    assert found[5].startswith("direct-")
    assert {path: path.stat().st_mtime_ns for path in [home, *home.rglob("*")]} == before


def test_an_attempt_is_a_run_and_a_question(runs: None, home: Path) -> None:
    assert offered("trace", "--attempt", "dir")[0] == "direct/"
    questions = offered("trace", "--attempt", "vanilla_rag[top_k=8]/")
    assert len(questions) == 3
    assert all(one.startswith("vanilla_rag[top_k=8]/sample/") for one in questions)


def test_runs_are_offered_while_somebody_works_at_the_store(runs: None, home: Path) -> None:
    from ragrounds.evals.store.store import Store

    with Store(home) as store:
        store.runs()
        assert "direct" in offered("compare", "")


def test_each_name_has_a_line_about_it(runs: None, cli: Cli) -> None:
    for shell in ("zsh", "fish"):
        done = cli(
            _RAGROUNDS_COMPLETE=f"complete_{shell}", _RAGROUNDS_WORDS="ragrounds\x1fcompare", _RAGROUNDS_CURRENT="dir"
        )
        told = [line.split("\t") for line in done.stdout.splitlines()]
        assert told[0][0] == "direct"
        assert all("sample" in about for _, about in told)


@pytest.mark.parametrize("broken", ["store", "settings", "home"])
def test_nothing_is_said_of_what_cannot_be_read(cli: Cli, home: Path, tmp_path: Path, broken: str) -> None:
    environment = {"_RAGROUNDS_COMPLETE": "complete_bash", "COMP_LINE": "ragrounds compare "}
    if broken == "store":
        home.mkdir()
        (home / "store.sqlite").write_bytes(b"no store at all" * 100)
    elif broken == "settings":
        (tmp_path / "settings.toml").write_text("home = [")
        environment["RAGROUNDS_CONFIG"] = str(tmp_path / "settings.toml")
    else:
        home.write_text("a file")
    done = cli(**environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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
    assert offered("compare", "dire")[0] == "direct"
    assert len(offered("trace", "--attempt", "direct/")) == 2


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
        ("run\x1f--agent", "agents"),
        ("run\x1f--benchmark", "benchmarks"),
        ("score\x1fx\x1f--scorer", "scorers"),
        ("retrieve\x1f--retriever", "retrievers"),
        ("analyse", "analyses"),
    ):
        done = cli(
            PYTHONPATH=path,
            _RAGROUNDS_COMPLETE="complete_fish",
            _RAGROUNDS_WORDS=f"ragrounds\x1f{words}",
            _RAGROUNDS_CURRENT="war",
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


@pytest.mark.parametrize(
    ("line", "words", "last"),
    [
        ("ragrounds run ", ["ragrounds", "run"], ("", 0, "")),
        ("ragrounds 'a b' c\\ d e", ["ragrounds", "a b", "c d"], ("e", 0, "")),
        ("ragrounds --agent=va", ["ragrounds"], ("--agent=va", 8, "")),
        ("ragrounds mirage:x", ["ragrounds"], ("mirage:x", 7, "")),
        ("ragrounds 'mirage:x", ["ragrounds"], ("mirage:x", 0, "'")),
        ("ragrounds mirage:'x y", ["ragrounds"], ("mirage:x y", 7, "'")),
        ('ragrounds "a\\"b', ["ragrounds"], ('a"b', 0, '"')),
        ("ragrounds '' ", ["ragrounds", ""], ("", 0, "")),
        ("ragrounds mirage\\:x", ["ragrounds"], ("mirage:x", 0, "")),
    ],
)
def test_words_of_bash(line: str, words: list[str], last: tuple[str, int, str]) -> None:
    assert bash_words(line, "\"'><=;|&(:") == (words, last)


def bash(line: str, home: Path) -> list[str]:
    """What Bash itself would insert for a line."""
    words = shlex.split(line.replace("'", "").replace("\\", ""))
    script = f"""
        ragrounds() {{ {shlex.quote(sys.executable)} -m ragrounds "$@"; }}
        {shells.BASH}
        shopt -s failglob
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_WORDS=({shlex.join(words)})
        COMP_CWORD={len(words) - 1}
        _ragrounds_completion ragrounds
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs Bash")
def test_bash_inserts_what_it_reads_as_the_same_word(runs: None, home: Path) -> None:
    for inserted in bash("ragrounds compare vanilla_rag\\[", home):
        assert shlex.split(inserted)[0].startswith("vanilla_rag[top_k=")
    assert bash("ragrounds compare 'vanilla_rag[top_k=8", home) == ["vanilla_rag[top_k=8]"]


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_offers_names_with_a_line_about_them(runs: None, home: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "ragrounds"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ragrounds "$@"\n')
    program.chmod(0o755)
    script = f'set -x PATH {program.parent} $PATH\n{shells.FISH}\ncomplete -C "ragrounds compare \'vanilla_rag[top_k=8"'
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    text, _, about = done.stdout.strip().partition("\t")
    assert "vanilla_rag[top_k=8]" in text.replace("\\", "")
    assert "sample" in about


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_the_script_of_zsh_is_zsh(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(shells.ZSH)
    done = subprocess.run(["zsh", "-n", str(tmp_path / "script")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_twice_adds_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'\n")
    first, second = shells.install(shell), shells.install(shell)
    assert first == second
    assert first.read_text().strip() == shells.SCRIPTS[shell].strip()
    lines = (tmp_path / ".bashrc").read_text().splitlines()
    assert lines == ["alias ll='ls -l'", *([f"source '{first}'"] if shell == "bash" else [])]


def test_install_completion_says_where(cli: Cli, tmp_path: Path) -> None:
    done = cli("--install-completion", HOME=str(tmp_path), SHELL="/bin/bash")
    assert done.returncode in (0, 2)  # which shell this test was begun in is not ours to say
    shown = cli("--show-completion", SHELL="/bin/bash")
    assert shown.returncode in (0, 2)
    assert "_RAGROUNDS_COMPLETE" in shown.stdout or "cannot complete" in shown.stderr
