"""The GitHub Action: its shell steps, run as a runner runs them, with files in place of GitHub's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]


class Done:
    """What a run of the action left."""

    def __init__(
        self, codes: dict[str, int], summary: str, outputs: dict[str, str], log: str, uploads: list[str]
    ) -> None:
        self.codes, self.summary, self.outputs, self.log, self.uploads = codes, summary, outputs, log, uploads


Action = Callable[..., Done]


@pytest.fixture
def action(tmp_path: Path) -> Action:
    """Run the action with these inputs; `_` in their names is `-`."""

    def run(timeout: float = 120, **given: str) -> Done:
        inputs = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        assert {name.replace("_", "-") for name in given} <= set(inputs)
        runner = {"github.action_path": str(ROOT)}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        (tmp_path / "temp").mkdir(exist_ok=True)
        (tmp_path / "commands").mkdir(exist_ok=True)
        summary, output = tmp_path / "summary.md", tmp_path / "output"
        for file in (summary, output):
            file.write_text("")
        context = {**runner, **{f"inputs.{name}": value for name, value in inputs.items()}}
        context |= {"steps.evaluate.outputs.report": "", "steps.evaluate.outputs.decision": ""}
        codes, log, uploads = dict[str, int](), "", list[str]()
        for step in STEPS:
            if not condition(step.get("if", ""), context, failed=any(codes.values())):
                continue
            if "uses" in step:
                uploads.append(expanded(step["with"]["path"], context))
                continue
            script = tmp_path / "commands" / "step.sh"
            script.write_text(step["run"])
            done = subprocess.run(
                # As runners start it for `shell: bash`.
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=tmp_path,
                env={
                    **os.environ,
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "PYTHONPATH": str(ROOT),
                    "RUNNER_TEMP": str(tmp_path / "temp"),
                    "GITHUB_STEP_SUMMARY": str(summary),
                    "GITHUB_OUTPUT": str(output),
                    **{name: expanded(str(value), context) for name, value in step.get("env", {}).items()},
                },
                capture_output=True,
                text=True,
                timeout=timeout,
            )
            codes[step["name"]], log = done.returncode, log + done.stdout + done.stderr
            told = dict(line.split("=", 1) for line in output.read_text().splitlines())
            context |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in told.items()}
        outputs = {name: expanded(one["value"], context) for name, one in ACTION["outputs"].items()}
        return Done(codes, summary.read_text(), outputs, log, uploads)

    return run


def expanded(text: str, context: dict[str, str]) -> str:
    """A text with GitHub's expressions replaced; one that is unknown is an error."""
    return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: context[found[1]], text)


def condition(text: str, context: dict[str, str], failed: bool) -> bool:
    """Whether a step is run: an expression of comparisons joined by ``&&``, after a failure only with always()."""
    parts = [part.strip() for part in text.removeprefix("${{").removesuffix("}}").split("&&") if part.strip()]
    holds = "always()" in parts or not failed
    for part in parts:
        if part != "always()":
            name, sign, value = part.split()
            assert sign == "!="
            holds = holds and context[name] != value.strip("'")
    return holds


RUN = "ragrounds run --agent direct --agent 'vanilla_rag[top_k=8]' --limit 12 --display none"


