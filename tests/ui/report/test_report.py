"""The report as a file: what it holds, what it hides, and the command that writes it."""

import base64
import gzip
import json
import re

import pytest
from msgspec import structs

from ragrounds.api import compare as api
from ragrounds.base.errors import UserError
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.ui.report.methods import methods
from ragrounds.ui.report.page import report_page
from tests.compare.making import add_run, add_scores, questions
from tests.conftest import succeeded
from tests.ui.report.making import traced_events


def blocks(path):
    """The page's data blocks, unpacked."""
    page = path.read_text(encoding="utf-8")
    found = re.findall(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>', page)
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in found}


def test_nothing_in_it_points_outside(written, store):
    run = add_run(store, "one", questions(3), [1, 0, 1])
    page = written([run]).read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.findall(r"""(?:src|href)\s*=\s*(?!["']?#)\S+""", page.partition("<script>")[0])
    assert not re.findall(r"https?://", page)


def test_all_attempts_are_inside_and_long_texts_once(written, store):
    answer = "The very same long answer. " * 20
    run = add_run(store, "one", questions(5), [1, 0, 1, ..., 1], texts=dict.fromkeys(range(5), answer))
    found = blocks(written([run]))
    assert found["about"] == {"runs": [["one-run", "one"]], "chunks": 1}
    assert len(found["index"]["columns"]["question"]) == 4
    chunk = found["chunk-0"]
    assert chunk["texts"].count(answer) == 1
    assert len(chunk["attempts"]) == 4


def test_both_costs_of_an_attempt_are_under_their_names(tmp_path, uneven):
    run = uneven.runs["direct"]
    found = blocks(api.report(run.id, tmp_path / "report.html", home=uneven.home))
    with Store(uneven.home) as opened:
        stored = {attempt.question_id: attempt for attempt in opened.attempts(run)}
    columns, questions = found["index"]["columns"], found["index"]["questions"]
    ids = [questions[number][0] for number in columns["question"]]
    for column, field in (("paid", "cost_paid"), ("cost", "cost_uncached")):
        assert columns[column] == pytest.approx([getattr(stored[id], field) for id in ids])
        inside = {attempt["id"]: attempt[field] for attempt in found["chunk-0"]["attempts"]}
        assert inside == pytest.approx({id: getattr(stored[id], field) for id in ids})


def test_a_page_that_no_mail_takes_is_sent_without_attempts_and_whole_beside(store, tmp_path, monkeypatch):
    add_run(store, "one", questions(5), [1, 0, 1, 0, 1])
    monkeypatch.setattr(api, "MOST_SENT", 1000)
    page = api.report("one-run", tmp_path / "my report.html", home=store.home)
    whole = tmp_path / "my report-attempts.html"
    assert (blocks(page), len(blocks(whole)["index"]["columns"]["question"])) == ({}, 5)
    assert '<a href="my%20report-attempts.html">Attempts</a>' in page.read_text(encoding="utf-8")
    assert '<a href="#attempts">Attempts</a>' in whole.read_text(encoding="utf-8")
    page.unlink()
    with pytest.raises(UserError, match=r"report-attempts\.html already exists"):
        api.report("one-run", page, home=store.home)
    assert not page.exists()
    assert api.report("one-run", page, home=store.home, force=True) == page


def test_the_index_points_at_the_right_attempts(written, store):
    asked = questions(40)
    texts = {index: f"Answer number {index} " + "with many words " * 3000 for index in range(40)}
    run = add_run(store, "one", asked, [1] * 40, texts=texts)
    found = blocks(written([run]))
    assert found["about"]["chunks"] > 1
    columns = found["index"]["columns"]
    for row, index in enumerate(columns["question"]):
        chunk = found[f"chunk-{columns['chunk'][row]}"]
        attempt = chunk["attempts"][columns["place"][row]]
        assert attempt["id"] == found["index"]["questions"][index][0] == asked[row].id
        assert chunk["texts"][-1 - attempt["text_of"]].startswith(f"Answer number {row} ")


def test_the_index_shows_the_score_of_a_scorer_that_had_something_to_score_by(written, store):
    asked = [structs.replace(one, kind="long", options={}) for one in questions(2)]
    run = add_run(store, "one", asked, [None, None], scorer="facts")
    add_scores(store, run, "rouge-l", {one.id: 0.25 for one in asked})
    path = written([run])
    assert blocks(path)["index"]["columns"]["score"] == [0.25, 0.25]
    assert ">25.00<" in path.read_text(encoding="utf-8")
    judged = add_run(store, "two", asked, [None, None], scorer="equivalent")
    add_scores(store, judged, "rouge-l", {one.id: 0.25 for one in asked})
    assert blocks(written([judged]))["index"]["columns"]["score"] == [None, None]


