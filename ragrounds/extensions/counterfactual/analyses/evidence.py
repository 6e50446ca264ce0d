"""What the evidence did: the counterfactuals of runs, each effect next to what asking the model again does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.analyses.run_data import check_accuracy, headline_scorer, points
from ragrounds.evals.compare.figures import Figure, PairedFigure
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store
from ragrounds.extensions.counterfactual.changes import IDENTITY
from ragrounds.extensions.counterfactual.effects import Effect, effects


class Evidence(Struct, frozen=True, kw_only=True):
    """The effects of all changes that were made in some runs."""

    scorer: str
    effects: tuple[Effect, ...]
    unanswered: tuple[str, ...] = ()
    """Changes without an answer yet, each with its agent."""


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Evidence:
    check_accuracy("evidence", options.scorer)
    found = effects(store, runs, options.scorer, options.seed)
    ended = tuple(one for one in found if one.questions and one.failed < one.attempts)
    none = tuple(f"{one.change} of {one.agent}" for one in found if one not in ended)
    if not ended:
        raise UserError(f"No attempt has an answer with {', '.join(none)}: every one failed or has not ended. {_AGAIN}")
    return Evidence(scorer=options.scorer, effects=ended, unanswered=none)


def _is_shown(store: Store, runs: Sequence[Run]) -> bool:
    """Whether there is a counterfactual with an answer, and a scorer that says which are right."""
    others = [other for run in runs for other in store.counterfactuals(run)]
    if not any(one.status != "failed" for other in others for one in store.summaries(other)):
        return False
    return described(headline_scorer(store, runs)).accuracy


_AGAIN = "The same `ragrounds counterfactual` command asks again what failed."


def _percent(found: Figure | None) -> str:
    return "-" if found is None or found.value is None else f"{100 * found.value:.0f}"


def _ranged(found: Figure | PairedFigure | None, sign: str = "") -> str:
    """A share, or a difference of shares, with its interval, in whole percent; empty: there is none."""
    value = found.difference if isinstance(found, PairedFigure) else found.value if found is not None else None
    if found is None or value is None:
        return ""
    ends = [f"{100 * end:{sign}.0f}" for end in (found.low, found.high) if end is not None]
    return f"{100 * value:{sign}.0f}" + (f" ({' to '.join(ends)})" if len(ends) == 2 else "")


def _table(made: Evidence, options: AnalysisOptions) -> AnalysisTable:
    rows: list[tuple[str, ...]] = []
    agents = dict.fromkeys(one.run for one in made.effects)
    for run in agents:
        rows += [(run, "", "", "", "")] if len(agents) > 1 else []
        for one in (one for one in made.effects if one.run == run):
            needed = _ranged(one.necessary) or _ranged(one.sufficient)
            others = _percent(one.changed) + ("" if one.is_identity else f" / {_percent(one.noise)}")
            rows.append((_named(one, made), _ranged(one.difference, "+"), needed, others, one.verdict))
            parts = {"- known": one.known, "- not known": one.unknown}
            rows += [(name, points, "", "", "") for name, part in parts.items() if (points := _ranged(part, "+"))]
    columns = ("change", "points", "needed/enough", "others/noise", "verdict")
    return AnalysisTable(title=conclusion(made), columns=columns, rows=tuple(rows), note=_note(made))


def _named(one: Effect, made: Evidence) -> str:
    """A change, as it is shown; where its file held several texts, with the end of its counterfactual's id."""
    if sum((other.run, other.change) == (one.run, one.change) for other in made.effects) > 1:
        return f"{one.change} {one.counterfactuals[0].rpartition('-')[2]}"
    asked = one.change.removeprefix(IDENTITY).replace("[search=first]", "")
    return f"asked again{asked}" if one.is_identity else one.change


def conclusion(made: Evidence) -> str:
    """What follows, in a sentence."""
    changes = [one for one in made.effects if not one.is_identity]
    shown = [one for one in changes if one.verdict == "effect"]
    if not shown:
        return f"Significant effects on the score: none of {len(changes)}."
    most = max(shown, key=lambda one: abs(one.difference.difference or 0.0))
    return (
        f"Significant effects: {len(shown)} of {len(changes)}. The largest: {most.change}, {most.agent}: "
        f"{points(most.difference)} points."
    )


def _note(made: Evidence) -> str:
    parts = [
        "Points: after minus before, paired by question, with the 95 % interval; an effect is significant after Holm's "
        "correction for all changes shown. Needed (drop, none): of the right answers that lose passages, percent that "
        "are wrong without them; enough (keep): of those that have the passages which alone are kept, percent that "
        "stay right. Others: percent of the attempts with another answer; noise: the same where the model is asked "
        "again and nothing is changed."
    ]
    if any(one.difference.p_always is not None for one in made.effects):
        parts.append(
            "Where questions were drawn until it was known, the interval of points holds at any number of them."
        )
    if any(one.known is not None for one in made.effects):
        parts.append("Known: questions that the agent without search gets right; not known: the others.")
    missed = {
        (one.agent, one.change): one.touched.value
        for one in made.effects
        if one.touched is not None and one.touched.value is not None and one.touched.value < 1
    }
    parts += [
        f"{change} touches {100 * share:.0f} % of the attempts of {agent}." for (agent, change), share in missed.items()
    ]
    if failed := sum(one.failed for one in made.effects):
        parts.append(
            f"{failed:,} attempts failed; they count as not correct. An effect is one only where it is one, too, with "
            f"the scores that they had before; else it is open. {_AGAIN}"
        )
    if made.unanswered:
        parts.append(f"Without any answer, and left out: {', '.join(made.unanswered)}. {_AGAIN}")
    for one in made.effects:
        where = f"{one.agent}, {one.change}:"
        if one.argued is not None:
            parts.append(
                f"{where} {_ranged(one.argued)} percent choose what is argued for (was {_percent(one.argued_before)})."
            )
        if one.next_query is not None and one.next_query.value:
            parts.append(f"{where} the next search is another one in {_ranged(one.next_query)} percent.")
        if one.cited is not None and one.cited_unmoved is not None:
            parts.append(
                f"{where} {_ranged(one.cited)} percent cite what is dropped; of these {_ranged(one.cited_unmoved)} "
                "percent give the same answer without it: they cite after the fact."
            )
        if one.reached is not None and not one.reached.value:
            parts.append(f"{where} no last prompt is another one.")
    bought, reused = (sum(counts) for counts in zip(*((one.bought, one.reused) for one in made.effects), strict=True))
    parts.append(f"Model calls: {bought:,} new, {reused:,} from the journal.")
    parts += _joint(made)
    return " ".join(parts)


def _joint(made: Evidence) -> list[str]:
    """What removals of single passages add up to, where all are removed together, too."""
    said = []
    for run, agent in {one.run: one.agent for one in made.effects}.items():
        mine = {one.change: one.difference.difference for one in made.effects if one.run == run}
        singles = [value for change, value in mine.items() if re.fullmatch(r"drop\[passage=\d+\]", change)]
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
            name=_named(one, made),
            group=one.run,
            value=one.difference.difference,
            low=one.difference.low,
            high=one.difference.high,
            full=one.verdict == "effect",
        )
        for one in made.effects
    )
    note = "shaded: asked again, nothing changed." if floors else "No noise floor was measured."
    return Picture(
        title="What each change of the evidence does to the score",
        marks=marks,
        words="points",
        signed=True,
        reference=0.0,
        band=(min(low), max(high))
        if (low := [one.difference.low for one in floors if one.difference.low is not None])
        and (high := [one.difference.high for one in floors if one.difference.high is not None])
        else None,
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
    by_default=_is_shown,
)
