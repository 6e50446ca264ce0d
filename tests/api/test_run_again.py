"""A command given again, and runs named by the beginning of their ids, once the store holds more than it did."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server

BOTH = ["direct", "vanilla_rag[top_k=2]"]
LONG = ("l01", "l02")


def test_the_same_call_after_one_of_its_runs_was_judged(tmp_path: Path) -> None:
    rr.run("sample", BOTH, questions=LONG, home=tmp_path, progress=False)
    with stand_in_server() as url:
        rr.judge("direct", "equivalence", judges="openai:m", base_url=url, alias=ALIAS, home=tmp_path, progress=False)
    again = rr.run("sample", BOTH, questions=LONG, home=tmp_path, progress=False)
    assert again.made == 0
    assert any("Not compared under equivalent" in note for note in again.comparison.notes)
    rr.score(BOTH, scorers="rouge-l", home=tmp_path)
    assert any("Not compared under equivalent" in note for note in rr.compare(BOTH, home=tmp_path).comparison.notes)


def test_the_beginning_of_ids_of_one_agent_means_its_newest_run(tmp_path: Path) -> None:
    first, second = (rr.run("sample", BOTH[1], limit=n, home=tmp_path, progress=False).runs[0].id for n in (1, 2))
    assert rr.load("vanilla_rag", home=tmp_path).id == second != first
    rr.run("sample", "vanilla_rag[top_k=3]", limit=1, home=tmp_path, progress=False)
    with pytest.raises(rr.UserError, match=r"Give one of these names: 'vanilla_rag\[top_k=3\]', "):
        rr.load("vanilla_rag-top", home=tmp_path)
