"""What servers say of a prompt that is too long: its size and the limit, in their own words."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.models.faults import TooLong, too_long
from tests.servers.http_script import Asked, Told, answering

SAID = [
    # OpenAI
    (
        "This model's maximum context length is 4096 tokens. However, your messages resulted in 9000 tokens. Please "
        "reduce the length of the messages.",
        (9000, 4096),
    ),
    (
        "This model's maximum context length is 8192 tokens, however you requested 8300 tokens (7300 in your prompt; "
        "1000 for the completion).",
        (8300, 8192),
    ),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", (None, None)),
    # vLLM
    (
        "This model's maximum context length is 2048 tokens. However, you requested 2148 tokens (2048 in the messages, "
        "100 in the completion).",
        (2148, 2048),
    ),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", (5000, 4096)),
    (
        "You passed 5001 input tokens and requested 100 output tokens. However, the model's context length is only "
        "4096 tokens, resulting in a maximum input length of 3996 tokens.",
        (5001, 4096),
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 "
        "tokens and your request has 2000 input tokens (5000 > 4096 - 2000).",
        (2000, 4096),
    ),
    # llama.cpp
    ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", (5000, 4096)),
    # SGLang
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", (5000, 4096)),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "5000 tokens: 4900 tokens from the input messages and 100 tokens for the completion.",
        (5000, 4096),
    ),
    # Anthropic, Gemini, Mistral
    ("prompt is too long: 201000 tokens > 200000 maximum", (201000, 200000)),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        (1200000, 1048576),
    ),
    (
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        (40000, 32768),
    ),
    (
        "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens.",
        (2049, 2048),
    ),
]


@pytest.mark.parametrize(("said", "figures"), SAID)
def test_size_and_limit_are_read(said: str, figures: tuple[int | None, int | None]) -> None:
    assert too_long("", said) == TooLong(*figures)


def test_figures_in_fields_of_their_own_count() -> None:
    fields: dict[str, object] = {"n_prompt_tokens": 5000, "n_ctx": 4096}
    assert too_long("exceed_context_size_error", "too much", fields) == TooLong(5000, 4096)


@pytest.mark.parametrize("said", ["temperature must be 1", "no such model", "the messages are too long for my taste"])
def test_other_errors_are_others(said: str) -> None:
    assert too_long("invalid_request_error", said) is None


def test_the_failure_says_both() -> None:
    failed = TooLong(9000, 4096).failed("the server's words")
    assert (failed.kind, failed.message) == (
        "context_too_long",
        "9,000 tokens, the model's limit is 4,096: the server's words "
        "(Fewer or shorter passages, AGENT[top_k=…], or a model or server with a longer context.)",
    )
    assert "does not report" in TooLong(None, None).failed("x").message


def test_failures_that_differ_in_a_size_have_one_reason(home: Path) -> None:
    def refuse(asked: Asked, before: int) -> Told:
        error = {"message": f"the request has {2900 + before} tokens", "type": "exceed_context_size_error"}
        return Told({"error": error | {"n_prompt_tokens": 2900 + before, "n_ctx": 2048}}, 400)

    with answering(refuse) as server:
        model = f'openai:m[base_url="{server.url}/v1"]'
        result = rr.run("sample", "direct", model=model, limit=3, home=home, progress=False, fail_after="never")
    ((reason, count),) = result.failures
    assert count == 3
    assert "the model's limit is 2,048" in reason
