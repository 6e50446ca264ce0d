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

_ROOM = "ragrounds.tools"
_MERGING = "ragrounds.tools.merged"


@dataclass(frozen=True)
class RetrieverParameter:
    """A parameter of a retriever's spec."""

    name: str
    words: str
    default: Value | None = None
    """``None``: it has none, or depends on others. Else what is given is of its kind."""
    least: float | None = None
    most: float | None = None
    among: tuple[str, ...] = ()
    """The words that it may be; empty: any."""

    def of(self, spec: Spec) -> Any:
        """What a spec gives for it, or its default.

        Raises:
            UserError: it is of another kind, or out of range.
        """
        value: Any = spec.parameters.get(self.name)
        if value is None or self.default is None:
            return self.default if value is None else value
        if isinstance(self.default, bool):
            fits, wanted = isinstance(value, bool), "true or false"
        elif isinstance(self.default, int | float):
            kinds = int if isinstance(self.default, int) else (int, float)
            fits = isinstance(value, kinds) and not isinstance(value, bool)
            fits = fits and (self.least is None or value >= self.least) and (self.most is None or value <= self.most)
            wanted = "a whole number" if kinds is int else "a number"
            if self.most is not None:
                wanted += f" from {self.least:g} to {self.most:g}"
            elif self.least is not None:
                wanted += f" of {self.least:g} or more"
        else:
            fits = not isinstance(value, bool | int | float) and (not self.among or value in self.among)
            wanted = f"{nearest(str(value), self.among)} {' or '.join(self.among)}".strip() or "a text"
        if not fits:
            raise UserError(f"Cannot use {self.name}={value!r} in {spec.name}: expected {wanted}.")
        return value


def parameters_of(kind: type[msgspec.Struct]) -> tuple[RetrieverParameter, ...]:
    """The parameters that a record reads from a spec: each field's type is annotated with its words."""
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
    """The corpora that a retriever is opened over, with what it may use to open."""

    names: str
    """As the user gives them: ``sample``, a source such as ``beir:PATH``, an index, or several joined with ``+``."""
    home: Path
    """Where ragrounds keeps its files; indexes are under ``home/indexes``."""
    progress: Progress | None = None
    opened: list[Spec] = field(default_factory=list)
    """Every retriever that was opened over them, in this order: what the hits depend on."""

    def each(self, open_one: Callable[[Collection], Searcher]) -> Searcher:
        """Open something over the passages of every corpus; the hits of several are put together by raw score."""
        found = [open_collection(name, self.home, progress=self.progress) for name in corpora_of(self.names)]
        opened = [open_one(collection) for collection in found]
        return opened[0] if len(opened) == 1 else MergedSearcher(opened)

    def searcher(self, spec: Spec) -> Searcher:
        """Open another retriever over the same corpora."""
        self.opened.append(spec)
        return find_retriever(spec.name).open(spec, self)

    def counting(self, doing: str) -> Count | None:
        """Progress of one kind of work; ``None`` where nobody follows it."""
        return partial(self.progress, doing) if self.progress else None


