"""How well the scorer ``robust`` reads answers: precision, recall and processor time.

Two kinds of texts: the phrasings of ``tests/scorers/phrasings.py``, in our own words, with the label that a careful
reader takes from each; and the recorded replies of MIRAGE's authors (``$RAGROUNDS_TEST_DATA/mirage``), as they are, and
their reasoning alone, without the field that states the answer, set against the letter of that field.

    python perf/reading.py [--before COMMIT] [--show NUMBER] [--write]

``--before`` sets the reader of an earlier commit beside that of now; ``--show`` prints texts that are read otherwise
than they are labelled.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from ragrounds.base.records import Question  # noqa: E402
from ragrounds.evals.scorers.answer_status import AnswerRead  # noqa: E402
from ragrounds.evals.scorers.mirage import read_published  # noqa: E402
from ragrounds.evals.scorers.option_text import folded  # noqa: E402
from ragrounds.evals.scorers.robust import read_robustly  # noqa: E402
from tests.scorers.phrasings import held_out, phrasings  # noqa: E402

Reader = Callable[[str, Question], AnswerRead]


class Labelled(NamedTuple):
    """A text with the label that is to be read; empty: none is."""

    text: str
    question: Question
    label: str


def sets() -> Iterator[tuple[str, list[Labelled]]]:
    """The sets by name."""
    made = list(phrasings())
    for name, half in (("phrasings, seen while writing", False), ("phrasings, kept from view", True)):
        yield name, [Labelled(one.text, one.question, one.label) for one in made if held_out(one.template) is half]
    yield "phrasings, written last", [Labelled(one.text, one.question, one.label) for one in phrasings(late=True)]
    if folder := os.environ.get("RAGROUNDS_TEST_DATA"):
        yield from recorded(Path(folder) / "mirage")


def recorded(folder: Path) -> Iterator[tuple[str, list[Labelled]]]:
    """The authors' replies that are JSON with an answer: whole, and their reasoning alone."""
    benchmark = json.loads((folder / "benchmark.json").read_text(encoding="utf-8"))
    whole, reasoning = list[Labelled](), list[Labelled]()
    for file in sorted((folder / "predictions").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                asked = benchmark[row["dataset"]][row["id"]]
                question = Question(
                    id=row["id"], benchmark=row["dataset"], text=asked["question"], options=asked["options"]
                )
                for raw in row["raw"][:1]:
                    try:
                        said = json.loads(raw)
                        thought, chosen = str(said["step_by_step_thinking"]), str(said["answer_choice"])
                    except (ValueError, KeyError, TypeError):
                        continue
                    label = labelled(chosen, question)
                    whole.append(Labelled(raw, question, label))
                    reasoning.append(Labelled(thought, question, label))
    yield "recorded replies", whole
    yield "recorded reasoning alone", reasoning


def labelled(chosen: str, question: Question) -> str:
    """The label that a field holds: itself, an option's text, or a label before a text that is no other option's;
    else empty."""
    if chosen.strip() in question.options:
        return chosen.strip()
    texts = {folded(text): label for label, text in question.options.items()}
    label, mark, rest = chosen.strip().partition(". ")
    if mark and label in question.options:
        return label if texts.get(folded(rest), label) == label else ""
    return texts.get(folded(chosen), "") if len(texts) == len(question.options) else ""


class Row(NamedTuple):
    """One reader on one set."""

    found: Counter[str]
    seconds: float
    amiss: list[tuple[Labelled, AnswerRead]]


def count(read: Reader, texts: list[Labelled]) -> Row:
    """Read every text of a set."""
    found, amiss = Counter[str](), list[tuple[Labelled, AnswerRead]]()
    begun = time.process_time()
    results = [read(one.text, one.question) for one in texts]
    seconds = time.process_time() - begun
    for one, made in zip(texts, results, strict=True):
        right = made.prediction == one.label
        kind = ("right" if right else "wrong" if made.prediction else "missed") if one.label else (
            "wrong" if made.prediction else "unread"
        )  # fmt: skip
        found[kind] += 1
        if kind == "wrong":
            amiss.append((one, made))
    return Row(found, seconds, amiss)


def earlier(commit: str) -> Reader:
    """The reader of an earlier commit."""
    source = subprocess.run(
        ["git", "show", f"{commit}:ragrounds/evals/scorers/robust.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    module = ModuleType("earlier_robust")
    exec(compile(source, "robust.py", "exec"), module.__dict__)
    read: Reader = module.__dict__["read_robustly"]
    return read


def table(readers: dict[str, Reader], show: int) -> Iterator[str]:
    """The rows in Markdown; texts that are read otherwise go to standard error."""
    yield (
        "| texts | reader | with an answer | read right | read otherwise | not read | precision | recall | "
        "without one | left unread | µs a text |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, texts in sets():
        for reader, read in readers.items():
            row = count(read, texts)
            found, labels = row.found, sum(bool(one.label) for one in texts)
            precision = f"{100 * found['right'] / max(1, found['right'] + found['wrong']):.2f} %"
            recall = f"{100 * found['right'] / max(1, labels):.2f} %"
            yield (
                f"| {name} | {reader} | {labels:,} | {found['right']:,} | {found['wrong']:,} | "
                f"{found['missed']:,} | "
                f"{precision} | {recall} | {len(texts) - labels:,} | {found['unread']:,} | "
                f"{1e6 * row.seconds / len(texts):.0f} |"
            )
            for one, made in row.amiss[:show] if reader == "robust" else ():
                sys.stderr.write(f"{name}: {one.label or '-'} read as {made.prediction}: {one.text[-300:]!r}\n")


HEAD = """# How well answers are read

{date}. `python perf/reading.py{options} --write`. `robust` beside `strict` (MIRAGE's published patterns without their
default){before}. Processor time of one core.

Precision: of the texts from which a label was read, those where it is the right one; a label that is read where
there is none counts against it. Recall: of the texts that hold an answer, those that were read right. The
phrasings are templates in our own words, each in several questions; the half that was kept from view while the
reader was written, and the list that was written last, were looked at after they had been counted once, and the
reader was mended by what they showed ([docs/reference/scorers.md](../docs/reference/scorers.md#what-robust-reads)
has the first counts). The recorded reasoning is the authors' replies without the field that states the answer: it
often ends with a list of the options, and now and then it says another option than the field does.

"""


def main() -> None:
    """Print the table, and write it where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="")
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    readers: dict[str, Reader] = {"strict": read_published}
    if given.before:
        readers[f"robust at {given.before}"] = earlier(given.before)
    readers["robust"] = read_robustly
    before = f", and its reader of {given.before}" if given.before else ""
    options = f" --before {given.before}" if given.before else ""
    text = HEAD.format(date=datetime.datetime.now(datetime.UTC).date(), options=options, before=before)
    text += "\n".join(table(readers, given.show)) + "\n"
    sys.stdout.write(text)
    if given.write:
        (ROOT / "perf" / "reading.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
