"""Changes of a counterfactual: their effect on a search's passages, its query or the model.

A change is named by a spec, ``drop[passage=gold,search=last]``, whose canonical text is its identity. It takes effect
at one search of an attempt, or at all. What the attempt asks before that is the same, and is answered from the journal;
calls after it are made again if they differ.
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
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.recorder.redaction import Redactor
from ragrounds.recorder.wire import WireRequest, WireResponse, answered

SEARCHES = ("first", "middle", "last", "all")
IDENTITY = "identity"
_PASSAGE_PARAMETERS = ("passage", "search")
Passages = tuple[Passage, ...]


@dataclass(frozen=True)
class Target:
    """Question, gold and material that a change needs in one attempt."""

    question: Question
    gold: Gold
    seed: str
    added: str = ""
    """Text that is added, with its placeholders."""
    of_others: Sequence[Passages] = ()
    """Passages of searches for other questions, in shuffled order; none of them is about this question."""

    @property
    def wrong(self) -> str:
        """Letter of the wrong option that an added text argues for; empty if there are no options."""
        letters = sorted(set(self.question.options) - {self.gold.answer})
        return random.Random(f"wrong {self.seed}").choice(letters) if letters else ""


def _passage_indices(spec: Spec, passages: Passages, target: Target) -> list[int]:
    """Return the indices of the passages that a change is about; empty if none matches."""
    passage_spec = spec.parameters.get("passage", "gold")
    if passage_spec == "gold":
        return [index for index, passage in enumerate(passages) if passage.document in target.gold.documents]
    if isinstance(passage_spec, int) and not isinstance(passage_spec, bool):
        return [passage_spec - 1] if 0 < passage_spec <= len(passages) else []
    return [index for index, passage in enumerate(passages) if passage_spec in (passage.id, passage.document)]


def _drop(spec: Spec, passages: Passages, target: Target) -> Passages:
    removed = _passage_indices(spec, passages, target)
    return tuple(passage for index, passage in enumerate(passages) if index not in removed)


def _keep(spec: Spec, passages: Passages, target: Target) -> Passages:
    return tuple(passages[index] for index in _passage_indices(spec, passages, target))


def _none(spec: Spec, passages: Passages, target: Target) -> Passages:
    return ()


def _swap(spec: Spec, passages: Passages, target: Target) -> Passages:
    changed = list(passages)
    for index in _passage_indices(spec, passages, target):
        excluded_documents = {*target.gold.documents, *(passage.document for passage in passages)}
        candidates = (
            result_list[index]
            for result_list in target.of_others
            if index < len(result_list) and result_list[index].document not in excluded_documents
        )
        if (replacement := next(candidates, None)) is not None:
            changed[index] = replace(replacement, rank=passages[index].rank, score=passages[index].score)
    return tuple(changed)


def _duplicate(spec: Spec, passages: Passages, target: Target) -> Passages:
    indices = _passage_indices(spec, passages, target)
    return tuple(
        copy
        for index, passage in enumerate(passages)
        for copy in ((passage, replace(passage, id=f"{passage.id}#again")) if index in indices else (passage,))
    )


def _reverse(spec: Spec, passages: Passages, target: Target) -> Passages:
    return tuple(
        replace(passage, rank=rank if passage.rank else 0) for rank, passage in enumerate(reversed(passages), 1)
    )


def _truncate(spec: Spec, passages: Passages, target: Target) -> Passages:
    share = spec.parameters.get("share", 0.5)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise UserError(f"{spec}: share is {share!r}; expected a number from 0 up to below 1.")
    indices = _passage_indices(spec, passages, target) if "passage" in spec.parameters else range(len(passages))
    return tuple(
        replace(passage, text=passage.text[: int(share * len(passage.text))]) if index in indices else passage
        for index, passage in enumerate(passages)
    )


def _add(spec: Spec, passages: Passages, target: Target) -> Passages:
    title, _, body = _fill_template(target.added, target).partition("\n")
    corpus = passages[0].corpus if passages else ""
    added = Passage(id="added", document="added", title=title.strip(), text=body.strip() or title, corpus=corpus)
    return (*passages, added) if spec.parameters.get("place") == "last" else (added, *passages)


def _fill_template(text: str, target: Target) -> str:
    """Fill in the placeholders of a text in one pass, so that a question's text is never taken for a placeholder."""
    values = {"{question}": target.question.text, "{wrong}": target.question.options.get(target.wrong, "")}
    return re.sub(r"\{(?:question|wrong)\}", lambda match: values[match[0]], text)


def _template(spec: Spec) -> str:
    file = spec.parameters.get("file")
    if not isinstance(file, str):
        raise UserError(
            f"{spec} needs file=PATH: a text with a title in its first line, and {{question}} and {{wrong}}."
        )
    return read_text(Path(file))


def _unchanged(spec: Spec, passages: Passages, target: Target) -> Passages:
    return passages


@dataclass(frozen=True)
class Kind:
    """Kind of change: its description, its effect on passages and its parameters."""

    words: str
    passages: Callable[[Spec, Passages, Target], Passages] = _unchanged
    parameters: tuple[str, ...] = ("search",)


