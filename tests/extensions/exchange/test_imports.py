"""Others' files as runs: MedAgentsBench, Inspect, lm-eval, tables; what the audit finds; hostile files."""

from __future__ import annotations

import csv
import json
import tracemalloc
import zipfile
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.stats.paired import binomial_p, holm
from ragrounds.extensions.exchange.importers.importer import BadRow
from ragrounds.extensions.exchange.importers.records import read_records
from ragrounds.extensions.exchange.imports import ImportedFiles

QUESTIONS = [
    {"id": f"q{number}", "question": f"Which of these is number {number} of the whole list of them?",
     "options": {"A": "one", "B": "two", "C": "three"}, "answer": "ABC"[number % 3]}
    for number in range(30)
]  # fmt: skip


RightAnswers = dict[str, dict[str, float | None]]


@pytest.fixture(scope="module")
def medagents(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ImportedFiles, Path]:
    home = tmp_path_factory.mktemp("home")
    return rr.import_runs(data / "medagentsbench", home=home), home


@pytest.fixture(scope="module")
def right_answers(medagents: tuple[ImportedFiles, Path]) -> RightAnswers:
    """Agents with the scores of their questions."""
    imported, home = medagents
    scores = {}
    for run in imported.runs:
        frame = rr.load(run.run.id, home=home).to_pandas("scores")
        frame = frame[frame["scorer"] == "reported"]
        scores[run.run.identity["agent"]] = dict(zip(frame["question_id"], frame["value"], strict=True))
    return scores


def pairs(right_answers: RightAnswers, dataset: str = "") -> dict[tuple[str, str], tuple[int, ...]]:
    """(model, method) → questions of both, right by the method, by CoT, by one of them alone."""
    counted: dict[tuple[str, str], tuple[int, ...]] = {}
    for agent, values in right_answers.items():
        model = next(name for name in ("gpt-4o", "DeepSeek-V3") if agent.startswith(name))
        base = right_answers[f"{model}-cot"]
        both = [id for id in values if id in base and id.startswith(dataset)]
        hits = [(values[id] == 1, base[id] == 1) for id in both]
        counted[model, agent.removeprefix(f"{model}-")] = (
            len(both), sum(one for one, _ in hits), sum(other for _, other in hits),
            sum(one and not other for one, other in hits), sum(other and not one for one, other in hits),
        )  # fmt: skip
    return counted


def expected(data: Path, name: str) -> list[dict[str, str]]:
    with (data / "medagentsbench" / name).open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_published_pairs_come_out(right_answers: RightAnswers, data: Path) -> None:
    for name in ("expected_pairs_pooled8.csv", "expected_pairs_by_dataset24.csv"):
        rows, p = expected(data, name), list[float]()
        for row in rows:
            n, method, cot, only_method, only_cot = pairs(right_answers, row.get("dataset", ""))[
                row["model"], row["method"]
            ]
            wanted = [int(row[key]) for key in ("n", "correct", "correct_cot", "only_method", "only_cot")]
            assert [n, method, cot, only_method, only_cot] == wanted
            p.append(binomial_p(only_method, only_cot))
            assert p[-1] == pytest.approx(float(row["p"]), rel=1e-4)
        assert holm(p) == pytest.approx([float(row["holm"]) for row in rows], rel=1e-4)


@pytest.mark.slow
def test_renumbered_files_are_matched_by_text(right_answers: RightAnswers, data: Path) -> None:
    for row in expected(data, "expected_medagents_by_text.csv"):
        dataset = "" if row["datasets"] == "shared3" else row["datasets"]
        found = pairs(right_answers, dataset)[row["model"], "medagents"]
        assert found == tuple(int(row[key]) for key in (
            "n", "correct_medagents", "correct_cot", "only_medagents", "only_cot"))  # fmt: skip


def longer(data: Path, row: dict[str, str]) -> int:
    """Answers of a file that are longer than a letter, by the first row of each id."""
    name = f"{row['model']}-{row['dataset']}-test_hard-{row['method']}.json"
    first: dict[str, object] = {}
    for one in json.loads((data / "medagentsbench" / "output" / row["dataset"] / name).read_text()):
        first.setdefault(str(one["realidx"]), one["predicted_answer"])
    return sum(isinstance(answer, str) and len(answer.strip()) > 1 for answer in first.values())


