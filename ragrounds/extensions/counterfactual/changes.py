"""The changes of a counterfactual: what each does to a search's passages, its query or the model, and where.

A change is named by a spec, ``drop[passage=gold,search=last]``, whose canonical text is its identity. It takes effect
at one search of an attempt, or at all. What the attempt asks before that is the same, and is answered from the journal;
what follows is asked anew where it is another.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragrounds.base.contracts import Model
from ragrounds.base.errors import StopRun, UserError, nearest
from ragrounds.base.files import read_text
from ragrounds.base.http import HttpClient
from ragrounds.base.records import Gold, Passage, Query, Question, Run
from ragrounds.base.redaction import Redactor
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.recorder.wire import WireRequest, WireResponse, answered

SEARCHES = ("first", "middle", "last", "all")
IDENTITY = "identity"
_WHICH = ("passage", "search")
Passages = tuple[Passage, ...]


@dataclass(frozen=True)
class Target:
    """What a change goes by in one attempt."""

    question: Question
    gold: Gold
    seed: str
    added: str = ""
    """The text that is added, with its places."""
    of_others: Sequence[Passages] = ()
    """What searches for other questions found, in a shuffled order: nothing of it is about this question."""

    @property
    def wrong(self) -> str:
        """The letter of the wrong option that an added text argues for; empty: there are no options."""
        letters = sorted(set(self.question.options) - {self.gold.answer})
        return random.Random(f"wrong {self.seed}").choice(letters) if letters else ""


def _which(spec: Spec, found: Passages, target: Target) -> list[int]:
    """The places of the passages that a change is about; none where there is no such."""
    wanted = spec.parameters.get("passage", "gold")
    if wanted == "gold":
        return [at for at, one in enumerate(found) if one.document in target.gold.documents]
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        return [wanted - 1] if 0 < wanted <= len(found) else []
    return [at for at, one in enumerate(found) if wanted in (one.id, one.document)]


def _drop(spec: Spec, found: Passages, target: Target) -> Passages:
    gone = _which(spec, found, target)
    return tuple(one for at, one in enumerate(found) if at not in gone)


def _keep(spec: Spec, found: Passages, target: Target) -> Passages:
    return tuple(found[at] for at in _which(spec, found, target))


def _none(spec: Spec, found: Passages, target: Target) -> Passages:
    return ()


def _swap(spec: Spec, found: Passages, target: Target) -> Passages:
    changed = list(found)
    for at in _which(spec, found, target):
        known = {*target.gold.documents, *(one.document for one in found)}
        others = (each[at] for each in target.of_others if at < len(each) and each[at].document not in known)
        if (other := next(others, None)) is not None:
            changed[at] = replace(other, rank=found[at].rank, score=found[at].score)
    return tuple(changed)


def _duplicate(spec: Spec, found: Passages, target: Target) -> Passages:
    at = _which(spec, found, target)
    return tuple(
        copy
        for place, one in enumerate(found)
        for copy in ((one, replace(one, id=f"{one.id}#again")) if place in at else (one,))
    )


def _reverse(spec: Spec, found: Passages, target: Target) -> Passages:
    return tuple(replace(one, rank=rank if one.rank else 0) for rank, one in enumerate(reversed(found), 1))


def _truncate(spec: Spec, found: Passages, target: Target) -> Passages:
    share = spec.parameters.get("share", 0.5)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise UserError(f"{spec}: share is {share!r}; expected a number from 0 up to below 1.")
    at = _which(spec, found, target) if "passage" in spec.parameters else range(len(found))
    return tuple(
        replace(one, text=one.text[: int(share * len(one.text))]) if place in at else one
        for place, one in enumerate(found)
    )


def _add(spec: Spec, found: Passages, target: Target) -> Passages:
    title, _, body = _filled(target.added, target).partition("\n")
    corpus = found[0].corpus if found else ""
    added = Passage(id="added", document="added", title=title.strip(), text=body.strip() or title, corpus=corpus)
    return (*found, added) if spec.parameters.get("place") == "last" else (added, *found)


def _filled(text: str, target: Target) -> str:
    """A text with what its places stand for, in one pass: nothing in a question is a place."""
    values = {"{question}": target.question.text, "{wrong}": target.question.options.get(target.wrong, "")}
    return re.sub(r"\{(?:question|wrong)\}", lambda place: values[place[0]], text)


def _template(spec: Spec) -> str:
    file = spec.parameters.get("file")
    if not isinstance(file, str):
        raise UserError(
            f"{spec} needs file=PATH: a text with a title in its first line, and {{question}} and {{wrong}}."
        )
    return read_text(Path(file))


def _as_it_is(spec: Spec, found: Passages, target: Target) -> Passages:
    return found


@dataclass(frozen=True)
class Kind:
    """One kind of change."""

    words: str
    passages: Callable[[Spec, Passages, Target], Passages] = _as_it_is
    parameters: tuple[str, ...] = ("search",)


KINDS: Mapping[str, Kind] = {
    IDENTITY: Kind("nothing: the model is asked again (sample=1, 2 …)", parameters=("sample", "search")),
    "drop": Kind("without a passage: gold, its rank, or its id", _drop, _WHICH),
    "keep": Kind("with that passage alone", _keep, _WHICH),
    "none": Kind("without any passage", _none),
    "swap": Kind("a passage replaced by one that was found for another question at its rank", _swap, _WHICH),
    "duplicate": Kind("a passage twice", _duplicate, _WHICH),
    "reverse": Kind("passages in the opposite order", _reverse),
    "truncate": Kind("the first half of each passage, or another share", _truncate, (*_WHICH, "share")),
    "add": Kind("with a text of a file, whose {question} and {wrong} are filled in", _add, ("search", "file", "place")),
    "query": Kind("another query: {question} is the question's text", parameters=("search", "text")),
    "model": Kind("another model from there on, in one role or all", parameters=("search", "model", "role")),
}


class Change:
    """A change, read from its text."""

    def __init__(self, text: str, template: str | None = None) -> None:
        """Read a change. `template`: what its file held when it was made; ``None``: the file is read.

        Raises:
            UserError: an unknown kind, parameter or value.
        """
        spec = parse(text)
        if spec.name not in KINDS:
            raise UserError(f"{spec.name!r} is no change.{nearest(spec.name, list(KINDS))} Known: {', '.join(KINDS)}.")
        self.kind = KINDS[spec.name]
        check_known(spec, self.kind.parameters)
        for name, known in (("search", SEARCHES), ("place", ("first", "last"))):
            if (given := spec.parameters.get(name, known[0])) not in known:
                raise UserError(f"{spec}: {name} is {given!r}; expected {', '.join(known)}.")
        self.search = str(spec.parameters.get("search", "first"))
        self.spec = spec
        self.template = template or (_template(spec) if spec.name == "add" else "")
        for name in {"query": ("text",), "model": ("model",)}.get(spec.name, ()):
            if name not in spec.parameters:
                raise UserError(f"{spec} needs {name}=….")
        sample, passage = spec.parameters.get("sample", 1), spec.parameters.get("passage", "gold")
        if isinstance(sample, bool) or not isinstance(sample, int) or sample < 1:
            raise UserError(f"{spec}: sample is {sample!r}; expected 1, 2, ….")
        if isinstance(passage, int) and passage < 1:
            raise UserError(f"{spec}: passage is {passage!r}; expected gold, a rank (1, 2, …), or an id.")
        self.sample = sample

    @classmethod
    def stored(cls, counterfactual: Run) -> Change:
        """The change of a stored counterfactual; its file need not be there any more."""
        kept = counterfactual.identity["counterfactual"]
        return cls(str(kept["change"]), kept.get("text"))

    @property
    def is_identity(self) -> bool:
        """Whether nothing is changed."""
        return self.spec.name == IDENTITY

    @property
    def fork(self) -> str:
        """Behind which search the attempt parts from its parent: ``first``, ``middle`` or ``last``."""
        return "first" if self.search == "all" else self.search

    @property
    def identity(self) -> dict[str, Value]:
        """What the results of a change depend on: its text, and that of its file."""
        return {"change": str(self.spec), **({"text": self.template} if self.template else {})}

    def at(self, searches: int) -> tuple[int, int] | None:
        """The first and last search that are changed in an attempt that made so many; ``None``: none is. A model can be
        asked again without any search, from the beginning: 0."""
        if not searches:
            return (0, 0) if self.is_identity or self.spec.name == "model" else None
        number = {"first": 1, "middle": (searches + 1) // 2, "last": searches}.get(self.search)
        return (1, 10**9) if number is None else (number, number)


class AttemptChange:
    """A change in one attempt (contract: :class:`ragrounds.base.contracts.Intervention`)."""

    def __init__(self, change: Change, target: Target, at: tuple[int, int] | None, models: Mapping[str, Model]) -> None:
        """`at`: the first and last search that are changed. `models`: those that the change names, by their text."""
        self._change, self._target, self._at, self._models = change, target, at, models

    def _holds(self, search: int) -> bool:
        return self._at is not None and self._at[0] <= search <= self._at[1]

    def _follows(self, searches: int) -> bool:
        return self._at is not None and searches >= self._at[0]

    def query(self, search: int, query: Query) -> Query:
        """What is searched for in place of a query."""
        if self._change.spec.name != "query" or not self._holds(search):
            return query
        text = str(self._change.spec.parameters["text"])
        return Query(_filled(text, self._target))

    def passages(self, search: int, found: Passages) -> Passages:
        """What a search gives in place of what it found."""
        if not self._holds(search):
            return found
        return self._change.kind.passages(self._change.spec, found, self._target)

    def sample(self, searches: int) -> int:
        """Which sample of a model's replies is taken after so many searches."""
        return self._change.sample if self._change.is_identity and self._follows(searches) else 0

    def model(self, searches: int, role: str, model: Model) -> Model:
        """Who is asked in a role after so many searches."""
        wanted: Any = self._change.spec.parameters
        if self._change.spec.name != "model" or not self._follows(searches):
            return model
        return self._models[str(wanted["model"])] if wanted.get("role", role) == role else model

    def body(self, searches: int, body: Mapping[str, object]) -> Mapping[str, object]:
        """What a system that makes its calls itself asks its model: the model's name is another.

        Raises:
            StopRun: no body of its calls names a model.
        """
        if self._change.spec.name != "model" or not self._follows(searches):
            return body
        if "model" not in body:
            raise StopRun(f"{self._change.spec}: the address of this system's calls names the model, which stays.")
        return {**body, "model": str(self._change.spec.parameters["model"]).rpartition(":")[2]}

    async def sent(self, request: WireRequest, body: bytes) -> WireResponse:
        """What the server answers to a body that is not its client's: we send it, with the client's headers."""
        headers = {name: value for name, value in request.headers.items() if name not in _OF_A_BODY}
        client = HttpClient(request.url, headers, _LONGEST_CALL, Redactor())
        try:
            given = await client.send(request.method, "", body)
        finally:
            await client.close()
        return answered(given.status, given.headers.items(), given.body)


_OF_A_BODY = frozenset("content-length content-encoding transfer-encoding accept-encoding host connection".split())
"""Headers that are true of one body, or of one connection."""
_LONGEST_CALL = 600.0
"""Seconds that a call may take which its client does not send."""
