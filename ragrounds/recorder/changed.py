"""Searches of LangChain and LlamaIndex that return something else than they found: what whoever watches gives.

Loaded where an attempt is changed, and then in place for the rest of the process; see :func:`.observer.found`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, wraps
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, NamedTuple

from .loading import when_loaded
from .observer import GOING
from .passages import IDS, LISTS, SOURCES, TEXTS, TITLES, passage_of
from .wire import Unsent

Given = Mapping[str, Any]
"""A passage, as :attr:`.observer.Given.passages`."""


class Changed(NamedTuple):
    """What a search is to give in place of what it found."""

    found: Sequence[Given]
    given: Sequence[Given]
    """Each with `at`: the place in `found` of the passage that it is; below 0: it is none of these."""


@cache
def listen() -> None:
    """Have the searches of both libraries changed, from when they are loaded."""
    when_loaded("langchain_core.retrievers", partial(_wrap, "BaseRetriever", ("invoke", "ainvoke"), _documents))
    when_loaded("langchain_core.tools.base", partial(_wrap, "BaseTool", ("run", "arun"), _output))
    when_loaded(
        "llama_index.core.base.base_retriever", partial(_wrap, "BaseRetriever", ("retrieve", "aretrieve"), _nodes)
    )


def _wrap(kind: str, methods: Sequence[str], made: Callable[[Any, Changed], Any], module: ModuleType) -> None:
    for name in methods:
        searches = getattr(getattr(module, kind), name)
        if not hasattr(searches, "changes"):
            setattr(getattr(module, kind), name, _changing(searches, made))


def _changing(searches: Callable[..., Any], made: Callable[[Any, Changed], Any]) -> Callable[..., Any]:
    """A method that searches, and gives what is made of its result where that is changed."""

    async def waited(*given: Any, **named: Any) -> Any:
        going: list[Any] = []
        token = GOING.set(going)
        try:
            found = await searches(*given, **named)
        finally:
            GOING.reset(token)
        return made(found, Changed(*going[-1])) if going else found

    def called(*given: Any, **named: Any) -> Any:
        going: list[Any] = []
        token = GOING.set(going)
        try:
            found = searches(*given, **named)
        finally:
            GOING.reset(token)
        return made(found, Changed(*going[-1])) if going else found

    method = wraps(searches)(waited if iscoroutinefunction(searches) else called)
    method.changes = True  # type: ignore[attr-defined]
    return method


def _told(found: Sequence[Any]) -> list[Any]:
    """Those of what was found that the recorder reported."""
    return [one for one in found if passage_of(one, 1)["text"]]


def _fields(like: Mapping[str, Any], one: Given) -> dict[str, Any]:
    """The fields of a passage that was not found, by the names that those have which were."""
    named = {**dict.fromkeys(TEXTS, one["text"]), **dict.fromkeys(TITLES, one["title"])}
    named |= dict.fromkeys((*IDS, *SOURCES), one["document"])
    return {key: named.get(key, "") for key in like}


def _documents(found: Sequence[Any], changed: Changed) -> list[Any]:
    """LangChain's."""
    from langchain_core.documents import Document

    held = _told(found)
    like = held[0].metadata if held else {"title": "", "source": ""}
    return [
        held[at].model_copy(update={"page_content": one["text"]})
        if (at := one["at"]) >= 0
        else Document(one["text"], id=one["id"], metadata=_fields(like, one))
        for one in changed.given
    ]


def _nodes(found: Sequence[Any], changed: Changed) -> list[Any]:
    """LlamaIndex'."""
    from llama_index.core.schema import NodeWithScore, TextNode

    held, made = _told(found), []
    like = held[0].node.metadata if held else {"title": "", "source": ""}
    for one in changed.given:
        node: Any = TextNode(text=one["text"], id_=one["id"], metadata=_fields(like, one))
        if one["at"] >= 0:
            node = held[one["at"]].node.model_copy(deep=True)
            if node.get_content() != one["text"]:
                node.set_content(one["text"])
        made.append(NodeWithScore(node=node, score=held[one["at"]].score if one["at"] >= 0 else one["score"]))
    return made


def _output(output: Any, changed: Changed) -> Any:
    """Of a tool: its text, its hits, and the documents beside it."""
    content, artifact = getattr(output, "content", output), getattr(output, "artifact", None)
    if isinstance(artifact, list | tuple) and (documents := [one for one in artifact if hasattr(one, "page_content")]):
        artifact = _documents(documents, changed)
    new: Any = _hits(content, changed) if isinstance(content, list | dict) else _text(content, changed)
    return output.model_copy(update={"content": new, "artifact": artifact}) if content is not output else new


def _hits(content: Any, changed: Changed) -> Any:
    """A list of hits, or what holds one, with others in it."""
    if isinstance(content, dict):
        name = next((key for key in LISTS if key in content), "")
        return {**content, name: _hits(content.get(name), changed)}
    hits = [one for one in _told(content or ()) if not isinstance(one, str)]
    if len(hits) != len(changed.found):
        raise Unsent("what this tool gives cannot be changed: its passages are not found again in its list of hits")
    made = []
    for one in changed.given:
        hit = hits[one["at"]] if one["at"] >= 0 else hits[0] if hits else {"text": "", "title": ""}
        if not isinstance(hit, dict):
            made += _documents([*hits], changed._replace(given=[one]))
        elif one["at"] < 0:
            made.append(_fields(hit, one))
        else:
            text = next(key for key in TEXTS if hit.get(key))
            made.append({**hit, text: one["text"]})
    return made


def _text(content: object, changed: Changed) -> str:
    """A text: each passage with what stands before it."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(_hits(json.loads(content), changed), ensure_ascii=False)
        except ValueError:  # it only begins so
            pass
    before, rest = [], str(content)
    for one in changed.found:
        head, found, rest = rest.partition(str(one["text"]))
        if not found:
            raise Unsent("what this tool gives cannot be changed: its passages do not stand in its text as they are")
        before.append(head)
    said = [(before[max(0, one["at"])] if before else "") + one["text"] for one in changed.given]
    return ("".join(said) + (rest if said else "")).strip()
