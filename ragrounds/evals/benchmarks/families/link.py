"""Link prediction as multiple choice: two entities of a knowledge graph are given, the relation is chosen (MRAG,
Section 3: distractors are the other relation types of the graph).

``link[options=4,seed=0,sample=1500]:FOLDER`` reads a graph's files (:mod:`ragrounds.evals.benchmarks.graph_files`) line
by line, several times, and never holds them. A relation that also holds between the two entities, in any part of the
graph, is never a distractor: there is one right answer. Triplets with the same two entities are one cluster.

| parameter | |
|---|---|
| ``options`` | how many, or ``all`` relations that may be asked for |
| ``between`` | two types, ``"Compound,Disease"``: only triplets that join these are asked |
| ``hints`` | ``keep``; ``drop``: no triplet whose relation stands in the name of one of its entities |
| ``part`` | ``test``: the test file, else all; ``last_tenth``: of ten samples or more the newest tenth, else last |
| ``sample`` | how many are drawn; 0: all |
| ``seed`` | a number; ``content``: one that follows from the triplets, in whatever order they stand |
"""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.files import broken
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item, lot
from ragrounds.evals.benchmarks.extraction import Triplet
from ragrounds.evals.benchmarks.families.jsonl import labelled
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.evals.benchmarks.graph_files import (
    FILES,
    GraphFolder,
    content_number,
    entity_type,
    graph_folder,
    named,
    texts_by_id,
    triplets,
    worded,
)

TYPES = "types"
"""Metadata of a question: the types of its two entities, ``Compound, Disease``."""
PARAMETERS = ("options", "seed", "sample", "between", "hints", "part")
UNLESS_UNTYPED = "between only where types are known"
"""Set by a family that reads graphs here: no user can type it."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_STEM = 5
"""Letters by which words are alike: *treats* and *treatment*."""


class LinkSetting(Struct, frozen=True, kw_only=True):
    """How questions are made of a graph."""

    options: int
    """0: all."""
    between: tuple[str, str] | None
    unless_untyped: bool
    """Whether `between` is left aside in a graph without types."""
    drop_hints: bool
    part: Literal["test", "last_tenth"]
    sample: int
    seed: int | None
    """``None``: by the content."""


class GraphSurvey(Struct, frozen=True, kw_only=True):
    """What one look at all triplets tells."""

    files: GraphFolder
    names: Mapping[str, str]
    types: Mapping[str, str]
    counts: Mapping[tuple[str, str], Counter[str]]
    """Types of the two entities → relation → triplets."""
    seed: int
    first: tuple[int, int]
    """What is asked begins at this date, and at this place of the file."""

    @property
    def relations(self) -> list[str]:
        """All relations, sorted."""
        return sorted({relation for counts in self.counts.values() for relation in counts})

    def types_of(self, triplet: Triplet) -> tuple[str, str]:
        """The types of a triplet's entities."""
        return entity_type(triplet[0], self.types), entity_type(triplet[2], self.types)


def items(source: BenchmarkSource) -> Iterator[Item]:
    """The triplets as questions, all or a sample.

    Raises:
        UserError: a broken file, fewer than two options, a parameter that is not known, nothing to ask.
    """
    setting = link_setting(source)
    survey = surveyed(source, setting)
    path = source.path
    name = source.dataset or (path.name if path.is_dir() else path.name.partition(".")[0])
    chosen = _chosen(survey, setting)
    if not chosen:
        raise broken(path, _nothing(survey, setting))
    holding: dict[tuple[str, str], set[str]] = {(head, tail): set() for head, _, tail in chosen}
    for part in survey.files.parts:
        for (head, relation, tail), _ in triplets(part):
            if (head, tail) in holding:
                holding[head, tail].add(_key(relation))
    every = survey.relations
    for triplet in chosen:
        types = survey.types_of(triplet)
        options = setting.options or len(every)
        yield link_question(
            triplet, every, holding[triplet[0], triplet[2]], f"link/{name}", options, survey.seed, survey, types
        )


def link_setting(source: BenchmarkSource) -> LinkSetting:
    """The parameters of a reference.

    Raises:
        UserError: one of them is not what it must be.
    """
    options = 0 if source.text("options") == "all" else source.number("options", 4)
    if options == 1 or options < 0:
        raise UserError(f"A link prediction question needs 2 options or more, got {options}.")
    between = [part.strip() for part in source.text("between").split(",") if part.strip()]
    if len(between) not in (0, 2):
        raise UserError(f'between={source.text("between")!r} is not two types; write between="Compound,Disease".')
    content = source.text("seed") == "content"
    return LinkSetting(
        options=options,
        between=(between[0], between[1]) if between else None,
        unless_untyped=UNLESS_UNTYPED in source.parameters,
        drop_hints=_word(source, "hints", ("keep", "drop")) == "drop",
        part="last_tenth" if _word(source, "part", ("test", "last_tenth")) == "last_tenth" else "test",
        sample=source.number("sample", 0),
        seed=None if content else source.number("seed", 0),
    )


def _word(source: BenchmarkSource, name: str, known: tuple[str, ...]) -> str:
    given = source.text(name, known[0])
    if given not in known:
        raise UserError(f"{name}={given!r} is unknown.{nearest(given, known)} Known: {', '.join(known)}.")
    return given


