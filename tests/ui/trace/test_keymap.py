"""The user's own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.errors import UserError
from ragrounds.ui.trace.app import read_keymap


def test_keys_by_id(tmp_path: Path) -> None:
    assert read_keymap(tmp_path / "keys.toml") == {}
    (tmp_path / "keys.toml").write_text('"wrong.next" = "f3,x"\nquit = "ctrl+q"\n')
    assert read_keymap(tmp_path / "keys.toml") == {"wrong.next": "f3,x", "quit": "ctrl+q"}


@pytest.mark.parametrize(
    ("text", "said"),
    [('"wrong.nxt" = "f3"', "Did you mean 'wrong.next'"), ("quit = 3", "is not text"), ("quit = ", "Cannot read")],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "keys.toml").write_text(text)
    with pytest.raises(UserError, match=said):
        read_keymap(tmp_path / "keys.toml")