@pytest.mark.slow
def test_every_known_defect_is_named_unasked(medagents: tuple[ImportedFiles, Path], data: Path) -> None:
    made, home = medagents
    agents = {one.run.id: one.run.identity["agent"] for one in made.runs}
    said = [(agents.get(one.run, ""), one.kind, one.text) for one in made.findings]

    def has(agent: str, kind: str, *parts: str) -> bool:
        return any(a == agent and k == kind and all(part in text for part in parts) for a, k, text in said)

    for row in expected(data, "defects.csv"):
        agent, dataset = f"{row['model']}-{row['method']}", row["dataset"]
        if int(row["duplicate_rows"]):
            assert has(agent, "doubled", f"{row['duplicate_rows']} rows")
        if int(row["ids_foreign"]):
            assert has(agent, "renumbered")
        if int(row["ids_missing"]) and not int(row["ids_foreign"]):
            assert has(agent, "missing", f"{row['ids_missing']} question")
        if int(row["blank"]):
            assert has(agent, "blank", dataset, f"{row['blank']} of")
        if int(row["nan"]):
            assert has(agent, "blank", dataset, f"{row['nan']} of", "NaN")
        if int(row["longer_than_one_letter"]):
            count = longer(data, row)
            if not int(row["duplicate_rows"]):
                assert count == int(row["longer_than_one_letter"])
            assert has(agent, "no letter", dataset, f": {count} of")
        if int(row["letter_outside_options"]):
            assert has(agent, "outside", dataset, f"{row['letter_outside_options']} of")
        if int(row["rows_without_tokens"]):
            assert has(agent, "usage", dataset)
        if row["distinct_seconds"] == "1":
            assert has(agent, "constant", dataset)
    for dataset in ("medbullets", "mmlu-pro", "pubmedqa"):
        assert has("gpt-4o-few_shot", "one letter", dataset)
    assert has("gpt-4o-mdagents", "one letter", "mmlu-pro", "43")
    assert has("DeepSeek-V3-mdagents", "one letter", "mmlu-pro", "50")
    assert has("gpt-4o-medagents", "never given", "mmlu-pro", "I")
    assert any(kind == "repeated" for _, kind, _ in said)
    run = next(id for id, agent in agents.items() if agent == "gpt-4o-mdagents")
    from ragrounds.api.data import audit_run

    assert {one.kind for one in audit_run(run, home=home)} >= {"doubled", "one letter", "outside"}


@pytest.mark.slow
def test_tokens_are_the_files_own_and_unknown_where_there_are_none(medagents: tuple[ImportedFiles, Path]) -> None:
    rows = {row.run: row for row in medagents[0].comparison.rows}
    by_agent = {one.run.identity["agent"]: rows[one.run.id] for one in medagents[0].runs}
    assert by_agent["gpt-4o-aflow"].usage is None
    used = by_agent["gpt-4o-few_shot"].usage
    assert used is not None
    assert (used.input + used.output) / 289 == pytest.approx(1374.2, abs=0.05)


@pytest.mark.parametrize("version", ["0.3.100", "0.3.285"])
def test_logs_of_inspect_have_the_means_that_it_prints(data: Path, tmp_path: Path, version: str) -> None:
    folder = data / "foreign-logs" / f"inspect-{version}"
    for name, right, count, tokens in (
        ("a-eval", 14, 20, 2_309), ("a-json", 14, 20, 2_309), ("b-eval", 11, 20, 2_309), ("b-json", 11, 20, 2_309),
        ("ab-epochs2", 25, 40, 4_618),
    ):  # fmt: skip
        (path,) = folder.glob(f"{name}__*")
        found = rr.import_runs(path, agent=name, home=tmp_path)
        assert not found.bad_rows
        (row,) = found.comparison.rows
        assert row.usage is not None
        assert row.usage.input + row.usage.output == tokens
        (table,) = (table for table in found.comparison.tables if table.scorer == "reported")
        assert table.lines[0].overall.value == pytest.approx(right / count)
        ours = next(table for table in found.comparison.tables if table.scorer == "robust")
        assert ours.lines[0].overall.value == pytest.approx(right / count)
    one, other = (rr.load(name, home=tmp_path).run.id for name in ("a-eval", "b-eval"))
    compared = rr.compare([one, other], home=tmp_path).comparison
    pair = next(table for table in compared.tables if table.scorer == "robust").pairs[0]
    assert {pair.tests.first_only, pair.tests.second_only} == {5, 2}
    assert pair.tests.p_mcnemar == pytest.approx(0.453125)


