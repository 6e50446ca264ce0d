"""JSON Lines and TREC runs: forms that need no library."""

import json

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold
from ragrounds.extensions.exchange.exporters.jsonl import json_lines
from ragrounds.extensions.exchange.exporters.trec import judgements, searched
from ragrounds.extensions.exchange.formats import run_file_name
from ragrounds.extensions.retrieval.trec import read_judgements, read_run, write_run
from tests.compare.making import add_run, questions
from tests.extensions.exchange.conftest import SECRET
from tests.ui.report.making import passage, traced_events


def test_json_lines_hold_everything_and_no_key(store, run):
    lines = list(json_lines(store, [run]))
    found = [json.loads(line) for line in lines]
    assert [one["question"]["id"] for one in found] == ["x/one/0", "x/one/1", "x/one/2"]
    first = found[0]
    assert first["gold"]["answer"] == "A"
    assert first["scores"][0]["value"] == 1.0
    search, asked = first["steps"][0]["calls"][0], first["steps"][1]["calls"][0]
    assert [one["id"] for one in search["passages"]] == ["d1#0", "d2#0", "d1#0"]
    assert asked["reply"]["text"] == "The answer is A."
    assert asked["asked"]["messages"][1]["content"] == "My key: [key]"
    assert SECRET not in b"".join(lines).decode()
    assert found[2]["attempt"]["status"] == "failed"
    assert [line.count(b"\n") for line in lines] == [1, 1, 1]


def test_trec_runs_are_read_again_with_the_same_order(store, run, tmp_path):
    ranked = searched(store, run)
    assert ranked["x/one/0"] == [("d1", 1.0), ("d2", 0.5)]
    assert ranked["x/one/1"] == []
    path = tmp_path / run_file_name(run, ".run")
    write_run(path, ranked, run.agent)
    assert read_run(path) == {"x/one/0": {"d1": 1.0, "d2": 0.5}}


def test_all_searches_stand_in_the_order_they_came(store):
    again = traced_events(store, 7, passages=[passage(5), passage(1)], query="another", first=2)
    both = (*traced_events(store, 3, passages=[passage(2), passage(1)]), *again)
    run = add_run(store, "rag", questions(1), [1], events={0: both})
    assert [id for id, _ in searched(store, run)["x/one/0"]] == ["d2", "d1", "d5"]
    scores = [score for _, score in searched(store, run)["x/one/0"]]
    assert scores == sorted(scores, reverse=True)


def test_a_run_that_searched_nothing_is_refused(store):
    plain = add_run(store, "direct", questions(1, "y/other"), [1])
    with pytest.raises(UserError, match="searched nothing"):
        searched(store, plain)


def test_judgements(tmp_path):
    golds = {"q1": Gold(question_id="q1", answer="A", documents=("d1", "d2")), "q2": Gold(question_id="q2", answer="B")}
    path = tmp_path / "qrels.txt"
    path.write_text("\n".join(judgements(golds)) + "\n")
    assert read_judgements(path) == {"q1": {"d1": 1, "d2": 1}}
    with pytest.raises(UserError, match="blanks"):
        judgements({"q 1": Gold(question_id="q 1", answer="A", documents=("d1",))})
