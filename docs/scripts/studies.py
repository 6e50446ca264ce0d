"""Writes perf/mirage_table6.md from the authors' recorded replies.

    python docs/scripts/studies.py MIRAGE_FOLDER

The folder has MIRAGE's ``benchmark.json``, and ``predictions/`` with the recorded replies as JSON lines
(`RAGROUNDS_TEST_DATA`/mirage is one). Nothing is asked and nothing leaves the machine.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

import ragrounds as rr
from ragrounds.api.data import add
from ragrounds.api.workspace import open_store
from ragrounds.evals.store.store import Store
from ragrounds.extensions.studies.functions import StudyResult, study
from ragrounds.extensions.studies.tables import study_tables
from ragrounds.ui.tables.text_tables import markdown

STUDY = "mirage-table6"
DOCUMENT = Path(__file__).parents[2] / "perf" / "mirage_table6.md"
REPLIES = {
    "GPT-3.5, CoT": "gpt-35-turbo-16k_cot.jsonl.gz",
    "GPT-3.5, MedRAG": "gpt-35-turbo-16k_rag_32.jsonl.gz",
}
"""Row of the study → the file of its replies."""


def main(folder: Path, document: Path = DOCUMENT) -> None:
    """Import the replies as the cells of two rows, and write the document."""
    files = {row: folder / "predictions" / name for row, name in REPLIES.items()}
    with TemporaryDirectory() as home:
        add("mirage", folder / "benchmark.json", home=home)
        imported = {row: str(path) for row, path in files.items()}
        made = study(STUDY, rows=list(REPLIES), imported=imported, home=home, progress=False)
        with open_store(made.settings) as store:
            parts = [_head(made, list(files.values())), _table(made), _as_printed(made, store), _readings(made, store)]
    document.parent.mkdir(exist_ok=True)
    document.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")


def _head(made: StudyResult, files: list[Path]) -> str:
    sums = "\n".join(f"- `{path.name}`, SHA-256 `{hashlib.sha256(path.read_bytes()).hexdigest()}`" for path in files)
    return f"""# {made.study.title}

GPT-3.5's two rows, from recorded replies.

Written on {datetime.now(UTC):%Y-%m-%d} by ragrounds {rr.__version__}: `python docs/scripts/studies.py MIRAGE_FOLDER`.

The replies of gpt-35-turbo-16k that the authors published with MIRAGE take the place of asking a model that is no
longer served; they are read, scored and set beside the printed figures as a run's answers are:

```sh
ragrounds data add mirage MIRAGE_FOLDER/benchmark.json
ragrounds study run {STUDY} --imported 'GPT-3.5, CoT=MIRAGE_FOLDER/predictions/{REPLIES["GPT-3.5, CoT"]}' \\
    --imported 'GPT-3.5, MedRAG=MIRAGE_FOLDER/predictions/{REPLIES["GPT-3.5, MedRAG"]}' \\
    {" ".join(f"--row {row!r}" for row in REPLIES)}
```

{sums}"""


def _table(made: StudyResult) -> str:
    rows = tuple(row for row in made.table.rows if row.name in REPLIES)
    return "## The table\n\n" + markdown(study_tables(replace(made.table, rows=rows)))


def _cells(made: StudyResult, row: str) -> list[tuple[str, str, float | None]]:
    """Column, run and printed figure of each cell of a row that shows a run of its own."""
    (found,) = (one for one in made.table.rows if one.name == row)
    return [(cell.column, cell.runs[0], cell.published) for cell in found.cells if len(cell.runs) == 1]


def _as_printed(made: StudyResult, store: Store) -> str:
    """What the replies that are missing from the published files leave open."""
    lines = ["| row | dataset | questions | right by the replies | right as printed | difference | replies missing |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|"]
    errors = []
    for row in REPLIES:
        for column, run, printed in _cells(made, row):
            kept = store.run(run)
            missing = sum(not one.text for one in store.attempts(kept))
            recorded = [one.text for one in store.attempts(kept) if one.status == "failed" and one.text]
            errors += [f"{row}, {column}: {len(recorded)}"] if recorded else []
            right = round(sum(score.value or 0 for score in store.scores(kept, "mirage")))
            wanted = round((printed or 0) / 100 * kept.count)
            counts = f"{kept.count:,} | {right:,} | {wanted:,} | {wanted - right} | {missing}"
            lines.append(f"| {row} | {column} | {counts} |")
    return (
        "## Replies that are missing\n\nEvery printed digit comes out where the files hold every reply. Some files of "
        "the setting without retrieval are empty lists; these questions count as wrong here, and some of them were "
        "right when the paper was printed: never more than are missing.\n\n"
        + "\n".join(lines)
        + "\n\nWhere the study's note counts recorded replies though none is missing, the files hold "
        f"the text of an error in place of a reply ({'; '.join(errors)}). Such a text is no answer; it was read when "
        "the paper was printed too, so the figure is the same."
    )


def _readings(made: StudyResult, store: Store) -> str:
    """The same replies by stricter readings, and what became of them."""
    lines = ["| row | dataset | mirage | strict | robust | answered | abstained | refused | unreadable | empty |"]
    lines += ["|---|---|" + "---:|" * 8]
    for row in REPLIES:
        for column, run, _ in _cells(made, row):
            kept = store.run(run)
            shares = []
            for scorer in ("mirage", "strict", "robust"):
                values = [score.value or 0.0 for score in store.scores(kept, scorer)]
                shares.append(f"{100 * sum(values) / len(values):.2f}")
            said = Counter(score.answer_status for score in store.scores(kept, "robust"))
            counts = [f"{said[status]:,}" for status in ("answered", "abstained", "refused", "unreadable", "empty")]
            lines.append(f"| {row} | {column} | {' | '.join(shares)} | {' | '.join(counts)} |")
    return (
        "## What the published reading hides\n\nBy `mirage` a reply without a letter counts as A. `strict` takes the "
        "form that was asked for and nothing else, `robust` the letter that a reply means; the last columns say how "
        "`robust` read the replies.\n\n" + "\n".join(lines)
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
