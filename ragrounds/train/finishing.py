"""From a recipe to its pair on disk."""

from __future__ import annotations

from pathlib import Path

from ragrounds.train.card import read_table, write_card
from ragrounds.train.encoders import save_pair
from ragrounds.train.pipeline import Run, State


def write_pair(run: Run, recipe: str, state: State) -> Path:
    """Write a recipe's pair and its card into the run's folder; gives the folder, which is left as it is where it holds
    just this pair."""
    folder = run.out / recipe
    mark = folder / ".key"
    if not (mark.is_file() and mark.read_text() == state.key):
        mark.unlink(missing_ok=True)
        prefixes = {"query": run.training.query.prefix, "document": run.training.document.prefix}
        if state.symmetric:
            prefixes["document"] = ""
        save_pair(run.open_query(state), run.open_document(state), folder, prefixes)
    write_card(run, recipe, state, folder, read_table(run.out))
    mark.write_text(state.key)
    return folder
