"""Small made data behind the names that reference pages use: a BEIR folder, MIRAGE's file, reports, labels.

The texts are those of the sample that ships with the package. A file is made where a page names it and does not make it
itself; the pages that begin in an empty folder (`complete` in ``blocks.toml``) get none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_SAMPLE = Path(__file__).resolve().parents[3] / "ragrounds" / "sample"
_SMALL = 30


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (_SAMPLE / name).read_text(encoding="utf-8").splitlines()]


def _lines(path: Path, rows: Iterable[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def beir(folder: Path) -> None:
    """A set in BEIR's form: the sample's passages, its questions as queries, their documents as relevant."""
    questions = _read("questions.jsonl")[:_SMALL]
    _lines(folder / "corpus.jsonl", _read("corpus.jsonl"))
    _lines(folder / "queries.jsonl", ({"_id": one["id"], "text": one["question"]} for one in questions))
    (folder / "qrels").mkdir(exist_ok=True)
    for split in ("train", "test"):
        rows = [f"{one['id']}\t{document}\t1\n" for one in questions for document in one["documents"]]
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows), encoding="utf-8")


def mirage(path: Path) -> None:
    """MIRAGE's `benchmark.json` with some of the sample's questions as all of its datasets."""
    chosen = [one for one in _read("questions.jsonl") if set(one["options"]) == set("ABCD")][:12]
    yes_no = [one for one in _read("questions.jsonl") if one["answer"] in ("yes", "no", "maybe")][:12] or chosen
    asked = {
        name: {
            f"{number:04}": {"question": one["question"], "options": one["options"], "answer": one["answer"]}
            for number, one in enumerate(yes_no if name in ("pubmedqa", "bioasq") else chosen)
        }
        for name in ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")
    }
    path.write_text(json.dumps(asked), encoding="utf-8")


def reports(folder: Path) -> None:
    """A folder of reports as text."""
    folder.mkdir(parents=True, exist_ok=True)
    passages = _read("corpus.jsonl")
    for number in range(8):
        parts = passages[number * 6 : number * 6 + 6]
        text = "\n\n".join(f"## {one['title']}\n\n{one['text']}" for one in parts)
        (folder / f"report-{number}.md").write_text(
            f"# {parts[0]['title']}: a case report\n\n{text}\n", encoding="utf-8"
        )


def queries(path: Path) -> None:
    """Queries without judgements."""
    _lines(path, ({"_id": one["id"], "text": one["question"]} for one in _read("questions.jsonl")[:_SMALL]))


def questions(path: Path) -> None:
    """Own questions."""
    kept = ("id", "question", "options", "answer", "group", "facts")
    rows = (one for one in _read("questions.jsonl")[:_SMALL])
    _lines(path, ({key: one[key] for key in kept if one.get(key)} for one in rows))


def medrag(folder: Path) -> None:
    """Chunks in MedRAG's form."""
    rows = (
        {"id": one["_id"], "title": one["title"], "content": one["text"], "contents": f"{one['title']}. {one['text']}"}
        for one in _read("corpus.jsonl")
    )
    _lines(folder / "part-1.jsonl", rows)


def trec_run(path: Path) -> None:
    """A ranking of others, in TREC's form."""
    rows = [
        f"{one['id']} Q0 {document} {rank} {1 / rank:.4f} theirs\n"
        for one in _read("questions.jsonl")[:_SMALL]
        for rank, document in enumerate([*one["documents"], "p001"], 1)
    ]
    path.write_text("".join(rows), encoding="utf-8")


def mcp_server(path: Path) -> None:
    """An MCP server with one tool."""
    path.write_text(
        "from mcp.server.fastmcp import FastMCP\n\nserver = FastMCP('doses')\n\n\n@server.tool()\n"
        'def dose(drug: str) -> str:\n    """The usual dose of a drug."""\n    return f\'{drug}: see the label\'\n\n\n'
        "server.run()\n",
        encoding="utf-8",
    )


MAKERS: dict[str, Callable[[Path], None]] = {
    "FOLDER": beir,
    "scifact": beir,
    "nfcorpus": beir,
    "queries": beir,
    "notes": beir,
    "benchmark.json": mirage,
    "reports": reports,
    "more/reports": reports,
    "textbooks": medrag,
    "chunks/pubmed": medrag,
    "theirs.run": trec_run,
    "doses.py": mcp_server,
    "queries.jsonl": queries,
    "questions.jsonl": questions,
}
"""Name → what makes it at a path."""
