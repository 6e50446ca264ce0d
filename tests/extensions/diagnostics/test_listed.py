"""Lists of documents: their heading, and that one is needed. Other tests are in `tests.extensions.counterfactual`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError


@pytest.mark.parametrize("text", ["document\np001\np002\n", "pmid,retracted_on_or_before\n1002,2023\n1005,2023\n"])
def test_the_heading_of_documents_is_none_of_them(tmp_path: Path, text: str) -> None:
    run = rr.run(limit=2, agents="direct", home=tmp_path, progress=False)
    (tmp_path / "list.csv").write_text(text)
    (found,) = rr.analyse("listed", run, documents=str(tmp_path / "list.csv"), home=tmp_path).result.record
    assert (found.listed, found.attempts, found.found.value) == (2, {}, 0.0)


def test_a_list_is_needed(tmp_path: Path) -> None:
    run = rr.run(limit=2, agents="direct", home=tmp_path, progress=False)
    with pytest.raises(UserError, match="FILE names a list"):
        rr.analyse("listed", run, home=tmp_path)
