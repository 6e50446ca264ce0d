"""People's labels as the measure of a judge.

People label answers on a sheet or in the terminal. Their labels give the agreement of a judge with people, and correct
the judge's figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct, structs
from msgspec.structs import asdict

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.workspace import open_selected_runs, replaced
from ragrounds.base.errors import UserError
from ragrounds.base.files import as_csv, broken, quote_value, read_sheet
from ragrounds.base.records import Question, Run
from ragrounds.evals.judges.corrected import (
    FEWEST,
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
    answer_of,
    disputed_labels,
    item_code,
    judge_agreements,
    label_sheet,
    people_labels,
    pooled,
    shown_items,
)
from ragrounds.evals.judges.methods import by_panel, label_method, verdicts, was_judged
from ragrounds.evals.judges.recorded import JudgeFinder, RecordedVerdicts, recorded_verdicts
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.store.ledger import JUDGING, ledger
from ragrounds.evals.store.store import Store
from ragrounds.ui.text import one_line


class WrittenSheet(Struct, frozen=True):
    """Sheet that was written for people to label."""

    items: int
    of: int
    """Number of judged items."""
    labels: tuple[str, ...]
    answers: Mapping[str, int] = MappingProxyType({})
    """Run → number of its answers in the sheet."""


def needed_labels(answers: Mapping[str, int]) -> str:
    """Return how many labels a corrected figure of each run needs, and how many answers a sheet has of each."""
    counts = ", ".join(f"{count:,} of {run}" for run, count in answers.items())
    advice = " Too few: sample more (--limit), or judge more answers." if min(answers.values()) < FEWEST else ""
    return f"A corrected figure needs {FEWEST} labelled answers of each agent; the sheet has {counts}.{advice}"


class AgreementResult(Struct, frozen=True):
    """Agreement of a judge with people."""

    agreement: PeopleAgreement
    raters: int
    """Number of people who labelled."""


_Kind = Annotated[str, Arg("What was judged: a --kind of `judge run`, or 'rubric[…]' as tables name it.")]
_Epoch = Annotated[int, Arg("Which of the run's epochs, from 0.", 0)]


class SheetArguments(Struct, frozen=True):
    """Answers to label, and the sheet to write."""

    runs: arguments.Runs
    out: Annotated[Path, Arg("The file to write.", short="-o")] = Path("labels.csv")
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    limit: Annotated[int | None, Arg("Only this many, sampled by `seed`.", 1, short="-n")] = None
    seed: arguments.Seed = 0
    raters: Annotated[
        Sequence[str], Arg("A column for this rater (repeatable). [default: one, label]", option="--rater", many=True)
    ] = ()
    force: arguments.Force = False
    settings: arguments.OwnSettings = None


class AgreementArguments(Struct, frozen=True):
    """Runs with verdicts, and the labels to compare them with."""

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


def _was_judged(method: LabelMethod, epoch: int) -> Callable[[Store, Run], bool]:
    """Return a predicate that is True for runs judged by a method: the newest such run of an agent is used."""
    return lambda store, run: was_judged(store, run, method, epoch)


_ENOUGH_LABELS, _AGREEING = 20, 0.8
"""Number of labels, and lower end of the accuracy by them, from which people vouch for a judge."""
_PARTS: dict[str, Callable[[Run, Question], str]] = {
    "agent": lambda run, _: run.id,
    "dataset": lambda _, question: question.benchmark,
    "subject": lambda _, question: question.group,
}
"""Functions that give the categories by which agreement is split."""


def _categories(
    store: Store, runs: Sequence[Run], verdicts_by_run: Mapping[str, Mapping[str, str | None]], labels: HumanLabels
) -> tuple[CategoryAgreement, ...]:
    """Return the agreement on the items of every agent, dataset and subject, if there are several of a kind."""
    origins = {}
    for run in runs:
        questions = {question.id: question for question in store.questions(run)[0]}
        origins[run.id] = {
            item: (run, questions.get(item) or questions[item.rpartition("#")[0]]) for item in verdicts_by_run[run.id]
        }
    verdict = pooled(verdicts_by_run)
    categories = []
    for kind, name_of in _PARTS.items():
        parts: dict[str, dict[str, str | None]] = {}
        for item, (run, question) in pooled(origins).items():
            parts.setdefault(name_of(run, question), {})[item] = verdict[item]
        for name, part in sorted(parts.items()) if len(parts) > 1 else ():
            if any(part.get(item) for item in labels.gold):
                categories.append(CategoryAgreement(of=kind, name=name, agreement=agreement(part, labels).judge))
    return tuple(categories)


class _JudgedFigures:
    """Judged figures of runs under people's labels, by the stored scores or by one judge's verdicts."""

    def __init__(
        self,
        store: Store,
        runs: Sequence[Run],
        method: LabelMethod,
        labels: HumanLabels,
        chances: Mapping[tuple[str, str], float],
        epoch: int,
        verdicts: Mapping[str, Mapping[str, str | None]],
    ) -> None:
        self._store, self._runs, self._method, self._epoch = store, runs, method, epoch
        self._verdicts_by_run, gold = verdicts, labels.gold
        names = pooled({run: {item: (run, item) for item in run_verdicts} for run, run_verdicts in verdicts.items()})
        labelled = {location: gold[name] for name, location in names.items() if name in gold}
        self.is_sampled = bool(labelled) and all(location in chances for location in labelled)
        self._people = {
            run.id: {item: label for (run_id, item), label in labelled.items() if run_id == run.id} for run in runs
        }
        self._chances = {
            run.id: {item: chance for (run_id, item), chance in chances.items() if run_id == run.id and self.is_sampled}
            for run in runs
        }

    def _rows(
        self, runs: Sequence[Run], verdicts_by_run: Mapping[str, Mapping[str, str | None]]
    ) -> Iterator[tuple[str, dict[str, list[JudgedRow]]]]:
        """Yield each scorer with the answers of each run."""
        of_runs = {
            run.id: judged_rows(
                self._store,
                run,
                self._method,
                verdicts_by_run[run.id],
                self._people[run.id],
                self._chances[run.id],
                self._epoch,
            )
            for run in runs
        }
        for scorer in self._method.scorers:
            yield scorer.name, {run: rows[scorer.name] for run, rows in of_runs.items()}

    def corrections(
        self, width: float | None, agreed: bool, sampled: Mapping[str, tuple[int, int]]
    ) -> tuple[Corrections, ...]:
        """Return the corrections of every scorer.

        `agreed` is True if people's labels show that the judge is able, which its probes cannot overrule. `sampled` has
        for each run the answers in the sheet, and how many of them are left blank.
        """
        corrections = []
        for name, rows in self._rows(self._runs, self._verdicts_by_run):
            corrected = correct(name, rows, is_sampled=self.is_sampled, width=width)
            figures = (
                structs.replace(figure, sampled=sampled[figure.run][0] or None, blank=sampled[figure.run][1])
                for figure in corrected.figures
            )
            corrected = structs.replace(corrected, figures=tuple(figures))
            corrections.append(self._without_withheld(corrected, name, agreed))
        return tuple(corrections)

    def _without_withheld(self, corrections: Corrections, scorer: str, agreed: bool) -> Corrections:
        """Remove the judge's own figures of runs whose scores are withheld; people's labels correct those, too."""
        reasons = {
            run.id: score.reason
            for run in self._runs
            for score in self._store.scores(run, scorer)
            if score.value is None and score.reason.startswith(WITHHELD) and score.epoch == self._epoch
        }
        if agreed and reasons:
            note = (
                f"people's labels agree with the judge, and count more than its probes, by which {', '.join(reasons)} "
                f"{'is' if len(reasons) == 1 else 'are'} withheld: ragrounds judge --withhold-below 0 shows the scores"
            )
            return structs.replace(corrections, notes=(*corrections.notes, note))
        return structs.replace(
            corrections,
            figures=tuple(
                structs.replace(figure, judge=None) if figure.run in reasons else figure
                for figure in corrections.figures
            ),
            differences=tuple(
                structs.replace(difference, judge=None)
                if reasons.keys() & {difference.run, difference.first}
                else difference
                for difference in corrections.differences
            ),
            notes=(*corrections.notes, *(f"by the judge, {run}: {reason}" for run, reason in reasons.items())),
        )

    def prices(self, recorded: Mapping[str, Mapping[str, Mapping[str, str | None]]]) -> tuple[JudgePrice, ...]:
        """Return the price and value of every judge whose replies are stored, if there are several.

        `recorded` is run → judge → its verdicts.
        """
        judges = dict.fromkeys(judge for by_judge in recorded.values() for judge in by_judge)
        if len(judges) < 2:
            return ()
        lines = ledger(self._store, self._runs, ("role", "model")).lines
        costs = {line.model: line.cost_uncached for line in lines if line.role == JUDGING}
        judge_prices = []
        for judge in judges:
            judge_verdicts = {run: by_judge.get(judge, {}) for run, by_judge in recorded.items()}
            name, rows = next(self._rows(self._runs[:1], judge_verdicts))
            (figure,) = correct(name, rows).figures
            corrected = figure.corrected
            width = corrected.high - corrected.low if corrected else None
            judge_prices.append(JudgePrice(judge=judge, cost=costs.get(judge), width=width, effective=figure.effective))
        return tuple(
            sorted(judge_prices, key=lambda judge_price: math.inf if judge_price.width is None else judge_price.width)
        )


@takes(SheetArguments)
def write_label_sheet(arguments: SheetArguments) -> WrittenSheet:
    """Write judged answers to a CSV file for people to label, without the verdicts.

    Items are sampled and ordered by the seed; a smaller sample is a part of a larger one.

    Raises:
        UserError: a run or kind is unknown; nothing was judged; or the file exists and `force` is not set.
    """
    method, raters = label_method(arguments.kind), arguments.raters or ("label",)
    with open_selected_runs(arguments.runs, arguments.settings, suits=_was_judged(method, arguments.epoch)) as (
        store,
        runs,
    ):
        sheet = label_sheet(
            store, runs, method, epoch=arguments.epoch, limit=arguments.limit, seed=arguments.seed, raters=raters
        )
    with replaced(arguments.out, arguments.force) as file:
        file.write(sheet.csv())
    return WrittenSheet(len(sheet.rows), sheet.of, tuple(method.labels), sheet.answers)


@takes(AgreementArguments)
def judge_agreement(arguments: AgreementArguments) -> AgreementResult:
    """Compare the verdicts in the store with people's labels. No model is asked.

    A label whose answer has changed is left out, and named.

    Raises:
        UserError: a run, kind or label is unknown, or no item has both a verdict and a majority of people.
    """
    method, human = label_method(arguments.kind), arguments.human
    labels = people_labels(human, item=arguments.item, raters=arguments.raters)
    labelled = {label for row in labels.items.values() for label in row if label}
    unknown = sorted(labelled - set(method.labels))
    if unknown:
        raise UserError(
            f"{human}: the label {one_line(unknown[0])!r} is not one of {', '.join(method.labels)}. Give the columns "
            "with labels with --rater."
        )
    epoch = arguments.epoch
    with open_selected_runs(arguments.runs, arguments.settings, suits=_was_judged(method, epoch)) as (store, runs):
        of_runs = {run.id: verdicts(store, run, method, epoch) for run in runs}
        labels = labels.with_runs(of_runs)
        chances, sampled = label_chances(labels), {run: labels.sampled_answers(run) for run in of_runs}
        labels, changed = labels.current_labels({run.id: shown_items(store, run, method, epoch) for run in runs})
        recorded = {
            run.id: {
                recorded_judge.judge: recorded_judge.verdicts
                for recorded_judge in recorded_verdicts(store, run, method, epoch)
            }
            for run in runs
        }
        panel, find_judges = any(by_panel(store, run, method) for run in runs), JudgeFinder(store)
        first_judges, *other_judges = (find_judges(run, method.scorers[-1].name) for run in runs)
        # Not known if they are not recorded, or not the same for all runs.
        score_judges = first_judges if all(other == first_judges for other in other_judges) else None
        figures = _JudgedFigures(store, runs, method, labels, chances, epoch, of_runs)
        pooled_verdicts = pooled(of_runs)
        try:
            compared = agreement(pooled_verdicts, labels)
        except ValueError:
            raise _no_common_items(human, runs, labels, changed, pooled_verdicts) from None
        low = compared.judge.accuracy.low
        agreed = compared.judge.n >= _ENOUGH_LABELS and low is not None and low >= _AGREEING
        corrections = figures.corrections(arguments.width, agreed, sampled)
        prices = figures.prices(recorded)
        categories = _categories(store, runs, of_runs, labels)
    judges = [
        RecordedVerdicts(
            judge=name, verdicts=pooled({run: by_judge.get(name, {}) for run, by_judge in recorded.items()})
        )
        for name in dict.fromkeys(name for by_judge in recorded.values() for name in by_judge)
    ]
    people_agreement = PeopleAgreement(
        **asdict(compared)
        | {
            "changed": changed,
            "panel": panel,
            "by": score_judges,
            "undecided_judges": disputed_labels(judges, pooled_verdicts, labels) if panel else 0,
            "judges": judge_agreements(judges, labels),
            "categories": categories,
            "corrections": corrections,
            "prices": prices,
        }
    )
    return AgreementResult(people_agreement, len(labels.raters))


def _no_common_items(
    human: str | Path, runs: Sequence[Run], labels: HumanLabels, changed: Sequence[str], verdicts: Mapping[str, object]
) -> UserError:
    """Return the error that no item has both a verdict and a majority of people."""
    if changed:
        ids = ", ".join(map(one_line, changed[:5])) + (" …" if len(changed) > 5 else "")
        return UserError(
            f"{human}: the answers to {ids} in {', '.join(run.id for run in runs)} have changed since people labelled "
            f"them ({len(changed):,} of {len(labels.items) + len(changed):,} labelled items), and no other item has "
            "both labels."
        )
    return UserError(
        f"{human}: none of its items has both a majority of people and a verdict. Items look like "
        f"{next(iter(verdicts))!r}."
    )


class LabelArguments(Struct, frozen=True):
    """Answers that a person labels in the terminal, and the sheet."""

    runs: arguments.Runs
    rater: Annotated[str, Arg("Who labels: the column of the sheet.")] = "label"
    file: Annotated[Path, Arg("The sheet; one that is not there is written.", option="--labels")] = Path("labels.csv")
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    limit: Annotated[int | None, Arg("Of a new sheet: only this many, sampled by `seed`.", 1, short="-n")] = None
    seed: arguments.Seed = 0
    settings: arguments.OwnSettings = None


class Labelling(Struct, frozen=True, kw_only=True):
    """Labels of a person in a sheet: the items to be shown, and the stored labels."""

    file: Path
    rater: str
    labels: tuple[str, ...]
    rows: tuple[dict[str, str], ...]
    """Rows of these runs, in the sheet's order, without any verdict."""
    answers: dict[str, int]
    """Run → number of its answers among the rows."""

    def keep(self, row: Mapping[str, str], label: str) -> None:
        """Write a label, or remove it if `label` is empty; it is on the disk when this method returns.

        Labels that others wrote into the sheet meanwhile stay.

        Raises:
            UserError: the sheet cannot be read or written any more, or has lost this item.
        """
        rows = [sheet_row for _, sheet_row in read_sheet(self.file, (ITEM,))]
        same = [sheet_row for sheet_row in rows if _item_key(sheet_row) == _item_key(row)]
        if not same:
            raise broken(self.file, f"it no longer has the item {quote_value(row[ITEM])}")
        for sheet_row in rows:
            sheet_row[self.rater] = label if sheet_row is same[0] else sheet_row.get(self.rater, "")
        with replaced(self.file, force=True) as file:
            file.write(as_csv(list(rows[0]), [list(sheet_row.values()) for sheet_row in rows]))