@dataclass(frozen=True)
class Retriever:
    """A way to search, as `ragrounds list retrievers` lists it and specs name it."""

    name: str
    summary: str
    """One line."""
    example: str
    """A spec that shows its parameters."""
    open: Callable[[Spec, SearchedCorpora], Searcher]
    """Makes a searcher. What it needs on disk is built once and kept under ``home/indexes``. Raises a
    :class:`~ragrounds.base.errors.UserError` for parameters that are wrong and libraries or weights that are
    missing."""
    parameters: tuple[RetrieverParameter, ...] = ()
    index: str = ""
    """What it builds over a corpus and keeps; empty: nothing."""
    cost: str = ""
    """What a search takes."""
    extra: str = ""
    """The extra of this package that it needs; empty: none."""
    library: str = ""
    """The module of that extra whose absence is noticed before anything is opened."""
    further_names: Callable[[], Names[str]] = tuple
    """More names that open it, such as those of cards."""
    caution: str = ""
    """What a user should know before it is relied on: ``not tried on a real server``."""
    own_corpus: bool = False
    """It searches something of its own, such as the web: no --corpus is needed, and `corpora.names` may be empty."""

    def check(self, spec: Spec) -> None:
        """Refuse parameters that the retriever does not have.

        Raises:
            UserError: there is one; names the nearest.
        """
        check_known(spec, [parameter.name for parameter in self.parameters])

    def given(self, spec: Spec) -> dict[str, Any]:
        """Every parameter with what a spec gives for it, or its default.

        Raises:
            UserError: as :meth:`check`, or a value of another kind, or out of range.
        """
        self.check(spec)
        return {parameter.name: parameter.of(spec) for parameter in self.parameters}

    def missing(self) -> str:
        """What has to be installed before it can be used; empty: nothing."""
        if not self.library or importlib.util.find_spec(self.library):
            return ""
        return f"{self.library}: install ragrounds[{self.extra}]"

    def described(self) -> dict[str, object]:
        """The retriever in words, for JSON."""
        parameters = [
            {
                "name": one.name,
                "words": one.words,
                "default": str(one.default) if isinstance(one.default, Spec) else one.default,
            }
            for one in self.parameters
        ]
        words = {key: getattr(self, key) for key in ("name", "summary", "example", "index", "cost", "extra", "caution")}
        return {**words, "missing": self.missing(), "package": self.package, "parameters": parameters}

    @property
    def package(self) -> str:
        """The package, with its version, that adds it; empty: it ships, or the user named it by import path."""
        return RETRIEVERS.origin(self.name)


def _lacks(made: Retriever) -> str:
    if not all(isinstance(one, RetrieverParameter) for one in made.parameters):
        return "its parameters are not all of the class RetrieverParameter."
    texts = ("summary", "example", "index", "cost", "extra", "library", "caution")
    return fields_amiss(made, texts, functions=("open", "further_names"))


RETRIEVERS: ExtensionPoint[Retriever] = ExtensionPoint(hooks.RETRIEVER, Retriever, _lacks)
"""What ships, what installed packages add, and what users name by import path."""


def retrievers() -> dict[str, Retriever]:
    """All retrievers by name: those of this package, and those that installed packages add."""
    return RETRIEVERS.all()


def find_retriever(name: str) -> Retriever:
    """The retriever that the user names: by its name, a card's name, or an import path (``package.module:NAME``), which
    runs that code.

    Raises:
        UserError: there is none; names the nearest.
    """
    if (ours := RETRIEVERS.ours(name)) is not None:
        return ours
    if is_import_path(name):
        return RETRIEVERS.imported(name)
    shipped = RETRIEVERS.shipped()
    for one in shipped.values():
        if name in one.further_names():
            return one
    found = RETRIEVERS.find(name)
    if found is None:
        names = [further for one in shipped.values() for further in one.further_names()]
        raise unknown("retriever", name, [*retrievers(), *names], RETRIEVERS.hook.listing)
    return found


def needs_corpus(spec: Spec) -> bool:
    """Whether a retriever needs a corpus to be named: not one that searches something of its own, nor one that is made
    of such alone (``rrf[a=pubmed,b=web[provider=tavily]]``).

    Raises:
        UserError: an unknown retriever.
    """
    if find_retriever(spec.name).own_corpus:
        return False
    named = [Spec(one) if isinstance(one, str) else one for one in spec.parameters.values()]
    members = [one for one in named if isinstance(one, Spec) and RETRIEVERS.ours(one.name) is not None]
    return not members or any(needs_corpus(one) for one in members)


def open_searcher(retriever: Spec | str, corpus: str, home: Path, *, progress: Progress | None = None) -> Searcher:
    """Open a retriever over a corpus; what it needs on disk is built once and kept under ``home/indexes``.

    Args:
        retriever: A spec such as ``bm25``, ``bm25[k1=1.2,b=0.75,analyser=plain]`` or ``rrf[a=bm25,b=medcpt]``.
        corpus: ``sample``, a source to read such as ``beir:PATH``, or the name of an index built before; several are
            joined with ``+``; empty for a retriever that needs none (:func:`needs_corpus`).
        home: Where ragrounds keeps its files.
        progress: Called with how far the building is, where something has to be built.

    Raises:
        UserError: an unknown retriever, parameter or corpus; input that cannot be read.
        StopRun: the disk is full.
    """
    spec = parse(retriever) if isinstance(retriever, str) else retriever
    found, corpora = find_retriever(spec.name), SearchedCorpora(corpus, home, progress)
    with RETRIEVERS.used(found.name):
        searcher = corpora.searcher(spec)
    called = parse(searcher.spec).name
    if called != spec.name and ((RETRIEVERS.ours(called) or found) is not found):
        raise UserError(
            f"The retriever {spec.name!r} opened a searcher that calls itself {searcher.spec!r}, which is another "
            "retriever: give it `spec = str(spec)`, so that what it finds stands under its own name."
        )
    _note_codes(searcher, {spec.name: spec_code(spec) for spec in corpora.opened})
    return searcher


