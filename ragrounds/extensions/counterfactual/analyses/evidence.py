"""Analysis "evidence": effects of a run's counterfactuals, each next to the noise of asking the model again."""

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
from ragrounds.evals.stats.intervals import identical_runs_bound
from ragrounds.evals.store.store import Store
from ragrounds.extensions.counterfactual.changes import IDENTITY
from ragrounds.extensions.counterfactual.effects import Effect, effects
from ragrounds.ui.text import number_of, p_value


class Evidence(Struct, frozen=True, kw_only=True):
    """Effects of all changes that were made in the runs."""

    scorer: str
    effects: tuple[Effect, ...]
    unanswered: tuple[str, ...] = ()
    """Changes without an answer yet, each with its agent."""


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> Evidence:
    check_accuracy("evidence", options.scorer)
    measured = effects(store, runs, options.scorer, options.seed)
    answered = tuple(effect for effect in measured if effect.questions and effect.failed < effect.attempts)
    unanswered = tuple(f"{effect.change} of {effect.agent}" for effect in measured if effect not in answered)
    if not answered:
        raise UserError(
            f"No attempt has an answer with {', '.join(unanswered)}: every one failed or has not ended. {_AGAIN}"
        )
    return Evidence(scorer=options.scorer, effects=answered, unanswered=unanswered)


def _is_shown(store: Store, runs: Sequence[Run]) -> bool:
    """Return True if a counterfactual has an answer and the scorer measures accuracy."""
    counterfactuals = [counterfactual for run in runs for counterfactual in store.counterfactuals(run)]
    if not any(
        summary.status != "failed" for counterfactual in counterfactuals for summary in store.summaries(counterfactual)
    ):
        return False
    return described(headline_scorer(store, runs)).accuracy


_AGAIN = "The same `ragrounds counterfactual` command repeats what failed."


def _percent(share: Figure | None) -> str:
    return "-" if share is None or share.value is None else f"{100 * share.value:.0f}"


def _format_interval(estimate: Figure | PairedFigure | None, sign: str = "") -> str:
    """Format a share, or a difference of shares, with its interval in whole percent; empty if there is no value."""
    value = (
        estimate.difference if isinstance(estimate, PairedFigure) else estimate.value if estimate is not None else None
    )
    if estimate is None or value is None:
        return ""
    ends = [f"{100 * end:{sign}.0f}" for end in (estimate.low, estimate.high) if end is not None]
    return f"{100 * value:{sign}.0f}" + (f" ({' to '.join(ends)})" if len(ends) == 2 else "")


def _table(evidence: Evidence, options: AnalysisOptions) -> AnalysisTable:
    rows: list[tuple[str, ...]] = []
    run_ids = dict.fromkeys(effect.run for effect in evidence.effects)
    for run in run_ids:
        rows += [(run, *[""] * 5)] if len(run_ids) > 1 else []
        for effect in (effect for effect in evidence.effects if effect.run == run):
            needed = _format_interval(effect.necessary) or _format_interval(effect.sufficient)
            answer_change = _percent(effect.changed) + ("" if effect.is_identity else f" / {_percent(effect.noise)}")
            rows.append(
                (
                    _change_label(effect, evidence),
                    _format_interval(effect.difference, "+"),
                    p_value(effect.p),
                    needed,
                    answer_change,
                    effect.verdict,
                )
            )
            parts = {"- known": effect.known, "- not known": effect.unknown}
            rows += [
                (name, points, *[""] * 4) for name, part in parts.items() if (points := _format_interval(part, "+"))
            ]
    columns = ("change", "points", "Holm p", "needed", "others", "verdict")
    return AnalysisTable(title=conclusion(evidence), columns=columns, rows=tuple(rows), note=_note(evidence))


def _change_label(effect: Effect, evidence: Evidence) -> str:
    """Return the label of a change; if its file held several texts, with the end of its counterfactual's id."""
    if sum((other.run, other.change) == (effect.run, effect.change) for other in evidence.effects) > 1:
        return f"{effect.change} {effect.counterfactuals[0].rpartition('-')[2]}"
    parameters = effect.change.removeprefix(IDENTITY).replace("[search=first]", "")
    return f"same prompt again{parameters}" if effect.is_identity else effect.change


def conclusion(evidence: Evidence) -> str:
    """Return a one-sentence conclusion."""
    changes = [effect for effect in evidence.effects if not effect.is_identity]
    significant = [effect for effect in changes if effect.verdict == "effect"]
    if not significant:
        return f"No effect on the score is significant ({number_of(len(changes), 'change')})."
    largest = max(significant, key=lambda effect: abs(effect.difference.difference or 0.0))
    return (
        f"Significant effects: {len(significant)} of {len(changes)}. The largest: {largest.change}, {largest.agent}: "
        f"{points(largest.difference)} points."
    )


