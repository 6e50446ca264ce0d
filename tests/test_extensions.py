"""The core does its job without any extension, and without each single one: every extension is a folder to delete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

import ragrounds
from ragrounds.base import hooks
from ragrounds.cli.command_files import command_files
from tests.forked_copies import Forks, forks
from tests.golden_outputs.scenario import masked_text
from tests.servers.process import running
from tests.test_house import IMPORT_ALL

PACKAGE = Path(ragrounds.__file__).parent
EXTENSIONS = tuple(hooks.extensions())
pytestmark = pytest.mark.slow
_TIMES = re.compile(r" (time|<time>)$", re.MULTILINE)

JOB = """
import contextlib, faulthandler, io, json, sys
import ragrounds as rr
from ragrounds.cli import main

faulthandler.dump_traceback_later(200, exit=True)
home, url, missing = sys.argv[1], sys.argv[2], sys.argv[3:]
given = {"home": home, "progress": False}
agents = ["direct", "vanilla_rag[top_k=1]"]

def typed(*words):
    sys.argv = ["ragrounds", *words]
    out, talk = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(talk):
        try:
            main(own_process=False)
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue(), talk.getvalue()

def printed():
    judged = rr.judge(agents, "equivalence", judges="openai:grader", base_url=url, **given)
    question = run.to_pandas("attempts")["question_id"][0]
    return {
        "table": str(compared),
        "trace": str(rr.load(agents[1], home=home).attempt(question)),
        "judged": str(judged),
        "show": typed("show", agents[1], question),
        "listed": typed("trace", *agents, "--format", "text"),
    }

run = rr.run("sample", agents, limit=6 if url else 1, **given)
compared = rr.compare(agents, home=home)
print(json.dumps({
    "file": rr.__file__,
    "public": sorted(rr.__all__),
    "printed": printed() if url else {},
    "help": typed("--help"),
    "missing": {name: typed(name, "--help") for name in missing},
}))
"""
"""Run and compare. With the address of a judge, judge and print everything too."""


def run_python(folder: Path, *arguments: str, processes: Forks | None = None) -> str:
    """Run Python on the copy of the package in a folder: in a new process, or in a fork of one without the package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGROUNDS")}
    environment |= {"PYTHONPATH": str(folder), "RAGROUNDS_HOME": str(folder / "home"), "NO_COLOR": "1"}
    if processes:
        done = processes.run(arguments, folder, environment)
    else:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def do_the_job(folder: Path, url: str, missing: Sequence[str], processes: Forks | None = None) -> dict[str, Any]:
    """Run and compare, and trace and judge if there is a judge, with the copy of the package in a folder."""
    arguments = ("-c", JOB, str(folder / "home"), url, *missing)
    results: dict[str, Any] = json.loads(run_python(folder, *arguments, processes=processes))
    assert Path(results.pop("file")).is_relative_to(folder)
    printed = {name: masked_text(str(text), folder, {}) for name, text in results["printed"].items()}
    # A table has the column of times only if they differ, which they need not do in each job.
    return {**results, "printed": {name: _TIMES.sub("", text) for name, text in printed.items()}}


def lost_with(extension: str) -> set[str]:
    """Return an extension and those that are based on it."""
    lost = {extension}
    for _ in EXTENSIONS:
        lost |= {name for name, it in hooks.extensions().items() if lost & {*getattr(it, "BASES", ())}}
    return lost


def faults_without(removed: Sequence[str], results: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """Return what differs from the results with all extensions, but for what the removed ones add."""
    lost = set().union(*map(lost_with, removed))
    functions = {
        place.partition(":")[2] for name in lost for place in getattr(hooks.extensions()[name], "FUNCTIONS", ())
    }
    faults = [f"prints another {name}" for name, text in results["printed"].items() if text != whole["printed"][name]]
    if {*whole["public"]} - {*results["public"]} != functions:
        faults.append(f"has the public names {results['public']}")
    helped = {word.strip(",") for word in results["help"][1].split()}
    if more := {*command_files()} - {*commands_of(lost)} - helped:
        faults.append(f"its help lacks {more}")
    for name, (code, _, talk) in results["missing"].items():
        if code != 2 or f"No such command '{name}'" not in talk:
            faults.append(f"`{name}` ends with {code}: {talk}")
    return faults


def commands_of(extensions: Collection[str]) -> list[str]:
    """Return the commands that extensions add."""
    modules = {name: module for name, (module, _) in command_files().items()}
    return [
        name
        for name, module in modules.items()
        if module.startswith(f"{hooks.EXTENSIONS}.") and module.split(".")[2] in extensions
    ]


def link_package(folder: Path, *removed: str) -> None:
    """Make the package of links in a folder, without these extensions; without its folder if they are all."""
    package = folder / "ragrounds"
    package.mkdir(parents=True)
    for path in PACKAGE.iterdir():
        if path.name != "extensions":
            (package / path.name).symlink_to(path)
    if removed != EXTENSIONS:
        (package / "extensions").mkdir()
        for path in (PACKAGE / "extensions").iterdir():
            if path.name not in removed:
                (package / "extensions" / path.name).symlink_to(path)


def test_the_core_does_its_job_without_any_extension(tmp_path: Path) -> None:
    with running("grader_server") as grader, forks() as processes:
        link_package(tmp_path / "whole")
        whole = do_the_job(tmp_path / "whole", grader.url, [], processes)
        link_package(tmp_path / "bare", *EXTENSIONS)
        run_python(tmp_path / "bare", "-c", IMPORT_ALL, processes=processes)
        results = do_the_job(tmp_path / "bare", grader.url, commands_of(EXTENSIONS))
    assert faults_without(EXTENSIONS, results, whole) == []


@pytest.mark.weekly  # what an extension imports is checked by tests/test_house.py
def test_the_core_does_its_job_without_each_extension(tmp_path: Path) -> None:
    with forks() as processes:
        link_package(tmp_path / "whole")
        whole = do_the_job(tmp_path / "whole", "", [], processes)
        faults = {}
        for name in EXTENSIONS:
            link_package(tmp_path / name, name)
            results = do_the_job(tmp_path / name, "", commands_of(lost_with(name)), processes)
            faults[name] = faults_without([name], results, whole)
    assert {name: found for name, found in faults.items() if found} == {}
