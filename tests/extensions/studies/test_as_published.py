"""Agents of shipped studies beside their profile: a cell's is the paper's, but for what its row or column varies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from ragrounds.agents import profiles
from ragrounds.agents.agent import Agent, open_agent
from ragrounds.base.specs import Spec, parse
from ragrounds.extensions.studies.cells import agent_text
from ragrounds.extensions.studies.study import Study, StudyCell, open_study, shipped_studies
from ragrounds.tools.retrievers.fusion import MEDRAG

WHOLE = {
    "mirage-figure5": {"top_k"},  # the first 64 snippets
    "mrag-figure3": {"retriever"},  # RRF, as its caption says
    "ogcarebench-figure4": {"top_k"},  # three reports
    "ogcarebench-table14": {"top_k"},  # the same
}
"""What a whole figure or table has in another way than its paper's default."""
KEYS = {"k": "top_k", "retriever": "retriever", "query_generation": "query_generation"}


def profiled(study: Study) -> list[StudyCell]:
    return [cell for cell in study.cells() if cell.kind != "retrieve" and "profile" in cell.settings]


STUDIES = [name for name in shipped_studies() if profiled(open_study(name))]


def agents(cell: StudyCell) -> tuple[Agent, Agent]:
    """The cell's, and the one that its profile gives for the same name and model."""
    profile, model = str(cell.settings["profile"]), str(cell.settings["model"])
    text = agent_text(cell.settings)
    return opened(text, profile, model), opened(parse(text).name, profile, model)


@cache
def opened(text: str, profile: str, model: str) -> Agent:
    return open_agent(profiles.apply(text, profile, model))


def everything(agent: Agent) -> dict[str, object]:
    card = agent.card
    return {**agent.parameters, "retriever": card.retriever, "prompts": card.prompts, "only": card.question_only}


def bm25s(spec: Spec) -> Iterator[Spec]:
    """Every BM25 in a retriever, those of the presets too."""
    whole = MEDRAG[spec.name].having(**spec.parameters) if spec.name in MEDRAG else spec
    if whole.name == "bm25":
        yield whole
    for value in whole.parameters.values():
        if isinstance(value, Spec) or value == "bm25":
            yield from bm25s(value if isinstance(value, Spec) else Spec("bm25"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_cell_s_agent_is_its_profile_s_but_for_what_its_row_or_column_varies(name: str) -> None:
    study = open_study(name)
    own = {line.name: line.settings for line in (*study.rows, *study.columns)}
    for cell in profiled(study):
        said = {key for line in (cell.row, cell.column) for key in own[line]}
        varied = {KEYS[key] for key in said & KEYS.keys()} | WHOLE.get(name, set())
        varied |= set(parse(str(cell.settings["agent"])).parameters) if "agent" in said else set()
        mine, published = map(everything, agents(cell))
        assert {key for key, value in mine.items() if value != published[key]} <= varied, cell.name


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("mirage-")])
def test_a_retriever_that_a_row_names_has_the_bm25_of_its_profile(name: str) -> None:
    wanted = parse("bm25[lengths=lucene,ties=id]")
    searching = 0
    for cell in profiled(open_study(name)):
        mine, _ = agents(cell)
        if not mine.card.searches:
            continue
        named = parse(mine.card.retriever)
        found = list(bm25s(named))
        alone = str(named.parameters.get("of")) in ("contriever", "specter", "medcpt")  # vectors without BM25
        assert set(found) == (set() if alone else {wanted}), cell.name
        assert named.name in ("joined", "rrf2", "rrf4"), cell.name  # hits of several corpora as the program joins them
        searching += 1
    assert searching


def test_an_agent_that_does_not_search_gets_no_retriever_of_its_profile() -> None:
    assert "retriever" not in profiles.apply("cot_refine", "mrag")
    assert "retriever=bge-base-en" in profiles.apply("cot_refine_rag", "mrag")
