"""Inspect's log format (``.eval``): `inspect view` shows our runs, `inspect_ai.analysis` makes data frames of them.

A sample holds the last exchange with the answering model as its messages, every model call as an event inside the span
of its step, and our scores by scorer. Values without a field in Inspect are in `metadata`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from ragrounds.base.contracts import Tool
from ragrounds.base.http import read_json
from ragrounds.base.records import Message, Run, ToolCall
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner, TraceNode, replied, trace_nodes
from ragrounds.extensions.exchange.formats import (
    Export,
    ExportFormat,
    ExportPart,
    NoOptions,
    optional_module,
    run_file_name,
)
from ragrounds.version import __version__

_STOPS = {"length": "max_tokens", "content_filter": "content_filter", "tool_calls": "tool_calls", "stop": "stop"}


_SpentByModel = defaultdict[str, Spent]
"""Model → the tokens and uncached dollars of its calls; ``None`` if not known of all of them."""


class InspectWriter:
    """Writer of logs. It needs the extra ``inspect``."""

    def __init__(self) -> None:
        self._log = optional_module("inspect_ai.log", "Inspect logs", "inspect")
        self._model = optional_module("inspect_ai.model", "Inspect logs", "inspect")
        self._tool = optional_module("inspect_ai.tool", "Inspect logs", "inspect")
        self._event = optional_module("inspect_ai.event", "Inspect logs", "inspect")
        self._score = optional_module("inspect_ai.scorer", "Inspect logs", "inspect").Score

    def write(self, store: Store, run: Run, path: Path) -> int:
        """Write one run, and return the number of samples. All samples are in memory while the log is written."""
        used: _SpentByModel = defaultdict(Spent)
        cleaner, log = TraceCleaner(), self._log
        samples = [self._sample(trace, used) for trace in cleaner.traces(store, [run])]
        clean = cleaner.record(run)
        models = clean.identity.get("models") or {}
        spec = log.EvalSpec(
            eval_id=run.id,
            run_id=run.fingerprint,
            task_id=run.id,
            created=_time(run.created).isoformat(),
            task=run.benchmark,
            task_version=run.questions[:16],
            solver=clean.agent,
            dataset=log.EvalDataset(
                name=run.benchmark,
                samples=run.count,
                sample_ids=[question.id for question in store.questions(run)[0]],
                shuffled=False,
            ),
            model=str(models.get("model") or clean.identity.get("model") or "unknown"),
            config=log.EvalConfig(epochs=run.epochs),
            packages={"ragrounds": __version__},
            metadata={"agent": clean.agent, "fingerprint": run.fingerprint, "origin": run.origin},
        )
        complete = len(samples) == run.count * run.epochs
        scorers = dict.fromkeys(name for sample in samples for name in sample.scores or {})
        log.write_eval_log(
            log.EvalLog(
                status="success" if complete else "cancelled",
                eval=spec,
                results=log.EvalResults(
                    total_samples=run.count * run.epochs,
                    completed_samples=sum(sample.error is None for sample in samples),
                    scores=[self._mean(scorer, samples) for scorer in scorers],
                ),
                samples=samples,
                stats=log.EvalStats(model_usage=self._model_usage(used)),
            ),
            str(path),
            format="eval",
        )
        return len(samples)

    def _mean(self, scorer: str, samples: Sequence[Any]) -> Any:
        values = [sample.scores[scorer].value for sample in samples if scorer in (sample.scores or {})]
        return self._log.EvalScore(
            name=scorer,
            scorer=scorer,
            scored_samples=len(values),
            unscored_samples=len(samples) - len(values),
            metrics={"mean": self._log.EvalMetric(name="mean", value=sum(values) / len(values))},
        )

    def _sample(self, trace: Trace, used: _SpentByModel) -> Any:
        question, attempt, (whole, *nodes) = trace.question, trace.attempt, trace_nodes(trace)
        asked = [node.call for node in nodes if node.call is not None and node.call.asked is not None]
        attempt_usage: _SpentByModel = defaultdict(Spent)
        for call in (traced.call for step in trace.steps for traced in step.calls):
            if call.kind == "model" and not call.error:
                attempt_usage[call.actor] += call.spent
        for model, spent in attempt_usage.items():
            used[model] += spent
        return self._log.EvalSample(
            id=question.id,
            epoch=attempt.epoch + 1,
            input=question.text,
            choices=list(question.options.values()) or None,
            target=trace.gold.answer,
            messages=self._messages(asked[-1]) if asked else [],
            output=self._model.ModelOutput.from_content(asked[-1].call.actor if asked else "unknown", attempt.text),
            scores={
                score.scorer: self._score(
                    value=score.value,
                    answer=score.prediction,
                    explanation=score.reason,
                    metadata={"answer_status": score.answer_status},
                )
                for score in trace.scores
                if score.value is not None
            },
            metadata={
                "dataset": question.benchmark,
                "subject": question.group,
                "status": attempt.status,
                "labels": list(question.options),
                "documents": list(trace.gold.documents),
                "cost_paid": attempt.cost_paid,
                "cost_uncached": attempt.cost_uncached,
            },
            events=list(self._events(nodes)),
            model_usage=self._model_usage(attempt_usage),
            started_at=_time(whole.start).isoformat(),
            completed_at=_time(whole.end).isoformat(),
            total_time=attempt.seconds,
            working_time=attempt.seconds,
            uuid=f"{trace.run.id}/{question.id}/{attempt.epoch}",
            error=self._log.EvalError(message=whole.error, traceback="", traceback_ansi="") if whole.error else None,
        )

    def _messages(self, call: TracedCall) -> list[Any]:
        messages = [*(call.asked.messages if call.asked else ()), *([replied(call.reply)] if call.reply else ())]
        tool_names = {tool_call.id: tool_call.name for message in messages for tool_call in message.calls}
        return [self._message(message, tool_names) for message in messages]

    def _message(self, message: Message, tool_names: Mapping[str, str]) -> object:
        model, text = self._model, message.content
        if message.role == "assistant":
            return model.ChatMessageAssistant(content=text, tool_calls=self._tool_calls(message.calls) or None)
        if message.role == "tool":
            id = message.answers or None
            return model.ChatMessageTool(content=text, tool_call_id=id, function=tool_names.get(message.answers))
        return (model.ChatMessageSystem if message.role == "system" else model.ChatMessageUser)(content=text)

    def _tool_calls(self, calls: Sequence[ToolCall]) -> list[object]:
        tool_calls: list[object] = []
        for call in calls:
            try:
                arguments = read_json(call.arguments)
            except ValueError:
                arguments = None
            is_object = isinstance(arguments, dict)
            tool_calls.append(
                self._tool.ToolCall(
                    id=call.id,
                    function=call.name,
                    arguments=arguments if is_object else {"text": call.arguments},
                    parse_error=None if is_object else "the arguments are no JSON object",
                )
            )
        return tool_calls

    def _tool_info(self, tool: Tool) -> object:
        try:
            parameters = self._tool.ToolParams.model_validate(tool.parameters)
        except ValueError:  # a schema that Inspect does not know
            parameters = self._tool.ToolParams()
        return self._tool.ToolInfo(name=tool.name, description=tool.description, parameters=parameters)

    def _events(self, nodes: Sequence[TraceNode]) -> Iterator[Any]:
        for index, (step, *calls) in groupby(nodes, lambda node: node.position[0]):
            id = f"step-{index}"
            yield self._event.SpanBeginEvent(
                timestamp=_time(step.start), id=id, span_id=id, type="solver", name=step.name
            )
            yield from (self._call(node, id) for node in calls)
            yield self._event.SpanEndEvent(timestamp=_time(step.end), id=id, span_id=id)

    def _call(self, node: TraceNode, span: str) -> Any:
        traced = node.call
        assert traced is not None, "nodes below a step are calls"
        call, request, reply = traced.call, traced.asked, traced.reply
        if call.kind != "model":
            data = {
                "kind": node.kind, "actor": call.actor, "seconds": call.seconds, "error": node.error or None,
                "input": node.input, "output": node.output, "found": list(traced.passages),
            }  # fmt: skip
            return self._event.InfoEvent(
                timestamp=_time(node.start), span_id=span, source="ragrounds", data=msgspec.to_builtins(data)
            )
        stop = _STOPS.get(reply.finish, "unknown") if reply else "unknown"
        output = self._model.ModelOutput.from_content(call.actor, reply.text if reply else "", stop_reason=stop)
        if reply and reply.calls:
            output.choices[0].message.tool_calls = self._tool_calls(reply.calls)
        output.usage = None if call.usage is None else self._usage(call.usage, call.cost_uncached)
        output.time = call.seconds
        return self._event.ModelEvent(
            timestamp=_time(node.start),
            span_id=span,
            model=call.actor,
            role=call.role,
            input=self._messages(TracedCall(call, asked=request)),
            tools=[self._tool_info(tool) for tool in request.tools] if request else [],
            tool_choice="auto" if request and request.tools else "none",
            config=self._model.GenerateConfig(
                max_tokens=request.max_tokens if request else None,
                stop_seqs=list(request.stop) or None if request else None,
            ),
            output=output,
            retries=len(call.faults),
            error=node.error or None,
            working_time=call.seconds,
        )

    def _model_usage(self, used: _SpentByModel) -> dict[str, Any]:
        """Return tokens by model. A model whose tokens are not all known is left out: the rest would look like the
        sum."""
        return {model: self._usage(spent.usage, spent.cost_uncached) for model, spent in used.items() if spent.usage}

    def _usage(self, usage: Usage, cost: float | None) -> Any:
        return self._model.ModelUsage(
            input_tokens=usage.input,
            output_tokens=usage.output,
            total_tokens=usage.total,
            input_tokens_cache_read=usage.cached,
            reasoning_tokens=usage.reasoning,
            total_cost=cost,
        )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    writer, names = InspectWriter(), list[str]()
    for run in export.runs:
        names.append(run_file_name(run, ".eval", names))

        def _write(path: Path, run: Run = run) -> str:
            return f"{writer.write(export.store, run, path):,} samples"

        yield ExportPart(_write, names[-1])


FORMAT = ExportFormat(
    name="inspect",
    summary="Inspect's log format, one .eval file a run, for `inspect view`.",
    writes="folder",
    extra="inspect",
    options=NoOptions,
    parts=_parts,
)
