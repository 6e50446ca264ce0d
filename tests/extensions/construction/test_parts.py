"""What the provider refuses of an item costs that part and not the item; what is left out is counted by reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from ragrounds.base.records import Status
from ragrounds.evals.benchmarks import load, select
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.extensions.construction.judged_sets import Corpus
from ragrounds.extensions.construction.outcome import REFUSED
from ragrounds.extensions.construction.stages import CALL_FAILED, MALFORMED, Rejected, none_left, of_part, reason_counts
from ragrounds.models.faults import CallFailed
from tests.conftest import Cli
from tests.extensions.construction.annotating import (
    Committee,
    Mined,
    counted,
    judged_by_all,
    kappa,
    read_lines,
)
from tests.extensions.construction.test_missing import folder_of_the_sample
from tests.servers.process import Running, running

ONE_IN, LIMIT = 4, 12
SPECS, PANEL = ("bm25", "bm25[analyser=plain]"), ("small-1", "small-2", "small-3")


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running("extensions.construction.annotator", "--refused", str(ONE_IN)) as started:
        yield started


def test_a_refused_grade_costs_its_document_alone(command: Cli, home: Path, server: Running, tmp_path: Path) -> None:
    out = tmp_path / "mined"
    asked = ["build", "relevance-mining", "sample", "--corpus", "sample", "--top-k", "8", "--candidates", "10"]
    asked += [part for spec in SPECS for part in ("--retriever", spec)]
    asked += [part for model in PANEL for part in ("--panel", f"openai:{model}")]
    asked += ["--limit", str(LIMIT), "--model", "openai:grader", "--base-url", server.url, "--display", "none"]
    done = command(*asked, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    before = server.stats()
    assert command(*asked, "--out", str(out), "--json").stdout == done.stdout
    assert server.stats() == before, "a refusal is recorded like any other reply"
    loaded = load("sample", home)
    drawn = select(loaded, limit=LIMIT, seed=0).questions
    expected = Mined(loaded, drawn, Committee(SPECS, "sample", home), PANEL, 8, 10, 8, 4, ONE_IN)
    assert len(expected.refused) > 8
    card = json.loads(done.stdout)
    lines = counted(card)
    assert {stage: lines[stage] for stage in expected.stages()} == expected.stages()
    assert lines["grade"][2] == {}
    positives = {(id, document) for id, fates in expected.judged.items() for document in fates.get("positive", ())}
    rows = read_lines(out / "qrels.jsonl")
    assert {(f"sample/{row['q_id']}", row["p_id"]) for row in rows if row["score"]} == positives
    assert card["made"]["figures"]["documents"] == expected.documents()
    recorded = [row for row in read_lines(out / "rejected.jsonl") if row["stage"] == "grade"]
    left_out = [
        (f"sample/{row['id']}", row["detail"].partition(":")[0]) for row in recorded if row["reason"] == REFUSED
    ]
    assert sorted(left_out) == sorted(expected.refused)
    assert all("content filter" in row["detail"] for row in recorded if row["reason"] == REFUSED)
    reasons = Counter(row["reason"] for row in recorded)
    assert reasons.keys() == {REFUSED, MALFORMED}
    assert any(f"{reasons[REFUSED]:,} {REFUSED}" in note for note in card["made"]["notes"])


def test_a_refused_label_keeps_its_query_and_what_all_agree_on_is_kept(
    command: Cli, home: Path, server: Running, tmp_path: Path
) -> None:
    forms = ("What treats {}?", "How common is {} in old age?", "Is {} painful?", "What should one eat after {}?")
    queries = [form.format(f"{kind} heart attack") for form in forms for kind in ("a", "a severe", "a second")]
    (tmp_path / "queries.jsonl").write_text(
        "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(queries))
    )
    out = tmp_path / "labelled"
    done = command(
        "build", "consensus-labels", str(tmp_path / "queries.jsonl"), "--corpus", "sample", "--relevant", "SABC",
        "--labeller", "openai:labeller-1", "--labeller", "openai:labeller-2", "--top-k", "6", "--candidates", "6",
        "--batch-size", "2", "--base-url", server.url, "--display", "none", "--out", str(out), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    assert counted(card)["label"] == (len(queries), len(queries), {})
    rows = read_lines(out / "rejected.jsonl")
    faults = [row for row in rows if row["stage"] == "label" and row["reason"] == REFUSED]
    assert faults
    lost = sum(grade is None for row in read_lines(out / "grades.jsonl") for grade in row["grades"])
    passages = sum(int(row["detail"].split()[2]) for row in rows if row["stage"] == "label")
    assert lost == passages
    # Why a query has no positive is said too.
    assert all(row["detail"] for row in rows)

    texts = {str(number): text for number, text in enumerate(queries)}
    given = {(row["query"], row["document"]): row["grades"] for row in read_lines(out / "grades.jsonl")}
    committee = Committee(["bm25"], "sample", home)
    assert given.keys() == {(id, found) for id in texts for found in committee.candidates((texts[id],), 6, 6)}
    fates = {pair: judged_by_all(grades, "SABC") for pair, grades in given.items()}
    counts = Counter(fates.values())
    figures = card["made"]["figures"]["consensus"]
    assert figures["counts"] == counts
    assert counts.keys() == {"positive", "negative", "dropped", "unlabelled"}
    tables = [[grades.count(grade) for grade in "SABCD"] for grades in given.values() if None not in grades]
    assert figures["kappa"] == pytest.approx(kappa(tables), abs=1e-9)
    with_positive = {query for (query, _), fate in fates.items() if fate == "positive"}
    assert counted(card)["verify"][:2] == (len(queries), len(with_positive))
    positive = {document for (_, document), fate in fates.items() if fate == "positive"}
    of_kept = {pair: fate for pair, fate in fates.items() if pair[0] in with_positive}
    unclear = {document for (_, document), fate in of_kept.items() if fate in ("dropped", "unlabelled")} - positive
    held = {row["_id"] for row in read_lines(out / "corpus.jsonl")}
    assert held == {passage.id for passage in Corpus("sample", home)} - unclear
    judged = [tuple(line.split("\t")) for line in (out / "qrels" / "test.tsv").read_text().splitlines()[1:]]
    labels = {"positive": "1", "negative": "0"}
    assert set(judged) == {
        (*pair, labels[fate]) for pair, fate in of_kept.items() if fate in labels and pair[1] not in unclear
    }
    reranked = command("retrieve", "--benchmark", f"rerank:{out / 'sets' / 'rerank.jsonl'}", "--json")
    assert 0 < json.loads(reranked.stdout)["MAP@10"] <= 1
    spec = 'dense[model="import:tests.tools.embedding_doubles:Hashing"]'
    alike = command("retrieve", "--benchmark", f"sts:{out / 'sets' / 'sts.jsonl'}", "--retriever", spec, "--json")
    assert alike.returncode == 0, alike.stderr


def test_queries_that_are_lost_are_counted_with_their_reason(command: Cli, server: Running, tmp_path: Path) -> None:
    folder, out = tmp_path / "tiny", tmp_path / "mended"
    folder_of_the_sample(folder, LIMIT)
    done = command(
        "build", "false-negatives", f"beir:{folder}", "--model", "openai:grader", "--top-k", "20", "--batch-size", "20",
        "--base-url", server.url, "--display", "none", "--out", str(out), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    card = json.loads(done.stdout)
    entered, kept, dropped = counted(card)["grade"]
    assert entered == LIMIT
    assert dropped.keys() == {REFUSED, "no model gave a label that can be read"}
    found = card["made"]["figures"]["missing"]
    assert (found["queries"], found["left_out"], found["left_out_why"]) == (kept, LIMIT - kept, dropped)
    [note] = [note for note in card["made"]["notes"] if "in no figure" in note]
    assert f"{LIMIT - kept} queries" in note
    assert f"{dropped[REFUSED]} {REFUSED}" in note
    rows = read_lines(out / "rejected.jsonl")
    assert Counter(row["reason"] for row in rows) == dropped
    assert all(row["detail"] for row in rows)


async def raising(error: Exception) -> str:
    raise error


@pytest.mark.parametrize(("kind", "reason"), [("bad_request", CALL_FAILED), ("context_too_long", CALL_FAILED)])
async def test_a_call_that_fails_alike_each_time_costs_its_part(kind: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        await of_part(raising(CallFailed(kind, "400: no")))
    assert (rejected.value.reason, rejected.value.detail) == (reason, f"{kind}: 400: no")
    # Where every part fails so it may be the server's doing: another run may mend it.
    with pytest.raises(CallFailed):
        none_left([Rejected(REFUSED), rejected.value])
    none_left([Rejected(REFUSED), Rejected(MALFORMED)])


async def test_what_another_run_may_mend_ends_the_item() -> None:
    for status in ("capped", "failed"):
        ended: Status = status  # type: ignore[assignment]
        with pytest.raises(AttemptEnded):
            await of_part(raising(AttemptEnded(ended, "x")))
    with pytest.raises(CallFailed):
        await of_part(raising(CallFailed("timeout", "x")))

    async def said() -> str:
        return "yes"

    asked: Awaitable[str] = said()
    assert await of_part(asked) == "yes"


def test_reasons_are_said_most_first() -> None:
    assert reason_counts([]) == ""
    assert reason_counts(["b", "a", "a"]) == " (2 a, 1 b)"
