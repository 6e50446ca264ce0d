"""`ragrounds build false-negatives`: estimates by hand and by simulation, and end to end where the truth is known."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ragrounds.base.records import Passage, Query, Stem
from ragrounds.extensions.construction.false_negative_estimate import GradedQuery, estimate_missing, query_counts
from ragrounds.extensions.construction.false_negatives import candidates
from ragrounds.tools.retriever import open_searcher
from tests.conftest import Cli
from tests.extensions.construction.annotating import counted, read_lines
from tests.extensions.construction.builder_server import start
from tests.extensions.construction.conftest import Builder
from tests.servers.process import ROOT

QUERIES = 12


def graded(query: str, candidates: int, grades: dict[int, str | None], labelled: Sequence[int]) -> GradedQuery:
    return GradedQuery(
        query=query,
        cluster="",
        candidates=tuple(f"d{rank}" for rank in range(1, candidates + 1)),
        grades={f"d{rank}": grade for rank, grade in grades.items()},
        labelled=frozenset(f"d{rank}" for rank in labelled),
    )


def test_figures_of_whole_queries_are_counts() -> None:
    # Found 4; labelled 1 and 3 (and one that is not found); relevant by the grades 1, 2 and 4.
    one = graded("one", 4, {1: "S", 2: "A", 3: "B", 4: "A"}, [1, 3, 9])
    two = graded("two", 3, {1: "D", 2: "C", 3: "S"}, [3])
    found = estimate_missing([one, two], "SA", depth=4)
    assert (found.labelled.value, found.relevant.value) == (1.5, 2.0)
    assert (found.false_positives.value, found.false_negatives.value) == (0.5, 1.0)
    assert (found.pairs, found.unreadable, found.left_out) == (7, 0, 0)
    # Two queries say nothing of how queries vary.
    assert (found.false_negatives.low, found.false_negatives.high) == (None, None)


def test_a_document_without_a_grade_is_stood_for_by_the_others() -> None:
    # Of six documents three have a grade that can be read: each stands for two.
    query = graded("one", 6, {1: None, 2: "A", 3: "S", 4: None, 5: "D", 6: None}, [5])
    found = query_counts(query, "SA")
    assert found is not None
    assert (found.false_negatives, found.false_positives, found.relevant) == (4.0, 2.0, 1 - 2.0 + 4.0)
    assert found.labelled == 1
    unread = graded("two", 2, {1: None, 2: None}, [])
    assert query_counts(unread, "SA") is None
    assert estimate_missing([query, unread], "SA", depth=6).left_out == 1


def folder_of_the_sample(folder: Path, count: int = QUERIES) -> dict[str, list[str]]:
    """The shipped corpus and questions as a BEIR folder; gives query → labelled documents."""
    (folder / "qrels").mkdir(parents=True)
    sample = ROOT / "ragrounds" / "sample"
    (folder / "corpus.jsonl").write_bytes((sample / "corpus.jsonl").read_bytes())
    questions = read_lines(sample / "questions.jsonl")[:count]
    queries = [json.dumps({"_id": each["id"], "text": each["question"]}) for each in questions]
    (folder / "queries.jsonl").write_text("\n".join(queries))
    labelled = {each["id"]: list(each["documents"]) for each in questions}
    write_labels(folder, labelled)
    return labelled


def write_labels(folder: Path, labelled: dict[str, list[str]]) -> None:
    lines = [f"{query}\t{document}\t1" for query, all_ in labelled.items() for document in all_]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(lines) + "\n")


def read(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Documents and queries by id."""
    found = []
    for name in ("corpus.jsonl", "queries.jsonl"):
        rows = [json.loads(line) for line in (folder / name).open(encoding="utf-8") if line.strip()]
        found.append({row["_id"]: row["text"] for row in rows})
    return found[0], found[1]


def truth_of(
    folder: Path, relevant: dict[str, list[str]], malformed: Sequence[tuple[str, str]] = ()
) -> dict[str, list[str]]:
    """Return what the server must know. `malformed` are pairs of query and document, or of query and an empty text."""
    texts, queries = read(folder)
    truth: dict[str, list[str]] = {
        queries[query]: [start(texts[document]) for document in all_] for query, all_ in relevant.items()
    }
    truth["malformed"] = [
        f"{queries[query]}|{start(texts[document])}" if document else queries[query] for query, document in malformed
    ]
    return truth


def ranking(folder: Path, home: Path, depth: int = 50) -> dict[str, list[str]]:
    """What BM25 finds, asked here for itself."""
    searcher = open_searcher("bm25", f"beir:{folder}", home)
    queries = read(folder)[1]
    return {
        id: [passage.document for passage in asyncio.run(searcher.search(text, depth))] for id, text in queries.items()
    }


