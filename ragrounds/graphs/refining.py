"""The stage between search and prompt, of any agent that searches: ``vanilla_rag[refine=notes]``.

What a search found is cut down to what bears on its query, before any prompt shows it; a passage of which nothing is
left is dropped. Ids stay, so that hops and gold are counted as without. Options never get here: a search has none.

* ``extractive[sentences=8]``: the sentences of all passages that BM25 finds best for the query.
* ``notes``: the model (`reader=…`, if any) writes what each passage holds on the query: one call a search, in the role
  ``refining``.
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
from ragrounds.graphs.documents import fitted, written
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import read_object, sentences
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
    """A way with all its parameters.

    Raises:
        UserError: there is no such way, or a parameter cannot be.
    """
    spec = parse(text)
    if spec.name not in WAYS:
        raise UserError(f"Unknown refine={spec.name}.{nearest(spec.name, WAYS)} Known: {', '.join(WAYS)}.")
    check_known(spec, list(WAYS[spec.name]), f"refine={spec.name}")
    made = Spec(spec.name, {**WAYS[spec.name], **spec.parameters})
    count, rate = made.parameters.get("sentences", 1), made.parameters.get("rate", 0.5)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UserError(f"refine={text}: sentences must be a whole number of at least 1.")
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise UserError(f"refine={text}: rate must be a share of the tokens, above 0 and at most 1.")
    return made


async def refined(context: Context, text: str, query: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """What is left of some passages.

    Args:
        context: of the attempt.
        text: the way (:func:`read_way`).
        query: what was searched for.
        passages: what was found, best first.

    Raises:
        UserError: what the way needs is not installed, or its weights are not there.
    """
    way = read_way(text)
    if way.name == "notes":
        kept = await _noted(context, query, passages)
    elif way.name == "llmlingua":
        kept = await asyncio.to_thread(_compressed, way, passages)
    else:
        score = _by_meaning if way.name == "recomp" else _by_words
        kept = await asyncio.to_thread(_best, way, query, passages, score, context.stem.language)
    before, after = (sum(len(one.text) for one in some) for some in (passages, kept))
    context.note("refined", f"{text}: {len(passages)} → {len(kept)} passages, {before:,} → {after:,} characters")
    return kept


def _best(
    way: Spec,
    query: str,
    passages: Sequence[Passage],
    score: Callable[[Spec, str, Sequence[str], str], Sequence[float]],
    language: str,
) -> tuple[Passage, ...]:
    """The best sentences of all passages, in their passages and order."""
    placed = [(place, one) for place, passage in enumerate(passages) for one in sentences(passage.text)]
    scores = score(way, query, [one for _, one in placed], language) if placed else ()
    order = sorted(range(len(placed)), key=lambda number: -scores[number])  # of equals the earlier one
    taken = sorted(number for number in order[: int(str(way.parameters["sentences"]))] if scores[number] > 0)
    texts: dict[int, list[str]] = {}
    for number in taken:
        texts.setdefault(placed[number][0], []).append(placed[number][1])
    return tuple(replace(passages[place], text=" ".join(some)) for place, some in texts.items())


def _by_words(way: Spec, query: str, texts: Sequence[str], language: str) -> list[float]:
    """BM25 (Robertson and Zaragoza, 2009) with Lucene's idf, over these sentences alone."""
    words = analyser("chinese-bigram" if language == "zh" else "lucene-english")
    counts = [Counter(words(text)) for text in texts]
    mean = sum(one.total() for one in counts) / len(counts) or 1.0
    asked = Counter(words(query))
    holders = {term: sum(term in one for one in counts) for term in asked}
    idf = {term: math.log(1 + (len(texts) - held + 0.5) / (held + 0.5)) for term, held in holders.items()}
    return [
        sum(
            asked[term] * idf[term] * one[term] / (one[term] + _K1 * (1 - _B + _B * one.total() / mean))
            for term in asked
        )
        for one in counts
    ]


def _by_meaning(way: Spec, query: str, texts: Sequence[str], language: str) -> list[float]:
    """Dot products with the query, from 1 on for the best: a dense encoder knows no sentence without a score."""
    encoder = _encoder(str(way.parameters["model"]))
    vectors = encoder.encode([query, *texts], show_progress_bar=False)
    values = [float(one @ vectors[0]) for one in vectors[1:]]
    return [value - min(values) + 1.0 for value in values]


def _compressed(way: Spec, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    compressor, rate = _compressor(str(way.parameters["model"])), way.parameters["rate"]
    made = [str(compressor.compress_prompt(one.text, rate=rate)["compressed_prompt"]) for one in passages]
    return tuple(replace(one, text=text) for one, text in zip(passages, made, strict=True) if text.strip())


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


async def _noted(context: Context, query: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    def prompt(documents: str) -> tuple[Message, ...]:
        """With these documents."""
        return context.prompts.render("refine/notes", context.stem.language, query=query, documents=documents)

    kept = fitted(context, passages, prompt, role="refining")
    if not kept:
        return ()
    said = without_thought((await context.ask(prompt(written(kept)), role="refining")).text)
    notes = read_object(said).get("notes")
    if not isinstance(notes, list):
        context.note("unreadable_notes", "no notes can be read; the passages stay as they are")
        return kept
    texts = [" ".join(one.split()) if isinstance(one, str) else "" for one in notes]
    return tuple(replace(one, text=text) for one, text in zip(kept, texts, strict=False) if text)
