"""The models that a loaded system holds: chat models, embedders and clients in its attributes, closures and in the
globals of its own code.

Nothing of it is called, and no vendor's package is imported: a model is known by the names of its classes.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Container, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType

from ragrounds.recorder.reads import is_secret_name
from ragrounds.redaction import redacted

_BASES = frozenset(
    {
        ("langchain_core", "BaseLanguageModel"),
        ("langchain_core", "Embeddings"),
        ("llama_index", "BaseLLM"),
        ("llama_index", "BaseEmbedding"),
        ("dspy", "BaseLM"),
        ("openai", "BaseClient"),
        ("anthropic", "BaseClient"),
        ("groq", "BaseClient"),
        ("cohere", "Client"),
        ("cohere", "ClientV2"),
        ("mistralai", "Mistral"),
        ("ollama", "BaseClient"),
        ("google", "Client"),
        ("sentence_transformers", "SentenceTransformer"),
        ("sentence_transformers", "CrossEncoder"),
        ("transformers", "PreTrainedModel"),
        ("transformers", "Pipeline"),
    }
)
"""Top package and name of the classes that models and their clients inherit from."""
_CLIENTS = frozenset({"BaseClient", "Client", "ClientV2", "Mistral"})
_NAMES = (
    "model", "model_name", "model_id", "deployment_name", "azure_deployment", "repo_id", "name_or_path",
    "base_url", "openai_api_base", "_base_url", "azure_endpoint", "endpoint", "endpoint_url", "api_version",
    "temperature", "top_p", "top_k", "seed", "n", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "reasoning_effort", "reasoning", "verbosity", "stop", "model_kwargs", "extra_body", "additional_kwargs", "kwargs",
    "dimensions", "responses",
)  # fmt: skip
"""What of a model decides its replies; a limit of tokens is left out."""
_MOST = 20_000
"""Objects that are looked at."""
_LONGEST = 300
_PLAIN = (str, bytes, int, float, bool, complex, type(None), type, ModuleType, CodeType)


def models_held(system: object, own: Container[str] = ()) -> tuple[str, ...]:
    """The models that can be found in a system, as ``ChatOpenAI[model=gpt-4o,temperature=0]``, each once, sorted.

    Args:
        system: The opened system.
        own: Names of its own modules: the globals of their functions are looked at.
    """
    found: set[str] = set()
    for one, of_model in walked(system, own):
        base = _base(type(one))
        if base and not (base in _CLIENTS and of_model):  # a chat model's own client says nothing that it does not
            found.add(_described(one))
    return tuple(sorted(found))


def walked(system: object, own: Container[str]) -> Iterator[tuple[object, bool]]:
    """What an object holds, directly or not, each once, and whether it is inside a model. Of functions of the modules
    `own` the globals that they name are looked at, too."""
    seen: dict[int, object] = {}
    left: deque[tuple[object, bool]] = deque([(system, False)])
    while left and len(seen) < _MOST:
        one, of_model = left.popleft()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one, of_model
        inside = of_model or bool(_base(type(one)))
        left.extend((each, inside) for each in _inside(one, own))


def _base(kind: type) -> str:
    """The known class that a class inherits from; empty: it is no model."""
    for each in kind.__mro__:
        if (each.__module__.partition(".")[0], each.__name__) in _BASES:
            return each.__name__
    return ""


def _described(model: object) -> str:
    said: dict[str, str] = {}
    for name in _NAMES:
        held = _attribute(model, name)
        if held is not None and (text := _written(held)) and text not in ("{}", "[]"):
            said[name.lstrip("_")] = text
    return redacted(f"{type(model).__name__}[{','.join(f'{name}={text}' for name, text in said.items())}]")


def _attribute(model: object, name: str) -> object:
    try:
        return getattr(model, name, None)
    except Exception:
        return None  # a property of a foreign class may raise anything


def _written(held: object) -> str:
    """A value as text that is the same in every process; empty: it is none such."""
    if isinstance(held, Mapping):
        parts = sorted((str(key), _written(value)) for key, value in held.items() if not is_secret_name(str(key)))
        text = "{" + ",".join(f"{key}={value}" for key, value in parts if value) + "}"
    elif isinstance(held, list | tuple):
        text = "[" + ",".join(filter(None, map(_written, held))) + "]"
    elif isinstance(held, str | int | float):
        text = str(held)
    elif type(held).__name__ == "URL":  # of httpx
        text = str(held).rstrip("/")
    else:
        return ""
    return text[:_LONGEST]


def _inside(one: object, own: Container[str]) -> Iterator[object]:
    """What an object holds."""
    if isinstance(one, Mapping):
        yield from list(one.values())[:1000]
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from list(one)[:1000]
    elif isinstance(one, functools.partial):
        yield from (one.func, one.args, one.keywords)
    elif isinstance(one, MethodType):
        yield from (one.__self__, one.__func__)
    elif isinstance(one, FunctionType):
        yield from _of_function(one, own)
    else:
        yield from _of_object(one, own)


def beside(one: FunctionType, *, globals: bool = True) -> Iterator[tuple[str, object]]:
    """What a function finds beside its arguments: the globals that it names, its closure and its defaults."""
    for name in sorted(_names_in(one.__code__)) if globals else ():
        if name in one.__globals__:
            yield name, one.__globals__[name]
    for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue
    yield "defaults", (one.__defaults__, one.__kwdefaults__)


def _of_function(one: FunctionType, own: Container[str]) -> Iterator[object]:
    """What a function finds beside it; the globals that it names only of one of the system's own."""
    yield getattr(one, "__wrapped__", None)
    for _, held in beside(one, globals=one.__module__ in own):
        yield from vars(held).values() if isinstance(held, ModuleType) and held.__name__ in own else (held,)


def _names_in(code: CodeType) -> set[str]:
    """The names that a function and those inside it use."""
    names = {*code.co_names}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            names |= _names_in(each)
    return names


def _of_object(one: object, own: Container[str]) -> Iterator[object]:
    for kind in type(one).__mro__:
        if kind.__module__ in own:  # what its methods name
            yield from [each for each in vars(kind).values() if isinstance(each, FunctionType)]
    held = getattr(one, "__dict__", None)
    if isinstance(held, dict):
        yield from list(held.values())
    private = _attribute(one, "__pydantic_private__")
    if isinstance(private, dict):
        yield from list(private.values())
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if not name.startswith("__"):
                yield _attribute(one, name)
