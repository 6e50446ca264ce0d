"""Options are hidden from what takes our context; where another system's query holds them, table and trace say so."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.records import Noted
from ragrounds.evals.store.store import Store

SYSTEM = """
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from ragrounds.base.records import Question

class Notes(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content="a note", id="n1")]

def with_options(question: Question):
    Notes().invoke(" ".join([question.text, *question.options.values()]))
    return "A"

def without(question: Question):
    Notes().invoke(" ".join([question.text, *list(question.options.values())[:1]]))
    return "A"
"""


def test_a_query_that_holds_options_is_reported(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "searching.py").write_text(SYSTEM)
    monkeypatch.chdir(tmp_path)
    agents = ["./searching.py:with_options", "./searching.py:without"]
    made = rr.run("sample", agents, limit=2, progress=False, home=home, in_process=True)
    with_options, without = made.runs
    said = [note for note in made.comparison.notes if "its own queries contained options of the question" in note]
    assert [note.partition(":")[0] for note in said] == [with_options.id]
    for run, reported in ((with_options, True), (without, False)):
        with Store(home) as store:
            attempt = store.attempt(run, "sample/c22", 0)
        assert attempt is not None
        assert attempt.status == "completed"
        notes = [event.what for event in attempt.events if isinstance(event, Noted)]
        assert ("options_in_query" in notes) is reported
