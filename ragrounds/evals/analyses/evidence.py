"""What the evidence did: the counterfactuals of runs, each effect next to what asking the model again does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import check_accuracy, points
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.counterfactuals.changes import IDENTITY
from ragrounds.evals.counterfactuals.effects import Effect, effects
from ragrounds.evals.store.store import Store
from ragrounds.records import Run


class Evidence(Struct, frozen=True, kw_only=True):
    """The effects of all changes that were made in some runs."""

    scorer: str
    effects: tuple[Effect, ...]


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Evidence:
    check_accuracy("evidence", options.scorer)
    return Evidence(scorer=options.scorer, effects=tuple(effects(store, runs, options.scorer, options.seed)))


def _share(found: Figure | None) -> str | None:
    return None if found is None or found.value is None else f"{100 * found.value:.1f}%"


def _split(one: Effect) -> str | None:
    """The difference where the agent without search is right, and where it is wrong; a star leaves out 0."""
    parts = [found for found in (one.known, one.unknown) if found is not None and found.difference is not None]
    ends = [f"{100 * (found.difference or 0.0):+.1f}{'*' if found.leaves_out_0 else ''}" for found in parts]
    return " / ".join(ends) if len(ends) == 2 else None


def _table(made: Evidence, options: AnalysisOptions) -> AnalysisTable:
    firsts = {one.run: one for one in reversed(made.effects)}
    cells: dict[str, Callable[[Effect], str | None]] = {
        "run": lambda one: one.run if firsts[one.run] is one else "",
        "change": lambda one: one.change,
        "points": lambda one: points(one.difference) or None,
        "lost / gained": lambda one: f"{_share(one.lost)} / {_share(one.gained)}",
        "other answers": lambda one: _share(one.changed),
        "by re-asking": lambda one: _share(one.noise),
        "next search": lambda one: _share(one.next_query),
        "known / not": _split,
        "argued": lambda one: f"{_share(one.argued)} (was {_share(one.argued_before)})" if one.argued else None,
        "calls new / reused": lambda one: f"{one.bought:,} / {one.reused:,}",
        "verdict": lambda one: one.verdict,
    }
    columns = tuple(name for name, cell in cells.items() if any(cell(one) for one in made.effects))
    rows = tuple(tuple(cells[name](one) for name in columns) for one in made.effects)
    return AnalysisTable(title=conclusion(made), columns=columns, rows=rows, note=_note(made))


def conclusion(made: Evidence) -> str:
    """What follows, in a sentence."""
    changes = [one for one in made.effects if not one.is_identity]
    shown = [one for one in changes if one.verdict == "effect"]
    if not shown:
        return f"None of {len(changes)} changes has a significant effect on the score."
    most = max(shown, key=lambda one: abs(one.difference.difference or 0.0))
    return (
        f"{len(shown)} of {len(changes)} changes have a significant effect. The largest: {most.change}, {most.agent}: "
        f"{points(most.difference)} points."
    )


def _note(made: Evidence) -> str:
    parts = [
        "Points: after minus before, paired by question, with the 95 % interval. An effect is significant after Holm's "
        "correction for all changes shown.",
        "Lost: attempts that were right and are wrong; gained: the other way. By re-asking: other answers where the "
        "model is asked the same again; answers change where there are more of them than that.",
    ]
    if any(one.known is not None for one in made.effects):
        parts.append(
            "Known / not: points on questions that the agent without search gets right, and on the others; a star: the "
            "interval leaves out 0."
        )
    missed = {
        (one.agent, one.change): one.touched.value
        for one in made.effects
        if one.touched is not None and one.touched.value is not None and one.touched.value < 1
    }
    parts += [
        f"{change} touches {100 * share:.0f} % of the attempts of {agent}." for (agent, change), share in missed.items()
    ]
    if failed := sum(one.failed for one in made.effects):
        parts.append(f"{failed:,} attempts failed with their change; they count as not correct.")
    parts += _joint(made)
    return " ".join(parts)


def _joint(made: Evidence) -> list[str]:
    """What removals of single passages add up to, where all are removed together, too."""
    said = []
    for agent in dict.fromkeys(one.agent for one in made.effects):
        mine = {one.change: one.difference.difference for one in made.effects if one.agent == agent}
        singles = [
            value for change, value in mine.items() if change.startswith("drop[passage=") and change[14].isdigit()
        ]
        joint = mine.get("none")
        if len(singles) > 1 and joint is not None and None not in singles:
            total = sum(value for value in singles if value is not None)
            said.append(
                f"{agent}: {len(singles)} passages removed one by one, {100 * total:+.1f} points in sum; all together, "
                f"{100 * joint:+.1f}."
            )
    return said


def _picture(made: Evidence, options: AnalysisOptions) -> Picture:
    floors = [one for one in made.effects if one.is_identity]
    marks = tuple(
        Mark(
            name="asked again" + one.change.removeprefix(IDENTITY) if one.is_identity else one.change,
            group=one.run,
            value=one.difference.difference,
            low=one.difference.low,
            high=one.difference.high,
            full=one.verdict == "effect",
        )
        for one in made.effects
    )
    note = "" if floors else "No noise floor was measured."
    return Picture(
        title="What each change of the evidence does to the score",
        marks=marks,
        words="points",
        signed=True,
        reference=0.0,
        full="significant",
        hollow="not significant",
        note=note,
    )


EVIDENCE: Analysis[Evidence] = Analysis(
    name="evidence",
    summary="what removing, swapping or adding evidence does to answers, next to what re-asking does",
    needs="counterfactuals of the runs (`ragrounds counterfactual`), and a scorer without a judge",
    measure=_measure,
    table=_table,
    picture=_picture,
)
