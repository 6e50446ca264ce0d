"""Many retrievers on many sets: one table, means of others beside, differences over all queries."""

import json

import pytest
import typer
from typer.testing import CliRunner

from ragrounds.api.retrieval_bench import retrieval_bench
from ragrounds.cli.retrieve import retrieve
from ragrounds.errors import UserError
from ragrounds.evals.retrieval.bench import compare_over_sets
from ragrounds.evals.retrieval.published import read_published, same_set
from ragrounds.evals.retrieval.search import retrieve as run_queries
from ragrounds.records import Passage

_app = typer.Typer()
_app.command()(retrieve)
SPECS = ("bm25[b=0]", "bm25[b=1]")


@pytest.fixture
def sets(tmp_path, monkeypatch):
    monkeypatch.setenv("RAGROUNDS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAGROUNDS_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("COLUMNS", "120")
    made = []
    for name, words in (("one", "asthma statins gout sepsis"), ("two", "insulin heparin lithium warfarin aspirin")):
        folder = tmp_path / name
        (folder / "qrels").mkdir(parents=True)
        rows = [{"_id": f"d{n}", "text": f"{word} " * (n + 1) + "care"} for n, word in enumerate(words.split())]
        rows += [{"_id": f"n{n}", "text": f"{word} {word} in long words that say little more {'and more ' * n}"}
                 for n, word in enumerate(words.split())]  # fmt: skip
        (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        asked = [{"_id": f"q{n}", "text": word} for n, word in enumerate(words.split())]
        (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
        judged = "".join(f"q{n}\t{'d' if n % 2 else 'n'}{n}\t1\n" for n in range(len(asked)))
        (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
        made.append(folder)
    return made


def _mteb(folder, name="their-model", **tasks):
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "model_meta.json").write_text(json.dumps({"name": f"org/{name}"}))
    for task, value in tasks.items():
        scores = {"test": [{"ndcg_at_10": value, "hf_subset": "default", "main_score": value}]}
        (folder / name / f"{task}.json").write_text(json.dumps({"task_name": task, "scores": scores}))
    return folder


def test_one_table_has_every_retriever_and_set(sets, tmp_path):
    found = retrieval_bench([f"beir:{each}" for each in sets], SPECS, published=_mteb(tmp_path / "m", ONE=0.9, Two=0.5))
    assert found.sets == ("one", "two")
    ours, theirs = found.rows[:2], found.rows[2]
    for row in ours:
        single = {name: found.by_set[name].entries for name in found.sets}
        wanted = [next(e for e in single[name] if e["retriever"] == row.retriever)["nDCG@10"] for name in found.sets]
        assert list(row.values.values()) == pytest.approx(wanted)
        assert row.mean == pytest.approx(sum(wanted) / 2), "a set counts as much as any other"
        assert row.queries_per_second > 0
    assert (theirs.retriever, theirs.published) == ("org/their-model", True)
    assert theirs.mean == pytest.approx(0.7)
    pair = found.comparisons[0]
    assert pair.difference == pytest.approx(ours[0].mean - ours[1].mean)
    assert (pair.queries, pair.sets) == (9, 2)
    assert len(found.comparisons) == 1, "means of others have no tests"


def test_the_command_prints_and_gives_the_same(sets):
    options = [word for each in sets for word in ("--benchmark", f"beir:{each}")]
    options += [word for spec in SPECS for word in ("--retriever", spec)]
    shown = CliRunner().invoke(_app, options, catch_exceptions=False).stdout
    assert "has the best mean nDCG@10 over 2 sets" in shown.splitlines()[0]
    held = json.loads(CliRunner().invoke(_app, [*options, "--json"], catch_exceptions=False).stdout)
    for row in held["rows"]:
        assert f"{row['mean']:.4f}" in shown
    assert "insulin" in shown, "the text of a query that differs"


def test_the_headline_is_of_what_was_searched_and_other_sets_are_told(sets, tmp_path):
    options = [word for each in sets for word in ("--benchmark", f"beir:{each}")]
    published = _mteb(tmp_path / "m", One=1.0, Two=1.0, Three=1.0)
    done = CliRunner().invoke(_app, [*options, "--published", str(published)], catch_exceptions=False)
    assert "over 2 sets, of those searched here, " in done.stdout.splitlines()[0]
    assert "Published results of Three were passed over" in done.stderr


def test_runs_of_one_tag_are_one_row(sets, tmp_path):
    names = [f"beir:{each}" for each in sets]
    written = retrieval_bench(names, ["bm25"], write_runs=tmp_path / "runs")
    files = {name: next((tmp_path / "runs" / name).iterdir()) for name in written.sets}
    renamed = []
    for name, file in files.items():
        lines = [line.rsplit(" ", 1)[0] + " theirs" for line in file.read_text().splitlines()]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
        renamed.append(f"{name}={tmp_path / f'{name}.run'}")
    found = retrieval_bench(names, ["bm25"], trec_runs=renamed)
    assert [row.retriever for row in found.rows] == [written.rows[0].retriever, "theirs"]
    assert found.rows[1].values == pytest.approx(written.rows[0].values)
    assert found.comparisons[0].p == 1.0
    with pytest.raises(UserError, match="SET=FILE"):
        retrieval_bench(names, ["bm25"], trec_runs=renamed[0].partition("=")[2])


def test_two_sets_of_one_name_are_refused(sets):
    with pytest.raises(UserError, match="called 'one'"):
        retrieval_bench([f"beir:{sets[0]}", f"beir:{sets[0]}/"], ["bm25"])


def test_one_set_has_published_means_beside(sets, tmp_path):
    folder = _mteb(tmp_path / "m", One=0.875)
    options = ("--benchmark", f"beir:{sets[0]}", "--published", str(folder / "their-model/One.json"))
    shown = CliRunner().invoke(_app, [*options, "--retriever", "bm25"], catch_exceptions=False).stdout
    assert "org/their-model (published)" in shown
    assert "0.8750" in shown
    with pytest.raises(UserError, match="Zwei: expected results of one"):
        CliRunner().invoke(_app, [*options[:3], str(_mteb(tmp_path / "z", Zwei=1.0))], catch_exceptions=False)


def test_older_result_files_and_garbage(tmp_path):
    (tmp_path / "a").mkdir()
    old = tmp_path / "a/NFCorpus.json"
    old.write_text(json.dumps({"mteb_dataset_name": "NFCorpus", "test": {"ndcg_at_10": 0.3, "map_at_10": 0.1}}))
    (read,) = read_published(old, ["nDCG@10", "MAP@10", "R@5"])
    assert (read.name, read.means) == ("a", {"nDCG@10": 0.3, "MAP@10": 0.1})
    assert read_published(old, ["nDCG@10"], split="dev") == []
    for text, said in (
        ("{", "Cannot read"),
        ("{}", "no result file"),
        ('{"task_name": "x", "scores": []}', "no result"),
    ):
        old.write_text(text)
        with pytest.raises(UserError, match=said):
            read_published(old, ["nDCG@10"])
    old.write_text(json.dumps({"task_name": "x", "scores": {"test": [{"ndcg_at_10": 73.1}]}}))
    with pytest.raises(UserError, match="a share from 0 to 1"):
        read_published(old, ["nDCG@10"])


def test_names_of_sets():
    assert same_set("SciFact", "scifact")
    assert same_set("NFCorpus", "beir/nf-corpus")
    assert not same_set("SciFact", "scidocs")


def test_a_small_set_counts_as_much_as_a_large_one():
    first = {"small": {"a": 1.0}, "large": {f"q{n}": 0.0 for n in range(9)}}
    second = {"small": {"a": 0.0}, "large": {f"q{n}": 0.0 for n in range(9)}}
    (pair,) = compare_over_sets({"x": first, "y": second}, "P@1")
    assert (pair.difference, pair.won, pair.lost) == (0.5, 1, 0)


class Batches:
    """A searcher that takes batches, and whose passages are chunks of few documents."""

    spec, corpus = "batches", "c@1"

    def __init__(self):
        self.batches, self.single = [], []

    async def search(self, query, k):
        self.single.append((query, k))
        return [_chunk(n) for n in range(min(k, 12))]

    async def search_many(self, queries, k):
        self.batches.append(list(queries))
        return [[_chunk(n) for n in range(min(k, 12))] for _ in queries]


def _chunk(number):
    document = f"d{number // 3}"
    return Passage(id=f"{document}_{number}", document=document, title="", text="", corpus="c@1", score=-number, rank=1)


async def test_batches_find_what_single_searches_find():
    queries = {f"q{n}": f"text {n}" for n in range(150)}
    searcher = Batches()
    found = await run_queries(searcher, queries, 3)
    assert [len(batch) for batch in searcher.batches] == [64, 64, 22]
    assert len(searcher.single) == 150, "three chunks are one document: each is searched again, deeper"
    assert found.run == {query: [("d0", 0), ("d1", -3), ("d2", -6)] for query in queries}
    assert list(found.run) == list(queries)


async def test_a_search_that_fails_ends_all_with_its_own_error():
    class Failing(Batches):
        async def search_many(self, queries, k):
            raise UserError("the table is gone")

    with pytest.raises(UserError, match="the table is gone"):
        await run_queries(Failing(), {"a": "x", "b": "y"}, 3)