def test_keys_do_not_get_into_it(written, store, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "plain-looking-value-of-a-key")
    hidden = "sk-proj-abcdefghijklmnopqrstuvwx"
    texts = {0: f"My key is {hidden} and plain-looking-value-of-a-key. Skepticism is fine."}
    identity = {"models": {"model": "openai:x[base_url=http://user:verysecret@host/v1]"}, "note": hidden}
    events = {1: traced_events(store, 5, prompt=f"Authorization: Bearer {hidden}")}
    run = add_run(store, "one", questions(2), [1, 0], texts=texts, identity=identity, events=events)
    path = written([run])
    everything = path.read_text(encoding="utf-8") + json.dumps(blocks(path))
    for secret in (hidden, "plain-looking-value-of-a-key", "verysecret"):
        assert secret not in everything
    assert "Skepticism is fine" in everything
    assert "[key]" in everything


def test_with_runs_that_differ_the_list_holds_what_is_compared(tmp_path, store):
    asked = questions(4)
    runs = [add_run(store, "one", asked, [1, 0, 1, 0]), add_run(store, "two", asked[1:], [[1, 1]] * 3, epochs=2)]
    path = tmp_path / "common.html"
    path.write_text("".join(report_page(store, runs, compare(store, runs, common=True))), encoding="utf-8")
    found = blocks(path)["index"]
    assert [question[0] for question in found["questions"]] == ["x/one/1", "x/one/2", "x/one/3"]
    assert len(found["columns"]["question"]) == 6


def test_without_attempts_there_is_no_data_and_a_script_for_tables_alone(written, store):
    run = add_run(store, "one", questions(2), [1, 0])
    page = written([run], attempts=False).read_text(encoding="utf-8")
    assert page.count("<script>") == page.count("<script") == 1
    assert "startAttempts" not in page
    assert 'id="filters"' not in page
    assert page.rstrip().endswith("</html>")


def test_methods_say_what_was_recorded(store):
    identity = {
        "graph": "vanilla_rag",
        "models": {"model": "openai:m", "reader": "openai:r"},
        "retriever": "bm25",
        "corpus": "textbooks@abc",
        "prompts": {"choice/cot": "0123456789abcdef"},
        "selection": {"seed": 7, "limit": 10, "per_dataset": None, "of": 100},
    }
    asked = questions(4, "x/a") + questions(4, "x/b")
    runs = [
        add_run(store, "one", asked, [1] * 8, identity=identity),
        add_run(store, "two", asked, [0] * 8, identity=identity),
        add_run(store, "three", asked, [0] * 8, origin="imported", identity={"model": "gpt", "setting": "cot"}),
    ]
    runs = [structs.replace(run, version="9.9") for run in runs]
    comparison = compare(store, runs)
    text = "\n".join(methods(comparison, runs, ["strict"]))
    for said in (
        *("We evaluated 3 systems with ragrounds 9.9 on 8 questions", "2 datasets (x/a, x/b)", "seed 7"),
        *("reader: openai:r", "retriever bm25 over textbooks@abc"),
        *("imported (setting cot, model gpt)",),
        *("several datasets is the unweighted mean over them", "Holm's correction over the 3 pairs"),
        *(runs[0].questions[:16],),
    ):  # fmt: skip
        assert said in text, said


def test_the_command_writes_whole_files_and_never_over_others(command, home, tmp_path):
    assert command("run", "--display", "none", "--limit", "6").returncode == 0
    out = tmp_path / "there.html"
    succeeded(command("report", "direct", "vanilla_rag[top_k=8]", "--out", str(out), "--group-by", "subject"))
    assert len(blocks(out)["index"]["columns"]["question"]) == 12
    before = out.read_bytes()
    again = command("report", "direct", "--out", str(out))
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert out.read_bytes() == before
    assert command("report", "direct", "--out", str(out), "--force", "--no-attempts").returncode == 0
    assert len(out.read_bytes()) < len(before)
    nowhere = command("report", "direct", "--out", str(tmp_path / "no" / "folder.html"))
    assert nowhere.returncode == 2
    assert "Traceback" not in nowhere.stderr
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".there")]


def test_a_failure_in_the_middle_leaves_no_file(tmp_path):
    from ragrounds.api.workspace import replaced

    def fail():
        with replaced(tmp_path / "out.html", force=False) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
