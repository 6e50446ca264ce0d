"""Labels by consensus (CMedTEB, Section 3.1): several models grade each pair of query and passage from S to D, and only
pairs on which all of them agree are kept.

S and A answer the query and make a passage relevant; B, C and D do not (Table 23). All relevant: a positive. None: a
negative. Anything between is dropped, as is a pair that some model gave no grade. The paper gives one Fleiss' kappa
without saying of which labels; here it stands for both, the five grades and the two classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.stats.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha

GRADES = ("S", "A", "B", "C", "D")
"""Best first."""
RELEVANT = "SA"

Fate = Literal["positive", "negative", "dropped", "unlabelled"]


class Pair(Struct, frozen=True, kw_only=True):
    """A query and a passage with every model's grade."""

    query: str
    document: str
    grades: tuple[str | None, ...]
    """One of each model, in the models' order; ``None``: it gave none that can be read."""

    @property
    def similarity(self) -> float | None:
        """Mean grade as a number, D = 0 to S = 4; ``None`` where one is missing."""
        given = [grade for grade in self.grades if grade is not None]
        if len(given) < len(self.grades):
            return None
        return sum(len(GRADES) - 1 - GRADES.index(grade) for grade in given) / len(given)


class Consensus(Struct, frozen=True, kw_only=True):
    """What several models' labels came to."""

    models: tuple[str, ...]
    pairs: int
    counts: Mapping[Fate, int]
    kappa: float | None
    """Fleiss' kappa of the five grades over the pairs that every model graded; ``None`` where it is not defined."""
    kappa_relevant: float | None
    """The same of the two classes, relevant and not."""
    alpha: float | None
    """Krippendorff's alpha of the grades as an ordinal scale, missing ones included."""
    grades: Mapping[str, Mapping[str, int]]
    """Model → grade → pairs; ``missing`` is a grade here."""


class Disagreement(Struct, frozen=True, kw_only=True):
    """Where models part: of all dropped pairs, how they part, and between whom."""

    dropped: int
    patterns: Mapping[str, int]
    """The models' grades in a row (``S/B/A``) → dropped pairs, most often first."""
    votes: Mapping[str, int]
    """How many of the models found the pair relevant (``1 of 3``) → dropped pairs."""
    between: Mapping[str, Mapping[str, float | int | None]]
    """Two models → pairs that both graded, share of equal classes, Cohen's kappa of the classes."""
    alone: Mapping[str, int]
    """Model → dropped pairs on which it alone was of its opinion."""
    farthest: tuple[Pair, ...]
    """Pairs whose grades lie farthest apart, for reading."""


def check_relevant(relevant: str) -> str:
    """`relevant`, where it can split the grades.

    Raises:
        UserError: a letter that is no grade, none, or all of them.
    """
    letters = set(relevant)
    if not letters or not letters < set(GRADES) or len(letters) < len(relevant):
        raise UserError(f"relevant={relevant!r}: expected some of the grades {''.join(GRADES)}, each once, not all.")
    return relevant


def fate(grades: Sequence[str | None], relevant: str = RELEVANT) -> Fate:
    """What becomes of a pair with these grades."""
    if not grades or None in grades:
        return "unlabelled"
    found = sum(grade in relevant for grade in grades if grade)
    return "positive" if found == len(grades) else "dropped" if found else "negative"


def consensus(models: Sequence[str], pairs: Sequence[Pair], relevant: str = RELEVANT) -> Consensus:
    """Counts and agreement of labelled pairs."""
    whole = [pair.grades for pair in pairs if None not in pair.grades]
    rated = [pair.grades for pair in pairs if sum(grade is not None for grade in pair.grades) > 1]
    enough = bool(whole) and len(models) > 1
    counts = Counter(fate(pair.grades, relevant) for pair in pairs)
    order: tuple[Fate, ...] = ("positive", "negative", "dropped", "unlabelled")
    return Consensus(
        models=tuple(models),
        pairs=len(pairs),
        counts={each: counts[each] for each in order},
        kappa=fleiss_kappa(whole) if enough else None,
        kappa_relevant=fleiss_kappa([_classes(grades, relevant) for grades in whole]) if enough else None,
        alpha=krippendorff_alpha(rated, "ordinal", GRADES[::-1]) if rated else None,
        grades={
            model: dict(Counter(pair.grades[place] or "missing" for pair in pairs))
            for place, model in enumerate(models)
        },
    )


def disagreement(
    models: Sequence[str], pairs: Sequence[Pair], relevant: str = RELEVANT, show: int = 10
) -> Disagreement:
    """How and where the models part."""
    parted = [pair for pair in pairs if fate(pair.grades, relevant) == "dropped"]
    alone = dict.fromkeys(models, 0)
    votes: Counter[str] = Counter()
    for pair in parted:
        classes = _classes(pair.grades, relevant)
        votes[f"{classes.count('relevant')} of {len(models)}"] += 1
        for name in {each for each in classes if classes.count(each) == 1} if len(models) > 2 else ():
            alone[models[classes.index(name)]] += 1
    spread = sorted(parted, key=lambda pair: (-_spread(pair), pair.query, pair.document))
    return Disagreement(
        dropped=len(parted),
        patterns=dict(Counter("/".join(grade or "-" for grade in pair.grades) for pair in parted).most_common()),
        votes=dict(sorted(votes.items())),
        between={
            f"{models[one]} and {models[other]}": _between(pairs, one, other, relevant)
            for one, other in combinations(range(len(models)), 2)
        },
        alone=alone,
        farthest=tuple(spread[:show]),
    )


def _classes(grades: Sequence[str | None], relevant: str) -> list[str]:
    return ["relevant" if grade and grade in relevant else "not" for grade in grades]


def _spread(pair: Pair) -> int:
    places = [GRADES.index(grade) for grade in pair.grades if grade]
    return max(places) - min(places)


def _between(pairs: Sequence[Pair], one: int, other: int, relevant: str) -> dict[str, float | int | None]:
    both = [
        _classes((pair.grades[one], pair.grades[other]), relevant)
        for pair in pairs
        if pair.grades[one] is not None and pair.grades[other] is not None
    ]
    if not both:
        return {"pairs": 0, "agree": None, "kappa": None}
    return {
        "pairs": len(both),
        "agree": sum(left == right for left, right in both) / len(both),
        "kappa": cohen_kappa([left for left, _ in both], [right for _, right in both]),
    }
