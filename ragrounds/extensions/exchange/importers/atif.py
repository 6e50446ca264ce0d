"""``atif``: trajectories of the Agent Trajectory Interchange Format (1.0 to 1.8), which Harbor's agents and
``ragrounds export atif`` write: a JSON object, or one per line.

The question is the user's first message, the answer the agent's last. A step of the agent is a call of a model, unless
its call count is 0; its tools' observations are searches and uses of tools. Tokens and dollars are the final metrics,
else the sums of the steps'. Our own ``extra`` names question, options, gold and status as well.
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


def _values(record: Values, file: ImportFile, seen: dict[str, str]) -> Values | str:
    steps = dicts_of(record.get("steps"))
    if not steps:
        return "a trajectory has steps"
    agent, totals, extra = (dict_of(record.get(key)) for key in ("agent", "final_metrics", "extra"))
    agent_steps = [step for step in steps if step.get("source") == "agent"]
    scorer = next((key for key in extra if key.endswith(".score")), "")
    return {
        **{key: extra.get(key) for key in ("dataset", "options", "gold", "choice", "epoch", "seconds", "status")},
        "agent": " ".join(filter(None, (text_of(agent.get(key)) for key in ("name", "model_name")))),
        "id": extra.get("question_id"),
        "question": extra.get("question") or next((step["message"] for step in steps if step.get("source") == "user"
                                                   and "message" in step), None),
        "answer": agent_steps[-1].get("message") if agent_steps else "",
        "steps": [call for step in agent_steps for call in _calls(step)],
        "input_tokens": totals.get("total_prompt_tokens"),
        "output_tokens": totals.get("total_completion_tokens"),
        "cost": totals.get("total_cost_usd"),
        "score": extra.get(scorer),
        "scored_by": scorer.removesuffix(".score"),
        "error": extra.get("reason"),
    }  # fmt: skip


def _calls(step: Mapping[str, Any]) -> Iterator[ImportedStep]:
    """Yield the model call of a step, then its tool calls with their outputs."""
    if step.get("llm_call_count") != 0:
        used = dict_of(step.get("metrics"))
        usage, _ = usage_of(used.get("prompt_tokens"), used.get("completion_tokens"))
        yield ImportedStep(kind="model", name=text_of(step.get("model_name")), text=text_of(step.get("message")),
                           usage=usage, cost=bounded(used.get("cost_usd"), 1e6, "cost")[0])  # fmt: skip
    results = dicts_of(dict_of(step.get("observation")).get("results"))
    outputs = {text_of(observation.get("source_call_id")): observation.get("content") for observation in results}
    for call in dicts_of(step.get("tool_calls")):
        output = outputs.get(text_of(call.get("tool_call_id")))
        if output is not None:  # a tool call that has no output in this step is left out
            yield step_of_tool(text_of(call.get("function_name")), call.get("arguments"), output)


ATIF = Importer(
    name="atif",
    summary="ATIF trajectories (Harbor, ragrounds export atif).",
    recognises=lambda file: str(file.first.get("schema_version")).startswith("ATIF-"),
    rows=rows_with(_values),
)
