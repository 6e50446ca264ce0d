"""People's labels to compare a judge with: the sheet that they fill in, its reading, and the agreement.

A sheet (CSV) has one row for each item and one column for each rater. It does not show the judge's verdict. Its items
are sampled by seed: every answer of a run with the same probability, which its row states, and the same questions of
every run. (Sampling by the judge's verdict would reveal the verdict by its probability, and gives no narrower corrected
figure: perf/corrected_judging.md.)

No column says which system gave an answer: each row has a code, which is computed from the run's id, and all rows have
the same probability.

A label belongs to the texts that the person saw. Each row holds a digest of them, and a label whose answer has changed
is left out. A sheet without digests must contain the answers themselves, because otherwise the labelled texts are
unknown.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.files import as_csv, broken, quote_value, read_sheet
from ragrounds.base.records import Run
from ragrounds.base.text import safe
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.benchmarks.family import BenchmarkSource, families
from ragrounds.evals.judges.methods import by_panel, label_method, verdicts
from ragrounds.evals.judges.recorded import RecordedVerdicts, ScoreJudges
from ragrounds.evals.scorers.answer_status import answer_text
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats.agreement import (
    Agreement,
    compare_with_human,
    fleiss_kappa,
    krippendorff_alpha,
    majority,
)
from ragrounds.evals.store.store import Store

T = TypeVar("T")
ITEM = "item"
_SEPARATOR = " » "
"""Separator between a run and its item."""
TEXTS = ("question", "beside", "answer", "allowed")
"""Columns of a sheet that raters read: the answer, and the text that it is compared with."""
MARKS = ("code", "epoch", "digest", "chance")
"""Columns that identify a row: the code of its run and item, its epoch, the digest of its texts, and its sampling
probability."""
_KQA, _PHYSICIANS = "kqa:", "NLI_medical_annotator.csv"
"""Prefix of a folder given in place of a sheet, and the file of physicians' labels in it."""


class ShownItem(Struct, frozen=True):
    """Texts of an item."""

    question: str
    beside: str
    answer: str

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify these texts."""
        return hashlib.sha256(msgspec.msgpack.encode((self.question, self.beside, self.answer))).hexdigest()[:16]


class LabelledItem(Struct, frozen=True, kw_only=True):
    """Data in a sheet about an item that people labelled."""

    item: str
    run: str = ""
    """Id of the run whose answer was labelled; empty if the sheet does not say, or its code is of another run."""
    code: str = ""
    digest: str = ""
    answer: str | None = None
    """Text of the answer, if the sheet has no digest; ``None`` if the sheet does not say."""
    chance: float | None = None
    """Sampling probability, above 0 and at most 1; ``None`` if the sheet does not say."""


class HumanLabels(Struct, frozen=True, kw_only=True):
    """Labels of one or several people."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → label of each rater; ``None``: no label. In a sheet of several runs items are named as :func:`pooled`."""
    marks: dict[str, LabelledItem] = {}

    @property
    def unbound(self) -> list[str]:
        """Items for which the sheet does not say which answer was labelled."""
        return [item for item in self.items if not (mark := self.marks[item]).digest and mark.answer is None]

    def with_runs(self, runs: Iterable[str]) -> HumanLabels:
        """Return the labels with the run of every row whose code is of one of these runs."""
        run_ids, marks = list(runs), dict[str, LabelledItem]()
        for name, mark in self.marks.items():
            coded = (run for run in run_ids if mark.code == item_code(run, mark.item))
            marks[name] = replace(mark, run=next(coded, mark.run))
        return replace(self, marks=marks)

    def sampled_answers(self, run: str) -> tuple[int, int]:
        """Return the number of answers of a run in a sampled sheet, and of those with an item that nobody labelled."""
        names_by_answer: dict[str, list[str]] = {}
        for name, mark in self.marks.items():
            if mark.run == run and mark.chance is not None:
                names_by_answer.setdefault(answer_of(mark.item), []).append(name)
        blank = sum(any(name not in self.items for name in names) for names in names_by_answer.values())
        return len(names_by_answer), blank

    def current_labels(self, shown_items: Mapping[str, Mapping[str, ShownItem]]) -> tuple[HumanLabels, tuple[str, ...]]:
        """Return the labels of the runs' current items, named as by :func:`pooled`, and the items labelled with another
        text.

        Args:
            shown_items: run → item → its texts. A label counts for every run that gave these.
        """
        one_run = len({mark.run for mark in self.marks.values()}) == 1
        current, outdated = dict[str, tuple[str | None, ...]](), list[str]()
        for name, labels in self.items.items():
            mark = self.marks[name]
            texts_by_run = {run: items[mark.item] for run, items in shown_items.items() if mark.item in items}
            same = [run for run, texts in texts_by_run.items() if _is_same(mark, texts)]
            for run in same:
                item = _item_name(run, mark.item, len(shown_items))
                if run == mark.run or item not in current:
                    current[item] = labels
            if texts_by_run and not same and (one_run or mark.run in shown_items):
                outdated.append(name)
            elif not texts_by_run:
                current[name] = labels
        return replace(self, items=current), tuple(outdated)

    @property
    def gold(self) -> dict[str, str]:
        """Item → label that more than half of its raters gave; items without one are left out."""
        majorities = {item: majority(labels) for item, labels in self.items.items()}
        return {item: label for item, label in majorities.items() if label is not None}

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the people; ``None`` for a single person."""
        return krippendorff_alpha(list(self.items.values())) if len(self.raters) > 1 else None

    @property
    def kappa(self) -> float | None:
        """Fleiss' kappa of the people; ``None`` for a single person, or if labels are missing."""
        is_complete = len(self.raters) > 1 and all(None not in labels for labels in self.items.values())
        return fleiss_kappa(list(self.items.values())) if is_complete else None


