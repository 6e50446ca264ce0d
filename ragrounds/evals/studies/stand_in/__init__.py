"""What stands in for data, models, encoders and corpora that are not here, so that every cell can be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragrounds.evals.studies.study import Setting


def stand_in(settings: Mapping[str, Setting], folder: Path, base_url: str, home: Path) -> dict[str, Setting]:
    """A cell's settings with what can be had here in the place of what cannot.

    Args:
        settings: of a cell.
        folder: where made-up sets and corpora are written.
        base_url: of the server that stands in for every model.
        home: where indexes are.
    """
    from ragrounds.evals.studies.stand_in import questions, retrieval

    return retrieval.stand_in(questions.stand_in(settings, folder, base_url), folder, base_url, home)
