"""Detail of a search: the passages by rank with their fate, the words of the query marked in their texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragrounds.base.records import Passage
from ragrounds.evals.trace.hops import FATES, FoundPassage, Hop
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.text import number_of, one_line
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.matching import matching_spans, query_terms

Span = tuple[int, int, str]
_FOLD = 2
"""Lines shown of a folded passage."""


def found_blocks(loaded: LoadedAttempt, hop: Hop) -> Iterator[TextBlock]:
    """Yield the passages of a search with their fate and their texts."""
    hits, golden = hop.found, set(loaded.summary.gold.documents)
    if source := sources(hop.traced):
        yield TextBlock(source, "dim")
    yield _summary(hop, golden)
    terms, has_readers = query_terms(hop.query), has_later_prompt(loaded, hop)
    for hit in hits:
        yield _line(loaded, hit, has_readers)
        score = f"{hit.passage.id}  score {hit.passage.score:.3f}"
        yield TextBlock(score if source else f"{score}  {_origin(hit.passage)}".rstrip(), "dim", 5)
        spans = tuple((*span, "term") for span in matching_spans(hit.passage.text, terms))
        yield TextBlock(hit.passage.text or "(no text)", "plain", 5, spans=spans, fold=_FOLD)


def _summary(hop: Hop, golden: set[str]) -> TextBlock:
    """Return ``8 passages: 3 new, gold at 2 (1 of 2 gold documents); 5 seen by the model, 1 cut, 2 not seen``."""
    hits = hop.found
    parts = [f"{hop.new} new"] if hop.number > 1 else []
    if golden:
        reached = golden & {name for hit in hits for name in (hit.passage.document, hit.passage.id)}
        ranks = " ".join(str(rank) for rank in hop.gold_ranks)
        coverage = f"{len(reached)} of {number_of(len(golden), 'gold document')}"
        parts.append(f"gold at {ranks} ({coverage})" if ranks else f"no gold ({coverage})")
    parts.append(fate_words(hits))
    text = f"\n{number_of(len(hits), 'passage')}: {'; '.join(part for part in parts if part)}"
    return TextBlock(text, "heading")


def fate_words(passages: Sequence[FoundPassage]) -> str:
    """Return the number of passages by fate: ``5 seen, 1 cut``."""
    fates = [(sum(hit.fate == fate for hit in passages), fate) for fate in FATES]
    return ", ".join(f"{count} {fate}" for count, fate in fates if count)


def _line(loaded: LoadedAttempt, hit: FoundPassage, has_readers: bool) -> TextBlock:
    """Return a passage's rank and title, followed by words: gold, new, seen by whom."""
    passage = hit.passage
    title = one_line(passage.title or passage.id, 100)
    text = f"{'★' if hit.gold else ' '} {hit.rank:>2}. {title}"
    spans: list[Span] = [(0, len(text), "gold" if hit.gold else "key")]
    facts = [("gold", "gold")] if hit.gold else []
    facts.append(("new", "new") if hit.new else ("found before", "dim"))
    if has_readers:
        facts.append(_fate(loaded, hit))
    if passage.chunk:
        facts.append((f"the whole document, found by its chunk {passage.chunk}", "note"))
    for number, (word, style) in enumerate(facts):
        text += "   " if not number else ", "
        spans.append((len(text), len(text) + len(word), style))
        text += word
    return TextBlock(text, "plain", spans=tuple(spans))


def _fate(loaded: LoadedAttempt, hit: FoundPassage) -> tuple[str, str]:
    readers = _names(loaded, [call_number for call_number in hit.prompts if call_number not in hit.cut_in])
    cut = _names(loaded, hit.cut_in)
    if readers:
        return f"seen by {readers}" + (f", cut for {cut}" if cut else ""), "right"
    if hit.fate == "not known":
        return "not known whether seen", "dim"
    return (f"cut for {cut}", "trouble") if cut else ("not seen", "trouble" if hit.gold else "dim")


def _names(loaded: LoadedAttempt, call_numbers: Sequence[int]) -> str:
    """Return the nodes of some calls, without duplicates."""
    names = dict.fromkeys(
        loaded.traced[call_number].call.node or loaded.traced[call_number].call.role for call_number in call_numbers
    )
    return one_line(", ".join(names), 60)


def has_later_prompt(loaded: LoadedAttempt, hop: Hop) -> bool:
    """Return True if a prompt after a search is recorded, which shows whether its passages were seen."""
    return hop.untimed or any(call.asked is not None for call in loaded.traced[hop.call + 1 :])


def _passages_in(hop: Hop, call_number: int) -> str:
    """Return the ranks of the passages in a prompt: ``★3 1 2 whole, 4 5 cut``."""
    complete = [hit for hit in hop.found if call_number in hit.prompts and call_number not in hit.cut_in]
    cut = [hit for hit in hop.found if call_number in hit.cut_in]
    return ", ".join(f"{ranks(passages)} {word}" for passages, word in ((complete, "whole"), (cut, "cut")) if passages)


def ranks(passages: Sequence[FoundPassage]) -> str:
    """Return ranks in one line, gold ones with a star: ``1 ★2 4``."""
    return " ".join(f"{'★' * hit.gold}{hit.rank}" for hit in passages)


def held_by(loaded: LoadedAttempt, call_number: int) -> str:
    """Return the passages in the prompt of a call, by hop: ``hop 1: 1 ★2 whole; hop 2: 1 whole, 2 cut``."""
    return "; ".join(
        f"hop {hop.number}: {passages}" for hop in loaded.hops if (passages := _passages_in(hop, call_number))
    )


def sources(traced: TracedCall) -> str:
    """Return which retriever searched which corpus, if this is the same for all passages."""
    origins = set(map(_origin, traced.passages))
    return origins.pop() if len(origins) == 1 else ""


def _origin(passage: Passage) -> str:
    """Return the retriever and the corpus of a passage; a user's system may report neither."""
    parts = (("by", passage.retriever), ("from", passage.corpus))
    return " ".join(f"{word} {name}" for word, name in parts if name)
