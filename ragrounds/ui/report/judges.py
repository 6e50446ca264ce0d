"""Verdicts of judges in a report, and their agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.judges.labels import answer_of
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.recorded import JudgeFinder, RecordedVerdicts, ScoreJudges, recorded_verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats import compare_with_human, stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.report.sections import ReportPart
from ragrounds.ui.tables.comparison_words import short_models
from ragrounds.ui.text import TOO_FEW, UNKNOWN, ends, figure_text, one_line, percent

SCORED = "as scored"
"""Label of the verdicts in the stored scores: those of the last judge, or the majority of the last panel.

If a single judge is known to have given them, that judge's row is marked with this label.
"""
_MUST, _NICE = "must have", "nice to have"

Verdicts = Mapping[str, str | None]


def verdict_parts(
    store: Store,
    runs: Sequence[Run],
    seed: int = 0,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ReportPart]:
    """Yield tables for every judging method whose verdicts are labels, over each run's first epoch.

    `names` holds run id → name.
    """
    find = JudgeFinder(store)
    for method, kind in judge_methods().items():
        if not isinstance(kind, LabelMethod):
            continue
        judged_runs = [
            (names.get(run.id, one_line(run.agent, 60)), run, run_verdicts)
            for run in runs
            if (run_verdicts := _score_verdicts(store, run, kind))
        ]
        if not judged_runs:
            continue
        rows: list[tuple[str, ...]] = []
        agreed: list[tuple[str, ...]] = []
        remarks: list[str] = []
        called = short_models(judge for _, run, _ in judged_runs for judge in store.judges(run))
        if full_names := [f"{short} is {one_line(judge, 200)}" for judge, short in called.items() if short != judge]:
            remarks.append(f"{'; '.join(full_names)}.")
        for name, run, scored in judged_runs:
            axes = _axes(store, run, kind)
            sides = _table_verdicts(
                scored, recorded_verdicts(store, run, kind), find(run, kind.scorers[-1].name), called
            )
            rows += [
                (name, judge_verdicts.judge, axis, *_shares(judge_verdicts.verdicts, item_ids, kind, seed))
                for judge_verdicts in sides
                for axis, item_ids in axes.items()
            ]
            judges = [
                judge_verdicts
                for judge_verdicts in sides
                if not judge_verdicts.judge.startswith(SCORED) and any(judge_verdicts.verdicts.values())
            ]
            remarks += [
                f"{name}: {judge_verdicts.judge} gave no verdict at all; it is in no agreement."
                for judge_verdicts in sides
                if not any(judge_verdicts.verdicts.values())
            ]
            for first, second in combinations(judges, 2):
                agreed += _pair(name, first, second)
        # A single run needs no column for its name.
        run_column = [words("run", lambda row: row[0])] if len(judged_runs) > 1 else []
        shares = [name for label in kind.labels for name in (f"{label} %", "95 %")]
        heads = (("judge", False), ("axis", False), *((name, True) for name in ("verdicts", "missing", *shares)))
        yield table_of("verdicts", rows, [*run_column, *_cells(heads)], title=f"{method}: verdicts, by judge and axis")
        if agreed:
            measures = ("items", "same %", "95 %", "kappa", "95 %")
            heads = (("one", False), ("other", False), *((name, True) for name in measures))
            title = f"{method}: agreement (Cohen's kappa: 1 perfect, 0 as by chance)"
            yield table_of("agreement", agreed, [*run_column, *_cells(heads)], title=title)
        yield from remarks


def _cells(heads: Sequence[tuple[str, bool]]) -> Iterator[Column]:
    """Yield the columns of rows of text that follow the run's name."""
    for index, (name, right) in enumerate(heads, 1):
        yield Column(name, lambda row, index=index: row[index], right=right)  # type: ignore[misc]


