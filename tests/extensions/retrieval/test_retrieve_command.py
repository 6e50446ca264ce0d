"""`ragrounds retrieve`: from folders and run files to tables and JSON."""

import json

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Query
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.retrieval.search import retrieve as run_queries
from tests.beir_folders import write_beir
from tests.extensions.retrieval.running import run_retrieve


@pytest.fixture
def folder(tmp_path, home):
    texts = ("asthma in children", "statins and cholesterol", "severe [red]asthma[/red] attacks")
    documents = {f"d{n}": text for n, text in enumerate(texts, 1)}
    queries = {"q1": "asthma attacks", "q2": "statins", "q3": "the", "q4": "not judged"}
    return write_beir(tmp_path / "tiny", documents, queries, [("q1", "d1"), ("q2", "d2"), ("q3", "d1")])


def test_one_retriever_as_json(folder):
    result = run_retrieve("--benchmark", f"beir:{folder}", "--retriever", "bm25[analyser=plain]", "--json")
    found = json.loads(result.stdout)
    assert found["MRR@10"] == pytest.approx((0.5 + 1 + 0) / 3)  # d3 stands before d1; a query of stop words has nothing
    assert found["R@10"] == pytest.approx(2 / 3)
    assert found["queries"] == 3
    assert found["queries_without_results"] == 1
    assert found["retriever"] == "bm25[analyser=plain,b=0.4,k1=0.9]"
    assert found["corpus"].startswith("tiny@")
    assert found["index_bytes"] > 0
    assert found["queries_per_second"] > 0
    assert "per_query" not in found


def test_judged_documents_that_the_corpus_lacks_are_counted(folder):
    with (folder / "qrels/test.tsv").open("a") as file:
        file.write("q2\tgone\t1\nq2\tgone-too\t0\n")
    found = json.loads(run_retrieve("--benchmark", f"beir:{folder}", "--retriever", "bm25", "--json").stdout)
    assert found["unknown_documents"] == 1  # one that is not relevant cannot be missed
    assert found["R@10"] == pytest.approx((1 + 0.5 + 0) / 3)


def test_runs_that_are_written_score_the_same_when_read(folder, tmp_path):
    specs = ("--retriever", "bm25", "--retriever", "bm25[analyser=plain,b=1]")
    both = json.loads(
        run_retrieve("--benchmark", f"beir:{folder}", *specs, "--write-runs", tmp_path / "runs", "--json").stdout
    )
    assert len(both["runs"]) == 2
    assert [pair["measure"] for pair in both["comparisons"]] == ["nDCG@10"]
    for entry in both["runs"]:
        again = json.loads(run_retrieve("--run", entry["run"], "--qrels", folder / "qrels/test.tsv", "--json").stdout)
        assert again["nDCG@10"] == pytest.approx(entry["nDCG@10"], abs=1e-12)
        assert again["queries"] == 3


def test_tables(folder):
    result = run_retrieve("--benchmark", f"beir:{folder}", "--retriever", "bm25", "--retriever", "bm25[b=1]")
    for expected in ("bm25[analyser=lucene-english,b=0.4,k1=0.9]", "nDCG@10", "1st - 2nd", "without results"):
        assert expected in result.stdout
    first, _, rest = result.stdout.partition("\n")
    assert first.endswith(
        "has the best nDCG@10, 0.5436; not significantly different from bm25[analyser=lucene-english,b=1,k1=0.9]."
    )
    assert "┃" not in rest  # one style of tables


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "Nothing to score"),
        (["--benchmark", "bier:x"], "beir:PATH"),
        (["--benchmark", "beir:/nowhere"], "no folder"),
        (["--benchmark", "beir:{}", "--split", "tset"], "'test'"),
        (["--benchmark", "beir:{}", "--retriever", "bm52"], "bm25"),
        (["--benchmark", "beir:{}", "--measure", "nDCG"[::-1]], "Unknown measure"),
        (["--benchmark", "beir:{}", "--corpus", "nothing"], "ragrounds index ls"),
    ],
)
def test_what_cannot_be_done_is_told(folder, arguments, reason):
    with pytest.raises(UserError, match=reason):
        run_retrieve(*(argument.format(folder) for argument in arguments))


