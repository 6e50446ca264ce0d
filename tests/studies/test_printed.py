"""The row that a paper printed, below the same system's own in Table 1 of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragrounds.agents.agent import open_agent
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.records import Run
from ragrounds.ui.report.page import report_page
from tests.compare.making import add_run, questions

GPT4 = "openai:gpt-4-32k-0613"
DATASETS = ("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq")


def table_1(store: Store, runs: list[Run]) -> str:
    page = "".join(report_page(store, runs, compare(store, runs), attempts=False))
    return re.sub(r"<wbr>|</?span[^>]*>", "", page[page.index('id="abstract"') :].partition("</section>")[0])


def made(store: Store, name: str, agent: str, datasets: tuple[str, ...] = DATASETS, **identity: object) -> Run:
    asked = [one for dataset in datasets for one in questions(3, f"mirage/{dataset}")]
    known = {"models": {"model": f"{GPT4}[temperature=0.0]"}, "agent": agent, **identity}
    return add_run(store, agent, asked, [1, 0, 1] * len(datasets), scorer="mirage", identity=known, id=name)


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
