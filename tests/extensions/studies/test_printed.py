"""The row that a paper printed, below the same system's own in Table 1 of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.base.records import Run
from ragrounds.evals.compare.comparison import RunFigures, compare
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.store.store import Store
from ragrounds.extensions.studies import printed
from ragrounds.extensions.studies.study import open_study
from ragrounds.ui.report.page import PageOptions, report_page
from tests.compare.making import add_run, questions

GPT4 = "openai:gpt-4-32k-0613"
DATASETS = ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")


def table_1(store: Store, runs: list[Run]) -> str:
    page = "".join(report_page(store, runs, compare(store, runs, common=len(runs) > 1), PageOptions(attempts=False)))
    return re.sub(r"<wbr>|</?span[^>]*>", "", page[page.index('id="abstract"') :].partition("</section>")[0])


def made(
    store: Store,
    name: str,
    agent: str,
    datasets: tuple[str, ...] = DATASETS,
    right: tuple[object, ...] = (1, 0, 1),
    **identity: object,
) -> Run:
    asked = [one for dataset in datasets for one in questions(len(right), f"mirage/{dataset}")]
    known = {"models": {"model": f"{GPT4}[temperature=0.0]"}, "agent": agent, **identity}
    return add_run(store, agent, asked, [*right] * len(datasets), scorer="mirage", identity=known, id=name)


@pytest.fixture
def agent() -> str:
    return open_agent("direct_cot[profile=medrag]", model=GPT4).spec


def test_the_same_system_has_the_papers_row_below_its_own(tmp_path: Path, agent: str) -> None:
    with Store(tmp_path) as store:
        shown = table_1(store, [made(store, "one", agent)])
        assert re.search(
            r'<tr class="under"><th scope="row">  published \(arXiv 2402.13178, Table 6: GPT-4, CoT\)', shown
        )
        assert '<td class="right">73.44</td>' in shown
        assert "69.88" not in shown  # a dataset's own
        assert ">66.67<" in shown, "ours stays as it is"
        only = table_1(store, [made(store, "two", agent, ("medmcqa",))])
        assert '<td class="right">69.88</td>' in only
        assert "73.44" not in only


def test_a_system_that_differs_in_anything_has_none(tmp_path: Path, agent: str) -> None:
    rag = open_agent("vanilla_rag[profile=medrag,top_k=32]", model=GPT4).spec
    corpora = "+".join(f"{name}@1a2b" for name in ("textbooks", "pubmed", "statpearls", "wikipedia"))
    with Store(tmp_path) as store:
        assert ">79.97<" in table_1(store, [made(store, "rag", rag, corpus=corpora)])
        for place, run in enumerate(
            (
                made(store, "corpus", rag, corpus="textbooks@1a2b"),
                made(
                    store,
                    "parameter",
                    open_agent("vanilla_rag[profile=medrag,top_k=8]", model=GPT4).spec,
                    corpus=corpora,
                ),
                made(store, "plain", "direct_cot"),
                made(store, "hostile", "</script>[x", models={"model": "</script>:"}),
                made(store, "model", agent, models={"model": "openai:gpt-4o"}),
                made(store, "drawn", agent, selection={"of": 100, "seed": 0}),
                made(store, "some", agent, ("mmlu", "medqa")),
            )
        ):
            assert "published (" not in table_1(store, [run]), place


def test_a_part_has_none(tmp_path: Path, agent: str) -> None:
    one = ("medmcqa",)
    with Store(tmp_path) as store:
        whole, part = made(store, "whole", agent, one), made(store, "part", "direct", one, (1, 0))
        assert "published (" not in table_1(store, [whole, part]), "compared on what both have"
        assert "published (" not in table_1(store, [made(store, "killed", agent, one, (1, ..., 0))])


@pytest.mark.parametrize(
    ("study", "judge", "value"),
    [
        ("ogcarebench-table4", "openai:gpt-4o-2024-05-13[temperature=0]", 44.7),
        ("ogcarebench-table4", "openai:gpt-4.1-mini", None),
        ("ogcarebench-table8", "openai:gpt-4o-2024-05-13", None),  # of one subject
    ],
)
def test_the_judge_and_the_questions_are_the_papers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, study: str, judge: str, value: float | None
) -> None:
    chosen = [entry for entry in printed._studies() if entry[0] == open_study(study)]
    assert len(chosen) == 1
    monkeypatch.setattr(printed, "_studies", lambda: chosen)
    figure = Figure(value=0.5, n=3, missing=0)
    with Store(tmp_path) as store:
        agent = open_agent("direct[profile=ogcarebench]", model="openai:gpt-5").spec
        run = add_run(store, agent, questions(3, "ogcarebench"), [1, 0, 1])
    line = RunFigures(
        run=run.id, agent=agent, datasets={"ogcarebench": figure}, overall=figure, outcomes={},
        judges=ScoreJudges((judge,)),
    )  # fmt: skip
    found = printed.STUDIES.find(run, ("openai:gpt-5",), line, "equivalent-published")
    assert (found.value if found else None) == value
