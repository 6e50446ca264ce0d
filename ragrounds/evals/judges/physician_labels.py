"""K-QA's physicians: the labels that ship with the benchmark (Manes et al. 2024), to set a judge against.

Three physicians said of 399 statements whether an answer entails them, contradicts them, or neither. The answers are
recorded ones of four systems, one to each of 50 questions, and the label holds for these answers alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ragrounds.evals.benchmarks.families import kqa
from ragrounds.evals.benchmarks.family import BenchmarkSource
from ragrounds.evals.judges.labels import ITEM, HumanLabels, LabelledItem, answers_labels
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from ragrounds.files import broken, read_sheet

FILE = "NLI_medical_annotator.csv"
MARK = "kqa:"
"""Before a folder that is named in place of a sheet."""
RATERS = ("label_0", "label_1", "label_2")
_WORD = re.compile(r"\w+")


def people_labels(named: str | Path, *, item: str = ITEM, raters: Sequence[str] = ()) -> HumanLabels:
    """People's labels of answers: of a sheet, or K-QA's physicians' as ``kqa:FOLDER``.

    Raises:
        UserError: as :func:`ragrounds.evals.judges.labels.answers_labels`, and :func:`physician_labels`.
    """
    text = str(named)
    if text.startswith(MARK) and not Path(text).exists():
        return physician_labels(text.removeprefix(MARK), raters)
    return answers_labels(Path(named), item=item, raters=raters)


def physician_labels(folder: str, raters: Sequence[str] = ()) -> HumanLabels:
    """The labels of the statements that the questions of the same folder have, by words alone; the few that are worded
    otherwise there (8 of the 399) are left out.

    Args:
        folder: with the questions and the labels, as K-QA's repository holds them.
        raters: columns; none: all three.

    Raises:
        UserError: a file or a column that is not there, a broken one, or no statement that both have.
    """
    source = BenchmarkSource(Path(folder))
    places = {
        (_words(item.question.text), _words(text)): name
        for item in kqa.items(source)
        for name, text in STATEMENT_METHOD.items(item.gold).items()
    }
    path = source.file(FILE, f"dataset/{FILE}")
    chosen = tuple(raters) or RATERS
    items: dict[str, tuple[str | None, ...]] = {}
    marks: dict[str, LabelledItem] = {}
    for _, row in read_sheet(path, ("Question", "answer", "claim", *chosen)):
        name = places.get((_words(row["Question"]), _words(row["claim"])))
        if name is not None and any(labels := tuple(row[rater].strip().casefold() or None for rater in chosen)):
            items[name], marks[name] = labels, LabelledItem(answer=row["answer"])
    if not items:
        raise broken(path, f"it labels no statement of the questions in {kqa.FILE} beside it")
    return HumanLabels(raters=chosen, items=items, marks=marks)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
