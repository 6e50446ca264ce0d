"""People as the measure of a judge: what they label, on a sheet or in the terminal, how far a judge agrees with them,
and its figures corrected by their labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Struct, structs
from msgspec.structs import asdict

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.workspace import opened_runs, replaced
from ragrounds.base.errors import UserError
from ragrounds.base.files import as_csv, broken, read_sheet, shown
from ragrounds.base.records import Question, Run
from ragrounds.evals.judges.corrected import (
    CategoryAgreement,
    Corrections,
    JudgedRow,
    JudgePrice,
    PeopleAgreement,
    correct,
    judged_rows,
    label_chances,
)
from ragrounds.evals.judges.gate import WITHHELD
from ragrounds.evals.judges.labels import (
    ALLOWED,
    ITEM,
    MARKS,
    TEXTS,
    HumanLabels,
    agreement,
    disputed_labels,
    judge_agreements,
    label_sheet,
    people_labels,
    pooled,
    shown_items,
)
from ragrounds.evals.judges.methods import by_panel, label_method, verdicts, was_judged
from ragrounds.evals.judges.recorded import JudgeFinder, RecordedVerdicts, ScoreJudges, recorded_verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.store.ledger import JUDGING, ledger
from ragrounds.evals.store.store import Store
from ragrounds.ui.text import one_line


class WrittenSheet(Struct, frozen=True):
    """A sheet that was written for people to label."""

    items: int
    of: int
    """Judged items that there are."""
    labels: tuple[str, ...]


class AgreementResult(Struct, frozen=True):
    """How far a judge and people agree."""

    agreement: PeopleAgreement
    raters: int
    """People who labelled."""


_Kind = Annotated[str, Arg("What was judged: a --kind of `judge run`, or 'rubric[…]' as tables name it.")]
_Epoch = Annotated[int, Arg("Which of the run's epochs, from 0.", 0)]


class SheetArguments(Struct, frozen=True):
    """What people are asked to label."""

    runs: arguments.Runs
    out: Annotated[Path, Arg("The file to write.", short="-o")] = Path("labels.csv")
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    limit: Annotated[int | None, Arg("Only this many, drawn by `seed`.", 1, short="-n")] = None
    seed: arguments.Seed = 0
    raters: Annotated[
        Sequence[str], Arg("A column for this rater (repeatable). [default: one, label]", option="--rater", many=True)
    ] = ()
    force: arguments.Force = False
    settings: arguments.OwnSettings = None


class AgreementArguments(Struct, frozen=True):
    """Which labels a run's verdicts are set against."""

    runs: arguments.Runs
    human: Annotated[
        str | Path,
        Arg(
            "CSV: a column of items, the digests or texts of the answers that people saw, and one column of labels a "
            "rater; or kqa:FOLDER, K-QA's physicians' labels of recorded answers."
        ),
    ]
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    item: Annotated[str, Arg("The column with the items.")] = "item"
    raters: Annotated[
        Sequence[str], Arg("A rater's column (repeatable). [default: all others]", option="--rater", many=True)
    ] = ()
    width: Annotated[
        float | None, Arg("Say how many more labels make intervals this wide: 0.1 is 10 percent points.", 0)
    ] = None
    settings: arguments.OwnSettings = None


def _judged(method: LabelMethod, epoch: int) -> Callable[[Store, Run], bool]:
    """Whether a run was judged in this way: of an agent's runs the newest such is meant."""
    return lambda store, run: was_judged(store, run, method, epoch)


_PARTS: dict[str, Callable[[Run, Question], str]] = {
    "agent": lambda run, _: run.id,
    "dataset": lambda _, question: question.benchmark,
    "subject": lambda _, question: question.group,
}
"""What agreement is split by."""


def _categories(
    store: Store, runs: Sequence[Run], said: Mapping[str, Mapping[str, str | None]], labels: HumanLabels
) -> tuple[CategoryAgreement, ...]:
    """The agreement on the items of every agent, dataset and subject, where there are several of a kind."""
    places = {}
    for run in runs:
        of = {one.id: one for one in store.questions(run)[0]}
        places[run.id] = {item: (run, of.get(item) or of[item.rpartition("#")[0]]) for item in said[run.id]}
    verdict = pooled(said)
    made = []
    for kind, name_of in _PARTS.items():
        parts: dict[str, dict[str, str | None]] = {}
        for item, (run, question) in pooled(places).items():
            parts.setdefault(name_of(run, question), {})[item] = verdict[item]
        for name, part in sorted(parts.items()) if len(parts) > 1 else ():
            if any(part.get(item) for item in labels.gold):
                made.append(CategoryAgreement(of=kind, name=name, agreement=agreement(part, labels).judge))
    return tuple(made)