def test_judged_queries_must_have_a_text(folder):
    (folder / "qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\nq9\td1\t1\n")
    with pytest.raises(UserError, match="'q9'"):
        query_set(f"beir:{folder}", split="dev")


def test_r2med_sets(tmp_path):
    (tmp_path / "query.jsonl").write_text('{"id": "1", "text": "why", "answer": "x"}\n')
    (tmp_path / "qrels.jsonl").write_text('{"q_id": "1", "p_id": "a", "score": 1}\n')
    found = query_set(f"r2med:{tmp_path}")
    assert (found.queries, found.judgements) == ({"1": "why"}, {"1": {"a": 1}})


def test_questions_that_name_documents_are_queries_over_a_corpus(folder, tmp_path):
    rows = [("d1", "asthma in a child"), ("d2", "cholesterol"), ("gone", "statins")]
    lines = [json.dumps({"pmc_id": id, "question": text, "answer": "x"}) for id, text in rows]
    (tmp_path / "asked.jsonl").write_text("\n".join(lines))
    asked = f"ogcarebench:{tmp_path / 'asked.jsonl'}"
    found = json.loads(
        run_retrieve("--benchmark", asked, "--corpus", f"beir:{folder}", "--measure", "R@3", "--json").stdout
    )
    assert (found["queries"], found["unknown_documents"]) == (3, 1)
    assert found["R@3"] == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="with `corpus`"):
        run_retrieve("--benchmark", asked)
    (tmp_path / "own.jsonl").write_text('{"id": "1", "question": "Why?", "answer": "So."}\n')
    with pytest.raises(UserError, match="name no documents"):
        run_retrieve("--benchmark", f"jsonl:{tmp_path / 'own.jsonl'}", "--corpus", f"beir:{folder}")


class _Chunks:
    """Ten chunks of three documents."""

    spec = "chunks"
    corpus = "c@1"

    async def search(self, query, k):
        return [
            Passage(id=f"c{n}", document=f"d{n // 4}", title="", text=query, corpus="c", score=10.0 - n, rank=n + 1)
            for n in range(10)
        ][:k]


async def test_documents_score_by_their_best_chunk():
    found = await run_queries(_Chunks(), {"q": "x"}, 2)
    assert found.run == {"q": [("d0", 10.0), ("d1", 6.0)]}
    assert (await run_queries(_Chunks(), {"q": "x"}, 50)).run["q"] == [("d0", 10.0), ("d1", 6.0), ("d2", 2.0)]


async def test_queries_can_be_rewritten_and_results_left_out():
    asked = []

    def keep(query, passage):
        asked.append((query, passage.text))
        return passage.document != "d0"

    found = await run_queries(_Chunks(), {"q": "x"}, 1, replacements={"q": Query("x and more")}, keep=keep)
    assert found.run == {"q": [("d1", 6.0)]}
    assert set(asked) == {("q", "x and more")}
    assert found.left_out == 4


def test_the_guard_is_shown_beside(folder, tmp_path):
    (tmp_path / "guard.jsonl").write_text('{"query": "q1", "documents": ["d3"]}\n')
    done = run_retrieve("--benchmark", f"beir:{folder}", "--guard", tmp_path / "guard.jsonl", "--json")
    plain, guarded = json.loads(done.stdout)["runs"]
    assert guarded["retriever"] == plain["retriever"] + " guarded"
    assert (plain["left_out"], guarded["left_out"]) == (0, 1)
    assert guarded["MRR@10"] > plain["MRR@10"]
    near = json.loads(run_retrieve("--benchmark", f"beir:{folder}", "--guard-near", "1.0", "--json").stdout)
    assert near["runs"][1]["left_out"] == 1  # the query "statins" stands whole in d2
    (tmp_path / "guard.jsonl").write_text('{"query": "q9", "documents": ["d3"]}\n')
    with pytest.raises(UserError, match="'q9'"):
        run_retrieve("--benchmark", f"beir:{folder}", "--guard", tmp_path / "guard.jsonl")


