"""Others' forms, each as its release writes it, in our own words: what is read, and that it stands beside our runs.

Made by promptfoo 0.121.20, DeepEval 4.3.1, ragas 0.4.3, langsmith 0.15.1, arize-phoenix 20.26.1, and
FlashRAG's `Dataset.save` (1ee5249); what nothing reads is cut.
"""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import ragrounds as rr
from ragrounds.api.workspace import open_store
from ragrounds.base.errors import UserError
from ragrounds.base.records import Usage
from ragrounds.base.settings import Settings
from ragrounds.extensions.exchange.importers.importer import IMPORTERS, BadRow, ImportedRow, find_importer
from ragrounds.extensions.exchange.importers.records import looked_at

ASKED = [
    ("q1", "Which vitamin prevents scurvy in sailors on long voyages?", {"A": "vitamin A", "B": "vitamin C"}, "B"),
    ("q2", "Which vitamin prevents rickets in children without sun?", {"A": "vitamin D", "B": "vitamin C"}, "A"),
]
NOTE = "Scurvy comes from a lack of vitamin C."
(ONE, ONE_TEXT, ONE_OPTIONS, ONE_GOLD), (TWO, TWO_TEXT, TWO_OPTIONS, TWO_GOLD) = ASKED


def promptfoo() -> Any:
    def result(number: int, text: str, options: dict[str, str], gold: str, **more: Any) -> dict[str, Any]:
        return {"id": f"cc98763{number}", "latencyMs": 1500, "namedScores": {}, "promptIdx": 0, "testIdx": number,
                "provider": {"id": "file://provider.js", "label": "theirs"}, "vars": {"id": f"q{number + 1}",
                "question": text, "options": options}, "testCase": {"assert": [{"type": "equals", "value": gold}]},
                **more}  # fmt: skip

    used = {"output": "B", "tokenUsage": {"prompt": 50, "completion": 1, "total": 51}}
    wrong = {"error": 'Expected output "B" to equal "A"', "failureReason": 1, "score": 0, "success": False}
    results = [
        result(0, ONE_TEXT, ONE_OPTIONS, "B", response=used, cost=0.002, score=1, success=True, failureReason=0),
        result(1, TWO_TEXT, TWO_OPTIONS, "A", response=used, cost=0.002, **wrong),
    ]
    return {"evalId": "eval-abc", "results": {"version": 3, "prompts": [], "results": results, "stats": {}}}


def deepeval() -> Any:
    cases = [
        {"name": id, "input": text, "actualOutput": "B", "expectedOutput": gold, "retrievalContext": [NOTE],
         "tokenCost": 0.002, "completionTime": 1.5, "success": gold == "B", "runDuration": 0.03, "order": place,
         "metricsData": [{"name": "Exact", "threshold": 0.5, "success": gold == "B", "score": float(gold == "B")}]}
        for place, (id, text, _, gold) in enumerate(ASKED)
    ]  # fmt: skip
    return {"testRunData": {"testCases": cases, "conversationalTestCases": [], "metricsScores": []}}


def phoenix_frame() -> Any:
    def span(trace: str, id: str, parent: str | None, kind: str, **said: Any) -> dict[str, Any]:
        end = "2026-11-01T10:00:01.500Z" if parent is None else "2026-11-01T10:00:01Z"
        return {"name": "theirs", "span_kind": kind, "parent_id": parent, "start_time": f"2026-11-01T10:00:00.{id}00Z",
                "end_time": end, "status_code": "OK", "status_message": "", "context.span_id": id,
                "context.trace_id": trace, "attributes.openinference.span.kind": kind,
                **{f"attributes.{key.replace('__', '.')}": value for key, value in said.items()}}  # fmt: skip

    rows = []
    for id, text, _, _ in ASKED:
        counts = {"llm__token_count__prompt": 50.0, "llm__token_count__completion": 1.0, "llm__cost__total": 0.002}
        documents = [{"document.content": NOTE, "document.id": "n1", "document.score": 2.5}]
        rows += [
            span(id, "3", "1", "LLM", llm__model_name="m", output__value="B", **counts),
            span(id, "4", "3", "LLM", llm__model_name="m", output__value="B", **counts),  # the client inside
            span(id, "2", "1", "RETRIEVER", input__value=text, retrieval__documents=documents),
            span(id, "0", None, "CHAIN", input__value=json.dumps({"question": text}), output__value="B",
                 input__mime_type="application/json", metadata=str({"question_id": id})),
        ]  # fmt: skip
    return rows


def langsmith_runs() -> Any:
    return [
        {"id": f"{id}-{kind}", "trace_id": id, "parent_run_id": parent and f"{id}-{parent}", "name": name,
         "run_type": kind, "start_time": "2026-11-01T10:00:00+00:00", "end_time": "2026-11-01T10:00:01.5+00:00",
         "inputs": given, "outputs": gave, "error": None, "prompt_tokens": 50 if kind != "retriever" else 0,
         "completion_tokens": 1 if kind != "retriever" else 0, "total_cost": "0.002", "extra": {"metadata": {}}}
        for id, text, _, _ in ASKED
        for kind, parent, name, given, gave in (
            ("llm", "chain", "ChatModel", {"messages": [[{"content": text}]]}, {"output": "B"}),
            ("retriever", "chain", "Notes", {"query": text}, {"documents": [{"page_content": NOTE, "metadata": {}}]}),
            ("chain", None, "theirs", {"question": text}, {"answer": "B"}),
        )
    ]  # fmt: skip