def test_a_log_that_stopped_has_its_failed_sample(data: Path, tmp_path: Path) -> None:
    (path,) = (data / "foreign-logs/inspect-0.3.100").glob("a-error__*")
    found = rr.import_runs(path, home=tmp_path)
    (row,) = found.comparison.rows
    assert row.statuses == {"completed": 12, "failed": 1}


@pytest.mark.parametrize(("version", "right"), [("0.4.13", 6), ("0.4.8", 4)])
def test_samples_of_lm_eval_have_the_means_that_it_prints(data: Path, tmp_path: Path, version: str, right: int) -> None:
    folder = data / "foreign-logs" / f"lm-eval-{version}" / "dummy"
    for task, hits in (("mc", right), ("gen", 0)):
        (path,) = folder.glob(f"samples_own20_{task}_*.jsonl")
        found = rr.import_runs(path, home=tmp_path)
        (table,) = (table for table in found.comparison.tables if table.scorer == "reported")
        assert table.lines[0].overall.value == pytest.approx(hits / 20)
        assert found.comparison.rows[0].usage is None


def test_tables_of_colleagues_are_read_by_a_guessed_map(data: Path, tmp_path: Path) -> None:
    own = json.loads((data / "foreign-logs/source/own20.json").read_text())
    lines = [{"id": one["id"], "question": one["input"], "options": one["choices"], "answer": one["target"]}
             for one in own]  # fmt: skip
    bench = tmp_path / "own20.jsonl"
    bench.write_text("\n".join(map(json.dumps, lines)))
    folder = data / "foreign-logs/csv"
    found = rr.import_runs([folder / "simple_a.csv", folder / "simple_b.csv"], f"jsonl:{bench}", home=tmp_path)
    table = next(table for table in found.comparison.tables if table.scorer == "robust")
    assert sorted(line.overall.value or 0 for line in table.lines) == pytest.approx([0.55, 0.70])
    assert [row.usage and row.usage.input + row.usage.output for row in found.comparison.rows] == [2309, 2309]
    assert any(one.kind == "blank" for one in found.findings)
    both = rr.import_runs(folder / "both_semicolon_bom.csv", f"jsonl:{bench}", home=tmp_path)
    assert {one.run.identity["agent"]: one.matching.rows for one in both.runs} == {"A": 21, "B": 19}
    assert {one.kind for one in both.findings} >= {"doubled", "missing"}


