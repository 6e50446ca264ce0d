"""What is done with a library when a system loads it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ragrounds.recorder.loading import when_loaded


def test_a_library_is_acted_on_each_time_that_it_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_late.py").write_text("made = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[object] = []

    def act(module: ModuleType) -> None:
        seen.append(module.made)

    when_loaded("loaded_late", act)
    assert "loaded_late" not in sys.modules
    assert not seen
    module = importlib.import_module("loaded_late")
    assert seen == [module.made]
    when_loaded("loaded_late", act)  # it is there
    assert seen == [module.made] * 2
    again = importlib.reload(module)
    assert seen[2:] == [again.made]
    monkeypatch.delitem(sys.modules, "loaded_late")