def langsmith_frame() -> Any:
    return [
        {"inputs.question": text, "inputs.options": options, "outputs.answer": "B", "error": None,
         "reference.answer": gold, "feedback.correct": float(gold == "B"), "execution_time": 1.5, "example_id": id,
         "id": "2e9eab4c"}
        for id, text, options, gold in ASKED
    ]  # fmt: skip


def ragas() -> Any:
    lines = ["user_input,retrieved_contexts,response,reference"]
    lines += [f"""{text},"[""{NOTE}"", 'Another.']",B,{gold}""" for _, text, _, gold in ASKED]
    return "\n".join(lines)


def flashrag() -> Any:
    return json.dumps([
        {"id": id, "question": text, "golden_answers": [options[gold], "the right one"],
         "output": {"retrieval_result": [{"id": "7", "contents": NOTE, "score": 0.5}], "prompt": "…", "pred": "B",
                    "metric_score": {"em": 0.0, "f1": 0.0}}}
        for id, text, options, gold in ASKED
    ], indent=4)  # fmt: skip


FORMS: dict[str, tuple[str, Any, set[str]]] = {
    "promptfoo": ("promptfoo", promptfoo, {"usage", "cost", "seconds"}),
    "deepeval": ("deepeval", deepeval, {"cost", "seconds", "passages"}),
    "phoenix": ("openinference", phoenix_frame, {"usage", "cost", "seconds", "search"}),
    "langsmith": ("langsmith", langsmith_runs, {"usage", "cost", "seconds", "search"}),
    "langsmith-frame": ("table", langsmith_frame, {"seconds"}),
    "ragas": ("table", ragas, {"passages"}),
    "flashrag": ("table", flashrag, {"passages"}),
}


