"""A system of which no call was seen may have made one that nobody hears: that is not replayed as if it were kept."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.errors import StopRun, UserError


@pytest.mark.parametrize(
    ("imports", "refused"), [("import json", False), ("import numpy", False), ("import sender", True)]
)
def test_a_replay_does_not_ask_what_may_send_unheard(
    imports: str, refused: bool, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    place = tmp_path / "site-packages"
    (place / "sender-1.0.dist-info").mkdir(parents=True)
    (place / "sender-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: sender\nVersion: 1.0\n")
    (place / "sender-1.0.dist-info" / "RECORD").write_text("sender.py,,\n_sender.so,,\n")
    (place / "sender.py").write_text("")
    (place / "_sender.so").write_bytes(b"")  # Python 3.12 and later name only files that are there
    monkeypatch.syspath_prepend(place)
    (tmp_path / f"mine_{imports[-4:]}.py").write_text(
        f"{imports}\ndef ask(question):\n    with open({str(asked)!r}, 'a') as file:\n        file.write('x')\n"
        "    return 'A'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGROUNDS_HOME", str(home))

    def run(**options: object) -> int:
        before = len(asked.read_text()) if asked.exists() else 0
        rr.run("sample", f"./mine_{imports[-4:]}.py:ask", limit=1, progress=False, **options)  # type: ignore[arg-type]
        return len(asked.read_text()) - before

    assert run() == 2  # a probe, which finds no model, and the question
    assert run(new=True) == 1  # a probe could not hold back what it sends unheard
    if refused:
        count = len(asked.read_text())
        with pytest.raises((UserError, StopRun), match="sender, which it uses, holds code that is not Python"):
            run(new=True, journal="replay")
        assert len(asked.read_text()) == count
    else:
        assert run(new=True, journal="replay") == 1
    assert run(journal="replay") == 0  # its attempts are there
