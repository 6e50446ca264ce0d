"""A retriever is one object: its name, parameters, needs and cost, and how it opens over a corpus.

Every module of :mod:`ragrounds.tools.retrievers` that holds a :class:`Retriever` is found by itself: a new one is one
new file. Installed packages add theirs by entry points of the group ``ragrounds.retrievers``, and
``package.module:NAME`` names one by its import path.
"""

from __future__ import annotations

import importlib.util
import weakref
from collections.abc import Callable
from collections.abc import Collection as Names
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from ragrounds.base import hooks
from ragrounds.base.contracts import Searcher
from ragrounds.base.digests import code_digest, file_digest, home_of, text_digest
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.plugins import ExtensionPoint, fields_amiss, is_import_path
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.index.cards import cards
from ragrounds.tools.index.collection import Collection
from ragrounds.tools.index.collection_builder import Count, Progress, open_collection
from ragrounds.tools.merged import MergedSearcher

_LAYER = "ragrounds.tools"
_MERGING = "ragrounds.tools.merged"


@dataclass(frozen=True)
class RetrieverParameter:
    """A parameter of a retriever's spec."""

    name: str
    words: str
    default: Value | None = None
    """Default; ``None`` if it has none, or depends on others. Otherwise the values have its type."""
    least: float | None = None
    maximum: float | None = None
    among: tuple[str, ...] = ()
    """Words that the value may be; empty if any is allowed."""

    def value_in(self, spec: Spec) -> Any:
        """Return a spec's value of the parameter, or its default.

        Raises:
            UserError: the value is of another kind, or out of range.
        """
        value: Any = spec.parameters.get(self.name)
        if value is None or self.default is None:
            return self.default if value is None else value
        if isinstance(self.default, bool):
            fits, expected = isinstance(value, bool), "true or false"
        elif isinstance(self.default, int | float):
            kinds = int if isinstance(self.default, int) else (int, float)
            fits = isinstance(value, kinds) and not isinstance(value, bool)
            fits = (
                fits and (self.least is None or value >= self.least) and (self.maximum is None or value <= self.maximum)
            )
            expected = "a whole number" if kinds is int else "a number"
            if self.maximum is not None:
                expected += f" from {self.least:g} to {self.maximum:g}"
            elif self.least is not None:
                expected += f" of {self.least:g} or more"
        else:
            fits = not isinstance(value, bool | int | float) and (not self.among or value in self.among)
            expected = f"{nearest(str(value), self.among)} {' or '.join(self.among)}".strip() or "a text"
        if not fits:
            raise UserError(f"Cannot use {self.name}={value!r} in {spec.name}: expected {expected}.")
        return value


def parameters_of(kind: type[msgspec.Struct]) -> tuple[RetrieverParameter, ...]:
    """Return the parameters that a record reads from a spec. Each field's type is annotated with its words."""
    hints = get_type_hints(kind, include_extras=True)
    none = ("", msgspec.NODEFAULT)
    return tuple(
        RetrieverParameter(
            field.name, hints[field.name].__metadata__[0], None if field.default in none else field.default
        )
        for field in msgspec.structs.fields(kind)
    )


@dataclass(frozen=True)
class SearchedCorpora:
    """Corpora that a retriever is opened over, with everything that it may use to open."""

    names: str
    """Names as the user gives them: ``sample``, a source such as ``beir:PATH``, an index, or several joined
    with ``+``.
    """
    home: Path
    """Folder of ragrounds' files. Indexes are under ``home/indexes``."""
    progress: Progress | None = None
    opened: list[Spec] = field(default_factory=list)
    """Every retriever that was opened over the corpora, in this order. The hits depend on them."""

    def open_over_all(self, open_one: Callable[[Collection], Searcher]) -> Searcher:
        """Open a searcher over the passages of every corpus. The hits of several are merged by raw score."""
        collections = [open_collection(name, self.home, progress=self.progress) for name in corpora_of(self.names)]
        opened = [open_one(collection) for collection in collections]
        return opened[0] if len(opened) == 1 else MergedSearcher(opened)

    def searcher(self, spec: Spec) -> Searcher:
        """Open another retriever over the same corpora."""
        self.opened.append(spec)
        return find_retriever(spec.name).open(spec, self)

    def counting(self, doing: str) -> Count | None:
        """Return the progress callback of one kind of work; ``None`` if progress is not followed."""
        return partial(self.progress, doing) if self.progress else None


