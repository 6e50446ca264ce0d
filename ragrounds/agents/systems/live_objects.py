"""The source of a system that was given as a Python object: its functions and classes, what they find beside them, and
the models that it holds.

A notebook's functions stand in no file. Their sources are read where Python knows them (IPython does keep them), else
what they were compiled to counts. Nothing of the object is called, and no vendor's package is imported: a model is
known by the names of its classes.
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
from typing import TypeGuard

from ragrounds.agents.systems.reads import OwnSource
from ragrounds.base.digests import FILE_MODULE, text_digest, tree_digest
from ragrounds.recorder.reads import is_own, is_secret_name

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
"""Top package and name of the classes that models and their clients inherit from."""
_DECIDING = (
    "model model_name model_id deployment_name azure_deployment repo_id name_or_path base_url openai_api_base "
    "_base_url azure_endpoint endpoint endpoint_url api_version temperature top_p top_k seed n frequency_penalty "
    "presence_penalty repetition_penalty reasoning_effort reasoning verbosity stop model_kwargs extra_body "
    "additional_kwargs kwargs dimensions responses".split()
)
"""What of a model decides its replies; a limit of tokens is left out."""
_CHANGING = frozenset({"append", "extend", "insert", "add", "update", "pop", "clear", "remove", "setdefault"})
_LONGEST = 1_000_000
"""Characters of a value that a function names; a longer one is data, and does not count."""
_MOST = 20_000
"""Objects that are looked at."""
_PLAIN = (str, bytes, int, float, bool, complex, type(None), type, ModuleType, CodeType)


def object_source(made: object) -> OwnSource:
    """Where the source of an object begins."""
    sources: set[str] = set()
    imports = {type(made).__module__}
    files: set[Path] = set()
    for one, of_model in _walked(made):
        base = _base(type(one))
        if base and not (base in _CLIENTS and of_model):  # a chat model's own client says nothing that it does not
            sources.add(f"{type(one).__name__} {_written({name: _attribute(one, name) for name in _DECIDING})}")
        code = one if isinstance(one, FunctionType) else type(one)
        module = str(code.__module__)
        if (path := _file_of(module)) is not None:
            files.add(path)
        elif module == _SESSION:
            source = _source(code)
            sources.add(tree_digest(ast.parse(source)))
            if isinstance(one, FunctionType):
                changing = _changed_in(source)
                for name, held in _beside(one):
                    imports |= _imported(held)
                    if name not in changing and (text := _written(held)) and len(text) <= _LONGEST:
                        sources.add(f"{one.__qualname__}: {name}={text_digest(text)}")
    return OwnSource(
        files=tuple(sorted(files)),
        sources=tuple(sorted(sources)),
        imports=tuple(sorted(imports - {"builtins", _SESSION, ""})),
    )


def _is_own(module: str) -> bool:
    """Whether a module is the user's own."""
    return module == _SESSION or _file_of(module) is not None


def _file_of(module: str) -> Path | None:
    """The file of a module that is the user's own; ``None``: it is none, or is a session's."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if module == _SESSION or not isinstance(file, str) or not file.endswith(".py"):
        return None
    path = Path(file)
    return path if module.startswith(FILE_MODULE) or is_own(file) else None


def _walked(system: object) -> Iterator[tuple[object, bool]]:
    """What an object holds, directly or not, each once, and whether it is inside a model. Of own functions the globals
    that they name are looked at, too."""
    seen: dict[int, object] = {}
    left: deque[tuple[object, bool]] = deque([(system, False)])
    while left and len(seen) < _MOST:
        one, of_model = left.popleft()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        seen[id(one)] = one
        yield one, of_model
        inside = of_model or bool(_base(type(one)))
        left.extend((each, inside) for each in _inside(one))


def _base(kind: type) -> str:
    """The known class that a class inherits from; empty: it is no model."""
    names = (f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in kind.__mro__)
    return next((name for name in names if name in _MODELS), "")


def _attribute(model: object, name: str) -> object:
    try:
        return getattr(model, name, None)
    except Exception:
        return None  # a property of a foreign class may raise anything


def _inside(one: object) -> Iterator[object]:
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
        yield getattr(one, "__wrapped__", None)
        for _, held in _beside(one, globals=_is_own(one.__module__)):
            yield from vars(held).values() if isinstance(held, ModuleType) and _is_own(held.__name__) else (held,)
    else:
        for kind in type(one).__mro__:
            if _is_own(kind.__module__):  # what its methods name
                yield from [each for each in vars(kind).values() if isinstance(each, FunctionType)]
        state = object.__getstate__(one)  # attributes, and those of slots
        for held in state if isinstance(state, tuple) else (state,):
            yield from list(held.values()) if isinstance(held, dict) else ()


def _beside(one: FunctionType, *, globals: bool = True) -> Iterator[tuple[str, object]]:
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


def _names_in(code: CodeType) -> set[str]:
    """The names that a function and those inside it use."""
    return {*code.co_names}.union(*(_names_in(each) for each in code.co_consts if isinstance(each, CodeType)))


def _source(one: object) -> str:
    """The source of a function or class; of one whose source is not known, a text of what it was compiled to."""
    try:
        text = textwrap.dedent(inspect.getsource(one))  # type: ignore[arg-type]
        ast.parse(text)
    except (OSError, TypeError, SyntaxError):  # a lambda's line need not be a whole statement
        code = getattr(one, "__code__", None)
        return repr(text_digest(*_compiled(code))) if isinstance(code, CodeType) else repr(str(one))
    return text


def _compiled(code: CodeType) -> Iterator[str]:
    yield from (code.co_code.hex(), *code.co_names)
    for each in code.co_consts:
        yield from _compiled(each) if isinstance(each, CodeType) else (repr(each),)


def _changed_in(source: str) -> set[str]:
    """The names of what a function changes itself: a log, a counter."""
    found: set[str] = set()
    for each in ast.walk(ast.parse(source)):
        if isinstance(each, ast.Global | ast.Nonlocal):
            found |= {*each.names}
        elif _changes(each) and isinstance(each.value, ast.Name):
            found.add(each.value.id)
    return found


def _changes(node: ast.AST) -> TypeGuard[ast.Attribute | ast.Subscript]:
    """Whether this is ``NAME.append`` or ``NAME[…] = …``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _CHANGING
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)


def _imported(held: object) -> set[str]:
    """The module of what a function names, unless it is its own."""
    module = held.__name__ if isinstance(held, ModuleType) else str(getattr(held, "__module__", "") or "")
    return set() if _is_own(module) else {module}


def _written(held: object) -> str:
    """A plain value as text that is the same in every process; empty: it is none."""
    if isinstance(held, Mapping):
        parts = sorted((str(key), _written(value)) for key, value in held.items() if not is_secret_name(str(key)))
        return "{" + ",".join(f"{key}={text}" for key, text in parts if text) + "}"
    if isinstance(held, list | tuple | set | frozenset):
        texts = [*map(_written, held)]
        return f"[{','.join(sorted(texts) if isinstance(held, set | frozenset) else texts)}]"
    if type(held).__name__ == "URL":  # of httpx
        return str(held)
    return repr(held) if isinstance(held, str | bytes | int | float | complex | None) else ""
