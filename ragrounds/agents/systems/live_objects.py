"""Source of a system that was passed as a Python object: its functions and classes, the values that they use, and its
models.

A notebook's functions are not in a file. Their sources are read if Python knows them (IPython keeps them). Otherwise
the compiled code counts. Nothing of the object is called, and no vendor's package is imported: a model is recognized by
the names of its classes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType

from ragrounds.agents.systems.reads import OwnSource
from ragrounds.base.digests import FILE_MODULE, text_digest, tree_digest
from ragrounds.recorder.reads import is_own
from ragrounds.recorder.redaction import is_secret_name

_SESSION = "__main__"
_CLIENTS = frozenset(
    "openai.BaseClient anthropic.BaseClient groq.BaseClient cohere.Client cohere.ClientV2 mistralai.Mistral "
    "ollama.BaseClient google.Client".split()
)
_MODELS = _CLIENTS | frozenset(
    "langchain_core.BaseLanguageModel langchain_core.Embeddings llama_index.BaseLLM llama_index.BaseEmbedding "
    "dspy.BaseLM sentence_transformers.SentenceTransformer sentence_transformers.CrossEncoder "
    "transformers.PreTrainedModel transformers.Pipeline".split()
)
"""Top-level package and name of the base classes of models and their clients."""
_REPLY_SETTINGS = (
    "model model_name model_id deployment_name azure_deployment repo_id name_or_path base_url openai_api_base "
    "_base_url azure_endpoint endpoint endpoint_url api_version temperature top_p top_k seed n frequency_penalty "
    "presence_penalty repetition_penalty reasoning_effort reasoning verbosity stop model_kwargs extra_body "
    "additional_kwargs kwargs dimensions responses".split()
)
"""Attributes of a model that decide its replies. A token limit is left out."""
_MUTATING_METHODS = frozenset({"append", "extend", "insert", "add", "update", "pop", "clear", "remove", "setdefault"})
_MAX_TEXT = 1_000_000
"""Maximum number of characters of a value that a function uses. A longer one is data, and does not count."""
_MAX_OBJECTS = 20_000
"""Maximum number of inspected objects."""
_LEAVES = (str, bytes, int, float, bool, complex, type(None), type, ModuleType, CodeType)


def object_source(instance: object) -> OwnSource:
    """Return the entry points of an object's source."""
    sources: set[str] = set()
    imports = {type(instance).__module__}
    files: set[Path] = set()
    for part, in_model in _walk(instance):
        base = _base(type(part))
        if base and not (base in _CLIENTS and in_model):  # a chat model's own client adds no information
            sources.add(
                f"{type(part).__name__} {_as_stable_text({name: _attribute(part, name) for name in _REPLY_SETTINGS})}"
            )
        code = part if isinstance(part, FunctionType) else type(part)
        module = str(code.__module__)
        if (path := _file_of(module)) is not None:
            files.add(path)
        elif module == _SESSION:
            source = _source(code)
            sources.add(tree_digest(ast.parse(source)))
            if isinstance(part, FunctionType):
                changing = _mutated_names(source)
                for name, used_value in _used_values(part):
                    in_module = str(getattr(used_value, "__module__", "") or "")
                    used_module = used_value.__name__ if isinstance(used_value, ModuleType) else in_module
                    if not _is_own(used_module):
                        imports.add(used_module)
                    if name not in changing and (text := _as_stable_text(used_value)) and len(text) <= _MAX_TEXT:
                        sources.add(f"{part.__qualname__}: {name}={text_digest(text)}")
    return OwnSource(
        files=tuple(sorted(files)),
        sources=tuple(sorted(sources)),
        imports=tuple(sorted(imports - {"builtins", _SESSION, ""})),
    )


def _is_own(module: str) -> bool:
    """Return True if a module is the user's own."""
    return module == _SESSION or _file_of(module) is not None