def written(folder: Path, made: Any) -> Path:
    path = folder / "theirs.json"
    lines = made if isinstance(made, str) else "\n".join(map(json.dumps, made)) if isinstance(made, list) else ""
    path.write_text(lines or json.dumps(made), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """A run of ours, the benchmark that it answers, and its home."""
    folder = tmp_path_factory.mktemp("ours")
    lines = [{"id": id, "question": text, "options": options, "answer": gold} for id, text, options, gold in ASKED]
    (folder / "asked.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    asked = f"jsonl:{folder / 'asked.jsonl'}"
    made = rr.run(asked, "direct", model="baseline:extractive", home=folder / "home", progress=False)
    return made.runs[0], asked, folder / "home"


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_as_it_is_and_what_it_lacks_is_unknown(name: str, tmp_path: Path) -> None:
    form, make, has = FORMS[name]
    file = looked_at(written(tmp_path, make()))
    importer = find_importer(file)
    assert importer is not None
    assert importer.name == form
    rows = list(importer.rows(file))
    assert len(rows) == 2
    for row, (_, text, _, _) in zip(rows, ASKED, strict=True):
        assert isinstance(row, ImportedRow)
        assert (row.question, row.answer, row.status, row.epoch, row.notes) == (text, "B", "completed", 0, ())
        assert row.usage == (Usage(50, 1) if "usage" in has else None)
        assert row.cost == (pytest.approx(0.002) if "cost" in has else None)
        assert row.seconds == (pytest.approx(1.5) if "seconds" in has else None)
        assert [step.kind for step in row.steps].count("search") == ("search" in has)
        found = [one.text for one in row.passages] + [
            one.text for step in row.steps for one in step.passages if step.kind == "search"
        ]
        assert (NOTE in found) == bool({"passages", "search"} & has)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_stands_in_compare_beside_a_run_of_ours(name: str, tmp_path: Path, ours: tuple[str, str, Path]) -> None:
    form, make, _ = FORMS[name]
    own, benchmark, home = ours
    theirs = rr.import_runs(written(tmp_path, make()), benchmark, agent=name, home=home)
    assert not theirs.bad_rows
    assert set(theirs.files.values()) == {form}
    (run,) = (one.run for one in theirs.runs)
    compared = rr.compare([own, run.id], home=home).comparison
    lines = {line.run: line.overall.value for table in compared.tables if table.scorer == "robust"
             for line in table.lines}  # fmt: skip
    assert lines[run.id] == 0.5
    assert len(lines) == 2
    reported = [table.lines[0].overall.value for table in theirs.comparison.tables if table.scorer == "reported"]
    assert reported == ([0.5] if name in ("promptfoo", "deepeval", "langsmith-frame") else
                        [0.0] if name == "flashrag" else [])  # fmt: skip


def test_several_right_wordings_are_accepted(tmp_path: Path) -> None:
    made = rr.import_runs(written(tmp_path, flashrag()), home=tmp_path / "home")
    with open_store(Settings(home=tmp_path / "home")) as store:
        golds = store.questions(made.runs[0].run)[1].values()
    assert [(gold.answer, gold.facts) for gold in golds] == [
        (options[right], ((options[right], "the right one"),)) for _, _, options, right in ASKED
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A home with runs of three agents, which tests only read; agent → its run."""
    home, agents = tmp_path_factory.mktemp("ours"), ["direct", "vanilla_rag[top_k=2]", "search_o1"]
    made = rr.run("sample", agents, limit=6, model="baseline:extractive", home=home, progress=False)
    return home, dict(zip(agents, made.ids, strict=True))


def test_a_run_of_ours_comes_back_as_it_was(tmp_path: Path, stored: tuple[Path, dict[str, str]]) -> None:
    ours, runs = stored
    out, again = tmp_path / "out", tmp_path / "again"
    rr.export("otel", list(runs.values()), out, home=ours)
    found = rr.import_runs(out, "sample", home=again)
    assert not found.bad_rows

    def attempts(run: str, home: Path) -> list[tuple[object, ...]]:
        frame = rr.load(run, home=home).to_pandas("attempts")
        frame = frame[frame["status"] != "not_run"]
        columns = ["question_id", "epoch", "status", "text", "input_tokens", "output_tokens", "cost_uncached",
                   "model_calls", "searches", "tool_calls"]  # fmt: skip
        return sorted(zip(*(frame[name].tolist() for name in columns), strict=True))

    theirs = {one.run.identity["agent"].split(" ")[0]: one.run.id for one in found.runs}
    for agent, run in runs.items():
        expected = attempts(run, ours)
        assert len(expected) == 6
        assert attempts(theirs[agent], again) == expected


NESTED: Any = reduce(lambda inner, _: [0, inner], range(480), 1)
HOSTILE = [
    NESTED, json.dumps(NESTED), str(NESTED).replace("[", "(").replace("(", "[", 1),
    "[" * 100_000, '{"a":' * 100_000, "garbage", "\ud800", None, 3, [], {}, "", [[]], [{}], {"a": {"b": [None]}},
    float("nan"), float("inf"), 1e308, -1, 10**400, "1" * 10_000, True, {"messages": "x"}, {"value": {"value": {}}},
]  # fmt: skip


def spoilt(value: Any, bad: Any) -> Any:
    """A record each of whose values is another, one after the other."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {**value, key: bad}
            yield from ({**value, key: one} for one in spoilt(inner, bad))
    elif isinstance(value, list) and value:
        yield [bad, *value[1:]]
        yield from ([one, *value[1:]] for one in spoilt(value[0], bad))


@pytest.mark.parametrize("name", sorted(set(FORMS) - {"ragas", "flashrag"}))
def test_hostile_values_end_in_rows_or_in_reasons(name: str, tmp_path: Path) -> None:
    form, make, _ = FORMS[name]
    importer, made = IMPORTERS.resolve(form), make()
    record = made[0] if isinstance(made, list) else made
    path, count = tmp_path / "hostile.json", 0
    for bad in HOSTILE:
        with path.open("w", encoding="utf-8", errors="surrogatepass") as file:
            for one in spoilt(record, bad):
                file.write(json.dumps(one) + "\n")
        try:
            for row in importer.rows(looked_at(path)):
                count += 1
                assert isinstance(row, ImportedRow | BadRow)
                if isinstance(row, ImportedRow):
                    assert row.usage is None or 0 <= row.usage.input < 1e12
                    assert row.cost is None or 0 <= row.cost <= 1e6
        except UserError:
            count += 1
    assert count > len(HOSTILE)


@pytest.mark.parametrize(("name", "agent"), [(".latest_test_run.json", "latest_test_run"), ("gpt-3.5.json", "gpt-3.5")])
def test_a_file_that_does_not_say_what_answered_gives_its_name(tmp_path: Path, name: str, agent: str) -> None:
    (tmp_path / name).write_text(json.dumps(deepeval()))
    (made,) = rr.import_runs(tmp_path / name, home=tmp_path / "home").runs
    assert made.run.identity["agent"] == agent


def test_a_trec_run_is_a_retrieval_and_the_command_that_scores_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "their run").write_text("1 Q0 d7 1 12.5 theirs\n1 Q0 d3 2 -1e-3 theirs\n")
    with pytest.raises(UserError, match=r"without answers.*ragrounds retrieve .*'/.*their run'"):
        rr.import_runs(tmp_path / "their run", home=tmp_path / "home")


def test_parquet_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "frame.parquet").write_bytes(b"PAR1" + b"\0" * 100)
    with pytest.raises(UserError, match="to_json"):
        rr.import_runs(tmp_path / "frame.parquet", home=tmp_path / "home")


def test_the_help_names_every_form() -> None:
    import inspect

    from ragrounds.extensions.exchange.cli import import_command

    for name in IMPORTERS.shipped():
        assert name in inspect.get_annotations(import_command, eval_str=True)["format"].__metadata__[0].help