def _table_verdicts(
    scored: Verdicts, recorded: Sequence[RecordedVerdicts], score_judges: ScoreJudges | None, names: Mapping[str, str]
) -> list[RecordedVerdicts]:
    """Return the verdicts for the tables: those in the scores first, then each judge's under its short name."""
    by_judge = [
        replace(judge_verdicts, judge=names.get(judge_verdicts.judge, one_line(judge_verdicts.judge, 60)))
        for judge_verdicts in recorded
    ]
    if score_judges is not None and score_judges.known and not score_judges.panel:
        (judge,) = score_judges.judges
        first = [index for index, judge_verdicts in enumerate(recorded) if judge_verdicts.judge == judge]
        if first:
            marked = replace(by_judge[first[0]], judge=f"{by_judge[first[0]].judge} ({SCORED})")
            return [marked, *(judge_verdicts for index, judge_verdicts in enumerate(by_judge) if index != first[0])]
    label = f"{SCORED} (majority)" if score_judges is not None and score_judges.panel else SCORED
    return [RecordedVerdicts(judge=label, verdicts=dict(scored)), *by_judge]


def _score_verdicts(store: Store, run: Run, kind: LabelMethod) -> dict[str, str | None]:
    """Return the verdicts in the scores. An answer without a text was never sent to a judge and has none."""
    return {
        item_id: verdict
        for score in store.scores(run, kind.scorers[-1].name)
        if score.epoch == 0
        for item_id, verdict in kind.verdicts(score).items()
        if verdict is not None or score.value is None
    }


def _axes(store: Store, run: Run, kind: LabelMethod) -> dict[str, list[str]]:
    """Return axis → its items: the grade alone, or must-have and nice-to-have statements separately."""
    questions, golds = store.questions(run)
    axes: dict[str, list[str]] = {}
    for question in questions:
        gold = golds[question.id]
        if not kind.fits(question, gold):
            continue
        for item_id in kind.items(gold):
            if item_id == question.id or question.metadata.get("facts") == "rubric":
                axes.setdefault("grade", []).append(item_id)
            else:
                fact = gold.facts[int(item_id.rpartition("#")[2]) - 1] if gold.facts else ()
                axes.setdefault(_NICE if len(fact) > 1 else _MUST, []).append(item_id)
    return axes


def _shares(verdicts: Verdicts, item_ids: Sequence[str], kind: LabelMethod, seed: int) -> tuple[str, ...]:
    labelled = [(item_id, label) for item_id in item_ids if (label := verdicts.get(item_id)) is not None]
    missing = sum(item_id in verdicts for item_id in item_ids) - len(labelled)
    cells = [f"{len(labelled):,}", f"{missing:,}"]
    for label in kind.labels:
        values = [float(verdict == label) for _, verdict in labelled]
        share = (
            stratified_mean(values, clusters=[answer_of(item_id) for item_id, _ in labelled], seed=seed)
            if values
            else None
        )
        cells += [UNKNOWN, UNKNOWN] if share is None else [percent(share.value, 1), ends(share.low, share.high)]
    return tuple(cells)


def _pair(run: str, first: RecordedVerdicts, second: RecordedVerdicts) -> list[tuple[str, ...]]:
    item_ids = [item_id for item_id in first.verdicts if first.verdicts[item_id] and second.verdicts.get(item_id)]
    if not item_ids:
        return []
    agreement = compare_with_human(
        [first.verdicts[item_id] for item_id in item_ids],
        [second.verdicts[item_id] for item_id in item_ids],
        [answer_of(item_id) for item_id in item_ids],
    )
    low, high, same = agreement.kappa_low, agreement.kappa_high, agreement.accuracy
    interval = TOO_FEW if low is None or high is None else f"{_number(low)} to {_number(high)}"
    figures = f"{agreement.n:,}", percent(same.value, 1), ends(same.low, same.high), _number(agreement.kappa), interval
    return [(run, first.judge, second.judge, *figures)]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else figure_text(value, ".2f")
