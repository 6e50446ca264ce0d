"""Broken and hostile packages beside ragrounds: one line each, and every command goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import Cli

SCORER = """
from ragrounds.evals.scorers.base import ScorerRecord
class Own(ScorerRecord):
    def score(self, attempt, question, gold):
        {body}
OWN = Own(name="{name}", summary="own", method="own", kinds=("choice",), unit="points")
"""
PACKAGES = {
    "raises": ("raises = raises:OWN", "1 / 0"),
    "thief": ("robust = thief:OWN", SCORER.format(name="robust", body="return self.scored(attempt, 1.0, None)")),
    "loud": ("loud = loud:OWN", 'print(\'{"not": "json"}\')\n' + SCORER.format(name="loud", body="raise KeyError(1)")),
    "liar": (
        "liar = liar:OWN",
        "from ragrounds.base.records import Score\n"
        + SCORER.format(
            name="liar",
            body="return Score(question_id='x', epoch=9, scorer='robust', value=7.0, answer_status='answered')",
        ),
    ),
}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages that add scorers, each broken in its own way."""
    folder = tmp_path / "site"
    for name, (entry, code) in PACKAGES.items():
        described = folder / f"{name.replace('-', '_')}-2.0.dist-info"
        described.mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
        (described / "entry_points.txt").write_text(f"[ragrounds.scorers]\n{entry}\n[ragrounds.scorer]\nx = y:z\n")
        (folder / f"{name.replace('-', '_')}.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.mark.slow
@pytest.mark.usefixtures("packages")
def test_every_command_goes_on(forked_cli: Cli) -> None:
    helped = forked_cli("--help")
    assert helped.returncode == 0
    assert helped.stderr == ""

    done = forked_cli("run", "--agent", "direct", "--limit", "6", "--display", "none", "--json")
    assert done.returncode == 0, done.stderr
    tables = {table["scorer"]: table for table in json.loads(done.stdout)["tables"]}
    assert {"robust", "strict", "liar"} <= set(tables)
    assert tables["robust"]["unit"] == "percent"
    assert tables["liar"]["lines"][0]["overall"]["value"] == 7.0
    lines = done.stderr.splitlines()
    for name, fault in {
        "raises": "ZeroDivisionError",
        "thief": "the name is that of a scorer that ships with ragrounds",
    }.items():
        (line,) = [line for line in lines if f"of the package {name} 2.0 " in line]
        assert fault in line
        assert "See `ragrounds doctor`" in line
    assert sum("the package loud 2.0 printed while it was imported" in line for line in lines) == 1
    assert sum("The scorer 'loud' failed on an answer" in line for line in lines) == 1

    compared = forked_cli("compare", "direct", "--scorer", "robust", "--full")
    assert compared.returncode == 0, compared.stderr
    assert "lenient letter extraction" in compared.stdout

    asked = forked_cli("score", "direct", "--scorer", "raises")
    assert asked.returncode == 2
    assert "ZeroDivisionError" in asked.stderr
    assert "cannot be used" in asked.stderr

    found = json.loads(forked_cli("doctor", "--json").stdout)["additions"]
    faults = {one["package"]: one["fault"] for one in found if one["kind"]}
    assert set(faults) == set(PACKAGES)
    assert [name for name, fault in faults.items() if not fault] == ["liar", "loud"]
    assert {"Did you mean 'ragrounds.scorers'" in one["fault"] for one in found if not one["kind"]} == {True}
    text = forked_cli("doctor").stdout
    assert "broken: importing the package raises 2.0 failed: ZeroDivisionError" in text