@dataclass(frozen=True)
class Retriever:
    """A way to search, as `ragrounds list retrievers` lists it and specs name it."""

    name: str
    summary: str
    """Summary of one line."""
    example: str
    """Spec that shows its parameters."""
    open: Callable[[Spec, SearchedCorpora], Searcher]
    """Function that makes a searcher.

    Files that it needs on disk are built once and stored under ``home/indexes``. It raises a
    :class:`~ragrounds.base.errors.UserError` for parameters that are wrong and for libraries or weights that are
    missing.
    """
    parameters: tuple[RetrieverParameter, ...] = ()
    index: str = ""
    """Description of the index that it builds over a corpus; empty if it builds none."""
    cost: str = ""
    """Cost of a search in words."""
    extra: str = ""
    """Extra of this package that it needs; empty if none."""
    library: str = ""
    """Module of that extra whose absence is reported before anything is opened."""
    further_names: Callable[[], Names[str]] = tuple
    """Function that returns more names that open it, such as those of cards."""
    caution: str = ""
    """Warning that a user should know before relying on it: ``not tried on a real server``."""
    own_corpus: bool = False
    """True if it searches a source of its own, such as the web.

    No --corpus is needed, and `corpora.names` may be empty.
    """

    def check(self, spec: Spec) -> None:
        """Refuse parameters that the retriever does not have.

        Raises:
            UserError: a parameter is unknown. The message names the nearest.
        """
        check_known(spec, [parameter.name for parameter in self.parameters])

    def values_in(self, spec: Spec) -> dict[str, Any]:
        """Return every parameter with its value in a spec, or its default.

        Raises:
            UserError: as :meth:`check`, or a value of another kind, or out of range.
        """
        self.check(spec)
        return {parameter.name: parameter.value_in(spec) for parameter in self.parameters}

    def missing(self) -> str:
        """Return the library that has to be installed before it can be used; empty if nothing is missing."""
        if not self.library or importlib.util.find_spec(self.library):
            return ""
        return f"{self.library}: install ragrounds[{self.extra}]"

    def described(self) -> dict[str, object]:
        """Describe the retriever in words, for JSON."""
        parameters = [
            {
                "name": parameter.name,
                "words": parameter.words,
                "default": str(parameter.default) if isinstance(parameter.default, Spec) else parameter.default,
            }
            for parameter in self.parameters
        ]
        words = {key: getattr(self, key) for key in ("name", "summary", "example", "index", "cost", "extra", "caution")}
        return {**words, "missing": self.missing(), "package": self.package, "parameters": parameters}

    @property
    def package(self) -> str:
        """Return the package, with its version, that adds it; empty if it ships, or if the user named it by import
        path.
        """
        return RETRIEVERS.origin(self.name)


def _lacks(retriever: Retriever) -> str:
    if not all(isinstance(parameter, RetrieverParameter) for parameter in retriever.parameters):
        return "its parameters are not all of the class RetrieverParameter."
    texts = ("summary", "example", "index", "cost", "extra", "library", "caution")
    return fields_amiss(retriever, texts, functions=("open", "further_names"))


RETRIEVERS: ExtensionPoint[Retriever] = ExtensionPoint(hooks.RETRIEVER, Retriever, _lacks)
"""Retrievers that ship, that installed packages add, and that users name by import path."""


def retrievers() -> dict[str, Retriever]:
    """Return all retrievers by name: those of this package, and those that installed packages add."""
    return RETRIEVERS.all()


def find_retriever(name: str) -> Retriever:
    """Return the retriever that the user names: by its name, a card's name, or an import path
    (``package.module:NAME``), which runs that code.

    Raises:
        UserError: it does not exist. The message names the nearest.
    """
    if (ours := RETRIEVERS.ours(name)) is not None:
        return ours
    if is_import_path(name):
        return RETRIEVERS.imported(name)
    shipped = RETRIEVERS.shipped()
    for retriever in shipped.values():
        if name in retriever.further_names():
            return retriever
    extension = RETRIEVERS.find(name)
    if extension is None:
        names = [further for retriever in shipped.values() for further in retriever.further_names()]
        raise unknown("retriever", name, [*retrievers(), *names], RETRIEVERS.hook.listing)
    return extension


def needs_corpus(spec: Spec) -> bool:
    """Return True if a corpus must be named for a retriever.

    A retriever that searches a source of its own needs none, nor does one that is made of such alone
    (``rrf[a=pubmed,b=web[provider=tavily]]``).

    Raises:
        UserError: the retriever is unknown.
    """
    if find_retriever(spec.name).own_corpus:
        return False
    specs = [Spec(parameter) if isinstance(parameter, str) else parameter for parameter in spec.parameters.values()]
    members = [member for member in specs if isinstance(member, Spec) and RETRIEVERS.ours(member.name) is not None]
    return not members or any(needs_corpus(member) for member in members)