def benchmark(folder: Path) -> str:
    (folder / "bench.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)))
    return f"jsonl:{folder / 'bench.jsonl'}"


def test_bad_rows_are_named_and_the_others_kept(tmp_path: Path) -> None:
    rows = [json.dumps({"id": one["id"], "prediction": one["answer"]}) for one in QUESTIONS]
    rows[3:3] = ["garbage {", "[" * 100_000, '{"id": "q1"}', "3"]
    body = "\n".join(rows).encode() + b'\n{"id": "q5", "prediction": "\xff\xfe"}\n'
    (tmp_path / "theirs.jsonl").write_bytes(body)
    found = rr.import_runs(tmp_path / "theirs.jsonl", benchmark(tmp_path), home=tmp_path / "home")
    assert found.bad_rows == 5
    assert [line.split(": ")[0] for line in found.bad] == [f"theirs.jsonl, row {n}" for n in (4, 5, 6, 7, 35)]
    assert found.runs[0].matching.rows == 30


def test_a_question_without_a_row_is_in_no_mean_and_is_said(tmp_path: Path) -> None:
    asked = [{"id": f"q{i}", "question": f"{i}?", "options": {"A": "x", "B": "y"}, "answer": "A"} for i in range(4)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
    (tmp_path / "theirs.csv").write_text("id,answer\nq0,A\nq1,B\nq2,A\n", encoding="utf-8")
    theirs, wanted = tmp_path / "theirs.csv", f"jsonl:{tmp_path / 'q.jsonl'}"
    made = rr.import_runs(theirs, wanted, agent="theirs", home=tmp_path / "home")
    (line,) = made.comparison.tables[0].lines
    assert (line.overall.value, line.overall.n, line.overall.missing) == (pytest.approx(2 / 3), 3, 1)
    assert any("has no answer to 1 questions; they are in no mean." in note for note in made.comparison.notes)


def test_of_doubled_answers_the_first_counts(tmp_path: Path) -> None:
    """q0 is right first and q1 last; q2 is answered once."""
    answers = [("q0", "A"), ("q1", "C"), ("q0", "B"), ("q1", "B"), ("q2", "C")]
    (tmp_path / "theirs.csv").write_text("id,answer\n" + "".join(f"{id},{answer}\n" for id, answer in answers))
    home = tmp_path / "home"
    (made,) = (found := rr.import_runs(tmp_path / "theirs.csv", benchmark(tmp_path), home=home)).runs
    frame = rr.load(made.run.id, home=home).to_pandas("attempts").set_index("question_id")
    assert [frame.loc[f"bench/{id}", "text"] for id in ("q0", "q1", "q2")] == ["A", "C", "C"]
    assert found.comparison.tables[0].lines[0].overall.value == pytest.approx(2 / 3)
    assert [one.text for one in found.findings if one.kind == "doubled"] != []


@pytest.mark.parametrize(
    "body",
    [b"", b"\0" * 5000, b"\x1f\x8b" + b"\0" * 50, b"PK\x03\x04_journal/start.json" + b"x" * 100, b"[" * 10**6,
     b"{" * 10**6, b'"' * 10**6, b"\xff\xfe" + b"\xd8" * 1001, b"[" + b"1," * 1000],
)  # fmt: skip
def test_garbage_is_one_error(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "x.json").write_bytes(body)
    with pytest.raises(UserError):
        rr.import_runs(tmp_path / "x.json", home=tmp_path / "home")


def test_a_bomb_in_a_log_is_one_bad_row(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "log.eval", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as log:
        log.writestr("_journal/start.json", '{"eval": {"task": "t", "model": "m"}}')
        log.writestr("header.json", '{"eval": {"task": "t", "model": "m"}}')
        with log.open("samples/a_epoch_1.json", "w", force_zip64=True) as member:
            for _ in range(200):
                member.write(b" " * 10**6)
    tracemalloc.start()
    with pytest.raises(UserError, match="unpacks to"):
        rr.import_runs(tmp_path / "log.eval", home=tmp_path / "home")
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_a_large_file_is_read_in_bounded_memory(tmp_path: Path, form: str) -> None:
    count, text = 1_500, "x" * 20_000
    path = tmp_path / f"large.{form}"
    with path.open("w") as file:
        file.write({"json": "[", "csv": "id,answer\n", "jsonl": ""}[form])
        for number in range(count):
            one = json.dumps({"id": str(number), "answer": text})
            file.write(
                {"json": f"{',' if number else ''}{one}", "csv": f"{number},{text}\n", "jsonl": f"{one}\n"}[form]
            )
        file.write("]" if form == "json" else "")
    tracemalloc.start()
    assert sum(not isinstance(one, BadRow) for one in read_records(path)) == count
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


def test_two_files_are_compared_by_a_paired_test_and_nothing_is_kept(tmp_path):
    """Old is right on 10 of 20 questions, new on these and 8 more: McNemar's exact p is 2 / 2**8."""
    for name, right in (("old", 10), ("new", 18)):
        rows = [
            {"id": f"q{number}", "question": f"Which letter comes {number}?", "options": {"A": "this", "B": "that"},
             "gold": "A", "answer": "A" if number < right else "B"}
            for number in range(20)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    files = [str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")]
    compared = rr.compare(files, baseline="old", claims="accuracy(new) > accuracy(old)", home=tmp_path / "home")
    (pair,) = compared.comparison.tables[0].pairs
    assert pair.tests.p_mcnemar == pytest.approx(2 / 2**8)
    assert compared.decision == "holds"
    assert any(line.endswith("20 rows, 20 matched by id.") for line in compared.imported)
    assert len(compared.to_pandas("attempts")) == 40
    assert not (tmp_path / "home").exists()
    (tmp_path / "agent.toml").write_text('graph = "direct"\n', encoding="utf-8")
    for stored in ("agent.toml", "direct"):  # a file of an agent, and one file among others, name runs of the store
        with pytest.raises(UserError, match="There is no run"):
            rr.compare([str(tmp_path / stored), *files[: stored == "direct"]], home=tmp_path / "home")