_codes: dict[int, tuple[object, dict[str, str], str]] = {}
"""Identity of a searcher → a weak reference to it, its codes, their digest. A searcher that nobody uses any more is let
go with its open files and weights; one of a class without weak references stays."""


def searcher_codes(searcher: Searcher) -> dict[str, str]:
    """Retriever → digest of its code, of a searcher that :func:`open_searcher` gave and of all that it is made of. Of
    another searcher: of its class."""
    return dict(_noted(searcher)[1])


def searcher_code(searcher: Searcher) -> str:
    """One digest of a searcher's code."""
    return _noted(searcher)[2]


def _noted(searcher: Searcher) -> tuple[object, dict[str, str], str]:
    if id(searcher) not in _codes:
        kind = type(searcher)
        _note_codes(searcher, {kind.__qualname__: _digest(kind.__module__)})
    return _codes[id(searcher)]


def _note_codes(searcher: Searcher, codes: dict[str, str]) -> None:
    whole = text_digest(*(f"{name}={digest}" for name, digest in sorted(codes.items())))
    number = id(searcher)
    held: object = searcher
    with suppress(TypeError):
        held = weakref.ref(searcher, lambda _: _codes.pop(number, None))
    _codes[number] = held, codes, whole


def _digest(module: str) -> str:
    # This file finds retrievers and opens them; what they find does not come from it.
    return code_digest(module, within=(_ROOM,), without=(__name__,))


_MODELS = ("model", "document_model", "base_url", "provider", "filter", "options", "searched", "terms", "url")
"""Parameters whose values have a colon without being an import path."""


def code_in(spec: Spec) -> list[str]:
    """The import paths that a spec names: what opening it imports."""
    found = [spec.name] if is_import_path(spec.name) else []
    for key, value in spec.parameters.items():
        if isinstance(value, Spec):
            found += code_in(value)
        elif isinstance(value, str) and (value.startswith("import:") or key not in _MODELS):
            path = value.removeprefix("import:")
            found += [path] if is_import_path(path) else code_in(parse(value)) if "[" in value else []
    return found


def spec_code(spec: Spec) -> str:
    """The digest of a retriever's code, of the cards that its spec names, and of what its parameters import."""
    texts = [spec.name, *(str(value) for value in spec.parameters.values())]
    named = [msgspec.json.encode(cards()[text]).decode() for text in texts if text in cards()]
    digests = [_digest(home_of(find_retriever(spec.name))), code_digest(_MERGING)]
    for path in code_in(Spec("", spec.parameters)):
        place = path.rpartition(":")[0]
        if place.endswith(".py"):
            digests.append(file_digest(Path(place).expanduser(), within=(_ROOM,), without=(__name__,)))
        else:
            with suppress(ModuleNotFoundError):
                digests.append(_digest(place))
    return text_digest(*digests, *named)


def member_spec(spec: Spec, default: str = "bm25") -> Spec:
    """The retriever that ``of=…`` names in the spec of one that is made of another.

    Raises:
        UserError: it is a number or a truth value.
    """
    inner = spec.parameters.get("of", default)
    if isinstance(inner, bool | int | float):
        raise UserError(f"{spec.name} needs a retriever: {spec.name}[of={default}], not of={inner!r}.")
    return inner if isinstance(inner, Spec) else Spec(inner)


def value_of(searcher: Searcher) -> Value:
    """A searcher's spec as the value of a parameter of another spec."""
    spec = parse(searcher.spec)
    return spec if spec.parameters else spec.name
