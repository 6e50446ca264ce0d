"""An expert's look at a sample of the final labels (CMedTEB, Section 3.2: 5,000 pairs, 93.3 % agreement).

The sheet is blind: it shows a query and a passage, never what the models said. Read back, the experts' decisions are
set against the labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ragrounds.build.sheets import read_ratings, sheet_lines
from ragrounds.errors import UserError
from ragrounds.evals.judges.labels import HumanLabels, JudgeAgreement, agreement

DECISIONS = ("yes", "no")
"""Whether the passage is relevant to the query."""
SPELLINGS = dict.fromkeys(("y", "1", "true"), "yes") | dict.fromkeys(("n", "0", "false"), "no")
"""As people and spreadsheets also write it, in any case."""
INSTRUCTIONS = b"""# Judging the passages

Each row of the sheet is a query and a passage. Write into your rating column:

- yes: somebody who asks the query is helped by the passage itself: it answers the query, or holds what the answer rests
  on;
- no: it does not, however close its subject is.

y and n, 1 and 0, true and false say the same.

Leave the cell empty where you cannot judge. Comments are for the authors; they change nothing.
"""


class Label(Struct, frozen=True, kw_only=True):
    """A final label of a pair."""

    query: str
    document: str
    relevant: bool

    @property
    def item(self) -> str:
        """What stands for the pair in the sheet; it tells nothing of the label."""
        return hashlib.sha256(f"{self.query}\n{self.document}".encode()).hexdigest()[:12]


def sample(labels: Iterable[Label], most: int, seed: int) -> tuple[Label, ...]:
    """`most` of the labels, each with the same chance, in an order that the seed gives."""
    return tuple(sorted(labels, key=lambda label: hashlib.sha256(f"{seed}\n{label.item}".encode()).digest())[:most])


def sample_lines(
    labels: Sequence[Label], queries: Mapping[str, str], passages: Mapping[str, str], experts: int = 1
) -> list[bytes]:
    """The sheet of a sample; `queries` and `passages` are texts by id."""
    rows = {label.item: (queries[label.query], passages[label.document]) for label in labels}
    return sheet_lines(("query", "passage"), rows, experts)


def expert_agreement(path: Path, labels: Iterable[Label]) -> JudgeAgreement:
    """The final labels against the decisions in a sheet that was filled in, in whole or in part.

    Raises:
        UserError: not the sheet of this benchmark, a decision that is neither yes nor no, or no decision at all.
    """
    said: dict[str, str | None] = {label.item: DECISIONS[0] if label.relevant else DECISIONS[1] for label in labels}
    ratings = read_ratings(path, list(said), DECISIONS, SPELLINGS)
    people = HumanLabels(raters=ratings.raters, items=ratings.items)
    try:
        return agreement(said, people)
    except ValueError:
        raise UserError(
            f"{path}: no item has a decision that more than half of the experts gave; write yes or no."
        ) from None
