"""Trajectories, evaluation logs, model cards and experiments: what stands in them, and that no key leaves.

Their own validators need Python 3.12: `perf/exports.py`."""

import json
from datetime import datetime

import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.store.store import Store
from ragrounds.extensions.exchange.exporters import atif, every_eval_ever, langsmith, model_card
from ragrounds.extensions.exchange.formats import Export
from tests.extensions.exchange.conftest import SECRET
from tests.uneven import SIZES, expected


def written(form, store, runs, tmp_path, options=None):
    """The files of an export, by name."""
    parts = list(form.parts(Export(store, runs, options or form.options())))
    for part in parts:
        path = tmp_path / "out" / (part.name or "file")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write(path)
    return {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").rglob("*") if path.is_file()}


def trajectories(store, run, tmp_path):
    """The trajectories of a run, each as its own validator wants it."""
    text = written(atif.FORMAT, store, [run], tmp_path)["file"]
    assert SECRET not in text
    made = [json.loads(line) for line in text.splitlines()]
    assert {one["schema_version"] for one in made} == {"ATIF-v1.7"}
    assert len({one["trajectory_id"] for one in made}) == len(made)
    for one in made:
        assert [step["step_id"] for step in one["steps"]] == list(range(1, len(one["steps"]) + 1))
        assert one["steps"][0]["source"] == "user"
        assert one["final_metrics"]["total_steps"] == len(one["steps"])
        for step in one["steps"]:
            known = {call["tool_call_id"] for call in step.get("tool_calls", ())}
            assert {found["source_call_id"] for found in step.get("observation", {}).get("results", ())} <= known
            if step.get("llm_call_count") == 0:
                assert not {"metrics", "reasoning_content"} & step.keys()
    return made


def test_a_trajectory_has_the_question_the_calls_and_the_answer(store, run, tmp_path):
    made = trajectories(store, run, tmp_path)
    assert len(made) == 3
    searched = next(step for step in made[0]["steps"] if "observation" in step)
    assert "Other text." in searched["observation"]["results"][0]["content"]


def test_what_a_model_wished_for_is_in_its_step(store, tool_run, tmp_path):
    (made,) = trajectories(store, tool_run, tmp_path)
    wished = next(step for step in made["steps"] if step.get("llm_call_count") == 1)
    assert wished["tool_calls"][0]["arguments"] == {"query": "scurvy"}
    assert wished["metrics"] == {"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 40}


def test_arguments_that_are_no_object_stay_what_they_are():
    from ragrounds.base.records import ToolCall

    for text in ("[1]", "{", "[" * 100_000, ""):
        made = atif._tool_call(ToolCall("", "f", text), "id")
        assert made["tool_call_id"] == "id"
        assert isinstance(made["arguments"], dict)


def test_a_log_has_the_figures_of_the_table(store, run, tmp_path):
    files = written(every_eval_ever.FORMAT, store, [run], tmp_path)
    (log,) = (json.loads(text) for name, text in files.items() if name.endswith(".json"))
    (result,) = log["evaluation_results"]
    assert (log["schema_version"], log["model_info"]["id"]) == ("0.3.0", "test/model")
    assert result["score_details"]["score"] == pytest.approx(1 / 4)  # every question is the denominator
    assert result["metric_config"]["min_score"] <= result["score_details"]["score"]
    assert result["source_data"]["source_type"] == "other"
    assert float(log["evaluation_timestamp"]) == 1


def test_each_figure_and_cost_stands_under_its_name(uneven, tmp_path):
    with Store(uneven.home) as store:
        for agent, run in uneven.runs.items():
            figures, folder = expected(agent), tmp_path / run.id
            totals = [made["final_metrics"] for made in trajectories(store, run, folder)]
            names = ("total_prompt_tokens", "total_completion_tokens", "total_cost_usd")
            tokens_in, tokens_out, cost = (sum(one[name] for one in totals) for name in names)
            assert (tokens_in, tokens_out) == (figures["in"], figures["out"])
            assert cost == pytest.approx(figures["full price"])
            files = written(every_eval_ever.FORMAT, store, [run], folder)
            (log,) = (json.loads(text) for name, text in files.items() if name.endswith(".json"))
            scores = {one["evaluation_result_id"]: one["score_details"]["score"] for one in log["evaluation_results"]}
            shown = [next(value for id, value in scores.items() if f"/{name}/robust" in id) for name in SIZES]
            assert shown == pytest.approx([figures[name] for name in SIZES])


def test_a_model_card_has_its_results(store, run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    (text,) = written(model_card.FORMAT, store, [run], tmp_path, model_card.ModelCardOptions("me/mine")).values()
    card = hub.ModelCard(text)
    (result,) = card.data.eval_results
    assert (card.data.model_name, result.metric_value, result.dataset_name) == ("me/mine", 25.0, "x/one")


def test_an_experiment_has_a_row_an_attempt(store, run, listening, monkeypatch):
    key = "lsv2_" + "k1" * 12
    monkeypatch.setenv("LANGSMITH_API_KEY", key)
    options = langsmith.LangSmithOptions(endpoint=listening.url)
    listening.answer = lambda path, body: (200, {"experiment": {}, "dataset": {}})
    said = langsmith.FORMAT.send(Export(store, [run], options))
    assert said.startswith("1 experiments sent")
    ((_, path, headers, body),) = listening.requests
    assert (path, headers["x-api-key"]) == ("/api/v1/datasets/upload-experiment", key)
    made = json.loads(body)
    assert SECRET not in body.decode()
    assert len(made["results"]) == 3
    begun, ended = (datetime.fromisoformat(made[f"experiment_{end}_time"]) for end in ("start", "end"))
    for row in made["results"]:
        assert begun <= datetime.fromisoformat(row["start_time"]) <= datetime.fromisoformat(row["end_time"]) <= ended
    assert [one["key"] for one in made["results"][0]["evaluation_scores"]] == ["strict"]
    assert made["results"][2]["error"] == "failed"


def test_no_address_or_key_and_nothing_is_sent(store, run, monkeypatch):
    monkeypatch.delenv("LANGSMITH_API_KEY", raising=False)
    for endpoint in ("", "http://127.0.0.1:9"):
        with pytest.raises(UserError):
            langsmith.FORMAT.check(langsmith.LangSmithOptions(endpoint=endpoint), False)
