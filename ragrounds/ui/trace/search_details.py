"""The detail of a search: what it found, by rank, with the sentence that matched and what became of it; the prompts
that held any of it; then every text whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ragrounds.evals.trace.hops import FATES, FoundPassage, Hop
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.text import number_of, one_line
from ragrounds.ui.trace.layout import TextBlock, shown
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.matching import matching_sentence, query_terms, term_counts
from ragrounds.ui.trace.replies import reply_blocks

Span = tuple[int, int, str]


def found_blocks(loaded: LoadedAttempt, hop: Hop, brief: bool = False) -> Iterator[TextBlock]:
    """What a search found and what became of it; `brief`: neither the prompts that saw it nor whole texts."""
    found, golden = hop.found, set(loaded.summary.gold.documents)
    yield _summary(hop, golden)
    terms = query_terms(hop.query)
    common = term_counts([one.passage.text for one in found], terms)
    readers = prompts_of(loaded, hop)
    for one in found:
        yield _line(loaded, one, bool(readers))
        excerpt = matching_sentence(shown(one.passage.text), terms, common)
        spans = tuple((begin, end, "term") for begin, end in excerpt.spans)
        yield TextBlock(excerpt.text or "(no text)", "plain" if one.gold else "dim", 5, spans=spans)
    if brief:
        return
    yield from _readers(loaded, hop, readers)
    yield from _whole_texts(found)


def _summary(hop: Hop, golden: set[str]) -> TextBlock:
    """``8 passages: 3 new, gold at 2 (1 of 2 gold documents); 5 seen by the model, 1 cut, 2 not seen``."""
    found = hop.found
    parts = [f"{hop.new} new"] if hop.number > 1 else []
    if golden:
        reached = golden & {name for one in found for name in (one.passage.document, one.passage.id)}
        ranks = " ".join(str(rank) for rank in hop.gold_ranks)
        of = f"{len(reached)} of {number_of(len(golden), 'gold document')}"
        parts.append(f"gold at {ranks} ({of})" if ranks else f"no gold ({of})")
    parts.append(fate_words(found))
    text = f"\n{number_of(len(found), 'passage')}: {'; '.join(part for part in parts if part)}"
    return TextBlock(text, "heading")


def fate_words(found: Sequence[FoundPassage]) -> str:
    """``5 seen, 1 cut``."""
    fates = [(sum(one.fate == fate for one in found), fate) for fate in FATES]
    return ", ".join(f"{count} {fate}" for count, fate in fates if count)


def _line(loaded: LoadedAttempt, one: FoundPassage, known: bool) -> TextBlock:
    """A passage's rank and title, and in words what it is: gold, new, seen by whom."""
    passage = one.passage
    title = one_line(passage.title or passage.id, 100)
    text = f"{'★' if one.gold else ' '} {one.rank:>2}. {title}"
    spans: list[Span] = [(0, len(text), "gold" if one.gold else "key")]
    facts = [("gold", "gold")] if one.gold else []
    facts.append(("new", "new") if one.new else ("found before", "dim"))
    if known:
        facts.append(_fate(loaded, one))
    if passage.chunk:
        facts.append(("the whole document, found by a chunk", "note"))
    for number, (word, style) in enumerate(facts):
        text += "   " if not number else ", "
        spans.append((len(text), len(text) + len(word), style))
        text += word
    return TextBlock(text, "plain", spans=tuple(spans))


def _fate(loaded: LoadedAttempt, one: FoundPassage) -> tuple[str, str]:
    whole = _names(loaded, [place for place in one.prompts if place not in one.cut_in])
    cut = _names(loaded, one.cut_in)
    if whole:
        return f"seen by {whole}" + (f", cut for {cut}" if cut else ""), "right"
    if one.fate == "not known":
        return "not known whether seen", "dim"
    return (f"cut for {cut}", "trouble") if cut else ("not seen", "trouble" if one.gold else "dim")


def _names(loaded: LoadedAttempt, places: Sequence[int]) -> str:
    """The nodes of some calls, each once."""
    names = dict.fromkeys(loaded.traced[place].call.node or loaded.traced[place].call.role for place in places)
    return one_line(", ".join(names), 60)


def prompts_of(loaded: LoadedAttempt, hop: Hop) -> list[int]:
    """The places of the recorded model calls after a search; of all, where the system reported it at its end."""
    first = 0 if hop.untimed else hop.call + 1
    return [place for place, one in enumerate(loaded.traced) if place >= first and one.asked is not None]


def _readers(loaded: LoadedAttempt, hop: Hop, later: Sequence[int]) -> Iterator[TextBlock]:
    """The prompts that held any of the passages, with what was replied."""
    readers = sorted({place for one in hop.found for place in one.prompts})
    if not readers:
        if hop.found:
            why = "no later prompt held any of them" if later else "no prompt after it is recorded"
            if hop.untimed:
                why = "no recorded prompt holds any of them; which calls came after the search is not known"
            yield TextBlock(f"\n{why}", "trouble" if later and not hop.untimed else "dim")
        return
    yield TextBlock("\nthe prompt that saw it" if len(readers) == 1 else "\nthe prompts that saw it", "heading")
    for place in readers:
        traced = loaded.traced[place]
        yield TextBlock(f"{_names(loaded, [place])}: {_held(hop, place)}", "key", elsewhere=True)
        if traced.reply is not None:
            title = "kept by reading" if traced.call.role == "reading" else "replied"
            yield TextBlock(f"{title}:", "dim", 2)
            yield from (replace(block, elsewhere=True) for block in reply_blocks(traced.reply.text, 2))


def _held(hop: Hop, place: int) -> str:
    """``★3 1 2 whole, 4 5 cut``: the ranks that a prompt held."""
    whole = [one for one in hop.found if place in one.prompts and place not in one.cut_in]
    cut = [one for one in hop.found if place in one.cut_in]
    return ", ".join(f"{ranks(ones)} {word}" for ones, word in ((whole, "whole"), (cut, "cut")) if ones)


def ranks(found: Sequence[FoundPassage]) -> str:
    """Ranks in a row, gold ones with a star: ``1 ★2 4``."""
    return " ".join(f"{'★' * one.gold}{one.rank}" for one in found)


def held_by(loaded: LoadedAttempt, place: int) -> str:
    """The passages that the prompt of a call held, by hop: ``hop 1: 1 ★2 whole; hop 2: 1 whole, 2 cut``."""
    return "; ".join(f"hop {hop.number}: {held}" for hop in loaded.hops if (held := _held(hop, place)))


def _whole_texts(found: Sequence[FoundPassage]) -> Iterator[TextBlock]:
    if not found:
        return
    yield TextBlock("\nthe texts whole", "heading", more=True)
    for one in found:
        passage = one.passage
        source = f"  by {passage.retriever} from {passage.corpus}" if passage.retriever else f"  from {passage.corpus}"
        head = f"{'★ gold ' if one.gold else ''}{one.rank}. {passage.id}  score {passage.score:.3f}{source}"
        yield TextBlock(head, "gold" if one.gold else "key", more=True)
        if passage.chunk:
            yield TextBlock(f"the whole document, found by its chunk {passage.chunk}", "note", 3, more=True)
        if passage.title:
            yield TextBlock(passage.title, "key", 3, more=True)
        yield TextBlock(passage.text, "plain", 3, more=True)


def sources(traced: TracedCall) -> str:
    """Which retriever searched which corpus, where all passages say the same."""
    named = {(passage.retriever, passage.corpus) for passage in traced.passages}
    return "by {} from {}".format(*next(iter(named))) if len(named) == 1 else ""