def surveyed(source: BenchmarkSource, setting: LinkSetting) -> GraphSurvey:
    """Look at every triplet once.

    Raises:
        UserError: a broken file.
    """
    found = graph_folder(source.path)
    names, types = texts_by_id(found.names), texts_by_id(found.types)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    dates, places, content = array("q"), 0, 0
    for part in found.parts:
        asked = part == found.asked
        for triplet, date in triplets(part):
            counts[entity_type(triplet[0], types), entity_type(triplet[2], types)][triplet[1]] += 1
            places += asked
            if setting.seed is None:
                content += content_number(triplet)
            if date and asked and setting.part == "last_tenth" and date.strip().isdigit():
                dates.append(min(int(date), 1 << 62))
    seed = content % (1 << 63) if setting.seed is None else setting.seed
    newest, place = 0, 0
    if setting.part == "last_tenth" and places >= 10 * setting.sample:
        newest = sorted(dates)[places * 9 // 10] if len(dates) == places else 0
        place = 0 if newest else places * 9 // 10
    return GraphSurvey(
        files=found,
        names=names,
        types=types,
        counts={types: _by_key(inside) for types, inside in counts.items()},
        seed=seed,
        first=(newest, place),
    )


def _by_key(counts: Mapping[str, int]) -> Counter[str]:
    merged: Counter[str] = Counter()
    for relation, count in counts.items():
        merged[_key(relation)] += count
    return merged


def _key(relation: str) -> str:
    """What relations are told apart by: their words, where the name says its database."""
    return worded(relation) if relation.count("::") > 1 else relation


def _candidates(survey: GraphSurvey, setting: LinkSetting) -> Iterator[Triplet]:
    """The triplets that may be asked, in the file's order, relations by their keys."""
    date, place = survey.first
    between = setting.between
    if setting.unless_untyped and not any(all(types) for types in survey.counts):
        between = None
    keys: dict[str, str] = {}
    for number, ((head, relation, tail), dated) in enumerate(triplets(survey.files.asked)):
        if between and survey.types_of((head, relation, tail)) != between:
            continue
        if number < place or (date and int(dated) < date):  # where there are dates, all are numbers
            continue
        key = keys.get(relation) or keys.setdefault(relation, _key(relation))
        one, other = named(head, survey.names), named(tail, survey.names)
        if not one or not other:
            continue
        if setting.drop_hints and gives_away(worded(key), one, other):
            continue
        yield head, key, tail


def gives_away(relation: str, *names: str) -> bool:
    """Whether the words of a relation stand in the name of one entity: *Treatment of pain*, and *treats*."""
    wanted = {word[:_STEM] for word in _WORD.findall(relation.casefold())}
    return bool(wanted) and any(wanted <= {word[:_STEM] for word in _WORD.findall(name.casefold())} for name in names)


def _chosen(survey: GraphSurvey, setting: LinkSetting) -> list[Triplet]:
    """All candidates, each once, in the file's order; or those with the smallest lots. Where the seed is the content's,
    so is their order."""
    if not setting.sample:
        return list(dict.fromkeys(_candidates(survey, setting)))
    kept: list[tuple[int, int, Triplet]] = []
    inside: set[Triplet] = set()
    for place, triplet in enumerate(_candidates(survey, setting)):
        if triplet in inside:
            continue
        drawn = int.from_bytes(lot(survey.seed, *triplet))
        if len(kept) < setting.sample:
            heapq.heappush(kept, (-drawn, place, triplet))
        elif -kept[0][0] > drawn:
            inside.discard(heapq.heapreplace(kept, (-drawn, place, triplet))[2])
        else:
            continue
        inside.add(triplet)
    by_lot = setting.seed is None
    return [triplet for _, _, triplet in sorted(kept, key=lambda one: -one[0] if by_lot else one[1])]


def _nothing(survey: GraphSurvey, setting: LinkSetting) -> str:
    if setting.between and setting.between not in survey.counts:
        pairs = ", ".join(sorted(f"{one},{other}" for one, other in survey.counts if one and other)[:8])
        return f'no triplet joins {" and ".join(setting.between)}; between="…" may name {pairs or "no types here"}'
    return (
        "no triplet can be asked: its entities have ids, and no names. Put names.tsv (an id, a tab, a name) beside it"
    )


def link_question(
    triplet: Triplet,
    relations: list[str],
    holding: set[str],
    benchmark: str,
    options: int,
    seed: int,
    survey: GraphSurvey,
    types: tuple[str, str],
) -> Item:
    """One triplet as a question with up to `options` relations to choose from; `holding` are all relations between its
    entities. Which distractors, and their order, follow from `seed` and the triplet alone."""
    head, relation, tail = triplet  # the relation is the answer: it may not stand in group or metadata
    others = [other for other in relations if other not in holding]
    distractors = sorted(others, key=lambda other: lot(seed, *triplet, other))[: options - 1]
    order = sorted([relation, *distractors], key=lambda other: lot(seed, "order", *triplet, other))
    labels = labelled([worded(other) for other in order])
    dataset = benchmark.rpartition("/")[2]
    one, other = named(head, survey.names), named(tail, survey.names)
    question = Question(
        id=f"{dataset}/{lot(0, *triplet).hex()[:16]}",
        benchmark=benchmark,
        text=f"In a medical knowledge graph, how is “{one}” related to “{other}”?",
        options=labels,
        cluster=f"{dataset}/{lot(0, *sorted((head, tail))).hex()[:16]}",
        metadata={TYPES: ", ".join(types)} if all(types) else {},
    )
    return Item(question, Gold(question_id=question.id, answer=list(labels)[order.index(relation)]))


FAMILY = Family(
    name="link",
    items=items,
    file="a folder with train.txt, valid.txt and test.txt, or one file of triplets",
    needs=FILES,
    parameters=PARAMETERS,
    open=True,
)
