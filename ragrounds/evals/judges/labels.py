"""People's labels, to set a judge against: the sheet that they fill in, read back, and the agreement.

A sheet (CSV) has one row an item and one column a rater. It is blind to the judge's verdict, and its items are drawn by
seed: every answer of a run with the same chance, which its row says, and the same questions of every run. (A draw by
the judge's verdict would name the verdict by its chance, and gives no narrower corrected figure: perf/
corrected_judging.md.)

A label is of the texts that the person saw. Each row holds a digest of them, and a label whose answer has become
another is left out. A sheet without digests says the answers themselves, or nobody can tell what was labelled.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.files import as_csv, broken, read_sheet, shown
from ragrounds.base.records import Run
from ragrounds.base.text import safe
from ragrounds.evals.benchmarks.benchmark import lot
from ragrounds.evals.benchmarks.family import BenchmarkSource, families
from ragrounds.evals.judges.methods import by_panel, label_method, verdicts
from ragrounds.evals.judges.recorded import RecordedVerdicts, ScoreJudges
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
_OF_RUN = " » "
"""Between a run and an item of it."""
TEXTS = ("question", "beside", "answer", "allowed")
"""Columns of a sheet for labelling that are there to be read: the answer, and the text it is to be set against."""
MARKS = ("run", "epoch", "digest", "chance")
"""Columns that say what a row is: whose answer, the digest of its texts, and the chance that it had to be drawn."""
_KQA, _PHYSICIANS = "kqa:", "NLI_medical_annotator.csv"
"""Before a folder that is named in place of a sheet, and the file of physicians' labels in it."""


class ShownItem(Struct, frozen=True):
    """The texts of an item."""

    question: str
    beside: str
    answer: str

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that these texts alone have."""
        return hashlib.sha256(msgspec.msgpack.encode((self.question, self.beside, self.answer))).hexdigest()[:16]


class LabelledItem(Struct, frozen=True, kw_only=True):
    """What the sheet says of an item that people labelled."""

    item: str
    run: str = ""
    """Whose answer was labelled; empty: the sheet does not say."""
    digest: str = ""
    answer: str | None = None
    """Its text, where the sheet has no digest; ``None``: it does not say."""
    chance: float | None = None
    """With which it was drawn, above 0 and at most 1; ``None``: the sheet does not say."""


class HumanLabels(Struct, frozen=True, kw_only=True):
    """Labels of one or several people."""

    raters: tuple[str, ...]
    items: dict[str, tuple[str | None, ...]]
    """Item → label of each rater; ``None``: no label. In a sheet of several runs items are named as :func:`pooled`."""
    marks: dict[str, LabelledItem] = {}

    @property
    def unbound(self) -> list[str]:
        """Items of which the sheet does not say what answer was labelled."""
        return [item for item in self.items if not (mark := self.marks[item]).digest and mark.answer is None]

    def of(self, shown: Mapping[str, Mapping[str, ShownItem]]) -> tuple[HumanLabels, tuple[str, ...]]:
        """The labels of runs' items as they are now, named as :func:`pooled` does it, and the items that were labelled
        with another text.

        Args:
            shown: run → item → its texts. A label counts for every run that gave these.
        """
        one_run = len({mark.run for mark in self.marks.values()}) == 1
        left, changed = dict[str, tuple[str | None, ...]](), list[str]()
        for name, labels in self.items.items():
            mark = self.marks[name]
            there = {run: items[mark.item] for run, items in shown.items() if mark.item in items}
            same = [run for run, texts in there.items() if _same(mark, texts)]
            for run in same:
                item = _named(run, mark.item, len(shown))
                if run == mark.run or item not in left:
                    left[item] = labels
            if there and not same and (one_run or mark.run in shown):
                changed.append(name)
            elif not there:
                left[name] = labels
        return replace(self, items=left), tuple(changed)

    @property
    def gold(self) -> dict[str, str]:
        """Item → the label that more than half of its raters gave; items without one are left out."""
        chosen = {item: majority(labels) for item, labels in self.items.items()}
        return {item: label for item, label in chosen.items() if label is not None}

    @property
    def alpha(self) -> float | None:
        """Krippendorff's alpha of the people; ``None`` for a single one."""
        return krippendorff_alpha(list(self.items.values())) if len(self.raters) > 1 else None

    @property
    def kappa(self) -> float | None:
        """Fleiss' kappa of the people; ``None`` for a single one, or where labels are missing."""
        whole = len(self.raters) > 1 and all(None not in labels for labels in self.items.values())
        return fleiss_kappa(list(self.items.values())) if whole else None


class JudgeAgainstPeople(Struct, frozen=True, kw_only=True):
    """One judge, by its own replies, against the majority of people."""

    judge: str
    agreement: Agreement | None
    """On all items that have its verdict and people's majority; ``None``: no item has both."""


