"""From a model's text to a model."""

from __future__ import annotations

from collections.abc import Mapping

from ragrounds.contracts import Model
from ragrounds.errors import UserError, nearest
from ragrounds.models.options import VLLM, read_options
from ragrounds.models.prices import Price
from ragrounds.specs import Spec, Value, parse

BASELINE = "baseline:extractive"


def open_model(text: str | Spec, prices: Mapping[str, Price] | None = None) -> Model:
    """Open ``provider:model[…]``: the built-in baseline, an OpenAI-compatible server, vLLM, or any LangChain provider.

    Nothing is sent or started yet.

    Raises:
        UserError: unknown provider or parameter, or no key.
    """
    options = read_options(parse(text) if isinstance(text, str) else text)
    price = (prices or {}).get(f"{options.provider}:{options.model}")
    if options.provider == "baseline":
        from ragrounds.models.extractive import ExtractiveBaseline

        if options.model != "extractive":
            raise UserError(
                f"Unknown baseline {options.model!r}.{nearest(options.model, ['extractive'])} Use {BASELINE}."
            )
        return ExtractiveBaseline()
    if options.provider == "openai":
        from ragrounds.models.openai_compatible import OpenAICompatible

        return OpenAICompatible(options, price)
    if options.provider == VLLM:
        from ragrounds.models.vllm import open_vllm

        return open_vllm(options, price)
    from ragrounds.models.langchain_models import open_langchain_model

    return open_langchain_model(options, price)


def with_defaults(text: str, defaults: Mapping[str, Value | None]) -> str:
    """A model's text with what it leaves open filled in. The baseline takes nothing; a `base_url` is for ``openai:``,
    whose scorer other servers speak, and ``vllm:``."""
    spec = parse(text)
    provider = spec.name.partition(":")[0]
    if provider == "baseline":
        return text
    filled = {
        key: value
        for key, value in defaults.items()
        if value is not None and key not in spec.parameters and (key != "base_url" or provider in ("openai", VLLM))
    }
    return str(spec.having(**filled))


def starts_server(text: str) -> bool:
    """Whether a model needs a server that this process would start."""
    spec = parse(text)
    return spec.name.partition(":")[0] == VLLM and "base_url" not in spec.parameters
