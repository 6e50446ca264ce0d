"""The verdicts and costs of judges, and their agreement with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ragrounds.evals.judges.bill import JudgedRun
from ragrounds.evals.judges.runs import JudgedRuns
from ragrounds.ui.text import dollars, number_of, one_line, safe, tokens


def bill_lines(graded: JudgedRun, *, is_written: bool) -> Iterator[str]:
    """Yield what was judged, by which judges, and the costs.

    Args:
        graded: verdicts and costs of a judged run.
        is_written: True if the scores are in the store. They are not if a judge gave no verdict at all.
    """
    judges, panel = graded.judges, graded.panel
    verdicts_by_judge = Counter(verdict.judge for verdict in graded.verdicts if verdict.outcome)
    # Answers whose verdicts are all missing were sent to a judge, but were not judged.
    judged_answers = graded.attempts if verdicts_by_judge or not graded.verdicts else 0
    silent = [judge for judge in judges if verdicts_by_judge and not verdicts_by_judge[judge]]
    answering_judges = [judge for judge in judges if judge not in silent]
    parts = [f"{graded.run}: {number_of(judged_answers, 'answer')} judged by {safe(', '.join(answering_judges))}"]
    parts += [f"{safe(', '.join(silent))} gave no verdict"] if silent else []
    parts.append(
        f"{number_of(graded.missing, 'score')} missing" if is_written or not silent else "no score was written"
    )
    parts += [f"{number_of(graded.left, 'answer')} not judged"] if graded.left else []
    yield "; ".join(parts) + "."
    if panel and silent:
        counts = ", ".join(f"{safe(judge)} {verdicts_by_judge[judge]:,}" for judge in judges)
        yield f"Verdicts by judge, of {number_of(panel.judged, 'thing')}: {counts}."
    elif panel:
        kappa, alpha = (f"{value:.3f}" if value is not None else "-" for value in (panel.kappa, panel.alpha))
        yield (
            f"{number_of(panel.judged, 'thing')} judged, {panel.undecided:,} without a majority; "
            f"Fleiss' kappa {kappa}, Krippendorff's alpha {alpha}."
        )
    missing_reasons = Counter(verdict.reason.partition(":")[0] for verdict in graded.verdicts if not verdict.outcome)
    if missing_reasons:
        reasons = safe(", ".join(f"{reason} ({count:,})" for reason, count in missing_reasons.most_common(3)))
        yield f"{missing_reasons.total():,} of {len(graded.verdicts):,} verdicts are missing: {reasons}."
    usage = graded.usage
    tokened = f"{tokens(usage.input)} tokens in, {tokens(usage.output)} out" if usage else "tokens not known"
    from_earlier = earlier_cost = ""
    if graded.earlier:
        from_earlier = f", {graded.earlier:,} of these paid for by an earlier judging that was interrupted"
        earlier_cost = f" ({dollars(graded.cost_paid_earlier)} of it by the earlier judging)"
    yield (
        f"{number_of(graded.calls, 'model call')}: {graded.calls - graded.reused:,} made now, "
        f"{graded.reused:,} from the journal{from_earlier}; {tokened}; paid {dollars(graded.cost_paid)}{earlier_cost}, "
        f"full price {dollars(graded.cost_uncached)}."
    )
    yield from _constant_judge_lines(graded)
    if graded.unprobed:
        yield f"The judge was not probed ({safe(graded.unprobed)}): nothing shows how far it wavers, or that it reads."
    yield from (safe(line) for gate in graded.gates for line in gate.words)
    for text in graded.other_models:
        yield f"Note: the judge's calls were {safe(text)}."
    if graded.same_model:
        subject = safe(", ".join(graded.same_model)) if panel else "The judge"
        yield f"Note: {subject} is also the model that wrote these answers; it may favour itself."
    for judge in graded.inside:
        yield f"Note: {safe(judge)} is also the judge inside the agent: what it likes was chosen before."


_EXCERPT_LENGTH = 120
"""Number of characters that are shown of a reply that could not be read."""


def unreadable_lines(judged_runs: JudgedRuns) -> Iterator[str]:
    """Yield which format was expected of judges whose replies could not be read, and an example of a reply."""
    for reply in judged_runs.unreadable:
        excerpt = repr(one_line(reply.text, _EXCERPT_LENGTH)) if reply.text.strip() else "nothing"
        yield f"{safe(reply.judge)} was asked to end with {reply.expected_form}. It said: {excerpt}"
    if judged_runs.silent:
        yield (
            "These replies are in the journal, and the same command reads them again. If the judge was repaired "
            "since, --journal fresh asks it again; --fail-after never continues whatever it replies."
        )


_MIN_VERDICTS = 6
"""Minimum number of verdicts for the remark that a judge always says the same; of two answers it means nothing."""


def _constant_judge_lines(graded: JudgedRun) -> Iterator[str]:
    panel, verdicts_by_judge = (
        graded.panel is not None,
        Counter(verdict.judge for verdict in graded.verdicts if verdict.outcome),
    )
    for judge, label in graded.constant.items():
        if verdicts_by_judge[judge] >= _MIN_VERDICTS or panel:
            agreement = "No agreement with it is defined. " if panel else ""
            yield (
                f"Note: {safe(judge)} said {label!r} of all {verdicts_by_judge[judge]:,} things it judged. {agreement}"
                "Nothing shows that it reads. Set it against people (`ragrounds judge sheet`), or take another judge."
            )