class LabelAgreement(Struct, frozen=True, kw_only=True):
    """A judge, or the majority of a panel, against the majority of people."""

    judge: Agreement
    panel: bool = False
    """The verdicts are those of a majority of several judges."""
    by: ScoreJudges | None = None
    """Whose verdicts they are; ``None``: it is not kept."""
    undecided_judges: int = 0
    """Of `judge.missing`, items on which the judges of the panel have no majority."""
    judges: tuple[JudgeAgainstPeople, ...] = ()
    """Every judge whose replies the journal holds, by itself."""
    unmatched: int
    """Items labelled by people that the judge has no verdict on; they are in no figure."""
    undecided: int
    """Items without a majority among people."""
    changed: tuple[str, ...] = ()
    """Items whose question, answer or text beside it is another than people labelled; they are in no figure."""
    human_kappa: float | None
    human_alpha: float | None


def pooled(runs: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """What is known of the items of runs (run → item → it), item by item: of several runs as ``RUN » ITEM``."""
    return {_named(run, item, len(runs)): one for run, items in runs.items() for item, one in items.items()}


def _named(run: str, item: str, runs: int) -> str:
    """What an item of one of so many runs is called."""
    return item if runs == 1 else f"{run}{_OF_RUN}{item}"


def read_labels(path: Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """Read labels; by default every column is a rater's, but `item` and the texts of a sheet for labelling. Labels are
    taken without case and outer spaces; rows without any are left out.

    Raises:
        UserError: a broken file, a column that is not there, an item that stands twice.
    """
    rows = read_sheet(path, (item, *raters))
    columns = list(rows[0][1]) if rows else []
    texts = {item, *TEXTS, *MARKS}
    chosen = tuple(raters) or tuple(name for name in columns if name not in texts)
    if rows and not chosen:
        raise broken(path, "there is no column with labels beside the items", "line 1")
    items: dict[str, tuple[str | None, ...]] = {}
    marks: dict[str, LabelledItem] = {}
    runs = len({row.get("run", "") for _, row in rows})
    for place, row in rows:
        run = row.get("run", "").strip()
        name = _named(run, row[item], runs)
        if name in items:
            raise broken(path, f"the item {shown(name)} is in it twice", place)
        items[name] = tuple(row[rater].strip().casefold() or None for rater in chosen)
        digest, chance = row.get("digest", "").strip(), _chance(row.get("chance", ""))
        if chance is not None and not 0 < chance <= 1:
            raise broken(path, f"the chance {shown(row['chance'])} is not a number above 0 and at most 1", place)
        marks[name] = LabelledItem(item=row[item], run=run, digest=digest, answer=row.get("answer"), chance=chance)
    items = {name: labels for name, labels in items.items() if any(labels)}
    if not items:
        raise broken(path, "it holds no labels")
    return HumanLabels(raters=chosen, items=items, marks=marks)


def answers_labels(path: Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """:func:`read_labels` of a sheet that says which answers were labelled.

    Raises:
        UserError: as there; rows with neither a digest nor the answer.
    """
    labels = read_labels(path, item=item, raters=raters)
    if unbound := labels.unbound:
        raise UserError(
            f"{path}: nobody can tell which answer was labelled as {shown(unbound[0])}: a label is of a text, and the "
            "answer behind an id may have changed. Keep the columns that `ragrounds judge sheet` writes (`digest`), or "
            "add a column `answer` with the text that people saw."
        )
    return labels


def people_labels(named: str | Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """People's labels of answers: of a sheet, or K-QA's physicians' as ``kqa:FOLDER``.

    Raises:
        UserError: as :func:`answers_labels`, and :func:`physician_labels`.
    """
    text = str(named)
    if text.startswith(_KQA) and not Path(text).exists():
        return physician_labels(text.removeprefix(_KQA), raters)
    return answers_labels(Path(named), item=item, raters=raters)


def physician_labels(folder: str, raters: Sequence[str] = ()) -> HumanLabels:
    """K-QA's physicians (Manes et al. 2024): three said of 399 statements whether an answer entails them, contradicts
    them, or neither. The answers are recorded ones of four systems, one to each of 50 questions, and a label holds for
    these answers alone. Statements are found by their words; the few that are worded otherwise in the questions of the
    same folder (8) are left out.

    Args:
        folder: with the questions and the labels, as K-QA's repository holds them.
        raters: columns; none: all three.

    Raises:
        UserError: a file or a column that is not there, a broken one, or no statement that both have.
    """
    source, family, method = BenchmarkSource(Path(folder)), families()["kqa"], label_method("statements")
    places = {
        (_words(item.question.text), _words(text)): name
        for item in family.items(source)
        for name, text in method.items(item.gold).items()
    }
    path = source.file(_PHYSICIANS, f"dataset/{_PHYSICIANS}")
    chosen = tuple(raters) or ("label_0", "label_1", "label_2")
    items: dict[str, tuple[str | None, ...]] = {}
    marks: dict[str, LabelledItem] = {}
    for _, row in read_sheet(path, ("Question", "answer", "claim", *chosen)):
        name = places.get((_words(row["Question"]), _words(row["claim"])))
        if name is not None and any(labels := tuple(row[rater].strip().casefold() or None for rater in chosen)):
            items[name], marks[name] = labels, LabelledItem(item=name, answer=row["answer"])
    if not items:
        raise broken(path, f"it labels no statement of the questions in {family.file} beside it")
    return HumanLabels(raters=chosen, items=items, marks=marks)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _same(mark: LabelledItem, shown: ShownItem) -> bool:
    if mark.digest:
        return mark.digest == shown.digest
    return mark.answer is not None and _plain(mark.answer) == _plain(safe(shown.answer))


def _chance(text: str) -> float | None:
    """A chance as a sheet holds it, by spreadsheets of any country; -1: it is none, ``None``: nothing is said."""
    try:
        return float(text.replace(",", ".")) if text.strip() else None
    except ValueError:
        return -1.0


def _plain(text: str) -> str:
    """Spreadsheets write lines and spaces in their own way."""
    return " ".join(text.split())


def answer_of(item: str) -> str:
    """The question that an item is of: statements of one answer are not independent, nor are answers to it."""
    question, mark, number = item.rpartition("#")
    return (question if mark and number.isdigit() else item).rpartition(_OF_RUN)[2]


def agreement(verdicts: Mapping[str, str | None], labels: HumanLabels) -> LabelAgreement:
    """Set a judge's verdicts (item → label, ``None`` where it gave none) against the majority of people.

    Raises:
        ValueError: no item has both.
    """
    gold = labels.gold
    items = [item for item in gold if item in verdicts]
    given = [None if (verdict := verdicts[item]) is None else verdict.strip().casefold() for item in items]
    people, answers = [gold[item] for item in items], [answer_of(item) for item in items]
    return LabelAgreement(
        judge=compare_with_human(given, people, answers),
        unmatched=len(gold) - len(items),
        undecided=len(labels.items) - len(gold),
        human_kappa=labels.kappa,
        human_alpha=labels.alpha,
    )


def judge_agreements(recorded: Sequence[RecordedVerdicts], labels: HumanLabels) -> tuple[JudgeAgainstPeople, ...]:
    """Each judge's own verdicts against the majority of people."""

    def alone(said: RecordedVerdicts) -> Agreement | None:
        """One judge's; ``None``: no item has both."""
        try:
            return agreement(said.verdicts, labels).judge
        except ValueError:  # no item has both
            return None

    return tuple(JudgeAgainstPeople(judge=said.judge, agreement=alone(said)) for said in recorded)


def disputed_labels(
    recorded: Sequence[RecordedVerdicts], verdicts: Mapping[str, str | None], labels: HumanLabels
) -> int:
    """How many items with a majority of people have no verdict in `verdicts`, for the judges differ on them."""
    open_ = [item for item in labels.gold if item in verdicts and verdicts[item] is None]
    return sum(len({said.verdicts.get(item) for said in recorded} - {None}) > 1 for item in open_)


ALLOWED = " | "


class LabelSheet(Struct, frozen=True, kw_only=True):
    """What people are given."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    of: int
    """Judged items, of which these were drawn."""

    def csv(self) -> bytes:
        """As a file; no cell is a formula."""
        return as_csv(self.heading, self.rows)


def shown_items(store: Store, run: Run, method: LabelMethod, epoch: int = 0) -> dict[str, ShownItem]:
    """Item → its texts, of the answers that an epoch of a run has."""
    questions, golds = store.questions(run)
    answers = {attempt.question_id: attempt.text for attempt in store.attempts(run) if attempt.epoch == epoch}
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    return {
        item: ShownItem(question.text, beside, answers[question.id])
        for question in questions
        if question.id in answers
        for item, beside in method.items(golds[question.id]).items()
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
    """The items that have a verdict, or that a panel has no majority on, in an order drawn by `seed`, without verdicts;
    an empty column for each rater.

    Raises:
        UserError: a run was not judged in this way, or a rater's name is a column's already.
    """
    heading = (ITEM, *TEXTS, *MARKS, *raters)
    double = [name for name in raters if heading.count(name) > 1 or not name.strip()]
    if double:
        raise UserError(f"The rater {double[0]!r} cannot have a column: it is empty, there twice, or a text's column.")
    items = {run.id: _judged_items(store, run, method, epoch) for run in runs}
    asked = pooled({run: {item: (run, item, one) for item, one in of.items()} for run, of in items.items()})
    # By the question first: so all runs' answers to it are drawn, which narrows their differences, and all statements.
    drawn = sorted(asked.items(), key=lambda entry: (lot(seed, answer_of(entry[0])), lot(seed, entry[0])))[:limit]
    often = Counter(run for _, (run, _, _) in drawn)
    rows = tuple(
        (item, one.question, one.beside, one.answer, ALLOWED.join(method.labels), run, str(epoch), one.digest)
        + (f"{often[run] / len(items[run]):.6g}",)
        + ("",) * len(raters)
        for _, (run, item, one) in drawn
    )
    return LabelSheet(heading=heading, rows=rows, of=len(asked))


def _judged_items(store: Store, run: Run, method: LabelMethod, epoch: int) -> dict[str, ShownItem]:
    said, panel = verdicts(store, run, method, epoch), by_panel(store, run, method)
    judged = {item for item, verdict in said.items() if panel or verdict is not None}
    return {item: one for item, one in shown_items(store, run, method, epoch).items() if item in judged}
