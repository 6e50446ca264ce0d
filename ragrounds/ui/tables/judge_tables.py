"""The verdicts and costs of judges, and their agreement with people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ragrounds.base.spent import Spent, known_sum, total_spent
from ragrounds.evals.judges.bill import JudgedRun
from ragrounds.evals.judges.runs import JudgedRuns
from ragrounds.ui.tables.comparison_words import short_models
from ragrounds.ui.text import dollars, number_of, one_line, safe, tokens

_MAX_REMARKS = 3
"""Maximum number of remarks that are printed by default."""
_KINDS = (
    "withheld", "panel", "missing", "constant", "not probed", "probes", "other models", "same model", "inside",
    "detail",
)  # fmt: skip
"""Kinds of remarks, the most important first."""


def bill_lines(judged: JudgedRuns, *, full: bool = False) -> Iterator[str]:
    """Yield what was judged, by which judges, the costs, and remarks, each once with the runs that it is about.

    With `full`, all remarks; else one of each kind, and at most three. The kinds are in the order of :data:`_KINDS`.
    """
    runs, is_written = judged.runs, not judged.mute
    verdicts_by_judge = _verdict_counts(runs)
    # Answers whose verdicts are all missing were sent to a judge, but were not judged.
    judged_answers = sum(run.attempts for run in runs if _verdict_counts([run]) or not run.verdicts)
    judges = short_models(runs[0].judges)
    silent = [judge for judge in judges if verdicts_by_judge and not verdicts_by_judge[judge]]
    answering_judges = ", ".join(name for judge, name in judges.items() if judge not in silent)
    subject = runs[0].run if len(runs) == 1 else number_of(len(runs), "run")
    parts = [f"{safe(subject)}: {number_of(judged_answers, 'answer')} judged by {answering_judges}"]
    parts += [f"{safe(', '.join(silent))} gave no verdict"] if silent else []
    missing, left = (sum(getattr(run, name) for run in runs) for name in ("missing", "left"))
    parts.append(f"{number_of(missing, 'score')} missing" if is_written or not silent else "no score was written")
    parts += [f"{number_of(left, 'answer')} not judged"] if left else []
    yield "; ".join(parts) + "."
    yield _costs_text(runs)
    runs_by_remark = dict[tuple[str, str], list[str]]()
    for run in runs:
        for kind, remark in _remarks(run, silent):
            runs_by_remark.setdefault((kind, remark), []).append(run.run)
    in_order = sorted(runs_by_remark, key=lambda remark: _KINDS.index(remark[0]))
    first_of_kind = dict(reversed(in_order))
    shown = 0
    for kind, remark in in_order:
        run_ids = runs_by_remark[kind, remark]
        if full or (first_of_kind[kind] == remark and shown < _MAX_REMARKS):
            shown += 1
            yield remark if len(run_ids) == len(runs) else f"{safe(', '.join(run_ids))}: {remark}"
    if hidden := len(runs_by_remark) - shown:
        yield f"{number_of(hidden, 'more remark')}: --full."


def _verdict_counts(runs: Iterable[JudgedRun]) -> Counter[str]:
    return Counter(verdict.judge for run in runs for verdict in run.verdicts if verdict.outcome)


def _costs_text(runs: Sequence[JudgedRun]) -> str:
    spent = total_spent(
        Spent(usage=run.usage, cost_paid=run.cost_paid, cost_uncached=run.cost_uncached) for run in runs
    )
    usage = spent.usage
    calls, reused, earlier = (sum(getattr(run, name) for run in runs) for name in ("calls", "reused", "earlier"))
    tokened = f"{tokens(usage.input)} tokens in, {tokens(usage.output)} out" if usage else "tokens not known"
    from_earlier = earlier_cost = ""
    if earlier:
        paid_earlier = known_sum(run.cost_paid_earlier for run in runs)
        from_earlier = f", {earlier:,} of these paid for by an earlier judging that was interrupted"
        earlier_cost = f" ({dollars(paid_earlier)} of it by the earlier judging)"
    return (
        f"{number_of(calls, 'model call')}: {calls - reused:,} made now, {reused:,} from the journal{from_earlier}; "
        f"{tokened}; paid {dollars(spent.cost_paid)}{earlier_cost}, full price {dollars(spent.cost_uncached)}."
    )


def _remarks(graded: JudgedRun, silent: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the remarks on a run's judges, each with its kind: their agreement, missing verdicts, probes, and what may
    bias them.
    """
    panel, verdicts_by_judge = graded.panel, _verdict_counts([graded])
    if panel and silent:
        counts = ", ".join(f"{safe(judge)} {verdicts_by_judge[judge]:,}" for judge in graded.judges)
        yield "panel", f"Verdicts by judge, of {number_of(panel.judged, graded.noun)}: {counts}."
    elif panel:
        kappa, alpha = (f"{value:.3f}" if value is not None else "-" for value in (panel.kappa, panel.alpha))
        yield (
            "panel",
            f"{number_of(panel.judged, graded.noun)} judged, {panel.undecided:,} without a majority; "
            f"Fleiss' kappa {kappa}, Krippendorff's alpha {alpha}.",
        )
    missing_reasons = Counter(verdict.reason.partition(":")[0] for verdict in graded.verdicts if not verdict.outcome)
    if missing_reasons:
        reasons = safe(", ".join(f"{reason} ({count:,})" for reason, count in missing_reasons.most_common(3)))
        yield "missing", f"{missing_reasons.total():,} of {len(graded.verdicts):,} verdicts are missing: {reasons}."
    for remark in _constant_judge_lines(graded, verdicts_by_judge):
        yield "constant", remark
    if graded.unprobed:
        subject = "The judges were" if panel else "The judge was"
        yield (
            "not probed",
            f"{subject} not probed ({safe(graded.unprobed)}): nothing shows whether a verdict is stable.",
        )
    for gate in graded.gates:
        yield "withheld" if gate.withheld else "probes", safe(gate.words[0])
    for text in graded.other_models:
        yield "other models", f"Note: the judge's calls were {safe(text)}."
    if graded.same_model:
        subject = safe(", ".join(graded.same_model)) if panel else "The judge"
        yield "same model", f"Note: {subject} is also the model that wrote these answers; it may favour itself."
    for judge in graded.inside:
        yield "inside", f"Note: {safe(judge)} is also the judge inside the agent: what it likes was chosen before."
    for gate in graded.gates:
        for line in gate.words[1:]:
            yield "detail", safe(line)


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


def _constant_judge_lines(graded: JudgedRun, verdicts_by_judge: Counter[str]) -> Iterator[str]:
    agreement = "No agreement with it is defined. " if graded.panel else ""
    for judge, label in graded.constant.items():
        if verdicts_by_judge[judge] >= _MIN_VERDICTS or graded.panel:
            judged = number_of(verdicts_by_judge[judge], graded.noun)
            yield (
                f"Note: {safe(judge)} said {label!r} of all {judged} it judged. {agreement}"
                "Nothing shows that it reads. Set it against people (`ragrounds judge sheet`), or take another judge."
            )
