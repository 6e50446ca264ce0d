"""What judges said of the runs of a report, how far they agree with each other.

The arenas that were played between the runs of a report: ratings, wins, and what judges and people agree on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from msgspec.structs import replace

from ragrounds.base.records import Run
from ragrounds.evals.arena.lineup import REFERENCE, gather_lineup
from ragrounds.evals.arena.report import arena_report
from ragrounds.evals.judges.labels import answer_of
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.recorded import JudgeFinder, RecordedVerdicts, ScoreJudges, recorded_verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats import compare_with_human, stratified_mean
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.store import Store
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.arena_tables import arena_parts
from ragrounds.ui.tables.comparison_words import short_judges
from ragrounds.ui.text import TOO_FEW, UNKNOWN, ends, figure_text, one_line, percent

SCORED = "as scored"
"""The verdicts that the scores in the store rest on: the last judge's, or the majority of the last panel. Where one
judge is known to have given them, its own row is marked so."""
_MUST, _NICE = "must have", "nice to have"

ReportPart = TextTable | str
Verdicts = Mapping[str, str | None]


def verdict_parts(
    store: Store,
    runs: Sequence[Run],
    seed: int = 0,
    names: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[ReportPart]:
    """Sheets of every kind of judging whose verdicts are labels, of each run's first epoch. `names` holds run id → what
    it is called."""
    find = JudgeFinder(store)
    for method, kind in judge_methods().items():
        if not isinstance(kind, LabelMethod):
            continue
        judged = [
            (names.get(run.id, one_line(run.agent, 60)), run, found)
            for run in runs
            if (found := _scored(store, run, kind))
        ]
        if not judged:
            continue
        rows: list[tuple[str, ...]] = []
        agreed: list[tuple[str, ...]] = []
        remarks: list[str] = []
        called = short_judges(judge for _, run, _ in judged for judge in store.judges(run))
        if whole := [f"{short} is {one_line(judge, 200)}" for judge, short in called.items() if short != judge]:
            remarks.append(f"{'; '.join(whole)}.")
        for name, run, scored in judged:
            axes = _axes(store, run, kind)
            sides = _sides(scored, recorded_verdicts(store, run, kind), find(run, kind.scorers[-1].name), called)
            rows += [
                (name, said.judge, axis, *_shares(said.verdicts, items, kind, seed))
                for said in sides
                for axis, items in axes.items()
            ]
            judges = [said for said in sides if not said.judge.startswith(SCORED) and any(said.verdicts.values())]
            remarks += [
                f"{name}: {said.judge} gave no verdict at all; it is in no agreement."
                for said in sides
                if not any(said.verdicts.values())
            ]
            for one, other in combinations(judges, 2):
                agreed += _pair(name, one, other)
        # Without the run's name where there is one run.
        named = [words("run", lambda row: row[0])] if len(judged) > 1 else []
        shares = [name for label in kind.labels for name in (f"{label} %", "95 %")]
        heads = (("judge", False), ("axis", False), *((name, True) for name in ("verdicts", "missing", *shares)))
        yield table_of("verdicts", rows, [*named, *_cells(heads)], title=f"{method}: verdicts, by judge and axis")
        if agreed:
            measures = ("items", "same %", "95 %", "kappa", "95 %")
            heads = (("one", False), ("other", False), *((name, True) for name in measures))
            title = f"{method}: agreement (Cohen's kappa: 1 perfect, 0 as by chance)"
            yield table_of("agreement", agreed, [*named, *_cells(heads)], title=title)
        yield from remarks


def _cells(heads: Sequence[tuple[str, bool]]) -> Iterator[Column]:
    """The columns of rows of text behind the run's name."""
    for place, (name, right) in enumerate(heads, 1):
        yield Column(name, lambda row, place=place: row[place], right=right)  # type: ignore[misc]


