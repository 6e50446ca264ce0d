"""Items of `consensus-labels`: queries, each with the pair of names that it may make a synonym triple of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ragrounds.build.intake import INTAKE, Dropped
from ragrounds.build.labels.synonyms import Synonym, synonym_in
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.catalogue import load
from ragrounds.records import Gold, Question
from ragrounds.tools.corpora import CorpusSource, passages


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


def items_of(queries: Sequence[Question], synonyms: Sequence[Synonym]) -> tuple[list[Item], list[Dropped]]:
    """Items, and the queries that are none: those that say what another one says word for word."""
    dropped: list[Dropped] = []
    items = list(_items(queries, synonyms, dropped))
    return items, dropped


def _items(queries: Sequence[Question], synonyms: Sequence[Synonym], dropped: list[Dropped]) -> Iterator[Item]:
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
