"""Forms that are tables once their rows are found: results of promptfoo and test runs of DeepEval. Frames of
ragas, DeepEval, FlashRAG and LangSmith are tables already: ``table`` knows their column names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, dict_of, dicts_of, text_of
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