def test_the_form_is_github_s() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs", "runs"} <= set(ACTION)
    for step in STEPS:
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
        assert "${{" not in step.get("run", "")  # what users write never becomes a part of a script
    assert all(one["description"] for one in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


@pytest.mark.parametrize(
    ("given", "installed"),
    [("self", str(ROOT)), ("self[dense]", f"{ROOT}[dense]"), ("ragrounds==0.2", "ragrounds==0.2"), ("", None)],
)
def test_what_is_installed(action: Action, tmp_path: Path, given: str, installed: str | None) -> None:
    """A stand-in for pip writes down what it is told: nothing is downloaded here."""
    (tmp_path / "pip.py").write_text("import sys; open('told', 'a').write(sys.argv[-1])\n")
    done = action(install=given, cannot_tell="stop")  # the other step ends at once
    told = tmp_path / "told"
    assert (told.read_text() if told.exists() else None) == installed
    assert list(done.codes) == (["Install", "Evaluate"] if installed else ["Evaluate"])


@pytest.mark.slow
def test_claims_are_checked_and_the_tables_are_in_the_summary(action: Action, tmp_path: Path) -> None:
    claims = "accuracy(vanilla_rag) >= 20% @ 95%\n\nfailed(direct) <= 0\n"
    done = action(install="", command=RUN, claims=claims, report="out.html")
    assert done.codes == {"Evaluate": 0}, done.log
    assert done.outputs == {"decision": "holds", "report": "out.html"}
    assert done.uploads == ["out.html"]
    assert "<html" in (tmp_path / "out.html").read_text()[:200]
    lines = done.summary.splitlines()
    assert lines[0] == "## ragrounds"
    assert "| accuracy(vanilla\\_rag) &gt;= 20% @ 95% | holds | 0." in done.summary
    assert any(line.startswith("| 2 | vanilla\\_rag\\[top\\_k=8\\] | ") for line in lines), lines
    # A second step of the same job: the runs are there. A claim that fails fails the step, after the report is made.
    failing = action(
        install="", claims="accuracy(direct) > 99% @ 95%", runs="direct\nvanilla_rag[top_k=8]", artifact=""
    )
    assert failing.codes == {"Evaluate": 1}
    assert failing.outputs == {"decision": "fails", "report": "ragrounds-report.html"}
    assert failing.uploads == []
    assert re.search(r"^    \d+ questions speak against accuracy\(direct\) > 0.99:$", failing.summary, re.M)
    undecided = "accuracy(vanilla_rag) - accuracy(direct) > 0.4 @ 95%"
    told = action(install="", claims=undecided, cannot_tell="pass", report="")
    assert (told.codes, told.outputs["decision"], told.uploads) == ({"Evaluate": 0}, "cannot tell", [])
    assert action(install="", claims=undecided, report="").codes == {"Evaluate": 4}


@pytest.mark.slow
def test_words_of_inputs_and_of_models_are_no_commands(action: Action, tmp_path: Path) -> None:
    """Neither to the shell nor to the runner, which reads lines that begin with two colons."""
    trap = "$(touch caught)`touch caught`'; touch caught; '"
    done = action(install="", claims=trap, command="", runs="", report="")
    assert done.codes == {"Evaluate": 2}
    done = action(install="", command=RUN.replace("12", "2"), claims=f"accuracy({trap}) > 1\n::error::x", report="")
    assert done.codes == {"Evaluate": 2}
    assert not (tmp_path / "caught").exists()
    start, end = re.search(r"^::stop-commands::(\w+)$", done.log, re.M), done.log.rfind("::\n")
    assert start is not None
    assert done.log.index("Cannot read the claim") in range(start.end(), end)
    assert "\n    ragrounds: Cannot read the claim" in done.summary
    assert action(install="", cannot_tell="maybe").codes == {"Evaluate": 2}


@pytest.mark.slow
def test_a_committed_journal_needs_no_model(action: Action, tmp_path: Path, cli: Callable[..., Any]) -> None:
    from tests.servers.process import openai_server

    with openai_server() as server:
        model = ("--model", "openai:test", "--base-url", server.url)
        asked = ("run", "--agent", "direct_cot", "--limit", "4", *model, "--display", "none")
        assert cli(*asked, OPENAI_API_KEY="none").returncode == 0
        assert cli("journal", "write", "direct_cot", "--out", str(tmp_path / "calls.jsonl")).returncode == 0
    command = " ".join(("ragrounds", *asked, "--journal", "replay"))
    done = action(install="", journal="calls.jsonl", command=command, claims="failed(direct_cot) <= 0", report="")
    assert done.codes == {"Evaluate": 0}, done.log
    assert done.outputs["decision"] == "holds"
    # Without the file the same command fails, and so does the step.
    other = action(
        install="", home=str(tmp_path / "other"), command=command, claims="failed(direct_cot) <= 0", report=""
    )
    assert other.codes == {"Evaluate": 2}


@pytest.mark.slow
def test_tests_are_a_command_too(action: Action, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "def test_it(ragrounds):\n"
        "    ragrounds.run('sample', 'direct', limit=3)\n"
        "    ragrounds.check('failed(direct) <= 0')\n"
    )
    from tests.cli.test_pytest_plugin import PLUGIN

    tests = f'python -m pytest {" ".join(PLUGIN)} -p no:langsmith_plugin --ragrounds-summary "$GITHUB_STEP_SUMMARY"'
    done = action(install="", command=f"{tests} --ragrounds-record")
    assert done.codes == {"Evaluate": 0}, done.log
    assert "### `test_it.py::test_it`" in done.summary
    (tmp_path / "ragrounds_journal" / "test_it" / "test_it.jsonl").unlink()
    assert action(install="", command=tests).codes == {"Evaluate": 1}