def judgements(path: Path) -> set[tuple[str, str]]:
    return {(query, document) for query, document, _ in map(str.split, path.read_text().splitlines()[1:])}


def test_missing_labels_are_found_and_counted(command: Cli, builder: Builder, tmp_path: Path, home: Path) -> None:
    folder, out = tmp_path / "tiny", tmp_path / "mended"
    labelled = folder_of_the_sample(folder)
    found = ranking(folder, home)
    # The truth: a part of the labels, and documents at some ranks that nobody labelled.
    relevant = {
        query: [*all_[: number % 2 + 1], *[d for d in found[query][number % 5 :: 9] if d not in all_]]
        for number, (query, all_) in enumerate(labelled.items())
    }
    first, second = list(labelled)[:2]
    server = builder(truth=truth_of(folder, relevant, [(first, ""), (second, found[second][3])]))
    ordered = ["build", "false-negatives", f"beir:{folder}", "--out", str(out), "--model", "openai:grader"]
    ordered += ["--base-url", server.url, "--display", "none", "--json"]
    done = command(*ordered)
    stats = server.stats()
    assert done.returncode == 0, done.stderr
    assert command(*ordered).stdout == done.stdout
    assert server.stats() == stats
    card = json.loads(done.stdout)
    assert counted(card) == {
        **dict.fromkeys(("intake", "sample", "run", "candidates"), (QUERIES, QUERIES, {})),
        "grade": (QUERIES, QUERIES - 1, {"no model gave a label that can be read": 1}),
    }
    figures = card["made"]["figures"]["missing"]
    # By hand: all queries but the one without a readable grade; of the second a call of ten documents is lost.
    counts = [
        len([d for d in relevant[query] if d in found[query] and d not in labelled[query]])
        for query in labelled
        if query not in (first, second)
    ]
    rows = read_lines(out / "grades.jsonl")
    assert sum(row["grade"] is None for row in rows) == figures["unreadable"] == 10
    assert {row["query"] for row in rows if row["grade"] is None} == {second}
    lost = {row["document"] for row in rows if row["grade"] is None}
    assert found[second][3] in lost
    by_query = [row for row in rows if row["query"] == second]
    readable = [row for row in by_query if row["grade"]]
    expanded = sum(row["false_negative"] for row in readable) * len(by_query) / len(readable)
    assert figures["false_negatives"]["value"] == pytest.approx((sum(counts) + expanded) / (QUERIES - 1))
    assert figures["queries"] == QUERIES - 1
    assert figures["false_negatives"]["low"] is None  # so few queries give no interval
    exact = {(query, document) for query, all_ in relevant.items() for document in all_ if document in found[query]}
    wanted = {(q, d) for q, d in exact if q != first and d not in labelled[q] and not (q == second and d in lost)}
    original, mended = judgements(out / "qrels" / "original.tsv"), judgements(out / "qrels" / "test.tsv")
    assert original == {(q, d) for q, all_ in labelled.items() for d in all_ if q != first}
    assert mended == original | wanted
    assert wanted

    added = command("data", "add", "beir/mended", str(out))
    assert added.returncode == 0, added.stderr
    verified = json.loads(command("data", "verify", "beir/mended", "--json").stdout)
    assert verified["checked"]["files"]["corpus.jsonl"] is True
    before, after = (
        json.loads(command("retrieve", "--benchmark", f"beir:{out}", "--split", split, "--json").stdout)
        for split in ("original", "test")
    )
    assert before["queries"] == after["queries"] == QUERIES - 1
    assert before["nDCG@10"] != after["nDCG@10"]


class Shelf:
    """A context that finds chunks: three to a document, seven documents."""

    stem = Stem("q", "query")
    parameters: dict[str, int] = {"depth": 5}

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def search(self, query: Query, k: int) -> tuple[Passage, ...]:
        self.asked.append(k)
        chunks = [(f"d{n // 3}", f"d{n // 3}.{n % 3}") for n in range(21)]
        return tuple(Passage(id=id, document=of, title="", text="", corpus="c") for of, id in chunks[:k])


async def test_chunks_of_one_document_are_one_candidate() -> None:
    shelf = Shelf()
    found = await candidates({}, shelf)  # type: ignore[arg-type]
    assert found == {"found": {f"d{n}": f"d{n}.0" for n in range(5)}}
    assert shelf.asked == [5, 20]
    shelf.parameters = {"depth": 50}
    assert len((await candidates({}, shelf))["found"]) == 7, "the corpus holds no more"  # type: ignore[arg-type]
