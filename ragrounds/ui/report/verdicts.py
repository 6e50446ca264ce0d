"""What judges said of the runs of a report, how far they agree with each other, and with people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ragrounds.evals.judges.kinds import KINDS, Kind
from ragrounds.evals.judges.labels import HumanLabels, agreement, answer_of
from ragrounds.evals.judges.recorded import Said, recorded_verdicts
from ragrounds.evals.stats import Agreement, compare_with_human, fleiss_kappa, krippendorff_alpha, stratified_mean
from ragrounds.evals.stats.intervals import Estimate, proportion
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.figures import UNKNOWN, percent
from ragrounds.ui.sheets import Column, Sheet
from ragrounds.ui.text import one_line

SCORED = "as scored"
"""The verdicts that the scores in the store rest on: the last judge's, or the majority of the last panel."""
_MUST, _NICE = "must have", "nice to have"

Told = Sheet | str
Verdicts = Mapping[str, str | None]


def verdict_parts(store: Store, runs: Sequence[Run], human: HumanLabels | None = None, seed: int = 0) -> Iterator[Told]:
    """Sheets of every kind of judging whose verdicts are labels, of each run's first epoch; people's labels count for
    the kind that has their words."""
    known: set[str] = set()
    for name, kind in KINDS.items():
        if not kind.labels:
            continue
        judged = [(number, run, found) for number, run in enumerate(runs, 1) if (found := _scored(store, run, kind))]
        if not judged:
            continue
        known |= set(kind.labels)
        rows: list[tuple[str, ...]] = []
        agreed: list[tuple[str, ...]] = []
        remarks: list[str] = []
        for number, run, scored in judged:
            axes = _axes(store, run, kind)
            sides = [Said(judge=SCORED, verdicts=scored), *recorded_verdicts(store, run, kind)]
            rows += [
                (f"#{number}", one_line(said.judge, 60), axis, *_shares(said.verdicts, items, kind, seed))
                for said in sides
                for axis, items in axes.items()
            ]
            judges = sides[1:]
            for one, other in combinations(judges, 2):
                agreed += _pair(f"#{number}", one, other)
            if len(judges) > 2:
                remarks += _together(f"#{number}", judges)
            if human is not None and _words(human) <= set(kind.labels):
                for said in sides:
                    agreed += _people(f"#{number}", said, human)
        labels = (column for label in kind.labels for column in (Column(f"{label} %"), Column("95 %")))
        yield Sheet(
            key="verdicts",
            title=f"{name}: verdicts, by judge and axis",
            columns=(
                Column("run", right=False), Column("judge", right=False), Column("axis", right=False),
                Column("verdicts"), Column("missing"), *labels,
            ),
            rows=tuple(rows),
        )  # fmt: skip
        if agreed:
            yield Sheet(
                key="agreement",
                title=f"{name}: agreement (Cohen's kappa: 1 perfect, 0 as by chance)",
                columns=(
                    Column("run", right=False), Column("one", right=False), Column("other", right=False),
                    *map(Column, ("items", "same %", "95 %", "kappa", "95 %")),
                ),
                rows=tuple(agreed),
            )  # fmt: skip
        yield from remarks
    if human is not None and (strange := sorted(_words(human) - known)):
        yield f"People's labels are left out: {one_line(strange[0], 60)!r} is no verdict on any of these runs."


def _scored(store: Store, run: Run, kind: Kind) -> dict[str, str | None]:
    """The verdicts in the scores; an answer without a text was put to nobody."""
    return {
        item: verdict
        for score in store.scores(run, kind.scorer)
        if score.epoch == 0
        for item, verdict in kind.verdicts(score).items()
        if verdict is not None or score.value is None
    }


def _axes(store: Store, run: Run, kind: Kind) -> dict[str, list[str]]:
    """Axis → its items: the one grade, or must-have and nice-to-have statements apart."""
    questions, golds = store.questions(run)
    axes: dict[str, list[str]] = {}
    for question in questions:
        gold = golds[question.id]
        if not kind.fits(question, gold):
            continue
        for item in kind.beside(gold):
            if item == question.id:
                axes.setdefault("grade", []).append(item)
            else:
                fact = gold.facts[int(item.rpartition("#")[2]) - 1] if gold.facts else ()
                axes.setdefault(_NICE if len(fact) > 1 else _MUST, []).append(item)
    return axes


def _shares(said: Verdicts, items: Sequence[str], kind: Kind, seed: int) -> tuple[str, ...]:
    given = [(item, label) for item in items if (label := said.get(item)) is not None]
    missing = sum(item in said for item in items) - len(given)
    cells = [f"{len(given):,}", f"{missing:,}"]
    for label in kind.labels:
        values = [float(one == label) for _, one in given]
        share = _share(values, [answer_of(item) for item, _ in given], seed) if values else None
        cells += [UNKNOWN, UNKNOWN] if share is None else [percent(share.value, 1), _interval(share)]
    return tuple(cells)


def _share(values: Sequence[float], clusters: Sequence[str], seed: int) -> Estimate:
    if len(set(clusters)) == len(clusters):
        return proportion(values)
    return stratified_mean(values, [""] * len(values), clusters, seed=seed)


def _pair(run: str, one: Said, other: Said) -> list[tuple[str, ...]]:
    items = [item for item in one.verdicts if one.verdicts[item] and other.verdicts.get(item)]
    if not items:
        return []
    found = compare_with_human(
        [one.verdicts[item] for item in items],
        [other.verdicts[item] for item in items],
        [answer_of(item) for item in items],
    )
    return [(run, one_line(one.judge, 60), one_line(other.judge, 60), *_agreement(found))]


def _people(run: str, said: Said, human: HumanLabels) -> list[tuple[str, ...]]:
    try:
        found = agreement(said.verdicts, human)
    except ValueError:  # none of its items has both labels
        return []
    who = "people" if len(human.raters) == 1 else f"majority of {len(human.raters)} people"
    return [(run, one_line(said.judge, 60), who, *_agreement(found.judge))]


def _together(run: str, judges: Sequence[Said]) -> list[str]:
    """Fleiss' kappa and Krippendorff's alpha of three judges or more."""
    items = dict.fromkeys(item for said in judges for item in said.verdicts)
    labels = [[said.verdicts.get(item) for said in judges] for item in items]
    whole = [each for each in labels if None not in each]
    some = [each for each in labels if sum(label is not None for label in each) > 1]
    kappa = fleiss_kappa(whole) if whole else None
    alpha = krippendorff_alpha(some) if some else None
    return [
        f"{run}, {len(judges)} judges together: Fleiss' kappa {_number(kappa)} on {len(whole):,} items, "
        f"Krippendorff's alpha {_number(alpha)} on {len(some):,}."
    ]


def _agreement(found: Agreement) -> tuple[str, ...]:
    low, high = found.kappa_low, found.kappa_high
    interval = UNKNOWN if low is None or high is None else f"{low:.2f} to {high:.2f}"
    return (
        f"{found.n:,}", percent(found.accuracy.value, 1), _interval(found.accuracy), _number(found.kappa), interval,
    )  # fmt: skip


def _words(human: HumanLabels) -> set[str]:
    return {label for row in human.items.values() for label in row if label}


def _interval(estimate: Estimate) -> str:
    return f"{percent(estimate.low, 1)} to {percent(estimate.high, 1)}"


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"
