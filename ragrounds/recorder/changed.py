"""Patches by which searches of LangChain and LlamaIndex return changed results, chosen by the watcher.

Loaded if an attempt is changed, and then active for the rest of the process; see :func:`.observer.report_search`.
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
from .wire import Unsent, setting

Hit = Mapping[str, Any]
"""A passage, as in :attr:`.observer.SystemAnswer.passages`."""


class Changed(NamedTuple):
    """Results of a search and their replacement."""

    original: Sequence[Hit]
    replacement: Sequence[Hit]
    """Replacement passages. `at` of each is its index in `original`. It is below 0 for a new passage."""


@cache
def listen() -> None:
    """Patch the searches of both libraries when they are loaded."""
    when_loaded("langchain_core.retrievers", partial(_wrap, "BaseRetriever", ("invoke", "ainvoke"), _documents))
    when_loaded("langchain_core.tools.base", partial(_wrap, "BaseTool", ("run", "arun"), _output))
    when_loaded(
        "llama_index.core.base.base_retriever", partial(_wrap, "BaseRetriever", ("retrieve", "aretrieve"), _nodes)
    )


def _wrap(kind: str, methods: Sequence[str], replace: Callable[[Any, Changed], Any], module: ModuleType) -> None:
    for name in methods:
        searches = getattr(getattr(module, kind), name)
        if not hasattr(searches, "changes"):
            setattr(getattr(module, kind), name, _changing(searches, replace))


def _changing(searches: Callable[..., Any], replace: Callable[[Any, Changed], Any]) -> Callable[..., Any]:
    """Return a method that searches, and replaces its result if that is changed."""

    async def waited(*arguments: Any, **keywords: Any) -> Any:
        changes: list[Any] = []
        with setting(GOING, changes):
            output = await searches(*arguments, **keywords)
        return replace(output, Changed(*changes[-1])) if changes else output

    def called(*arguments: Any, **keywords: Any) -> Any:
        changes: list[Any] = []
        with setting(GOING, changes):
            output = searches(*arguments, **keywords)
        return replace(output, Changed(*changes[-1])) if changes else output

    method = wraps(searches)(waited if iscoroutinefunction(searches) else called)
    method.changes = True  # type: ignore[attr-defined]
    return method


def _reported_results(results: Sequence[Any]) -> list[Any]:
    """Return the results that the recorder reported."""
    return [hit for hit in results if passage_of(hit, 1)["text"]]


def _fields(like: Mapping[str, Any], passage: Hit) -> dict[str, Any]:
    """Return the fields of a new passage, under the names that the search results use."""
    values = {**dict.fromkeys(TEXTS, passage["text"]), **dict.fromkeys(TITLES, passage["title"])}
    values |= dict.fromkeys((*IDS, *SOURCES), passage["document"])
    return {key: values.get(key, "") for key in like}


def _documents(results: Sequence[Any], changed: Changed) -> list[Any]:
    """Return the replacement as LangChain's documents."""
    from langchain_core.documents import Document

    originals = _reported_results(results)
    like = originals[0].metadata if originals else {"title": "", "source": ""}
    return [
        originals[index].model_copy(update={"page_content": passage["text"]})
        if (index := passage["at"]) >= 0
        else Document(passage["text"], id=passage["id"], metadata=_fields(like, passage))
        for passage in changed.replacement
    ]


def _nodes(results: Sequence[Any], changed: Changed) -> list[Any]:
    """Return the replacement as LlamaIndex's nodes."""
    from llama_index.core.schema import NodeWithScore, TextNode

    originals, nodes = _reported_results(results), []
    like = originals[0].node.metadata if originals else {"title": "", "source": ""}
    for passage in changed.replacement:
        node: Any = TextNode(text=passage["text"], id_=passage["id"], metadata=_fields(like, passage))
        if passage["at"] >= 0:
            node = originals[passage["at"]].node.model_copy(deep=True)
            if node.get_content() != passage["text"]:
                node.set_content(passage["text"])
        nodes.append(
            NodeWithScore(node=node, score=originals[passage["at"]].score if passage["at"] >= 0 else passage["score"])
        )
    return nodes


def _output(output: Any, changed: Changed) -> Any:
    """Return the changed output of a tool: its text, its hits, and the attached documents."""
    content, artifact = getattr(output, "content", output), getattr(output, "artifact", None)
    if isinstance(artifact, (list, tuple)) and (
        documents := [document for document in artifact if hasattr(document, "page_content")]
    ):
        artifact = _documents(documents, changed)
    new: Any = _hits(content, changed) if isinstance(content, (list, dict)) else _text(content, changed)
    return output.model_copy(update={"content": new, "artifact": artifact}) if content is not output else new


def _hits(content: Any, changed: Changed) -> Any:
    """Return a changed list of hits, or the mapping that contains such a list."""
    if isinstance(content, dict):
        name = next((key for key in LISTS if key in content), "")
        return {**content, name: _hits(content.get(name), changed)}
    hits = [hit for hit in _reported_results(content or ()) if not isinstance(hit, str)]
    if len(hits) != len(changed.original):
        raise Unsent("what this tool gives cannot be changed: its passages are not found again in its list of hits")
    new_hits = []
    for passage in changed.replacement:
        hit = hits[passage["at"]] if passage["at"] >= 0 else hits[0] if hits else {"text": "", "title": ""}
        if not isinstance(hit, dict):
            new_hits += _documents([*hits], changed._replace(replacement=[passage]))
        elif passage["at"] < 0:
            new_hits.append(_fields(hit, passage))
        else:
            text = next(key for key in TEXTS if hit.get(key))
            new_hits.append({**hit, text: passage["text"]})
    return new_hits


def _text(content: object, changed: Changed) -> str:
    """Return a changed text. Each passage keeps the text before it."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(_hits(json.loads(content), changed), ensure_ascii=False)
        except ValueError:  # the text only begins like JSON
            pass
    before, rest = [], str(content)
    for passage in changed.original:
        head, separator, rest = rest.partition(str(passage["text"]))
        if not separator:
            raise Unsent("results of this tool cannot be changed: its text does not contain its passages unchanged")
        before.append(head)
    parts = [(before[max(0, passage["at"])] if before else "") + passage["text"] for passage in changed.replacement]
    return ("".join(parts) + (rest if parts else "")).strip()
