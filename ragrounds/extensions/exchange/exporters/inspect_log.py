"""Inspect's log format (``.eval``): `inspect view` shows our runs, `inspect_ai.analysis` makes data frames of them.

A sample holds the last exchange with the answering model as its messages, every model call as an event inside the span
of its step, and our scores by scorer. Values without a field in Inspect are in `metadata`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ragrounds.base.contracts import Tool
from ragrounds.base.http import read_json
from ragrounds.base.records import WITHOUT_ANSWER, Message, Run, ToolCall
from ragrounds.base.spent import Spent, Usage
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace, TracedCall, every_trace
from ragrounds.evals.trace.traces import steps as steps_of
from ragrounds.extensions.exchange.exporters.trace_nodes import replied
from ragrounds.extensions.exchange.formats import (
    Export,
    ExportFormat,
    ExportPart,
    NoOptions,
    Redactor,
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
        self._hide = Redactor()

    def write(self, store: Store, run: Run, path: Path) -> int:
        """Write one run, and return the number of samples. All samples are in memory while the log is written."""
        used: _SpentByModel = defaultdict(Spent)
        samples = [self._sample(trace, used) for trace in every_trace(store, run)]
        scorers = list(dict.fromkeys(score.scorer for score in store.scores(run)))
        log = self._log
        models = run.identity.get("models") or {}
        model = self._hide(str(models.get("model") or run.identity.get("model") or "unknown"))
        spec = log.EvalSpec(
            eval_id=run.id,
            run_id=run.fingerprint,
            task_id=run.id,
            created=_time(run.created).isoformat(),
            task=run.benchmark,
            task_version=run.questions[:16],
            solver=self._hide(run.agent),
            dataset=log.EvalDataset(
                name=run.benchmark,
                samples=run.count,
                sample_ids=[question.id for question in store.questions(run)[0]],
                shuffled=False,
            ),
            model=model,
            config=log.EvalConfig(epochs=run.epochs),
            packages={"ragrounds": __version__},
            metadata={"agent": self._hide(run.agent), "fingerprint": run.fingerprint, "origin": run.origin},
        )
        complete = len(samples) == run.count * run.epochs
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
        numbers = [value for value in values if isinstance(value, int | float)]
        mean = sum(numbers) / len(numbers) if numbers else 0.0
        return self._log.EvalScore(
            name=scorer,
            scorer=scorer,
            scored_samples=len(numbers),
            unscored_samples=len(samples) - len(numbers),
            metrics={"mean": self._log.EvalMetric(name="mean", value=mean)} if numbers else {},
        )

    def _sample(self, trace: Trace, used: _SpentByModel) -> Any:
        question, attempt, hide = trace.question, trace.attempt, self._hide
        last = next(
            (call for step in reversed(trace.steps) for call in reversed(step.calls) if call.asked is not None), None
        )
        failed = attempt.status in WITHOUT_ANSWER
        reason = hide(attempt.reason or attempt.status)
        start = attempt.at or trace.run.created
        attempt_usage: _SpentByModel = defaultdict(Spent)
        for call in (traced.call for step in trace.steps for traced in step.calls):
            if call.kind == "model" and not call.error:
                attempt_usage[call.actor] += call.spent
        for model, spent in attempt_usage.items():
            used[model] += spent
        output = self._model.ModelOutput.from_content(hide(last.call.actor if last else "unknown"), hide(attempt.text))
        return self._log.EvalSample(
            id=question.id,
            epoch=attempt.epoch + 1,
            input=question.text,
            choices=list(question.options.values()) or None,
            target=trace.gold.answer,
            messages=self._messages(last) if last else [],
            output=output,
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
            events=self._events(trace, start),
            model_usage=self._model_usage(attempt_usage),
            started_at=_time(start).isoformat(),
            completed_at=_time(start + attempt.seconds).isoformat(),
            total_time=attempt.seconds,
            working_time=attempt.seconds,
            uuid=f"{trace.run.id}/{question.id}/{attempt.epoch}",
            error=self._log.EvalError(message=reason, traceback="", traceback_ansi="") if failed else None,
        )

    def _messages(self, call: TracedCall) -> list[Any]:
        messages = call.asked.messages if call.asked else ()
        tool_names = {tool_call.id: tool_call.name for message in messages for tool_call in message.calls}
        chat_messages = [self._message(message, tool_names) for message in messages]
        if call.reply is not None:
            chat_messages.append(self._message(replied(call.reply), tool_names))
        return chat_messages

    def _message(self, message: Message, tool_names: Mapping[str, str]) -> object:
        model, text = self._model, self._hide(message.content)
        if message.role == "assistant":
            return model.ChatMessageAssistant(content=text, tool_calls=self._tool_calls(message.calls) or None)
        if message.role == "tool":
            id = message.answers or None
            return model.ChatMessageTool(content=text, tool_call_id=id, function=tool_names.get(message.answers))
        return (model.ChatMessageSystem if message.role == "system" else model.ChatMessageUser)(content=text)

    def _tool_calls(self, calls: Sequence[ToolCall]) -> list[object]:
        tool_calls: list[object] = []
        for call in calls:
            text = self._hide.in_json(call.arguments)
            try:
                arguments = read_json(text)
            except ValueError:
                arguments = None
            is_object = isinstance(arguments, dict)
            fault = None if is_object else "the arguments are no JSON object"
            tool_calls.append(
                self._tool.ToolCall(
                    id=call.id,
                    function=call.name,
                    arguments=arguments if is_object else {"text": text},
                    parse_error=fault,
                )
            )
        return tool_calls

    def _tools(self, tools: Sequence[Tool]) -> list[object]:
        tool_infos: list[object] = []
        for tool in tools:
            try:
                parameters = self._tool.ToolParams.model_validate(tool.parameters)
            except ValueError:  # a schema that Inspect does not know
                parameters = self._tool.ToolParams()
            description = self._hide(tool.description)
            tool_infos.append(self._tool.ToolInfo(name=tool.name, description=description, parameters=parameters))
        return tool_infos

    def _events(self, trace: Trace, start: float) -> list[Any]:
        events: list[Any] = []
        for index, (step, traced) in enumerate(zip(steps_of(trace.attempt.events), trace.steps, strict=True)):
            started, id = step.at or start, f"step-{index}"
            events.append(
                self._event.SpanBeginEvent(
                    timestamp=_time(started), id=id, span_id=id, type="solver", name=step.node or "none"
                )
            )
            events += [self._call(call, started, id) for call in traced.calls]
            end = _time(started + (step.seconds or 0.0))
            events.append(self._event.SpanEndEvent(timestamp=end, id=id, span_id=id))
        return events

    def _call(self, traced: TracedCall, step_start: float, span: str) -> Any:
        call, hide = traced.call, self._hide
        timestamp = _time(call.at or step_start)
        if call.kind == "model":
            text = hide(traced.reply.text) if traced.reply else ""
            stop = _STOPS.get(traced.reply.finish, "unknown") if traced.reply else "unknown"
            output = self._model.ModelOutput.from_content(hide(call.actor), text, stop_reason=stop)
            if traced.reply and traced.reply.calls:
                output.choices[0].message.tool_calls = self._tool_calls(traced.reply.calls)
            output.usage = None if call.usage is None else self._usage(call.usage, call.cost_uncached)
            output.time = call.seconds
            return self._event.ModelEvent(
                timestamp=timestamp,
                span_id=span,
                model=hide(call.actor),
                role=call.role,
                input=self._messages(TracedCall(call, asked=traced.asked)),
                tools=self._tools(traced.asked.tools if traced.asked else ()),
                tool_choice="auto" if traced.asked and traced.asked.tools else "none",
                config=self._model.GenerateConfig(
                    max_tokens=traced.asked.max_tokens if traced.asked else None,
                    stop_seqs=list(traced.asked.stop) or None if traced.asked else None,
                ),
                output=output,
                retries=len(call.faults),
                error=hide(call.error) or None,
                working_time=call.seconds,
            )
        call_record: dict[str, object] = {
            "kind": call.kind,
            "actor": hide(call.actor),
            "query": hide(traced.searched.query) if traced.searched else None,
            "seconds": call.seconds,
            "error": hide(call.error) or None,
            "asked": self._plain(traced.used if traced.asked is None else traced.asked),
            "answered": self._plain(traced.gave if traced.reply is None else traced.reply),
            "found": [
                {"rank": hit.rank, "id": hit.id, "document": hit.document, "score": hit.score, "title": hit.title,
                 "text": hide(hit.text)}
                for hit in traced.passages
            ],
        }  # fmt: skip
        return self._event.InfoEvent(timestamp=timestamp, span_id=span, source="ragrounds", data=call_record)

    def _plain(self, value: object) -> object:
        return None if value is None else read_json(self._hide.in_json(msgspec.json.encode(value).decode()))

    def _model_usage(self, used: _SpentByModel) -> dict[str, Any]:
        """Return tokens by model. A model whose tokens are not all known is left out: the rest would look like the
        sum."""
        return {
            self._hide(model): self._usage(spent.usage, spent.cost_uncached)
            for model, spent in used.items()
            if spent.usage
        }

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
