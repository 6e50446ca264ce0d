"""Candidates for a question's relevant documents: what a committee of retrievers finds most often.

R2MED (Li et al. 2025, Section 3.3 and Appendix A.2): every retriever searches with the question, with its answer and
with a reasoning path between the two, 100 documents each; documents are ranked by how many of these rankings hold them.
CMedTEB (Section 3.1) gathers a pool from several embedders in the same way, with the question alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.records import Passage
from ragrounds.tools.retrievers.fusion import reciprocal_rank_fusion


class Candidate(Struct, frozen=True, kw_only=True):
    """A document that may be relevant."""

    id: str
    times: int
    """Rankings that hold it; 0: a known document that no retriever found."""
    found_by: tuple[str, ...] = ()
    """Which rankings, as ``retriever/view``."""


def by_frequency(
    rankings: Mapping[str, Sequence[str]], most: int | None = None, known: Sequence[str] = ()
) -> tuple[Candidate, ...]:
    """Documents by the number of rankings that hold them, most often first.

    The paper says nothing of ties, and with nine rankings there are many: they go by the sum of reciprocal ranks
    (constant 60), then by id.

    Args:
        rankings: name → ids of documents, best first; an id that stands twice in one ranking counts once there.
        most: Only so many; ``None``: all.
        known: Documents that are candidates whatever is found: the initial positives of R2MED. They come first, beyond
            `most`.
    """
    lists = {name: list(dict.fromkeys(ids)) for name, ids in rankings.items()}
    found: dict[str, list[str]] = {}
    for name, ids in lists.items():
        for id in ids:
            found.setdefault(id, []).append(name)
    keys = [[("", id) for id in ids] for ids in lists.values()]
    # Rounded: the order in which the same fractions are added must not part what is equal.
    scores = {id: round(score, 12) for (_, id), score in reciprocal_rank_fusion(keys, [1.0] * len(keys))}
    ranked = sorted(found, key=lambda id: (-len(found[id]), -scores[id], id))
    first = list(dict.fromkeys(known))
    mined = [id for id in ranked if id not in first][:most]
    return tuple(
        Candidate(id=id, times=len(found.get(id, ())), found_by=tuple(found.get(id, ()))) for id in (*first, *mined)
    )


def rankings_of(found: Mapping[str, Sequence[Passage]]) -> dict[str, list[str]]:
    """The rankings that a :class:`~ragrounds.build.committee.Committee` gave: view → its passages becomes
    ``retriever/view`` → ids, best first."""
    rankings: dict[str, list[str]] = {}
    for view, passages in found.items():
        for passage in passages:
            rankings.setdefault(f"{passage.retriever}/{view}", []).append(passage.id)
    return rankings