class JudgeAgainstPeople(Struct, frozen=True, kw_only=True):
    """Agreement of one judge, by its own replies, with the majority of people."""

    judge: str
    agreement: Agreement | None
    """Agreement on all items that have its verdict and people's majority; ``None`` if no item has both."""


class LabelAgreement(Struct, frozen=True, kw_only=True):
    """Agreement of a judge, or of the majority of a panel, with the majority of people."""

    judge: Agreement
    panel: bool = False
    """True if the verdicts are by a majority of several judges."""
    by: ScoreJudges | None = None
    """Judges of the verdicts; ``None`` if not recorded."""
    undecided_judges: int = 0
    """Number of items in `judge.missing` on which the judges of the panel have no majority."""
    judges: tuple[JudgeAgainstPeople, ...] = ()
    """Agreement of every single judge whose replies the journal holds."""
    unmatched: int
    """Number of items labelled by people without a verdict of the judge; they are in no figure."""
    undecided: int
    """Number of items without a majority among people."""
    changed: tuple[str, ...] = ()
    """Items whose question, answer or comparison text has changed since people labelled them; they are in no figure."""
    human_kappa: float | None
    human_alpha: float | None


def pooled(runs: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Merge a mapping run → item → entry into item → entry; with several runs items are named ``RUN » ITEM``."""
    return {_item_name(run, item, len(runs)): label for run, items in runs.items() for item, label in items.items()}


def _item_name(run: str, item: str, runs: int) -> str:
    """Return the name of an item of a run, given the number of runs."""
    return item if runs == 1 else f"{run}{_SEPARATOR}{item}"


def item_code(run: str, item: str) -> str:
    """Return the code of a run's item in a sheet, which does not reveal the run to its reader."""
    # A first letter keeps a spreadsheet from reading digits as a number.
    return f"r{hashlib.sha256(msgspec.msgpack.encode((run, item))).hexdigest()[:12]}"


def read_labels(path: Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """Read people's labels from a sheet.

    By default every column is a rater's, except `item` and the texts of a sheet for labelling. Labels are read without
    case and outer spaces. Rows without labels are left out.

    Raises:
        UserError: the file is broken; a column is missing; an item occurs twice.
    """
    rows = read_sheet(path, (item, *raters))
    columns = list(rows[0][1]) if rows else []
    other_columns = {item, "run", *TEXTS, *MARKS}
    rater_columns = tuple(raters) or tuple(name for name in columns if name not in other_columns)
    if rows and not rater_columns:
        raise broken(path, "a column with labels is missing", "line 1")
    items: dict[str, tuple[str | None, ...]] = {}
    marks: dict[str, LabelledItem] = {}
    runs = len({row.get("run", "") for _, row in rows})
    if "code" in columns:
        runs = max(Counter(row[item] for _, row in rows).values())
    for line, row in rows:
        run, code = row.get("run", "").strip(), row.get("code", "").strip()
        name = _item_name(run or code, row[item], runs)
        if name in items:
            raise broken(path, f"the item {quote_value(name)} is in it twice", line)
        items[name] = tuple(row[rater].strip().casefold() or None for rater in rater_columns)
        digest, chance = row.get("digest", "").strip(), _chance(row.get("chance", ""))
        if chance is not None and not 0 < chance <= 1:
            raise broken(path, f"the chance {quote_value(row['chance'])} is not a number above 0 and at most 1", line)
        marks[name] = LabelledItem(
            item=row[item], run=run, code=code, digest=digest, answer=row.get("answer"), chance=chance
        )
    items = {name: labels for name, labels in items.items() if any(labels)}
    if not items:
        raise broken(path, "it holds no labels")
    return HumanLabels(raters=rater_columns, items=items, marks=marks)


def answers_labels(path: Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """Read people's labels from a sheet that says which answers were labelled.

    Raises:
        UserError: as :func:`read_labels`; or rows have neither a digest nor the answer.
    """
    labels = read_labels(path, item=item, raters=raters)
    if unbound := labels.unbound:
        raise UserError(
            f"{path}: it is unknown which answer was labelled as {quote_value(unbound[0])}: a label is of a text, "
            "and the "
            "answer behind an id may have changed. Keep the columns that `ragrounds judge sheet` writes (`digest`), or "
            "add a column `answer` with the text that people saw."
        )
    return labels


def people_labels(source: str | Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """Read people's labels of answers from a sheet, or K-QA's physicians' labels from ``kqa:FOLDER``.

    Raises:
        UserError: as :func:`answers_labels`, and :func:`physician_labels`.
    """
    text = str(source)
    if text.startswith(_KQA) and not Path(text).exists():
        return physician_labels(text.removeprefix(_KQA), raters)
    return answers_labels(Path(source), item=item, raters=raters)


def physician_labels(folder: str, raters: Sequence[str] = ()) -> HumanLabels:
    """Read the labels of K-QA's physicians (Manes et al. 2024).

    For each of 399 statements, three physicians said whether an answer entails it, contradicts it, or neither. The
    answers are recorded answers of four systems, one to each of 50 questions, and a label holds for these answers
    alone. Statements are matched by their words. The few that are worded differently in the questions of the same
    folder (8) are left out.

    Args:
        folder: folder with the questions and the labels, as in K-QA's repository.
        raters: columns of raters; if empty, all three.

    Raises:
        UserError: a file or a column is missing or broken, or the questions and labels share no statement.
    """
    source, family, method = BenchmarkSource(Path(folder)), families()["kqa"], label_method("statements")
    name_by_texts = {
        (_words(item.question.text), _words(text)): name
        for item in family.items(source)
        for name, text in method.items(item.gold).items()
    }
    path = source.file(_PHYSICIANS, f"dataset/{_PHYSICIANS}")
    rater_columns = tuple(raters) or ("label_0", "label_1", "label_2")
    items: dict[str, tuple[str | None, ...]] = {}
    marks: dict[str, LabelledItem] = {}
    for _, row in read_sheet(path, ("Question", "answer", "claim", *rater_columns)):
        name = name_by_texts.get((_words(row["Question"]), _words(row["claim"])))
        if name is not None and any(labels := tuple(row[rater].strip().casefold() or None for rater in rater_columns)):
            items[name], marks[name] = labels, LabelledItem(item=name, answer=row["answer"])
    if not items:
        raise broken(path, f"it labels no statement of the questions in {family.file} of its folder")
    return HumanLabels(raters=rater_columns, items=items, marks=marks)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _is_same(mark: LabelledItem, texts: ShownItem) -> bool:
    if mark.digest:
        return mark.digest == texts.digest
    return mark.answer is not None and _plain(mark.answer) == _plain(safe(texts.answer))


def _chance(text: str) -> float | None:
    """Return the probability in a cell, with a decimal point or comma; -1 if it is not a number, ``None`` if the cell
    is empty."""
    try:
        return float(text.replace(",", ".")) if text.strip() else None
    except ValueError:
        return -1.0


def _plain(text: str) -> str:
    """Collapse white space, because spreadsheets write lines and spaces in their own way."""
    return " ".join(text.split())


def answer_of(item: str) -> str:
    """Return the question that an item belongs to: statements of one answer are not independent, nor are answers to
    it."""
    question, mark, number = item.rpartition("#")
    return (question if mark and number.isdigit() else item).rpartition(_SEPARATOR)[2]


def agreement(verdicts: Mapping[str, str | None], labels: HumanLabels) -> LabelAgreement:
    """Compare a judge's verdicts (item → label, ``None`` for a missing verdict) with the majority of people.

    Raises:
        ValueError: no item has both.
    """
    gold = labels.gold
    items = [item for item in gold if item in verdicts]
    judge_labels = [None if (verdict := verdicts[item]) is None else verdict.strip().casefold() for item in items]
    majority_labels, question_ids = [gold[item] for item in items], [answer_of(item) for item in items]
    return LabelAgreement(
        judge=compare_with_human(judge_labels, majority_labels, question_ids),
        unmatched=len(gold) - len(items),
        undecided=len(labels.items) - len(gold),
        human_kappa=labels.kappa,
        human_alpha=labels.alpha,
    )


def judge_agreements(recorded: Sequence[RecordedVerdicts], labels: HumanLabels) -> tuple[JudgeAgainstPeople, ...]:
    """Return each judge's own agreement with the majority of people."""

    def single_agreement(recorded_verdicts: RecordedVerdicts) -> Agreement | None:
        """Return one judge's agreement; ``None`` if no item has both."""
        try:
            return agreement(recorded_verdicts.verdicts, labels).judge
        except ValueError:  # no item has both
            return None

    return tuple(
        JudgeAgainstPeople(judge=recorded_verdicts.judge, agreement=single_agreement(recorded_verdicts))
        for recorded_verdicts in recorded
    )


def disputed_labels(
    recorded: Sequence[RecordedVerdicts], verdicts: Mapping[str, str | None], labels: HumanLabels
) -> int:
    """Count the items with a majority of people but without a verdict in `verdicts` because the judges differ."""
    without_verdict = [item for item in labels.gold if item in verdicts and verdicts[item] is None]
    return sum(
        len({recorded_verdicts.verdicts.get(item) for recorded_verdicts in recorded} - {None}) > 1
        for item in without_verdict
    )


ALLOWED = " | "


class LabelSheet(Struct, frozen=True, kw_only=True):
    """Sheet that people fill in."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    of: int
    """Number of judged items that these were sampled from."""
    answers: Mapping[str, int]
    """Run → number of its answers in the sheet."""

    def csv(self) -> bytes:
        """Return the sheet as a CSV file in which no cell is a formula."""
        return as_csv(self.heading, self.rows)


def shown_items(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> dict[str, ShownItem]:
    """Return item → texts for the answers in an epoch of a run."""
    questions, golds = store.questions(run)
    answers = {attempt.question_id: attempt for attempt in store.attempts(run) if attempt.epoch == epoch}
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    return {
        item: ShownItem(question.text, comparison_text, answer_text(answers[question.id], question))
        for question in questions
        if question.id in answers
        for item, comparison_text in method.items(golds[question.id]).items()
    }


def label_sheet(
    store: Store,
    runs: Sequence[Run],
    method: LabelMethod,
    *,
    epoch: int = 0,
    limit: int | None = None,
    seed: int = 0,
    raters: Sequence[str] = ("label",),
) -> LabelSheet:
    """Return a sheet of the judged items in random order by `seed`, without verdicts, with an empty column for each
    rater.

    Judged items have a verdict, or a panel without a majority on them.

    Raises:
        UserError: a run was not judged by this method, or a rater has the name of another column.
    """
    heading = (ITEM, *TEXTS, *MARKS, *raters)
    invalid_raters = [name for name in raters if heading.count(name) > 1 or name.strip() in ("", "run")]
    if invalid_raters:
        raise UserError(
            f"The rater {invalid_raters[0]!r} cannot have a column: it is empty, there twice, or a text's column."
        )
    items = {run.id: _judged_items(store, run, method, epoch) for run in runs}
    candidates = pooled(
        {
            run: {item: (run, item, item_texts) for item, item_texts in run_items.items()}
            for run, run_items in items.items()
        }
    )
    # Sorted by the question first, so that all runs' answers to it and all its statements are sampled together. This
    # narrows the intervals of the runs' differences.
    sampled = sorted(candidates.items(), key=lambda entry: (lot(seed, answer_of(entry[0])), lot(seed, entry[0])))[
        :limit
    ]
    # A probability up to a factor of its run is enough, and one for each run would tell the runs apart.
    chance = f"{len(sampled) / max(1, len(candidates)):.6g}"
    rows = tuple(
        (
            item,
            item_texts.question,
            item_texts.beside,
            item_texts.answer,
            ALLOWED.join(method.labels),
            item_code(run, item),
            str(epoch),
            item_texts.digest,
            chance,
        )
        + ("",) * len(raters)
        for _, (run, item, item_texts) in sampled
    )
    answers = {run: len({answer_of(item) for _, (of_run, item, _) in sampled if of_run == run}) for run in items}
    return LabelSheet(heading=heading, rows=rows, of=len(candidates), answers=answers)


def _judged_items(store: Store, run: Run, method: LabelMethod, epoch: int) -> dict[str, ShownItem]:
    judge_verdicts, panel = verdicts(store, run, method, epoch), by_panel(store, run, method)
    judged_items = {item for item, verdict in judge_verdicts.items() if panel or verdict is not None}
    return {item: texts for item, texts in shown_items(store, run, method, epoch).items() if item in judged_items}
