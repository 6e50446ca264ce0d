"""``atif``: trajectories of the Agent Trajectory Interchange Format (1.0 to 1.8), which Harbor's agents and
``ragrounds export atif`` write: a JSON object, or one a line.

The question is the user's first message, the answer the agent's last. A step of the agent is a call of a model, unless
it says that none was called; its tools' observations are searches and uses of tools. Tokens and dollars are the final
metrics, else the sums of the steps'. Our own ``extra`` names question, options, gold and status as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ragrounds.evals.exchange.importers.importer import (
    MOST_SECONDS,
    BadRow,
    ImportedRow,
    ImportedStep,
    Importer,
    ImportFile,
    Rows,
    bounded,
    dict_of,
    dicts_of,
    labels_for,
    number_of,
    step_of_tool,
    sums_of,
    text_of,
    usage_of,
)
from ragrounds.evals.exchange.importers.records import records
from ragrounds.records import Status


def _rows(file: ImportFile) -> Rows:
    for one in records(file.path):
        yield one if isinstance(one, BadRow) else _row(one[1], one[0])


def _row(made: Mapping[str, Any], place: str) -> ImportedRow | BadRow:
    steps = dicts_of(made.get("steps"))
    if not steps:
        return BadRow(place, "a trajectory has steps")
    agent, totals, extra = (dict_of(made.get(key)) for key in ("agent", "final_metrics", "extra"))
    said = {source: [text_of(step.get("message")) for step in steps if step.get("source") == source]
            for source in ("user", "agent")}  # fmt: skip
    calls = tuple(call for step in steps if step.get("source") == "agent" for call in _calls(step))
    usage, odd = usage_of(totals.get("total_prompt_tokens"), totals.get("total_completion_tokens"))
    cost, dear = bounded(totals.get("total_cost_usd"), 1e6, "cost")
    seconds, late = bounded(extra.get("seconds"), MOST_SECONDS, "time")
    tokens, dollars = sums_of(calls)
    status, epoch = extra.get("status", "completed"), number_of(extra.get("epoch"))
    scorer = next((key for key in extra if key.endswith(".score")), "")
    return ImportedRow(
        place=place,
        agent=" ".join(filter(None, (text_of(agent.get(key)) for key in ("name", "model_name"))))[:200],
        dataset=text_of(extra.get("dataset")).rpartition("/")[2],
        id=text_of(extra.get("question_id")),
        question=text_of(extra.get("question")) or next(iter(said["user"]), ""),
        options=labels_for(extra.get("options")),
        gold=text_of(extra.get("gold")),
        answer=said["agent"][-1] if said["agent"] else "",
        choice=text_of(extra.get("choice")),
        epoch=max(0, int(epoch)) if epoch is not None else 0,
        steps=calls,
        usage=usage if usage or odd else tokens,
        seconds=seconds,
        cost=cost if cost is not None or dear else dollars,
        score=bounded(extra.get(scorer), 1, "score")[0],
        scored_by=scorer.removesuffix(".score"),
        status=status if status in get_args(Status) else "completed",
        reason=text_of(extra.get("reason"))[:300],
        notes=tuple(filter(None, (odd, dear, late))),
    )


def _calls(step: Mapping[str, Any]) -> Iterator[ImportedStep]:
    """The call of a model that a step is, then its tools with what each gave."""
    if step.get("llm_call_count") != 0:
        used = dict_of(step.get("metrics"))
        usage, _ = usage_of(used.get("prompt_tokens"), used.get("completion_tokens"))
        yield ImportedStep(kind="model", name=text_of(step.get("model_name")), text=text_of(step.get("message")),
                           usage=usage, cost=bounded(used.get("cost_usd"), 1e6, "cost")[0])  # fmt: skip
    given = {text_of(one.get("source_call_id")): one.get("content")
             for one in dicts_of(dict_of(step.get("observation")).get("results"))}  # fmt: skip
    for call in dicts_of(step.get("tool_calls")):
        gave = given.get(text_of(call.get("tool_call_id")))
        if gave is not None:  # a wish that a later step, or nothing, fulfils is no call
            yield step_of_tool(text_of(call.get("function_name")), call.get("arguments"), gave)


ATIF = Importer(
    name="atif",
    summary="ATIF trajectories (Harbor, ragrounds export atif).",
    recognises=lambda file: str(file.first.get("schema_version")).startswith("ATIF-"),
    rows=_rows,
)
