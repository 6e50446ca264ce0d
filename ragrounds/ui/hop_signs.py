"""One search of an attempt in signs: what a line of a terminal and a row of a page show of it."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.evals.store.hops import FATES, Fate, Hop

FATE_SIGNS: dict[Fate, str] = {"seen": "●", "cut": "◐", "not seen": "○", "not known": "?"}
_SHOWN_QUERY = 400
"""Characters of a query that are kept."""


class HopSigns(Struct, frozen=True, kw_only=True):
    """What a line shows of a hop."""

    query: str
    found: int
    gold_rank: int | None
    """The best rank of a gold passage; ``None``: it found none."""
    fate: Fate
    """The best of its gold passages; says nothing where it found none."""
    new: int
    repeats: int | None
    failed: bool
    place: int
    """Of its call among the calls of the attempt."""

    @property
    def signs(self) -> str:
        """The hop in signs: ``★3●`` gold at rank 3 and seen, ``◐`` cut, ``○`` in no prompt, ``?`` not known,
        ``·`` no gold, ``↻`` repeated, ``!`` failed."""
        if self.failed:
            return "!"
        again = "↻" if self.repeats is not None else ""
        gold = "·" if self.gold_rank is None else f"★{self.gold_rank}{FATE_SIGNS[self.fate]}"
        return again + gold

    @property
    def style(self) -> str:
        """The style of its signs."""
        if self.failed:
            return "trouble"
        return "dim" if self.gold_rank is None else "gold" if self.fate == "seen" else "key"


def hop_signs(hop: Hop) -> HopSigns:
    """What a line shows of a hop; it keeps no passage and no prompt."""
    gold = [one for one in hop.found if one.gold]
    return HopSigns(
        query=hop.query[:_SHOWN_QUERY],
        found=len(hop.found),
        gold_rank=gold[0].rank if gold else None,
        fate=min((one.fate for one in gold), key=FATES.index, default="not seen"),
        new=hop.new,
        repeats=hop.repeats,
        failed=bool(hop.error),
        place=hop.call,
    )
