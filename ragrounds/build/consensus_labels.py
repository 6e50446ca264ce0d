"""`consensus-labels`: several models label what several retrievers find for a query (CMedTEB, Section 3.1).

START → candidates → label → synonyms → END

* ``candidates``: every retriever searches with the query; passages are ranked by how many retrievers found them.
* ``label``: each model gives each passage a grade from S to D (:mod:`ragrounds.build.relevance_labels`). A passage that
  a model gave no readable label for, or refused, has none of that model; the query continues.
* ``synonyms``: where the query holds a term that has a synonym, a model writes the three sentences of a triple. A
  faulty or refused triple is recorded and costs the query nothing.

A triple (CMedTEB, Table 24) is a positive with the synonym and the same meaning, a hard negative with the synonym and
another meaning, and an easy negative with the old term and another meaning. One of the three, drawn by the seed, is
paired with the query for a similarity set: 1 for the positive, 0 for the others.

:mod:`ragrounds.build.consensus_benchmark` decides what becomes of a labelled pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.build.committee import by_frequency, rankings_of
from ragrounds.build.items import INTAKE, Dropped
from ragrounds.build.judged_sets import ScoredPair, titled
from ragrounds.build.outcome import JsonObject
from ragrounds.build.pipeline import Pipeline
from ragrounds.build.relevance_labels import PROMPT, RELEVANT, label_passages
from ragrounds.build.stages import (
    NOTHING_FOUND,
    Changes,
    PipelineGraph,
    PipelineState,
    Rejected,
    ask_for,
    folded,
    holds_verbatim,
    in_line,
    kept,
    of_part,
)
from ragrounds.contracts import Context
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.files import broken, convert, read_jsonl, shown
from ragrounds.graphs.state import whole
from ragrounds.records import Gold, Query, Question
from ragrounds.tools.corpora import CorpusSource, passages

PROMPTS = (PROMPT, "build/synonym_triple")
STAGES = ("candidates", "label", "synonyms")


class LabelState(PipelineState, total=False):
    """What the stages write."""

    candidates: list[str]
    labels: dict[str, list[str | None]]
    """Passage → every model's grade, in the models' order."""
    faults: list[JsonObject]
    """Calls that gave no labels."""


def build() -> PipelineGraph:
    """The stages in line."""
    return in_line(LabelState, dict(zip(STAGES, (_candidates, _label, _synonyms), strict=True)))


def synonym_of(question: Question) -> Synonym | None:
    """The pair of names that an item carries; ``None``: it has none."""
    given = question.metadata.get("synonym", "")
    return msgspec.json.decode(given, type=Synonym) if given else None


async def _candidates(state: LabelState, context: Context) -> Changes:
    found = await context.search(Query.of(context.stem), whole(context, "top_k", 500))
    ranked = by_frequency(rankings_of({"query": found}), whole(context, "candidates", 500))
    if not ranked:
        raise Rejected(NOTHING_FOUND, f"for the query {context.stem.text}")
    return {"candidates": [each.id for each in ranked]}


async def _label(state: LabelState, context: Context) -> Changes:
    roles = [f"labelling_{number}" for number in range(1, whole(context, "labellers", 3) + 1)]
    texts = {id: titled(context.passage(id)) for id in state["candidates"]}
    said = await label_passages(context, texts, roles, whole(context, "at_once", 10))
    return {"labels": said.given, "faults": said.faults}


async def _synonyms(state: LabelState, context: Context) -> Changes:
    pair, query = synonym_of(context.question), context.stem.text
    product: JsonObject = {"labels": state["labels"], "faults": state["faults"]}
    if pair is None:
        return kept(**product)
    values = {"query": query, "term": pair.term, "synonym": pair.synonym}
    try:
        made = await of_part(
            ask_for(
                context,
                "build/synonym_triple",
                TripleSentences,
                role="writing",
                check=lambda sentences: triple_fault(query, pair, sentences),
                **values,
            )
        )
    except Rejected as rejected:
        return kept(**product, triple_fault=rejected.detail, triple_reason=rejected.reason)
    return kept(**product, triple=msgspec.to_builtins(made))


def open_queries(text: str, home: Path, language: str) -> list[Question]:
    """The queries of a JSON Lines file {id, text} (BEIR's and R2MED's forms), or the questions of a benchmark, without
    their options.

    Raises:
        UserError: neither such a file nor such a benchmark, or a broken one.
    """
    path = Path(text).expanduser()
    if path.is_file():
        name = path.name.partition(".")[0]
        found = (passage for passage, _ in passages(CorpusSource(name, (path,))))
        return [_question(f"{name}/{each.id}", each.text, language) for each in found]
    return [_question(each.id, each.text, each.language, each.group) for each in load(text, home).questions]


def query_items(queries: Sequence[Question], synonyms: Sequence[Synonym]) -> tuple[list[Item], list[Dropped]]:
    """Items, and the queries that are none: those that say what another one says word for word."""
    dropped: list[Dropped] = []
    items = list(_query_items(queries, synonyms, dropped))
    return items, dropped


def _query_items(queries: Sequence[Question], synonyms: Sequence[Synonym], dropped: list[Dropped]) -> Iterator[Item]:
    first: dict[str, str] = {}
    for query in queries:
        wording = " ".join(query.text.split()).casefold()
        if not wording:
            dropped.append(Dropped(id=query.id, stage=INTAKE, reason="it is empty"))
            continue
        if wording in first:
            dropped.append(Dropped(id=query.id, stage=INTAKE, reason="it stands there already", detail=first[wording]))
            continue
        first[wording] = query.id
        pair = synonym_in(query.text, synonyms)
        # The version of the items covers golds and not metadata: another pair of names is another item.
        gold = Gold(question_id=query.id, answer=f"{pair.term} = {pair.synonym}" if pair else "")
        metadata = {"synonym": msgspec.json.encode(pair).decode()} if pair else {}
        yield Item(msgspec.structs.replace(query, metadata=metadata), gold)


def _question(id: str, text: str, language: str, group: str = "") -> Question:
    return Question(id=id, benchmark="consensus-labels", text=text, kind="long", language=language, group=group)


FIELDS = ("positive", "hard_negative", "easy_negative")
LENGTH_TOLERANCE = 0.3
"""A positive may be this much longer or shorter than its query (Table 24)."""


class Synonym(Struct, frozen=True):
    """Two names of one thing."""

    term: str
    synonym: str


class TripleSentences(Struct, frozen=True, kw_only=True):
    """What a model writes for a query."""

    positive: str
    hard_negative: str
    easy_negative: str


class SynonymTriple(Struct, frozen=True, kw_only=True):
    """A query with its three sentences."""

    query: str
    term: str
    synonym: str
    positive: str
    hard_negative: str
    easy_negative: str


def read_synonyms(path: Path) -> tuple[Synonym, ...]:
    """Read JSON Lines ``{"term", "synonym"}``, the dictionary that experts wrote.

    Raises:
        UserError: no such file, a line that is not of that form, an empty name, or a term that is its own synonym.
    """
    found: dict[tuple[str, str], Synonym] = {}
    for place, value in read_jsonl(path):
        given = convert(value, Synonym, path, place)
        pair = Synonym(given.term.strip(), given.synonym.strip())
        if not pair.term or not pair.synonym or pair.term.casefold() == pair.synonym.casefold():
            raise broken(path, f"{shown(pair.term)} and {shown(pair.synonym)} are not two names", place)
        found.setdefault((pair.term.casefold(), pair.synonym.casefold()), pair)
    if not found:
        raise broken(path, "it holds no synonyms")
    return tuple(found.values())


def synonym_in(text: str, synonyms: Iterable[Synonym]) -> Synonym | None:
    """The first synonym pair whose term stands in the text as words of its own, in whatever case, the longest term
    first; a text that already holds the synonym too is passed over, because a
    triple of it would test nothing. ``None``: there is none."""
    for pair in sorted(synonyms, key=lambda pair: -len(pair.term)):
        if holds_verbatim(pair.term, text) and not holds_verbatim(pair.synonym, text):
            return pair
    return None


def triple_fault(query: str, pair: Synonym, sentences: TripleSentences) -> str:
    """Why three sentences are no triple; empty: they are one."""
    texts = {name: getattr(sentences, name).strip() for name in FIELDS}
    missing = next((name for name, text in texts.items() if not text), None)
    if missing:
        return f"no {missing}"
    if len({folded(text) for text in (*texts.values(), query)}) < len(FIELDS) + 1:
        return "two of the sentences are the same"
    wanted = {"positive": pair.synonym, "hard_negative": pair.synonym, "easy_negative": pair.term}
    for name, term in wanted.items():
        other = pair.term if term == pair.synonym else pair.synonym
        if not holds_verbatim(term, texts[name]):
            return f"the {name} does not hold {term!r}"
        # Without the term: a synonym may be a part of it.
        if holds_verbatim(other, folded(texts[name]).replace(folded(term), " ")):
            return f"the {name} holds {other!r}"
    ratio = len(texts["positive"]) / len(query.strip())
    return (
        ""
        if 1 - LENGTH_TOLERANCE <= ratio <= 1 + LENGTH_TOLERANCE
        else f"the positive is {ratio:.2f} times as long as its query"
    )


def triple_pair(triple: SynonymTriple, seed: int) -> ScoredPair:
    """The query with one of its three sentences, drawn by seed and query."""
    digest = hashlib.sha256(f"{seed}\n{triple.query}".encode()).digest()
    name = FIELDS[int.from_bytes(digest[:8]) % len(FIELDS)]
    return ScoredPair(triple.query, getattr(triple, name), float(name == "positive"))


PIPELINE = Pipeline(
    name="consensus-labels",
    graph="ragrounds.build.consensus_labels:build",
    summary="Queries → relevant passages that several models agree on; reranking and similarity sets of the same.",
    source="CMedTEB, Section 3.1",
    stages=STAGES,
    parameters={"labellers": 3, "top_k": 500, "candidates": 500, "at_once": 10, "relevant": RELEVANT},
    searches=True,
)
