"""reason_in_documents as a graph of its own, inside a graph that only searches."""

import pytest

from tests.graphs.playing import LONG, Shelf, passage, play

OWN = """
from langgraph.graph import END, START, StateGraph
from ragrounds.base.contracts import Context
from ragrounds.graphs import reason_in_documents
from ragrounds.graphs.user_graph import agent

class State(reason_in_documents.State, total=False):
    question: str
    answer: str

@agent(searches=True, parameters={"top_k": 2, "document_characters": 0}, input={"query": "question"}, output="answer")
def build():
    async def answer(state):
        return {"answer": state["information"]}
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("look", reason_in_documents.build().compile())
    graph.add_node("answer", answer)
    graph.add_edge(START, "look")
    graph.add_edge("look", "answer")
    graph.add_edge("answer", END)
    return graph
"""


@pytest.fixture
def agent(tmp_path):
    file = tmp_path / "reading.py"
    file.write_text(OWN)
    return f"{file}:build"


async def test_any_graph_can_take_it_in(agent):
    played = await play(agent, ["Final information: Heparin."], LONG)
    assert played.nodes == ["look", "search", "read", "distil", "answer"]
    assert played.attempt.text == "Heparin."
    assert played.shelf.queries == [LONG.text]
    assert "### Reasoning so far\n(none)" in played.shown(0)


NOTHING = "No helpful information found."


@pytest.mark.parametrize(
    ("said", "information", "notes"),
    [
        ("**Final Information**\n\nHeparin acts at once.", "Heparin acts at once.", []),
        ("Some thoughts. FINAL INFORMATION: Heparin.", "Heparin.", []),
        ("**Final information:** Heparin.", "Heparin.", []),
        ("The final information is thin here. **Final Information** Heparin.", "Heparin.", []),
        (
            "Final information: the final information on the dose is 5 mg.",
            "the final information on the dose is 5 mg.",
            [],
        ),
        ("Final Information\nHeparin.", "Heparin.", []),
        ("<think>Final information: no</think>Final information: yes", "yes", []),
        ("最终信息：肝素。", "肝素。", []),
        ("Heparin acts at once.", NOTHING, ["no_information"]),
        ("Final information:", NOTHING, ["no_information"]),
        ("", NOTHING, ["no_information"]),
    ],
)
async def test_the_marker_is_found_leniently(agent, said, information, notes):
    played = await play(agent, [said], LONG)
    assert played.attempt.text == information
    assert played.notes == notes


async def test_the_reader_s_documents_fit_its_window(agent):
    shelf = Shelf([passage(1, "zfact " * 5000), passage(2, "zmore " * 100)])
    played = await play(agent, ["Final information: x"], LONG, window=3000, shelf=shelf)
    assert played.attempt.status == "completed"
    assert 500 < played.shown(0).count("zfact") < 2000
    assert "cut" in played.notes


async def test_nothing_found_asks_nobody(agent):
    played = await play(agent, [], LONG, shelf=Shelf(barren=(LONG.text,)))
    assert played.attempt.text == NOTHING
    assert played.notes == ["nothing_found"]
