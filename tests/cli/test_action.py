"""The GitHub Action at the root: what its file may hold, and its steps in bash."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragrounds.cli.entry import command_tree

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
INSTALL, DECIDE = ACTION["runs"]["steps"]
STEP_KEYS = {"name", "id", "if", "shell", "env", "run", "working-directory", "continue-on-error", "uses", "with"}


def test_its_metadata_are_those_of_a_composite_action() -> None:
    assert ACTION.keys() == {"name", "description", "branding", "inputs", "outputs", "runs"}
    assert ACTION["branding"].keys() == {"icon", "color"}
    for one in ACTION["inputs"].values():
        assert {"description"} <= one.keys() <= {"description", "required", "default"}
        assert isinstance(one.get("required", False), bool)
        assert one.get("required") or isinstance(one["default"], str)
    assert [one.keys() for one in ACTION["outputs"].values()] == [{"description", "value"}]
    assert ACTION["runs"].keys() == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert {"run", "shell"} <= step.keys() <= STEP_KEYS
        assert "${{" not in step["run"]  # whatever an input holds, it is no text of the script


def test_every_expression_names_something_that_there_is() -> None:
    whole = (ROOT / "action.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"inputs\.(\w+)", whole))
    assert named == ACTION["inputs"].keys()
    ids = {step.get("id") for step in ACTION["runs"]["steps"]}
    assert set(re.findall(r"steps\.(\w+)\.", whole)) <= ids
    written = "\n".join(step["run"] for step in ACTION["runs"]["steps"])
    for output in re.findall(r"outputs\.(\w+)", whole):
        assert f'echo "{output}=' in written


def filled(text: str, values: dict[str, str]) -> str:
    """The expressions of a text, as a runner fills them in."""
    return re.sub(
        r"\$\{\{ (.*?) \}\}", lambda one: next(filter(None, (values[name] for name in one[1].split(" || "))), ""), text
    )


def carried_out(step: dict[str, Any], folder: Path, inputs: dict[str, str], **more: str) -> tuple[int, str, str]:
    """A step in bash, as a runner starts it: its exit code, its summary and its outputs."""
    runner = folder / "runner"
    runner.mkdir(exist_ok=True)
    given = {name: inputs.get(name, one.get("default", "")) for name, one in ACTION["inputs"].items()}
    values = {f"inputs.{name}": value for name, value in given.items()}
    values |= {"github.action_path": str(ROOT), "runner.temp": str(runner)}
    summary, outputs, script = runner / "summary.md", runner / "outputs", runner / "step.sh"
    summary.write_text("")
    outputs.write_text("")
    script.write_text(step["run"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "RAGROUNDS"))}
    environment |= {name: filled(value, values) for name, value in step["env"].items()}
    environment |= {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(outputs), **more}
    environment["PATH"] = f"{more.get('BEFORE', '')}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, summary.read_text(), outputs.read_text() + done.stderr


def stand_in(folder: Path, name: str, code: int = 0) -> str:
    """A folder with a program of this name, which prints, writes its arguments to `called` and ends with this code."""
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/bash\necho a summary\nprintf "%s\\n" "$@" >> called\nexit {code}\n')
    program.chmod(0o755)
    return str(program.parent)


@pytest.mark.parametrize(
    ("code", "undecided", "verdict", "ends"),
    [(0, "fail", "GO", 0), (1, "pass", "NO-GO", 1), (4, "fail", "UNDECIDED", 4), (4, "pass", "UNDECIDED", 0),
     (2, "pass", "", 2), (3, "pass", "", 3)],
)  # fmt: skip
def test_the_exit_code_is_a_verdict_and_inputs_are_values(
    tmp_path: Path, code: int, undecided: str, verdict: str, ends: int
) -> None:
    policy = "--help $(touch made).toml"
    inputs = {"policy": policy, "undecided": undecided}
    ended, summary, outputs = carried_out(DECIDE, tmp_path, inputs, BEFORE=stand_in(tmp_path, "ragrounds", code))
    assert (ended, summary, outputs) == (ends, "a summary\n", f"verdict={verdict}\n")
    called = (tmp_path / "called").read_text().split("\n")
    assert called[:5] == ["gate", "--journal", "", "--junit", "ragrounds-gate.xml"]
    assert called[-3:] == ["--", policy, ""]
    known = {name for parameter in command_tree().commands["gate"].params for name in parameter.opts}
    assert {word for word in called if word.startswith("--") and len(word) > 2} - {policy} <= known
    assert not (tmp_path / "made").exists()


def test_it_installs_its_own_version_or_the_one_that_is_named(tmp_path: Path) -> None:
    """With a stand-in for Python: pip would need a network."""
    before = stand_in(tmp_path, "python")
    pip, called = ["-m", "pip", "install", "--quiet"], tmp_path / "called"
    assert carried_out(INSTALL, tmp_path, {"package": "ragrounds[dense]==1.0"}, BEFORE=before)[0] == 0
    assert called.read_text().split() == [*pip, "ragrounds[dense]==1.0"]
    called.unlink()
    assert carried_out(INSTALL, tmp_path, {}, BEFORE=before)[0] == 0
    hashed = ["--require-hashes", "-r", str(ROOT / "constraints/default.txt")]
    assert called.read_text().split() == [*pip, *hashed, *pip, "--no-deps", str(ROOT)]


@pytest.mark.parametrize("name", ["default", "test"])
def test_constraints_have_hashes_and_name_no_registry(name: str) -> None:
    text = (ROOT / f"constraints/{name}.txt").read_text(encoding="utf-8")
    packages = re.findall(r"^[\w.-]+==[^\n]*\n", text, re.MULTILINE)
    assert len(packages) > 60
    assert all(package.endswith("\\\n") for package in packages), "each line goes on with a hash"
    assert not re.search(r"://|--(?:extra-)?index|find-links", text)
