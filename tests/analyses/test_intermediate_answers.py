"""R2MED's Figure 5, from the wire to the picture: what a model writes for a query is judged, and searched with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ragrounds as rr
from tests.servers.grader_server import grader_server
from tests.servers.process import Running
from tests.servers.scripted_http import Script, scripted

TOPICS = ("gout", "asthma", "sepsis", "measles", "anemia", "stroke", "cancer", "fever")
WRITERS = {"weak": 1, "fair": 4, "strong": 7}
"""Model → how many of the topics it knows."""


@pytest.fixture(scope="module")
def grader() -> Iterator[Running]:
    with grader_server() as running:
        yield running


@pytest.fixture
def sets(tmp_path: Path) -> list[Path]:
    """Two sets in R2MED's form; the documents share no word with the queries."""
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        queries = [
            {"id": f"q{n}", "text": f"Which illness has the signs {name}{n}?", "answer": topic}
            for n, topic in enumerate(TOPICS)
        ]
        corpus = [{"id": f"d{n}", "text": f"{topic} and its care"} for n, topic in enumerate(TOPICS)]
        qrels = [{"q_id": f"q{n}", "p_id": f"d{n}", "score": 1} for n in range(len(TOPICS))]
        for file, rows in (("query", queries), ("corpus", corpus), ("qrels", qrels)):
            (folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        made.append(folder)
    return made


def _writer(knows: int) -> Script:
    def write(prompt: str, before: int) -> str:
        number = int(re.findall(r"signs (?:one|two)(\d)", prompt)[-1])
        return f"This is {TOPICS[number]}." if number < knows else "Nobody can say."

    return write


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_written_texts_are_judged_and_searched_with(sets: list[Path], grader: Running) -> None:
    agent = "query_generation[query_generation=lamer,documents=10]"
    runs: list[str] = []
    for name, knows in WRITERS.items():
        with scripted(_writer(knows)) as server:
            for folder in sets:
                given = {"corpus": f"r2med:{folder}", "model": f"openai:{name}", "base_url": server.url}
                runs += rr.run(f"r2med:{folder}", agent, alias=name, **given).ids
    for of_one_set in (runs[::2], runs[1::2]):
        rr.judge(of_one_set, "equivalence", judges="openai:grader", base_url=grader.url)
    made = rr.analyse("quality", runs, scorer="equivalent").result
    systems, single = made.table.rows[: len(WRITERS)], made.table.rows[len(WRITERS) :]
    assert [row[0] for row in single] == runs
    for (label, ndcg, figure, questions), (name, knows) in zip(systems, WRITERS.items(), strict=True):
        assert name in label
        assert (figure.value, questions) == (knows / len(TOPICS), 2 * len(TOPICS))
        # What is right finds its document first, what is not finds none, whatever LameR's first search found.
        assert ndcg == pytest.approx(knows / len(TOPICS))
    assert "correlation over systems: 1.00" in made.table.note
    assert "the text that was written" in made.table.note
    assert "of intermediate answers" in made.table.title
    assert len(made.picture.marks) == len(WRITERS)


@pytest.mark.usefixtures("home")
def test_a_run_that_never_searched_with_its_text_is_refused(sets: list[Path]) -> None:
    with scripted(_writer(3)) as server:
        run = rr.run(
            f"r2med:{sets[0]}", "query_generation[query_generation=lamer]", corpus=f"r2med:{sets[0]}",
            model="openai:m", base_url=server.url, limit=2,
        )  # fmt: skip
    with pytest.raises(rr.UserError, match="documents=10"):
        rr.analyse("quality", run, scorer="rouge-l")