class _Figures:
    """The judged figures of runs under people's labels, by the scores in the store or by one judge's verdicts."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[Run],
        method: LabelMethod,
        labels: HumanLabels,
        chances: Mapping[tuple[str, str], float],
        epoch: int,
        said: Mapping[str, Mapping[str, str | None]],
    ) -> None:
        self._store, self._runs, self._method, self._epoch, self._said = store, runs, method, epoch, said
        names, gold = pooled({run: {item: (run, item) for item in of} for run, of in said.items()}), labels.gold
        labelled = {place: gold[name] for name, place in names.items() if name in gold}
        self.drawn = bool(labelled) and all(place in chances for place in labelled)
        self._people = {run.id: {item: label for (of, item), label in labelled.items() if of == run.id} for run in runs}
        self._chances = {
            run.id: {item: chance for (of, item), chance in chances.items() if of == run.id and self.drawn}
            for run in runs
        }

    def _rows(
        self, runs: Sequence[Run], said: Mapping[str, Mapping[str, str | None]]
    ) -> Iterator[tuple[str, dict[str, list[JudgedRow]]]]:
        """Each scorer with the answers of each run; `said` are the verdicts by run."""
        of_runs = {
            run.id: judged_rows(
                self._store,
                run,
                self._method,
                said[run.id],
                self._people[run.id],
                self._chances[run.id],
                self._epoch,
            )
            for run in runs
        }
        for scorer in self._method.scorers:
            yield scorer.name, {run: rows[scorer.name] for run, rows in of_runs.items()}

    def corrections(self, width: float | None) -> tuple[Corrections, ...]:
        """Of every scorer."""
        rows_of = self._rows(self._runs, self._said)
        return tuple(self._shown(correct(name, rows, drawn=self.drawn, width=width), name) for name, rows in rows_of)

    def _shown(self, found: Corrections, scorer: str) -> Corrections:
        """Without the judge's own figures of runs whose scores are withheld; people's labels correct those, too."""
        why = {
            run.id: score.reason
            for run in self._runs
            for score in self._store.scores(run, scorer)
            if score.value is None and score.reason.startswith(WITHHELD) and score.epoch == self._epoch
        }
        return structs.replace(
            found,
            figures=tuple(structs.replace(one, judge=None) if one.run in why else one for one in found.figures),
            differences=tuple(
                structs.replace(one, judge=None) if why.keys() & {one.run, one.first} else one
                for one in found.differences
            ),
            notes=(*found.notes, *(f"by the judge, {run}: {reason}" for run, reason in why.items())),
        )

    def prices(self, recorded: Mapping[str, Mapping[str, Mapping[str, str | None]]]) -> tuple[JudgePrice, ...]:
        """Of every judge whose replies are kept, where there are several; `recorded` is run → judge → its verdicts."""
        judges = dict.fromkeys(judge for of in recorded.values() for judge in of)
        if len(judges) < 2:
            return ()
        lines = ledger(self._store, self._runs, ("role", "model")).lines
        costs = {line.model: line.cost_uncached for line in lines if line.role == JUDGING}
        made = []
        for judge in judges:
            said = {run: of.get(judge, {}) for run, of in recorded.items()}
            name, rows = next(self._rows(self._runs[:1], said))
            (figure,) = correct(name, rows).figures
            found = figure.corrected
            width = found.high - found.low if found else None
            made.append(JudgePrice(judge=judge, cost=costs.get(judge), width=width, effective=figure.effective))
        return tuple(sorted(made, key=lambda one: math.inf if one.width is None else one.width))


def _by_all(store: Store, runs: Sequence[Run], method: LabelMethod) -> ScoreJudges | None:
    """Who gave the verdicts of all of these runs; ``None``: it is not kept, or not the same everywhere."""
    find = JudgeFinder(store)
    first, *others = (find(run, method.scorers[-1].name) for run in runs)
    return first if all(one == first for one in others) else None


@takes(SheetArguments)
def write_label_sheet(given: SheetArguments) -> WrittenSheet:
    """Write judged answers to a CSV file for people to label, blind to the verdicts.

    Items are drawn and ordered by the seed; a smaller sample is a part of a larger one.

    Raises:
        UserError: an unknown run or kind; nothing was judged; a file that is there and `force` is not set.
    """
    wanted, raters = label_method(given.kind), given.raters or ("label",)
    with opened_runs(given.runs, given.settings, suits=_judged(wanted, given.epoch)) as (store, found):
        sheet = label_sheet(store, found, wanted, epoch=given.epoch, limit=given.limit, seed=given.seed, raters=raters)
    with replaced(given.out, given.force) as file:
        file.write(sheet.csv())
    return WrittenSheet(len(sheet.rows), sheet.of, tuple(wanted.labels))


@takes(AgreementArguments)
def judge_agreement(given: AgreementArguments) -> AgreementResult:
    """Set the verdicts in the store against people's labels. No model is asked. A label whose answer is another now is
    left out, and named.

    Raises:
        UserError: an unknown run, kind or label; no item has both a verdict and a majority of people.
    """
    wanted, human = label_method(given.kind), given.human
    labels = people_labels(human, item=given.item, raters=given.raters)
    labelled = {label for row in labels.items.values() for label in row if label}
    unknown = sorted(labelled - set(wanted.labels))
    if unknown:
        raise UserError(
            f"{human}: the label {one_line(unknown[0])!r} is not one of {', '.join(wanted.labels)}. Give the columns "
            "with labels with --rater."
        )
    epoch = given.epoch
    with opened_runs(given.runs, given.settings, suits=_judged(wanted, epoch)) as (store, found):
        of_runs = {run.id: verdicts(store, run, wanted, epoch) for run in found}
        chances = label_chances(labels)
        labels, changed = labels.of({run.id: shown_items(store, run, wanted, epoch) for run in found})
        recorded = {
            run.id: {one.judge: one.verdicts for one in recorded_verdicts(store, run, wanted, epoch)} for run in found
        }
        panel, by = any(by_panel(store, run, wanted) for run in found), _by_all(store, found, wanted)
        figures = _Figures(store, found, wanted, labels, chances, epoch, of_runs)
        corrections, prices = figures.corrections(given.width), figures.prices(recorded)
        categories = _categories(store, found, of_runs, labels)
    said = pooled(of_runs)
    judges = [
        RecordedVerdicts(judge=name, verdicts=pooled({run: of.get(name, {}) for run, of in recorded.items()}))
        for name in dict.fromkeys(name for of in recorded.values() for name in of)
    ]
    try:
        agreed = PeopleAgreement(**asdict(agreement(said, labels)))
        agreed = structs.replace(
            agreed,
            changed=changed,
            panel=panel,
            by=by,
            undecided_judges=disputed_labels(judges, said, labels) if panel else 0,
            judges=judge_agreements(judges, labels),
            categories=categories,
            corrections=corrections,
            prices=prices,
        )
        return AgreementResult(agreed, len(labels.raters))
    except ValueError:
        if changed:
            ids = ", ".join(run.id for run in found)
            raise UserError(
                f"{human}: the answers to {', '.join(map(one_line, changed[:5]))}{' …' if len(changed) > 5 else ''} "
                f"in {ids} have changed since people labelled them ({len(changed):,} of "
                f"{len(labels.items) + len(changed):,} labelled items), and no other item has both labels."
            ) from None
        first = next(iter(said))
        raise UserError(
            f"{human}: none of its items has both a majority of people and a verdict. Items look like {first!r}."
        ) from None


class LabelArguments(Struct, frozen=True):
    """What a person labels in the terminal."""

    runs: arguments.Runs
    rater: Annotated[str, Arg("Who labels: the column of the sheet.")] = "label"
    file: Annotated[Path, Arg("The sheet; one that is not there is written.", option="--labels")] = Path("labels.csv")
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    limit: Annotated[int | None, Arg("Of a new sheet: only this many, drawn by `seed`.", 1, short="-n")] = None
    seed: arguments.Seed = 0
    settings: arguments.OwnSettings = None


class Labelling(Struct, frozen=True, kw_only=True):
    """A person's labels in a sheet: the items to be shown, and what is kept of them."""

    file: Path
    rater: str
    labels: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    """Of these runs, in the sheet's order, without any verdict."""

    def keep(self, row: Mapping[str, str], label: str) -> None:
        """Write a label, empty to take one back; it is on the disk when this returns. What others wrote into the sheet
        meanwhile stays.

        Raises:
            UserError: the sheet cannot be read or written any more, or has lost this item.
        """
        rows = [each for _, each in read_sheet(self.file, (ITEM,))]
        same = [each for each in rows if _place(each) == _place(row)]
        if not same:
            raise broken(self.file, f"it no longer has the item {shown(row[ITEM])}")
        for each in rows:
            each[self.rater] = label if each is same[0] else each.get(self.rater, "")
        with replaced(self.file, force=True) as file:
            file.write(as_csv(list(rows[0]), [list(each.values()) for each in rows]))