def _item_key(row: Mapping[str, str]) -> tuple[str, str]:
    return row.get("code") or row.get("run", ""), row[ITEM]


@takes(LabelArguments)
def labelling(arguments: LabelArguments) -> Labelling:
    """Label judged answers in the terminal, without the verdicts, in a sheet of :func:`write_label_sheet`.

    Raises:
        UserError: as there; the sheet has no item of these runs, or the rater's name is a column with texts.
    """
    method, rater = label_method(arguments.kind), arguments.rater.strip()
    if not rater or rater in {ITEM, *TEXTS, *MARKS}:
        raise UserError(f"--rater {arguments.rater!r} is empty, or a column of the sheet's own. Give a name.")
    if not arguments.file.exists():
        write_label_sheet(
            arguments.runs,
            arguments.file,
            kind=arguments.kind,
            epoch=arguments.epoch,
            limit=arguments.limit,
            seed=arguments.seed,
            raters=[rater],
            settings=arguments.settings,
        )
    with open_selected_runs(arguments.runs, arguments.settings, suits=_was_judged(method, arguments.epoch)) as (
        _,
        runs,
    ):
        ids = sorted(run.id for run in runs)
    rows_to_label, answers = list[dict[str, str]](), {run: set[str]() for run in ids}
    for _, row in read_sheet(arguments.file, (ITEM, *TEXTS)):
        run = next((run for run in ids if row.get("code") == item_code(run, row[ITEM]) or row.get("run") == run), "")
        if run and row["allowed"] == ALLOWED.join(method.labels):
            rows_to_label.append(row)
            answers[run].add(answer_of(row[ITEM]))
    if not rows_to_label:
        raise UserError(
            f"{arguments.file} holds nothing to label of {', '.join(ids)} by --kind {arguments.kind}. Give "
            "another "
            "--labels, or the runs and the kind that it was written for."
        )
    return Labelling(
        file=arguments.file,
        rater=rater,
        labels=method.labels,
        rows=tuple(rows_to_label),
        answers={run: len(run_answers) for run, run_answers in answers.items()},
    )