def _note(evidence: Evidence) -> str:
    parts = [
        "Points: after minus before, paired by question, with the 95 % interval; p of the exact test, after Holm's "
        "correction. Needed: percent of the right answers that are wrong without the passages; of keep: that stay "
        "right with those alone. Others: percent of other answers / of them with the same prompt again (noise)."
    ]
    for floor in (effect for effect in evidence.effects if effect.is_identity):
        changed = sum(share.value or 0.0 for share in (floor.lost, floor.gained) if share is not None)
        if changed:
            parts.append(
                f"{floor.agent}: with nothing changed, two runs on these {floor.questions:,} questions differ by up to "
                f"{100 * identical_runs_bound(changed, floor.questions):.1f} points (95 %)."
            )
    if any(effect.known is not None for effect in evidence.effects):
        parts.append("Known: questions that the agent without search gets right; not known: the others.")
    touched_shares = {
        (effect.agent, effect.change): effect.touched.value
        for effect in evidence.effects
        if effect.touched is not None and effect.touched.value is not None and effect.touched.value < 1
    }
    parts += [
        f"{change} touches {100 * share:.0f} % of the attempts of {agent}."
        for (agent, change), share in touched_shares.items()
    ]
    if failed := sum(effect.failed for effect in evidence.effects):
        parts.append(
            f"{number_of(failed, 'attempt')} failed, counted as not correct; an effect that depends on them is open. "
            f"{_AGAIN}"
        )
    if evidence.unanswered:
        parts.append(f"Without any answer, and left out: {', '.join(evidence.unanswered)}. {_AGAIN}")
    for effect in evidence.effects:
        prefix = f"{effect.agent}, {effect.change}:"
        if effect.argued is not None:
            parts.append(
                f"{prefix} {_format_interval(effect.argued)} percent choose what is argued for "
                f"(was {_percent(effect.argued_before)})."
            )
        if effect.next_query is not None and effect.next_query.value:
            parts.append(f"{prefix} the next search changes in {_format_interval(effect.next_query)} percent.")
        if effect.cited is not None and effect.cited_unmoved is not None:
            parts.append(
                f"{prefix} {_format_interval(effect.cited)} percent cite what is dropped; of these "
                f"{_format_interval(effect.cited_unmoved)} "
                "percent give the same answer without it: they cite after the fact."
            )
        if effect.reached is not None and not effect.reached.value:
            parts.append(f"{prefix} no last prompt changes.")
    bought, reused = (
        sum(counts) for counts in zip(*((effect.bought, effect.reused) for effect in evidence.effects), strict=True)
    )
    parts.append(f"Model calls: {bought:,} new, {reused:,} from the journal.")
    parts += _additivity_notes(evidence)
    return " ".join(parts)


def _additivity_notes(evidence: Evidence) -> list[str]:
    """Compare the summed effects of removing single passages with the effect of removing all of them."""
    notes = []
    for run, agent in {effect.run: effect.agent for effect in evidence.effects}.items():
        differences = {effect.change: effect.difference.difference for effect in evidence.effects if effect.run == run}
        singles = [value for change, value in differences.items() if re.fullmatch(r"drop\[passage=\d+\]", change)]
        joint = differences.get("none")
        if len(singles) > 1 and joint is not None and None not in singles:
            total = sum(value for value in singles if value is not None)
            notes.append(
                f"{agent}: {len(singles)} passages removed one by one, {100 * total:+.1f} points in sum; all together, "
                f"{100 * joint:+.1f}."
            )
    return notes


def _picture(evidence: Evidence, options: AnalysisOptions) -> Picture:
    floors = [effect for effect in evidence.effects if effect.is_identity]
    marks = tuple(
        Mark(
            name=_change_label(effect, evidence),
            group=effect.run,
            value=effect.difference.difference,
            low=effect.difference.low,
            high=effect.difference.high,
            full=effect.verdict == "effect",
        )
        for effect in evidence.effects
    )
    note = "shaded: same prompt again." if floors else "No noise floor was measured."
    return Picture(
        title="What each change of the evidence does to the score",
        marks=marks,
        words="points",
        signed=True,
        reference=0.0,
        band=(min(low), max(high))
        if (low := [floor.difference.low for floor in floors if floor.difference.low is not None])
        and (high := [floor.difference.high for floor in floors if floor.difference.high is not None])
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