KINDS: Mapping[str, Kind] = {
    IDENTITY: Kind("nothing: the model is asked again (sample=1, 2 …)", parameters=("sample", "search")),
    "drop": Kind("without a passage: gold, its rank, or its id", _drop, _PASSAGE_PARAMETERS),
    "keep": Kind("with that passage alone", _keep, _PASSAGE_PARAMETERS),
    "none": Kind("without any passage", _none),
    "swap": Kind(
        "a passage replaced by one that was found for another question at its rank", _swap, _PASSAGE_PARAMETERS
    ),
    "duplicate": Kind("a passage twice", _duplicate, _PASSAGE_PARAMETERS),
    "reverse": Kind("passages in the opposite order", _reverse),
    "truncate": Kind("the first half of each passage, or another share", _truncate, (*_PASSAGE_PARAMETERS, "share")),
    "add": Kind("with a text of a file, whose {question} and {wrong} are filled in", _add, ("search", "file", "place")),
    "query": Kind("another query: {question} is the question's text", parameters=("search", "text")),
    "model": Kind("another model from there on, in one role or all", parameters=("search", "model", "role")),
}


class Change:
    """Change, parsed from its text."""

    def __init__(self, text: str, template: str | None = None) -> None:
        """Parse a change. `template`: text of its file when the change was made; ``None``: the file is read.

        Raises:
            UserError: an unknown kind, parameter or value.
        """
        spec = parse(text)
        if spec.name not in KINDS:
            raise UserError(f"{spec.name!r} is no change.{nearest(spec.name, list(KINDS))} Known: {', '.join(KINDS)}.")
        self.kind = KINDS[spec.name]
        check_known(spec, self.kind.parameters)
        for name, allowed in (("search", SEARCHES), ("place", ("first", "last"))):
            if (argument := spec.parameters.get(name, allowed[0])) not in allowed:
                raise UserError(f"{spec}: {name} is {argument!r}; expected {', '.join(allowed)}.")
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
        """Return the change of a stored counterfactual; its file need not exist any more."""
        record = counterfactual.identity["counterfactual"]
        return cls(str(record["change"]), record.get("text"))

    @property
    def is_identity(self) -> bool:
        """True if nothing is changed."""
        return self.spec.name == IDENTITY

    @property
    def fork(self) -> str:
        """Search after which the attempt diverges from its parent: ``first``, ``middle`` or ``last``."""
        return "first" if self.search == "all" else self.search

    @property
    def identity(self) -> dict[str, Value]:
        """Everything that the results of a change depend on: its text, and the text of its file."""
        return {"change": str(self.spec), **({"text": self.template} if self.template else {})}

    def changed_range(self, searches: int) -> tuple[int, int] | None:
        """Return the first and last changed search in an attempt that made `searches`; ``None`` if none is changed.

        A model can be asked again without any search, from the beginning: 0.
        """
        if not searches:
            return (0, 0) if self.is_identity or self.spec.name == "model" else None
        number = {"first": 1, "middle": (searches + 1) // 2, "last": searches}.get(self.search)
        return (1, 10**9) if number is None else (number, number)


class AttemptChange:
    """A change in one attempt (contract: :class:`ragrounds.base.contracts.Intervention`)."""

    def __init__(
        self, change: Change, target: Target, changed_range: tuple[int, int] | None, models: Mapping[str, Model]
    ) -> None:
        """Apply `change` to the searches from `at[0]` to `at[1]`.

        `models`: the models that the change names, by their text.
        """
        self._change, self._target, self._changed_range, self._models = change, target, changed_range, models

    def _applies_to(self, search: int) -> bool:
        return self._changed_range is not None and self._changed_range[0] <= search <= self._changed_range[1]

    def _is_after(self, searches: int) -> bool:
        return self._changed_range is not None and searches >= self._changed_range[0]

    def query(self, search: int, query: Query) -> Query:
        """Return the query to search for instead of `query`."""
        if self._change.spec.name != "query" or not self._applies_to(search):
            return query
        text = str(self._change.spec.parameters["text"])
        return Query(_fill_template(text, self._target))

    def passages(self, search: int, results: Passages) -> Passages:
        """Return the passages that a search returns instead of those it found."""
        if not self._applies_to(search):
            return results
        return self._change.kind.passages(self._change.spec, results, self._target)

    def sample(self, searches: int) -> int:
        """Return the number of the sample of a model's replies to use after `searches` searches."""
        return self._change.sample if self._change.is_identity and self._is_after(searches) else 0

    def model(self, searches: int, role: str, model: Model) -> Model:
        """Return the model to call in a role after `searches` searches."""
        parameters: Any = self._change.spec.parameters
        if self._change.spec.name != "model" or not self._is_after(searches):
            return model
        return self._models[str(parameters["model"])] if parameters.get("role", role) == role else model

    def body(self, searches: int, body: Mapping[str, object]) -> Mapping[str, object]:
        """Replace the model's name in a call of a system that makes its calls itself.

        Raises:
            StopRun: no body of its calls names a model.
        """
        if self._change.spec.name != "model" or not self._is_after(searches):
            return body
        if "model" not in body:
            raise StopRun(f"{self._change.spec}: the address of this system's calls names the model, which stays.")
        return {**body, "model": str(self._change.spec.parameters["model"]).rpartition(":")[2]}

    async def sent(self, request: WireRequest, body: bytes) -> WireResponse:
        """Send a changed body to the server with the client's headers, and return the server's response."""
        headers = {name: value for name, value in request.headers.items() if name not in _BODY_HEADERS}
        client = HttpClient(request.url, headers, _TIMEOUT, Redactor())
        try:
            response = await client.send(request.method, "", body)
        finally:
            await client.close()
        return answered(response.status, response.headers.items(), response.body)


_BODY_HEADERS = frozenset("content-length content-encoding transfer-encoding accept-encoding host connection".split())
"""Headers that describe one body or one connection; they are not copied to a changed body."""
_TIMEOUT = 600.0
"""Seconds allowed for a call that ragrounds sends instead of the client."""
