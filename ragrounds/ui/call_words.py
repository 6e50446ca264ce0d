"""A model call in words: what was asked beside the messages, and how likely the reply's tokens were."""

from __future__ import annotations

from ragrounds.contracts import Request
from ragrounds.records import Reply


def terms_of(asked: Request) -> str:
    """What a request asks for beside its messages: ``at most 50 tokens; temperature 0.2``; empty: nothing."""
    terms = [f"at most {asked.max_tokens} tokens"] if asked.max_tokens else []
    terms += [f"stops at {asked.stop!r}"] if asked.stop else []
    terms += [f"occurrence {asked.occurrence}"] if asked.occurrence else []
    terms += ["provider's web search"] if asked.web_search else []
    terms += [f"tools: {', '.join(tool.name for tool in asked.tools)}"] if asked.tools else []
    terms += [f"tool choice: {asked.tool_choice}"] if asked.tool_choice else []
    terms += ["one tool at a time"] if asked.parallel_tool_calls is False else []
    terms += [f"temperature {asked.temperature:g}"] if asked.temperature is not None else []
    terms += [f"seed {asked.seed}"] if asked.seed is not None else []
    terms += [f"a reply of the form {_form(asked.response_format)}"] if asked.response_format else []
    if asked.logprobs is not None:
        terms.append("log probabilities" + (f" with the {asked.logprobs} likeliest tokens" if asked.logprobs else ""))
    return "; ".join(terms)


def _form(form: dict[str, object]) -> str:
    schema = form.get("json_schema")
    return str(schema.get("name") or "JSON schema") if isinstance(schema, dict) else str(form.get("type"))


def probability_of(reply: Reply) -> str:
    """The log probability of a reply's text, and of its least likely token; empty: it brought none."""
    if not reply.logprobs:
        return ""
    least = min(reply.logprobs, key=lambda one: one.logprob)
    others = ", ".join(f"{token!r} {number:.2f}" for token, number in least.top if token != least.token)
    total = sum(one.logprob for one in reply.logprobs)
    tokens = f"{len(reply.logprobs):,} token{'' if len(reply.logprobs) == 1 else 's'}"
    beside = f" (beside {others})" if others else ""
    return f"log probability of its {tokens}: {total:.2f}; least likely {least.token!r} {least.logprob:.2f}{beside}"