def _place(row: Mapping[str, str]) -> tuple[str, str]:
    return row.get("run", ""), row[ITEM]


@takes(LabelArguments)
def labelling(given: LabelArguments) -> Labelling:
    """Label judged answers in the terminal, blind to the verdicts, in a sheet as :func:`write_label_sheet` writes it.

    Raises:
        UserError: as there; a sheet that holds no item of these runs, or a rater's name that is a text's column.
    """
    method, rater = label_method(given.kind), given.rater.strip()
    if not rater or rater in {ITEM, *TEXTS, *MARKS}:
        raise UserError(f"--rater {given.rater!r} is empty, or a column of the sheet's own. Give a name.")
    if not given.file.exists():
        write_label_sheet(
            given.runs,
            given.file,
            kind=given.kind,
            epoch=given.epoch,
            limit=given.limit,
            seed=given.seed,
            raters=[rater],
            settings=given.settings,
        )
    with opened_runs(given.runs, given.settings, suits=_judged(method, given.epoch)) as (_, found):
        ids = {run.id for run in found}
    rows = [row for _, row in read_sheet(given.file, (ITEM, *TEXTS, "run"))]
    own = tuple(row for row in rows if row["run"] in ids and row["allowed"] == ALLOWED.join(method.labels))
    if not own:
        raise UserError(
            f"{given.file} holds nothing to label of {', '.join(sorted(ids))} by --kind {given.kind}. Give another "
            "--labels, or the runs and the kind that it was written for."
        )
    return Labelling(file=given.file, rater=rater, labels=method.labels, rows=own)
