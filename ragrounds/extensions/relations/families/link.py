"""Link prediction as multiple choice: the relation between two entities of a knowledge graph is to be chosen (MRAG,
Section 3: distractors are the other relation types of the graph).

``link[options=4,seed=0,sample=1500]:FOLDER`` reads a graph's files (:mod:`ragrounds.extensions.relations.graph_files`)
line by line, several times, and never keeps them in memory. A relation that also holds between the two entities, in any
part of the graph, is never a distractor: there is one right answer. Triplets with the same two entities are one
cluster.

| parameter | |
|---|---|
| ``options`` | how many, or ``all`` relations that may be asked for |
| ``between`` | two types, ``"Compound,Disease"``: only triplets that join these are asked |
| ``hints`` | ``keep``; ``drop``: no triplet whose relation occurs in the name of one of its entities |
| ``part`` | ``test``: the test file, else all; ``last_tenth``: of ten samples or more the newest tenth, else last |
| ``sample`` | sample size; 0: all |
| ``seed`` | a number; ``content``: computed from the triplets, whatever their order |
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
from ragrounds.evals.benchmarks.families.jsonl import labelled
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.relations.extraction import Triplet
from ragrounds.extensions.relations.graph_files import (
    FILES,
    GraphFolder,
    content_number,
    entity_name,
    entity_type,
    graph_folder,
    texts_by_id,
    triplets,
    worded,
)

TYPES = "types"
"""Key of a question's metadata for the types of its two entities, ``Compound, Disease``."""
PARAMETERS = ("options", "seed", "sample", "between", "hints", "part")
UNLESS_UNTYPED = "between only where types are known"
"""Parameter that only a family which reads graphs through this one sets. A user cannot type it."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_STEM = 5
"""Number of first letters by which words are alike: *treats* and *treatment*."""


class LinkSetting(Struct, frozen=True, kw_only=True):
    """Settings for making questions from a graph."""

    options: int
    """Number of options; 0 for all relations."""
    between: tuple[str, str] | None
    unless_untyped: bool
    """True if `between` is ignored in a graph without types."""
    drop_hints: bool
    part: Literal["test", "last_tenth"]
    sample: int
    seed: int | None
    """Seed; ``None`` if it is computed from the content."""


class GraphSurvey(Struct, frozen=True, kw_only=True):
    """Results of one pass over all triplets."""

    files: GraphFolder
    names: Mapping[str, str]
    types: Mapping[str, str]
    counts: Mapping[tuple[str, str], Counter[str]]
    """Types of the two entities → relation → number of triplets."""
    seed: int
    first: tuple[int, int]
    """Date and index in the file of the first triplet that may be asked."""

    @property
    def relations(self) -> list[str]:
        """All relations, sorted."""
        return sorted({relation for counts in self.counts.values() for relation in counts})

    def types_of(self, triplet: Triplet) -> tuple[str, str]:
        """Return the types of a triplet's entities."""
        return entity_type(triplet[0], self.types), entity_type(triplet[2], self.types)


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the triplets as questions, all or a sample.

    Raises:
        UserError: a broken file, fewer than two options, an unknown parameter, nothing to ask.
    """
    setting = link_setting(source)
    survey = surveyed(source, setting)
    path = source.path
    name = source.dataset or (path.name if path.is_dir() else path.name.partition(".")[0])
    selected = _sample_candidates(survey, setting)
    if not selected:
        raise broken(path, _why_nothing_is_asked(survey, setting))
    holding: dict[tuple[str, str], set[str]] = {(head, tail): set() for head, _, tail in selected}
    for part in survey.files.parts:
        for (head, relation, tail), _ in triplets(part):
            if (head, tail) in holding:
                holding[head, tail].add(_relation_key(relation))
    all_relations = survey.relations
    for triplet in selected:
        types = survey.types_of(triplet)
        options = setting.options or len(all_relations)
        yield link_question(
            triplet, all_relations, holding[triplet[0], triplet[2]], f"link/{name}", options, survey.seed, survey, types
        )


def link_setting(source: BenchmarkSource) -> LinkSetting:
    """Parse the parameters of a reference.

    Raises:
        UserError: an invalid parameter.
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


def _word(source: BenchmarkSource, name: str, allowed: tuple[str, ...]) -> str:
    word = source.text(name, allowed[0])
    if word not in allowed:
        raise UserError(f"{name}={word!r} is unknown.{nearest(word, allowed)} Known: {', '.join(allowed)}.")
    return word


