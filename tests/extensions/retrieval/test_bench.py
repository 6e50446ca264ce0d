"""Many retrievers on many sets: one table, differences over all queries."""

import json

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.extensions.retrieval.comparison import compare
from ragrounds.extensions.retrieval.search import retrieve as run_queries
from tests.beir_folders import write_beir
from tests.extensions.retrieval.running import run_retrieve

SPECS = ("bm25[b=0]", "bm25[b=1]")


@pytest.fixture
def sets(tmp_path, home):
    made = []
    for name, words in (("one", "asthma statins gout sepsis"), ("two", "insulin heparin lithium warfarin aspirin")):
        numbered = list(enumerate(words.split()))
        documents = {f"d{n}": f"{word} " * (n + 1) + "care" for n, word in numbered}
        documents |= {f"n{n}": f"{word} {word} in long words that say little more {'and more ' * n}"
                      for n, word in numbered}  # fmt: skip
        relevant = [(f"q{n}", f"{'d' if n % 2 else 'n'}{n}") for n, _ in numbered]
        made.append(write_beir(tmp_path / name, documents, {f"q{n}": word for n, word in numbered}, relevant))
    return made


def test_one_table_has_every_retriever_and_set(sets):
    found = rr.retrieve([f"beir:{each}" for each in sets], SPECS, progress=False)
    assert found.sets == ("one", "two")
    ours = found.means
    for row in ours:
        wanted = [one["nDCG@10"] for one in found.entries if one["retriever"] == row.retriever]
        assert list(row.values.values()) == pytest.approx(wanted)
        assert row.mean == pytest.approx(sum(wanted) / 2), "a set counts as much as any other"
        assert row.queries_per_second > 0
    pair = found.comparisons[0]
    assert pair.difference == pytest.approx(ours[0].mean - ours[1].mean)
    assert (pair.queries, pair.sets) == (9, 2)
    assert len(found.comparisons) == 1


def test_the_command_prints_and_gives_the_same(sets):
    options = [word for each in sets for word in ("--benchmark", f"beir:{each}")]
    options += [word for spec in SPECS for word in ("--retriever", spec)]
    shown = run_retrieve(*options).stdout
    assert "has the best mean nDCG@10 over 2 sets" in shown.splitlines()[0]
    held = json.loads(run_retrieve(*options, "--json").stdout)
    for row in held["means"]:
        assert f"{row['mean']:.4f}" in shown


def test_runs_of_one_tag_are_one_row(sets, tmp_path):
    names = [f"beir:{each}" for each in sets]
    written = rr.retrieve(names, ["bm25"], write_runs=tmp_path / "runs")
    files = {name: next((tmp_path / "runs" / name).iterdir()) for name in written.sets}
    renamed = []
    for name, file in files.items():
        lines = [line.rsplit(" ", 1)[0] + " theirs" for line in file.read_text().splitlines()]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
        renamed.append(f"{name}={tmp_path / f'{name}.run'}")
    found = rr.retrieve(names, ["bm25"], trec_runs=renamed)
    assert [row.retriever for row in found.means] == [written.means[0].retriever, "theirs"]
    assert found.means[1].values == pytest.approx(written.means[0].values)
    assert found.comparisons[0].p == 1.0
    with pytest.raises(UserError, match="SET=FILE"):
        rr.retrieve(names, ["bm25"], trec_runs=renamed[0].partition("=")[2])


def test_two_sets_of_one_name_are_refused(sets):
    with pytest.raises(UserError, match="have the name 'one'"):
        rr.retrieve([f"beir:{sets[0]}", f"beir:{sets[0]}/"], ["bm25"])


def test_a_small_set_counts_as_much_as_a_large_one():
    first = {"small": {"a": 1.0}, "large": {f"q{n}": 0.0 for n in range(9)}}
    second = {"small": {"a": 0.0}, "large": {f"q{n}": 0.0 for n in range(9)}}
    (pair,) = compare({"x": first, "y": second}, "P@1")
    assert (pair.difference, pair.wins, pair.losses) == (0.5, 1, 0)


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