def _sides(
    scored: Verdicts, recorded: Sequence[RecordedVerdicts], by: ScoreJudges | None, names: Mapping[str, str]
) -> list[RecordedVerdicts]:
    """Whose verdicts stand in the tables: those in the scores first, then each judge's own by its short name."""
    own = [replace(said, judge=names.get(said.judge, one_line(said.judge, 60))) for said in recorded]
    if by is not None and by.known and not by.panel:
        (judge,) = by.judges
        first = [place for place, said in enumerate(recorded) if said.judge == judge]
        if first:
            marked = replace(own[first[0]], judge=f"{own[first[0]].judge} ({SCORED})")
            return [marked, *(said for place, said in enumerate(own) if place != first[0])]
    label = f"{SCORED} (majority)" if by is not None and by.panel else SCORED
    return [RecordedVerdicts(judge=label, verdicts=dict(scored)), *own]


def _scored(store: Store, run: Run, kind: LabelMethod) -> dict[str, str | None]:
    """The verdicts in the scores; an answer without a text was put to nobody."""
    return {
        item: verdict
        for score in store.scores(run, kind.scorers[-1].name)
        if score.epoch == 0
        for item, verdict in kind.verdicts(score).items()
        if verdict is not None or score.value is None
    }


def _axes(store: Store, run: Run, kind: LabelMethod) -> dict[str, list[str]]:
    """Axis → its items: the one grade, or must-have and nice-to-have statements apart."""
    questions, golds = store.questions(run)
    axes: dict[str, list[str]] = {}
    for question in questions:
        gold = golds[question.id]
        if not kind.fits(question, gold):
            continue
        for item in kind.items(gold):
            if item == question.id or question.metadata.get("facts") == "rubric":
                axes.setdefault("grade", []).append(item)
            else:
                fact = gold.facts[int(item.rpartition("#")[2]) - 1] if gold.facts else ()
                axes.setdefault(_NICE if len(fact) > 1 else _MUST, []).append(item)
    return axes


def _shares(said: Verdicts, items: Sequence[str], kind: LabelMethod, seed: int) -> tuple[str, ...]:
    given = [(item, label) for item in items if (label := said.get(item)) is not None]
    missing = sum(item in said for item in items) - len(given)
    cells = [f"{len(given):,}", f"{missing:,}"]
    for label in kind.labels:
        values = [float(one == label) for _, one in given]
        share = stratified_mean(values, clusters=[answer_of(item) for item, _ in given], seed=seed) if values else None
        cells += [UNKNOWN, UNKNOWN] if share is None else [percent(share.value, 1), ends(share.low, share.high)]
    return tuple(cells)


def _pair(run: str, one: RecordedVerdicts, other: RecordedVerdicts) -> list[tuple[str, ...]]:
    items = [item for item in one.verdicts if one.verdicts[item] and other.verdicts.get(item)]
    if not items:
        return []
    found = compare_with_human(
        [one.verdicts[item] for item in items],
        [other.verdicts[item] for item in items],
        [answer_of(item) for item in items],
    )
    low, high, same = found.kappa_low, found.kappa_high, found.accuracy
    interval = TOO_FEW if low is None or high is None else f"{_number(low)} to {_number(high)}"
    figures = f"{found.n:,}", percent(same.value, 1), ends(same.low, same.high), _number(found.kappa), interval
    return [(run, one.judge, other.judge, *figures)]


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else figure_text(value, ".2f")


def played_arenas(store: Store, runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[ReportPart]:
    """Sheets and remarks of every stored arena whose systems are among these runs (the reference answers apart);
    `names` holds run id → what it is called."""
    keeper = ArenaStore(store)
    reported = {run.id for run in runs}
    for arena in keeper.arenas():
        playing = [system.run for system in arena.systems if system.run]
        if not playing or not set(playing) <= reported:
            continue
        with_reference = any(system.name == REFERENCE and not system.run for system in arena.systems)
        field = gather_lineup(store, playing, reference=with_reference, epoch=arena.epoch, part=arena.part)
        if field.version != arena.questions:
            yield f"{arena.id} is left out: the runs have other answers now than when it was played."
            continue
        yield from arena_parts(arena_report(keeper, arena, field, names=names))