def surveyed(source: BenchmarkSource, setting: LinkSetting) -> GraphSurvey:
    """Survey every triplet of a graph once.

    Raises:
        UserError: a broken file.
    """
    graph = graph_folder(source.path)
    names, types = texts_by_id(graph.names), texts_by_id(graph.types)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    dates, asked_count, content = array("q"), 0, 0
    for part in graph.parts:
        is_asked = part == graph.question_triplets
        for triplet, date in triplets(part):
            counts[entity_type(triplet[0], types), entity_type(triplet[2], types)][triplet[1]] += 1
            asked_count += is_asked
            if setting.seed is None:
                content += content_number(triplet)
            if date and is_asked and setting.part == "last_tenth" and date.strip().isdigit():
                dates.append(min(int(date), 1 << 62))
    counts_by_key: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for both_types, relation_counts in counts.items():
        for relation, count in relation_counts.items():
            counts_by_key[both_types][_relation_key(relation)] += count
    seed = content % (1 << 63) if setting.seed is None else setting.seed
    newest, start_index = 0, 0
    if setting.part == "last_tenth" and asked_count >= 10 * setting.sample:
        newest = sorted(dates)[asked_count * 9 // 10] if len(dates) == asked_count else 0
        start_index = 0 if newest else asked_count * 9 // 10
    return GraphSurvey(
        files=graph,
        names=names,
        types=types,
        counts=counts_by_key,
        seed=seed,
        first=(newest, start_index),
    )


def _relation_key(relation: str) -> str:
    """Return the key that identifies a relation: its words if the name contains its database, else the name."""
    return worded(relation) if relation.count("::") > 1 else relation


def _candidates(survey: GraphSurvey, setting: LinkSetting) -> Iterator[Triplet]:
    """Yield the triplets that may be asked, in the file's order, with relations by their keys."""
    date, start_index = survey.first
    between = setting.between
    if setting.unless_untyped and not any(all(types) for types in survey.counts):
        between = None
    keys: dict[str, str] = {}
    for number, ((head, relation, tail), dated) in enumerate(triplets(survey.files.question_triplets)):
        if between and survey.types_of((head, relation, tail)) != between:
            continue
        if number < start_index or (date and int(dated) < date):  # if there are dates, all are numbers
            continue
        key = keys.get(relation) or keys.setdefault(relation, _relation_key(relation))
        head_name, tail_name = entity_name(head, survey.names), entity_name(tail, survey.names)
        if not head_name or not tail_name:
            continue
        if setting.drop_hints and gives_away(worded(key), head_name, tail_name):
            continue
        yield head, key, tail


def gives_away(relation: str, *names: str) -> bool:
    """Return True if the words of a relation occur in the name of one entity: *Treatment of pain*, and *treats*."""
    stems = {word[:_STEM] for word in _WORD.findall(relation.casefold())}
    return bool(stems) and any(stems <= {word[:_STEM] for word in _WORD.findall(name.casefold())} for name in names)


def _sample_candidates(survey: GraphSurvey, setting: LinkSetting) -> list[Triplet]:
    """Return all candidates without repeats, in the file's order, or a sample of them.

    The sample has the smallest shuffle keys. If the seed is computed from the content, the sample is ordered by these
    keys.
    """
    if not setting.sample:
        return list(dict.fromkeys(_candidates(survey, setting)))
    heap: list[tuple[int, int, Triplet]] = []
    kept_triplets: set[Triplet] = set()
    for index, triplet in enumerate(_candidates(survey, setting)):
        if triplet in kept_triplets:
            continue
        shuffle_key = int.from_bytes(lot(survey.seed, *triplet))
        if len(heap) < setting.sample:
            heapq.heappush(heap, (-shuffle_key, index, triplet))
        elif -heap[0][0] > shuffle_key:
            kept_triplets.discard(heapq.heapreplace(heap, (-shuffle_key, index, triplet))[2])
        else:
            continue
        kept_triplets.add(triplet)
    by_shuffle_key = setting.seed is None
    return [triplet for _, _, triplet in sorted(heap, key=lambda entry: -entry[0] if by_shuffle_key else entry[1])]


def _why_nothing_is_asked(survey: GraphSurvey, setting: LinkSetting) -> str:
    if setting.between and setting.between not in survey.counts:
        pairs = ", ".join(sorted(f"{head},{tail}" for head, tail in survey.counts if head and tail)[:8])
        return f'no triplet joins {" and ".join(setting.between)}; between="…" may name {pairs or "no types here"}'
    return "no triplet can be asked: its entities have no names. Put names.tsv (an id, a tab, a name) in its folder"


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
    """Return one triplet as a question with up to `options` relations to choose from.

    `holding` are all relations between its entities. The distractors and their order depend only on `seed` and the
    triplet.
    """
    head, relation, tail = triplet  # the relation is the answer: it may not occur in group or metadata
    wrong_relations = [relation_name for relation_name in relations if relation_name not in holding]
    distractors = sorted(wrong_relations, key=lambda relation_name: lot(seed, *triplet, relation_name))[: options - 1]
    order = sorted([relation, *distractors], key=lambda relation_name: lot(seed, "order", *triplet, relation_name))
    labels = labelled([worded(relation_name) for relation_name in order])
    dataset = benchmark.rpartition("/")[2]
    head_name, tail_name = entity_name(head, survey.names), entity_name(tail, survey.names)
    question = Question(
        id=f"{dataset}/{lot(0, *triplet).hex()[:16]}",
        benchmark=benchmark,
        text=f"In a medical knowledge graph, how is “{head_name}” related to “{tail_name}”?",
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
