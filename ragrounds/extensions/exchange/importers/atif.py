"""``atif``: trajectories of the Agent Trajectory Interchange Format (1.0 to 1.8), which Harbor's agents and
``ragrounds export atif`` write: a JSON object, or one a line.

The question is the user's first message, the answer the agent's last. A step of the agent is a call of a model, unless
it says that none was called; its tools' observations are searches and uses of tools. Tokens and dollars are the final
metrics, else the sums of the steps'. Our own ``extra`` names question, options, gold and status as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragrounds.extensions.exchange.importers.importer import (
    ImportedStep,
    Importer,
    ImportFile,
    bounded,
    dict_of,
    dicts_of,
    step_of_tool,
    text_of,
    usage_of,
)
from ragrounds.extensions.exchange.importers.table import Values, rows_with


def _values(made: Values, file: ImportFile, seen: dict[str, str]) -> Values | str:
    steps = dicts_of(made.get("steps"))
    if not steps:
        return "a trajectory has steps"
    agent, totals, extra = (dict_of(made.get(key)) for key in ("agent", "final_metrics", "extra"))
    mine = [step for step in steps if step.get("source") == "agent"]
    scorer = next((key for key in extra if key.endswith(".score")), "")
    return {
        **{key: extra.get(key) for key in ("dataset", "options", "gold", "choice", "epoch", "seconds", "status")},
        "agent": " ".join(filter(None, (text_of(agent.get(key)) for key in ("name", "model_name")))),
        "id": extra.get("question_id"),
        "question": extra.get("question") or next((one["message"] for one in steps if one.get("source") == "user"
                                                   and "message" in one), None),
        "answer": mine[-1].get("message") if mine else "",
        "steps": [call for step in mine for call in _calls(step)],
        "input_tokens": totals.get("total_prompt_tokens"),
        "output_tokens": totals.get("total_completion_tokens"),
        "cost": totals.get("total_cost_usd"),
        "score": extra.get(scorer),
        "scored_by": scorer.removesuffix(".score"),
        "error": extra.get("reason"),
    }  # fmt: skip


def _calls(step: Mapping[str, Any]) -> Iterator[ImportedStep]:
    """The call of a model that a step is, then its tools with what each gave."""
    if step.get("llm_call_count") != 0:
        used = dict_of(step.get("metrics"))
        usage, _ = usage_of(used.get("prompt_tokens"), used.get("completion_tokens"))
        yield ImportedStep(kind="model", name=text_of(step.get("model_name")), text=text_of(step.get("message")),
                           usage=usage, cost=bounded(used.get("cost_usd"), 1e6, "cost")[0])  # fmt: skip
    results = dicts_of(dict_of(step.get("observation")).get("results"))
    given = {text_of(one.get("source_call_id")): one.get("content") for one in results}
    for call in dicts_of(step.get("tool_calls")):
        gave = given.get(text_of(call.get("tool_call_id")))
        if gave is not None:  # a wish that a later step, or nothing, fulfils is no call
            yield step_of_tool(text_of(call.get("function_name")), call.get("arguments"), gave)


ATIF = Importer(
    name="atif",
    summary="ATIF trajectories (Harbor, ragrounds export atif).",
    recognises=lambda file: str(file.first.get("schema_version")).startswith("ATIF-"),
    rows=rows_with(_values),
)
