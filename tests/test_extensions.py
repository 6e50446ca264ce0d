"""The core does its job without any extension, and without each single one: every extension is a folder to delete."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragrounds
from ragrounds.base import hooks
from ragrounds.cli.command_files import command_files
from tests.golden_outputs.scenario import masked_text
from tests.servers.process import Running, running
from tests.test_house import IMPORT_ALL

PACKAGE = Path(ragrounds.__file__).parent
EXTENSIONS = tuple(hooks.extensions())
PRINTED = ("table", "trace", "judged", "show", "listed")
pytestmark = pytest.mark.slow

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

run = rr.run("sample", agents, limit=6, **given)
compared = rr.compare(agents, home=home)
question = run.to_pandas("attempts")["question_id"][0]
judged = rr.judge(agents, "equivalence", judges="openai:grader", base_url=url, **given)
print(json.dumps({
    "file": rr.__file__,
    "public": sorted(rr.__all__),
    "table": str(compared),
    "trace": str(rr.load(agents[1], home=home).attempt(question)),
    "judged": str(judged),
    "show": typed("show", agents[1], question),
    "listed": typed("trace", *agents, "--format", "text"),
    "help": typed("--help"),
    "missing": {name: typed(name, "--help") for name in missing},
}))
"""


@pytest.fixture(scope="module")
def grader() -> Iterator[Running]:
    with running("grader_server") as server:
        yield server


def run_python(folder: Path, *arguments: str) -> str:
    """Run Python on the copy of the package in a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGROUNDS")}
    environment |= {"PYTHONPATH": str(folder), "RAGROUNDS_HOME": str(folder / "home"), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def do_the_job(folder: Path, url: str, missing: list[str]) -> dict[str, Any]:
    """Run, compare, trace and judge with the copy of the package in a folder."""
    results: dict[str, Any] = json.loads(run_python(folder, "-c", JOB, str(folder / "home"), url, *missing))
    assert Path(results.pop("file")).is_relative_to(folder)
    printed = {name: masked_text(str(results.pop(name)), folder, {}) for name in PRINTED}
    return {**results, "printed": printed}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, grader: Running) -> dict[str, Any]:
    """Results of the job with all extensions."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "ragrounds").symlink_to(PACKAGE)
    return do_the_job(folder, grader.url, [])


def lost_with(extension: str) -> set[str]:
    """Return an extension and those that are based on it."""
    lost = {extension}
    for _ in EXTENSIONS:
        lost |= {name for name, it in hooks.extensions().items() if lost & {*getattr(it, "BASES", ())}}
    return lost


@pytest.mark.parametrize("removed", [EXTENSIONS, *((name,) for name in EXTENSIONS)], ids=lambda names: "+".join(names))
def test_the_core_does_its_job_without(
    removed: tuple[str, ...], whole: dict[str, Any], grader: Running, tmp_path: Path
) -> None:
    copy = tmp_path / "ragrounds"
    shutil.copytree(PACKAGE, copy)  # with what is compiled
    for name in removed if removed != EXTENSIONS else ():
        shutil.rmtree(copy / "extensions" / name)
    if removed == EXTENSIONS:
        shutil.rmtree(copy / "extensions")
        run_python(tmp_path, "-c", IMPORT_ALL)
    lost = set().union(*map(lost_with, removed))
    functions = {
        place.partition(":")[2] for name in lost for place in getattr(hooks.extensions()[name], "FUNCTIONS", ())
    }
    commands = [
        name for name, (module, _) in command_files().items() if module.startswith(f"{hooks.EXTENSIONS}.")
        and module.split(".")[2] in lost
    ]  # fmt: skip
    results = do_the_job(tmp_path, grader.url, commands)
    assert results["printed"] == whole["printed"]
    assert {*whole["public"]} - {*results["public"]} == functions
    helped = {word.strip(",") for word in results["help"][1].split()}
    assert {*command_files()} - {*commands} <= helped
    for name, (code, _, talk) in results["missing"].items():
        assert code == 2
        assert f"No such command '{name}'" in talk