def _file_of(module: str) -> Path | None:
    """Return the file of a user's own module, or ``None`` for any other module and for a session."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if module == _SESSION or not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file)
    return path if module.startswith(FILE_MODULE) or is_own(file) else None


def _walk(system: object) -> Iterator[tuple[object, bool]]:
    """Yield the direct and indirect parts of an object, each once, and True for parts inside a model.

    For a user's own functions, the global values that they use are included.
    """
    seen: dict[int, object] = {}
    pending: deque[tuple[object, bool]] = deque([(system, False)])
    while pending and len(seen) < _MAX_OBJECTS:
        part, part_in_model = pending.popleft()
        if isinstance(part, _LEAVES) or id(part) in seen:
            continue
        seen[id(part)] = part
        yield part, part_in_model
        in_model = part_in_model or bool(_base(type(part)))
        pending.extend((child, in_model) for child in _parts_of(part))


def _base(kind: type) -> str:
    """Return the known base class of a class. Empty if it is not a model."""
    names = (f"{ancestor.__module__.partition('.')[0]}.{ancestor.__name__}" for ancestor in kind.__mro__)
    return next((name for name in names if name in _MODELS), "")


def _attribute(model: object, name: str) -> object:
    try:
        return getattr(model, name, None)
    except Exception:
        return None  # a property of a foreign class may raise anything


def _parts_of(part: object) -> Iterator[object]:
    """Yield the direct parts of an object."""
    if isinstance(part, Mapping):
        yield from list(part.values())[:1000]
    elif isinstance(part, list | tuple | set | frozenset | deque):
        yield from list(part)[:1000]
    elif isinstance(part, functools.partial):
        yield from (part.func, part.args, part.keywords)
    elif isinstance(part, MethodType):
        yield from (part.__self__, part.__func__)
    elif isinstance(part, FunctionType):
        yield getattr(part, "__wrapped__", None)
        for _, child in _used_values(part, globals=_is_own(part.__module__)):
            yield from vars(child).values() if isinstance(child, ModuleType) and _is_own(child.__name__) else (child,)
    else:
        for kind in type(part).__mro__:
            if _is_own(kind.__module__):  # the values that its methods use
                yield from [method for method in vars(kind).values() if isinstance(method, FunctionType)]
        state = object.__getstate__(part)  # attributes, and values of slots
        for child in state if isinstance(state, tuple) else (state,):
            yield from list(child.values()) if isinstance(child, dict) else ()


def _used_values(function: FunctionType, *, globals: bool = True) -> Iterator[tuple[str, object]]:
    """Yield the values that a function uses besides its arguments: global values, its closure and its defaults."""
    for name in sorted(_names_in(function.__code__)) if globals else ():
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    yield "defaults", (function.__defaults__, function.__kwdefaults__)


def _names_in(code: CodeType) -> set[str]:
    """Return the names that a function and its nested functions use."""
    return {*code.co_names}.union(*(_names_in(nested) for nested in code.co_consts if isinstance(nested, CodeType)))


def _source(target: object) -> str:
    """Return the source of a function or class. If it is not known, return a text derived from the compiled code."""
    try:
        text = textwrap.dedent(inspect.getsource(target))  # type: ignore[arg-type]
        ast.parse(text)
    except (OSError, TypeError, SyntaxError):  # a lambda's line need not be a whole statement
        code = getattr(target, "__code__", None)
        return repr(text_digest(*_compiled_texts(code))) if isinstance(code, CodeType) else repr(str(target))
    return text


def _compiled_texts(code: CodeType) -> Iterator[str]:
    yield from (code.co_code.hex(), *code.co_names)
    for constant in code.co_consts:
        yield from _compiled_texts(constant) if isinstance(constant, CodeType) else (repr(constant),)


def _mutated_names(source: str) -> set[str]:
    """Return the names of the values that a function changes itself: a log, a counter."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Global(names=outer_names) | ast.Nonlocal(names=outer_names):
                names |= {*outer_names}
            case ast.Attribute(value=ast.Name(id=name), attr=method) if method in _MUTATING_METHODS:
                names.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                names.add(name)
    return names


def _as_stable_text(plain_value: object) -> str:
    """Return a plain value as a text that is the same in every process. Empty for any other value."""
    if isinstance(plain_value, Mapping):
        parts = sorted(
            (str(key), _as_stable_text(value)) for key, value in plain_value.items() if not is_secret_name(str(key))
        )
        return "{" + ",".join(f"{key}={text}" for key, text in parts if text) + "}"
    if isinstance(plain_value, list | tuple | set | frozenset):
        texts = [*map(_as_stable_text, plain_value)]
        return f"[{','.join(sorted(texts) if isinstance(plain_value, set | frozenset) else texts)}]"
    if type(plain_value).__name__ == "URL":  # httpx's class
        return str(plain_value)
    return repr(plain_value) if isinstance(plain_value, str | bytes | int | float | complex | None) else ""
