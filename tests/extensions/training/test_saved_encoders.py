"""An encoder's folder on disk is whole at every moment. Neither torch nor a model is needed to see that."""

from pathlib import Path
from typing import Any

import pytest

from ragrounds.extensions.training.encoders import save_encoder


class WrittenEncoder:
    """Encoder that consists of one file."""

    def __init__(self, weights: str) -> None:
        self.weights = weights

    def save(self, path: str, *, create_model_card: bool) -> None:
        Path(path).mkdir()
        (Path(path) / "weights").write_text(self.weights)


def save(weights: str, folder: Path) -> None:
    encoder: Any = WrittenEncoder(weights)
    save_encoder(encoder, folder)


def test_the_newer_encoder_takes_the_place_of_the_older(tmp_path: Path) -> None:
    for weights in ("old", "new"):
        save(weights, tmp_path / "query")
    assert (tmp_path / "query" / "weights").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["query"]


def test_a_kill_at_any_rename_loses_no_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    rename = Path.rename
    for renames_before in (0, 1):
        folder = tmp_path / f"killed-{renames_before}" / "query"
        folder.parent.mkdir()
        save("old", folder)
        left = [renames_before]

        def rename_or_die(path: Path, target: Path, left: list[int] = left) -> Path:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return rename(path, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "rename", rename_or_die)
            with pytest.raises(Killed):
                save("new", folder)
        assert "old" in [file.read_text() for file in folder.parent.glob("*/weights")]
        save("newer", folder)
        assert (folder / "weights").read_text() == "newer"
        assert [path.name for path in folder.parent.iterdir()] == ["query"]
