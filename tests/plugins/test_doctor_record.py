"""``doctor`` from Python: a record, with a home of one's own."""

from __future__ import annotations

from pathlib import Path

from ragrounds.api.doctor import additions, doctor


def test_it_is_a_record(tmp_path: Path) -> None:
    found = doctor(home=tmp_path)
    assert found.home == str(tmp_path)
    assert "0 runs" in found.store
    assert found.extras
    assert found.model is None
    assert found.additions == tuple(additions())


async def test_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    assert doctor(home=tmp_path).ragrounds
