"""What runs are called beside their numbers: their agents; where these are alike, also what tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragrounds.evals.compare.comparison import Comparison, Row
from ragrounds.ui.text import safe


def agent_names(comparison: Comparison, longest: int | None = None) -> dict[str, str]:
    """Run id → its agent's text. Runs of one agent are told apart by their models, as ``direct (openai:NAME)``; where
    that is not enough, by their ids. Safe to show.

    Args:
        comparison: of these runs.
        longest: characters of a name, about; longer ones lose the end of the agent's text, not what tells them apart.
    """
    alike: dict[str, list[Row]] = {}
    for row in comparison.rows:
        alike.setdefault(row.agent, []).append(row)
    return {
        row.run: safe(row.agent, longest and max(20, longest - len(apart))) + (safe(f" ({apart})") if apart else "")
        for rows in alike.values()
        for row, apart in zip(rows, _apart(rows), strict=True)
    }


def _apart(rows: Sequence[Row]) -> list[str]:
    if len(rows) == 1:
        return [""]
    short, whole = _models(rows, _short), _models(rows, str)
    for found in (short, whole):
        if len(set(found)) == len(rows):
            return found
    return [", ".join(part for part in (model, row.run) if part) for model, row in zip(short, rows, strict=True)]


def _short(model: str) -> str:
    return model.partition("[")[0]


def _models(rows: Sequence[Row], read: Callable[[str], str]) -> list[str]:
    """Of each run the models that not all of them have."""
    roles = list(dict.fromkeys(role for row in rows for role in row.models))
    differing = [role for role in roles if len({read(row.models.get(role, "-")) for row in rows}) > 1]
    return [
        ", ".join(("" if role == "model" else f"{role}: ") + read(row.models.get(role, "-")) for role in differing)
        for row in rows
    ]
