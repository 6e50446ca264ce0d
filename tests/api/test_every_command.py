"""Every command is a function of the package (docs/reference/api.md)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.cli.entry import command_tree
from tests.conftest import ROOT
from tests.rows import each_row

CALLS = {
    "run": "run", "compare": "compare", "ledger": "ledger", "score": "score", "retrieve": "retrieve",
    "analyse": "analyse", "report": "report", "publish": "publish", "verify": "verify", "doctor": "doctor",
    "gate": "gate", "counterfactual": "counterfactual",
    "judge run": "judge", "judge sheet": "people.write_label_sheet", "judge label": "people.labelling",
    "judge agreement": "people.judge_agreement",
    "arena play": "arena", "arena ls": "arena:list_arenas", "arena show": "arena:show_arena",
    "arena rm": "arena:remove_arena", "arena vote": "arena:voting",
    "study run": "study", "study show": "studies:show_study", "study ls": "studies:list_studies",
    "study copy": "studies:copy_study",
    "trace": "trace.list_attempts", "show": "runs.show_attempt",
    "runs ls": "runs", "runs show": "load", "runs diff": "runs.diff_runs", "runs rm": "runs.remove_run",
    "runs resume": "resume.kept_options", "runs gc": "runs.collect_garbage",
    "list": "agents.list_agents", "trust": "agents.trust_agent",
    "data ls": "data.list_cards", "data show": "data.describe", "data rm": "data.remove",
    **{f"data {word}": f"data.{word}" for word in ("add", "fetch", "verify", "audit")},
    "index build": "index.build", "index ls": "index.list_indexes", "index show": "index.describe",
    "index rm": "index.remove",
    "export store": "export", "import": "import_runs",
    "build case-questions": "construction:build", "build relevance-mining": "construction:build",
    "build consensus-labels": "construction:build", "build false-negatives": "construction:build",
    "train care": "training:train", "train evaluate": "training:evaluate",
    "journal write": "gate:journal.write_journal", "journal read": "gate:journal.read_journal",
    "stand-in": "stand_in:serve_stand_in", "mcp": "mcp_server:assistant_server",
}  # fmt: skip
"""Command → a name of the package, one of `ragrounds.api`, or EXTENSION:FUNCTION, EXTENSION:MODULE.FUNCTION."""


def commands(name: str, command: Any) -> Iterator[str]:
    below = {word: one for word, one in getattr(command, "commands", {}).items() if not one.hidden}
    if not below:
        yield name
    for word, one in below.items():
        yield from commands(f"{name} {word}".strip(), one)


def test_no_command_is_without_its_function() -> None:
    assert sorted(commands("", command_tree())) == sorted(CALLS)


@each_row("named", sorted(set(CALLS.values())))
def test_each_is_there_and_says_what_it_does(named: str) -> None:
    extension, _, function_name = named.rpartition(":")
    module, _, name = function_name.rpartition(".")
    assert extension or module or name in rr.__all__
    place = f"ragrounds.extensions.{extension}.{module or 'functions'}" if extension else f"ragrounds.api.{module}"
    function = getattr(import_module(place), name) if extension or module else getattr(rr, name)
    assert callable(function)
    assert (function.__doc__ or "").strip()
    if not extension and not module and name not in ("arun",):
        page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
        assert f"`rr.{name}(" in page, "the page of the package's functions"


def test_runs_are_exported_and_imported_as_the_commands_do(tmp_path: Path) -> None:
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "runs.ragrounds"
    made = rr.run("sample", "direct", limit=2, home=here, progress=False)
    lines = rr.export("store", made, file, home=here)
    assert lines[0] == made.ids[0]
    assert rr.import_store(file, home=there).runs == made.ids
    assert rr.compare(made.ids, home=there).comparison.rows == rr.compare(made, home=here).comparison.rows
    (written,) = rr.export("jsonl", "direct", tmp_path / "direct.jsonl", home=here)
    assert written.startswith(str(tmp_path / "direct.jsonl"))
    with pytest.raises(rr.UserError, match="no options"):
        rr.export("store", made, home=here)
    with pytest.raises(rr.UserError, match="jsonk"):
        rr.export("jsonk", made, tmp_path / "x", home=here)