def test_a_model_writes_the_queries_once(folder, server):
    options = ["--benchmark", f"beir:{folder}", "--query-generation", "hyde", "--model", "openai:plain"]
    before = server.stats()["answered"]
    done = run_retrieve(*options, "--base-url", server.url, "--json")
    assert done.exit_code == 0, done.stderr
    plain, generated = json.loads(done.stdout)["runs"]
    assert generated["retriever"] == plain["retriever"] + " after hyde"
    assert (generated["generation_failed"], generated["queries"]) == (0, plain["queries"])
    asked = server.stats()["answered"] - before
    assert asked > 0
    again = run_retrieve(*options, "--base-url", server.url, "--json")
    assert json.loads(again.stdout)["runs"][1]["nDCG@10"] == generated["nDCG@10"]
    assert server.stats()["answered"] - before == asked


def test_queries_that_nothing_could_be_written_for_are_searched_as_they_are(folder, server):
    options = ["--query-generation", "hyde", "--model", "openai:fault-empty-always", "--base-url", server.url]
    done = run_retrieve("--benchmark", f"beir:{folder}", *options, "--json")
    plain, generated = json.loads(done.stdout)["runs"]
    assert generated["generation_failed"] == plain["queries"]
    assert generated["nDCG@10"] == plain["nDCG@10"]


def test_query_generation_needs_a_model(folder):
    with pytest.raises(UserError, match="`model`"):
        run_retrieve("--benchmark", f"beir:{folder}", "--query-generation", "hyde")


def test_a_query_s_own_document_is_not_scored_as_in_beir(tmp_path, home):
    made = tmp_path / "own"
    (made / "qrels").mkdir(parents=True)
    rows = [("a", "school uniforms should be banned"), ("b", "uniforms in school help"), ("c", "cats")]
    (made / "corpus.jsonl").write_text("\ufeff" + "".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in rows))
    (made / "queries.jsonl").write_text("\ufeff" + json.dumps({"_id": "a", "text": rows[0][1]}) + "\n")
    (made / "qrels/test.tsv").write_text("\ufeffquery-id\tcorpus-id\tscore\na\tb\t1\n")
    result = run_retrieve("--benchmark", f"beir:{made}", "--measure", "nDCG@1", "--json")
    assert json.loads(result.stdout)["nDCG@1"] == 1.0
    assert "1 queries found the document with their own id" in result.stderr
    run = tmp_path / "x.run"
    run.write_text("a Q0 a 1 2.0 t\na Q0 b 2 1.0 t\n")
    with_family = run_retrieve("--benchmark", f"beir:{made}", "--run", run, "--measure", "nDCG@1", "--json")
    assert json.loads(with_family.stdout)["nDCG@1"] == 1.0
    qrels = tmp_path / "x.qrels"
    qrels.write_text("a 0 b 1\n")
    alone = run_retrieve("--qrels", qrels, "--run", run, "--measure", "nDCG@1", "--json")
    assert json.loads(alone.stdout)["nDCG@1"] == 0.0  # no family, no rule


@pytest.mark.parametrize(("query", "judged"), [("01", "1"), ("q1", "Q1"), ("beir/1", "1")])
def test_a_run_without_a_judged_query_is_an_error(tmp_path, query, judged):
    (tmp_path / "x.run").write_text(f"{query} Q0 d 1 2.0 t\n")
    (tmp_path / "x.qrels").write_text(f"{judged} 0 d 1\n")
    with pytest.raises(UserError, match=f"'{query}', and the first of the judgements '{judged}'"):
        run_retrieve("--qrels", tmp_path / "x.qrels", "--run", tmp_path / "x.run", "--measure", "nDCG@10")


def test_the_sample_is_searched_in_its_own_documents(tmp_path):
    own, named = (query_set("sample", corpus=corpus, home=tmp_path) for corpus in (None, "sample"))
    assert (own.corpus, own.judgements) == ("sample", named.judgements)
    assert len(own.judgements) == 107
