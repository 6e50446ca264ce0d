"""The stage between search and prompt, of any agent that searches: ``vanilla_rag[refine=notes]``.

The passages of a search are cut down to the parts relevant to its query, before any prompt shows them. A passage
without such a part is dropped. Ids stay, so that hops and gold are counted as without refining. Options never get here:
a search has none.

* ``extractive[sentences=8]``: the sentences of all passages that BM25 finds best for the query.
* ``notes``: the model (`reader=…`, if any) writes a note on each passage's relevant content: one call a search, in
  the role ``refining``.
* ``recomp[sentences=5,model=…]``: the sentences nearest to the query by RECOMP's extractive compressor (Xu et al.,
  2024). Needs ``ragrounds[local]`` and its weights.
* ``llmlingua[rate=0.5,model=…]``: each passage without the tokens that LLMLingua-2 leaves out (Pan et al., 2024).
  Needs ``pip install llmlingua`` and its weights.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from ragrounds.base.contracts import Context
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Message, Passage
from ragrounds.base.specs import Spec, Value, check_known, parse
from ragrounds.graphs.documents import fitted, render_documents
from ragrounds.graphs.shapes import ask_object, read_object, sentences
from ragrounds.tools.index.analysers import analyser
from ragrounds.tools.index.weights import load_weights

PROMPTS = ("refine/notes",)
WAYS: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "none": {},
        "extractive": {"sentences": 8},
        "notes": {},
        "recomp": {"sentences": 5, "model": "fangyuan/nq_extractive_compressor"},
        "llmlingua": {"rate": 0.5, "model": "microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank"},
    }
)
"""Ways with their parameters."""
_K1, _B = 1.2, 0.75


def read_way(text: str) -> Spec:
    """Return the spec of a way with all its parameters.

    Raises:
        UserError: the way is unknown, or a parameter is invalid.
    """
    spec = parse(text)
    if spec.name not in WAYS:
        raise UserError(f"Unknown refine={spec.name}.{nearest(spec.name, WAYS)} Known: {', '.join(WAYS)}.")
    check_known(spec, list(WAYS[spec.name]), f"refine={spec.name}")
    complete = Spec(spec.name, {**WAYS[spec.name], **spec.parameters})
    count, rate = complete.parameters.get("sentences", 1), complete.parameters.get("rate", 0.5)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UserError(f"refine={text}: sentences must be a whole number of at least 1.")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise UserError(f"refine={text}: rate must be a share of the tokens, above 0 and at most 1.")
    return complete


async def refined(context: Context, text: str, query: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the refined passages.

    Args:
        context: context of the attempt.
        text: the way (:func:`read_way`).
        query: query of the search.
        passages: passages of the search, best first.

    Raises:
        UserError: a library that the way needs is not installed, or its weights are missing.
    """
    way = read_way(text)
    if way.name == "notes":
        remaining = await _with_notes(context, query, passages)
    elif way.name == "llmlingua":
        remaining = await asyncio.to_thread(_compress_passages, way, passages)
    else:
        score = _by_meaning if way.name == "recomp" else _by_words
        remaining = await asyncio.to_thread(_best, way, query, passages, score, context.stem.language)
    before, after = (sum(len(passage.text) for passage in group) for group in (passages, remaining))
    context.note("refined", f"{text}: {len(passages)} → {len(remaining)} passages, {before:,} → {after:,} characters")
    return remaining


def _best(
    way: Spec,
    query: str,
    passages: Sequence[Passage],
    score: Callable[[Spec, str, Sequence[str], str], Sequence[float]],
    language: str,
) -> tuple[Passage, ...]:
    """Return the best sentences of all passages, in their passages and order."""
    placed = [(index, sentence) for index, passage in enumerate(passages) for sentence in sentences(passage.text)]
    scores = score(way, query, [sentence for _, sentence in placed], language) if placed else ()
    # Sorting is stable: of equal scores, the earlier sentence is first.
    order = sorted(range(len(placed)), key=lambda number: -scores[number])
    taken = sorted(number for number in order[: int(str(way.parameters["sentences"]))] if scores[number] > 0)
    texts: dict[int, list[str]] = {}
    for number in taken:
        texts.setdefault(placed[number][0], []).append(placed[number][1])
    return tuple(replace(passages[index], text=" ".join(parts)) for index, parts in texts.items())


def _by_words(way: Spec, query: str, texts: Sequence[str], language: str) -> list[float]:
    """Return BM25 scores (Robertson and Zaragoza, 2009) with Lucene's idf, over these sentences alone."""
    words = analyser("chinese-bigram" if language == "zh" else "lucene-english")
    counts = [Counter(words(text)) for text in texts]
    mean = sum(counter.total() for counter in counts) / len(counts) or 1.0
    query_terms = Counter(words(query))
    holders = {term: sum(term in counter for counter in counts) for term in query_terms}
    idf = {term: math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5)) for term, holding in holders.items()}
    return [
        sum(
            query_terms[term]
            * idf[term]
            * counter[term]
            / (counter[term] + _K1 * (1 - _B + _B * counter.total() / mean))
            for term in query_terms
        )
        for counter in counts
    ]


def _by_meaning(way: Spec, query: str, texts: Sequence[str], language: str) -> list[float]:
    """Return dot products with the query, shifted so that the lowest is 1.

    A dense encoder gives every sentence a score, so none may be dropped for a score of 0.
    """
    encoder = _encoder(str(way.parameters["model"]))
    vectors = encoder.encode([query, *texts], show_progress_bar=False)
    values = [float(vector @ vectors[0]) for vector in vectors[1:]]
    return [value - min(values) + 1.0 for value in values]


def _compress_passages(way: Spec, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages as LLMLingua-2 compresses them. An empty passage is dropped."""
    compressor, rate = _compressor(str(way.parameters["model"])), way.parameters["rate"]
    compressed_texts = [
        str(compressor.compress_prompt(passage.text, rate=rate)["compressed_prompt"]) for passage in passages
    ]
    return tuple(
        replace(passage, text=text) for passage, text in zip(passages, compressed_texts, strict=True) if text.strip()
    )


@cache
def _encoder(model: str) -> Any:
    return load_weights("SentenceTransformer", model)


@cache
def _compressor(model: str) -> Any:
    try:
        library = importlib.import_module("llmlingua")
    except ImportError as error:
        raise UserError("refine=llmlingua needs the library: pip install llmlingua.") from error
    try:
        return library.PromptCompressor(model_name=model, use_llmlingua2="llmlingua-2" in model, device_map="cpu")
    except OSError as error:
        raise UserError(f"The weights of {model} are not here: {str(error)[:300]}") from error


async def _with_notes(context: Context, query: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages with the model's notes in place of their texts. A passage without a note is dropped."""

    def prompt(documents: str) -> tuple[Message, ...]:
        """Render the prompt with these documents."""
        return context.prompts.render("refine/notes", context.stem.language, query=query, documents=documents)

    fitting = fitted(context, passages, prompt, role="refining")
    if not fitting:
        return ()
    count = len(fitting)
    fields = {"notes": {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}}
    reply = await ask_object(context, prompt(render_documents(fitting)), fields, role="refining")
    notes = read_object(reply).get("notes")
    if not isinstance(notes, list):
        context.note("unreadable_notes", "no notes can be read; the passages stay as they are")
        return fitting
    texts = [" ".join(note.split()) if isinstance(note, str) else "" for note in notes]
    return tuple(replace(passage, text=text) for passage, text in zip(fitting, texts, strict=False) if text)