def open_searcher(retriever: Spec | str, corpus: str, home: Path, *, progress: Progress | None = None) -> Searcher:
    """Open a retriever over a corpus. Files that it needs on disk are built once and stored under ``home/indexes``.

    Args:
        retriever: A spec such as ``bm25``, ``bm25[k1=1.2,b=0.75,analyser=plain]`` or ``rrf[a=bm25,b=medcpt]``.
        corpus: ``sample``, a source to read such as ``beir:PATH``, or the name of an index built before; several are
            joined with ``+``; empty for a retriever that needs none (:func:`needs_corpus`).
        home: Folder of ragrounds' files.
        progress: Called with the progress of a build, if something has to be built.

    Raises:
        UserError: a retriever, parameter or corpus is unknown; input cannot be read.
        StopRun: the disk is full.
    """
    spec = parse(retriever) if isinstance(retriever, str) else retriever
    definition, corpora = find_retriever(spec.name), SearchedCorpora(corpus, home, progress)
    with RETRIEVERS.used(definition.name):
        searcher = corpora.searcher(spec)
    called = parse(searcher.spec).name
    if called != spec.name and ((RETRIEVERS.ours(called) or definition) is not definition):
        raise UserError(
            f"The retriever {spec.name!r} opened a searcher that calls itself {searcher.spec!r}, the name of a "
            "different retriever: give it `spec = str(spec)`, so that its results have its own name."
        )
    _note_codes(searcher, {spec.name: spec_code(spec) for spec in corpora.opened})
    return searcher


_codes: dict[int, tuple[object, dict[str, str], str]] = {}
"""Weak reference to a searcher, its codes and their digest, by the searcher's identity.

An unused searcher is released with its open files and weights. A searcher of a class without weak references stays.
"""


def searcher_codes(searcher: Searcher) -> dict[str, str]:
    """Return the digest of its code by retriever, for a searcher of :func:`open_searcher` and all its members.

    For another searcher the code of its class counts.
    """
    return dict(_recorded_codes(searcher)[1])


def searcher_code(searcher: Searcher) -> str:
    """Return a single digest of a searcher's code."""
    return _recorded_codes(searcher)[2]


def _recorded_codes(searcher: Searcher) -> tuple[object, dict[str, str], str]:
    """Return a searcher's recorded codes. If nothing is recorded yet, record the code of its class."""
    if id(searcher) not in _codes:
        kind = type(searcher)
        _note_codes(searcher, {kind.__qualname__: _digest(kind.__module__)})
    return _codes[id(searcher)]


def _note_codes(searcher: Searcher, codes: dict[str, str]) -> None:
    """Record the codes of a searcher with their digest."""
    combined = text_digest(*(f"{name}={digest}" for name, digest in sorted(codes.items())))
    number = id(searcher)
    reference: object = searcher
    with suppress(TypeError):
        reference = weakref.ref(searcher, lambda _: _codes.pop(number, None))
    _codes[number] = reference, codes, combined


def _digest(module: str) -> str:
    # This file finds retrievers and opens them. Their results do not depend on it.
    return code_digest(module, within=(_LAYER,), without=(__name__,))


_MODELS = ("model", "document_model", "base_url", "provider", "filter", "options", "searched", "terms", "url")
"""Parameters whose values have a colon without being an import path."""


def code_in(spec: Spec) -> list[str]:
    """Return the import paths that a spec names, which are imported when it is opened."""
    paths = [spec.name] if is_import_path(spec.name) else []
    for key, value in spec.parameters.items():
        if isinstance(value, Spec):
            paths += code_in(value)
        elif isinstance(value, str) and (value.startswith("import:") or key not in _MODELS):
            path = value.removeprefix("import:")
            paths += [path] if is_import_path(path) else code_in(parse(value)) if "[" in value else []
    return paths


def spec_code(spec: Spec) -> str:
    """Return the digest of a retriever's code, of the cards that its spec names, and of the modules that its parameters
    import.
    """
    retriever = find_retriever(spec.name)
    texts = [spec.name] if spec.name != retriever.name else []  # cards are read only if the spec may name one
    texts += map(str, spec.parameters.values())
    card_texts = [msgspec.json.encode(cards()[text]).decode() for text in texts if text in cards()]
    digests = [_digest(home_of(retriever)), code_digest(_MERGING)]
    for path in code_in(Spec("", spec.parameters)):
        module = path.rpartition(":")[0]
        if module.endswith(".py"):
            digests.append(file_digest(Path(module).expanduser(), within=(_LAYER,), without=(__name__,)))
        else:
            with suppress(ModuleNotFoundError):
                digests.append(_digest(module))
    return text_digest(*digests, *card_texts)


def member_spec(spec: Spec) -> Spec:
    """Return the retriever that ``of=…`` names in the spec of a retriever that is made of another.

    Raises:
        UserError: it is a number or a truth value.
    """
    inner = spec.parameters.get("of", "bm25")
    if isinstance(inner, bool | int | float):
        raise UserError(f"{spec.name} needs a retriever: {spec.name}[of=bm25], not of={inner!r}.")
    return inner if isinstance(inner, Spec) else Spec(inner)


def value_of(searcher: Searcher) -> Value:
    """Return a searcher's spec as the value of a parameter of another spec."""
    spec = parse(searcher.spec)
    return spec if spec.parameters else spec.name
