"""Forms that are tables once their rows are found: results of promptfoo, test runs of DeepEval, samples of Every Eval
Ever. Frames of ragas, DeepEval, FlashRAG and LangSmith are tables already: ``table`` knows their column names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, dict_of, dicts_of, number_of, text_of
from ragrounds.extensions.exchange.importers.table import Values, guess_fields, rows_with


def _has(*sets: Collection[str]) -> Callable[[ImportFile], bool]:
    return lambda file: any(set(keys) <= set(file.first) for keys in sets)


def _promptfoo(result: Values, file: ImportFile, seen: dict[str, str]) -> Values:
    """Return the field values of a promptfoo result.

    The variables hold the question, under names that the user chose. An assertion of equality states the right answer.
    The error of a result is also the message of a failed assertion.
    """
    variables, test = dict_of(result.get("vars")), dict_of(result.get("testCase"))
    known_fields = {field: variables[column] for field, column in guess_fields(list(variables)).items()}
    expected_values = [
        assertion.get("value")
        for assertion in dicts_of(test.get("assert"))
        if assertion.get("type") in ("equals", "icontains")
    ]
    response, provider = dict_of(result.get("response")), dict_of(result.get("provider"))
    answered, used = "output" in response and result.get("failureReason") != 2, dict_of(response.get("tokenUsage"))
    number = result.get("promptIdx")
    return {
        **{field: known_fields.get(field) for field in ("question", "options", "dataset")},
        "agent": text_of(provider.get("label") or provider.get("id")) + (f" prompt {number}" if number else ""),
        "id": known_fields.get("id", result.get("testIdx")),
        "gold": expected_values[0] if expected_values else known_fields.get("gold", known_fields.get("answer")),
        "answer": response.get("output"),
        "input_tokens": used.get("prompt"),
        "output_tokens": used.get("completion"),
        "milliseconds": result.get("latencyMs"),
        "cost": result.get("cost") if answered else None,
        "score": result.get("score"),
        "error": None if answered else result.get("error") or "no output",
    }


def _deepeval(case: Values, file: ImportFile, seen: dict[str, str]) -> Values:
    """Return the field values of a case, as it is stored or as ``evaluate`` returns it.

    The first metric is the score.
    """
    fields = {key.replace("_", "").lower(): value for key, value in case.items()}
    metrics = dicts_of(fields.get("metricsdata"))
    return {
        "id": fields.get("name"),
        "question": fields.get("input"),
        "gold": fields.get("expectedoutput"),
        "answer": fields.get("actualoutput"),
        "passages": fields.get("retrievalcontext"),
        "seconds": fields.get("completiontime"),
        "cost": fields.get("tokencost"),
        "score": metrics[0].get("score") if metrics else None,
    }


def _sample(line: Values, file: ImportFile, seen: dict[str, str]) -> Values | None:
    """Return the field values of a sample, or ``None`` for a repetition.

    The answer of a single turn is the output, else the assistant's last message. A sample occurs once for each metric;
    the first counts.
    """
    metric = text_of(line.get("evaluation_result_id"))
    if seen.setdefault(f"{line.get('evaluation_id')} {line.get('sample_id')}", metric) != metric:
        return None
    metadata, input, output, used = (dict_of(line.get(key)) for key in ("metadata", "input", "output", "token_usage"))
    messages, calls = dicts_of(line.get("messages")), number_of(metadata.get("model_calls"))
    assistant_messages = [message for message in messages if message.get("role") == "assistant"]
    return {
        **{key: metadata.get(key) for key in ("choice", "epoch")},
        "agent": " ".join(filter(None, (text_of(metadata.get("agent")), text_of(line.get("model_id"))))),
        "dataset": line.get("evaluation_name"),
        "id": line.get("sample_id"),
        "question": input.get("raw"),
        "options": input.get("choices"),
        "gold": input.get("reference"),
        "answer": output.get("raw") if output else assistant_messages[-1].get("content") if assistant_messages else "",
        # An answer that differs from every reply is a separate turn.
        "steps": [message for message in messages if message is not assistant_messages[-1]]
        if calls == len(assistant_messages) - 1
        else messages,
        "input_tokens": used.get("input_tokens"),
        "output_tokens": used.get("output_tokens"),
        "milliseconds": dict_of(line.get("performance")).get("latency_ms"),
        "cost": metadata.get("cost_usd"),
        "score": dict_of(line.get("evaluation")).get("score"),
        "error": line.get("error"),
    }


PROMPTFOO = Importer(
    name="promptfoo",
    summary="promptfoo's results, .json and .jsonl.",
    recognises=_has(("evalId", "results"), ("promptIdx", "testIdx", "vars")),
    rows=rows_with(_promptfoo, "results.results"),
)
DEEPEVAL = Importer(
    name="deepeval",
    summary="DeepEval's test runs.",
    recognises=_has(("testRunData",), ("testCases", "metricsScores"), ("test_results",)),
    rows=rows_with(_deepeval, "testRunData.testCases", "testCases", "test_results"),
)
EVERY_EVAL_EVER = Importer(
    name="every-eval-ever",
    summary="Samples of Every Eval Ever, UUID_samples.jsonl.",
    recognises=_has(("evaluation_id", "sample_id", "interaction_type")),
    rows=rows_with(_sample),
)
