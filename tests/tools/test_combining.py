"""Fusion, merged corpora, MaxP and the leak guard, against plain readings of their definitions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.contracts import Library
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import parse
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.leak_guard import GuardedSearcher, LeakGuard, overlap
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.fusion import FusedSearcher, reciprocal_rank_fusion, weighted_fusion
from ragrounds.tools.retrievers.joined import JoinedSearcher
from ragrounds.tools.retrievers.maxp import MaxPSearcher

_keys = st.sampled_from([("c", letter) for letter in "abcdefgh"])
_ranking = st.lists(_keys, unique=True, max_size=8)


@given(rankings=st.lists(_ranking, min_size=1, max_size=4), constant=st.sampled_from([1.0, 60.0, 100.0]))
def test_reciprocal_ranks(rankings, constant):
    fused = reciprocal_rank_fusion(rankings, [1.0] * len(rankings), constant)
    expected = {
        key: sum(1 / (constant + ranking.index(key) + 1) for ranking in rankings if key in ranking)
        for ranking in rankings
        for key in ranking
    }
    assert dict(fused) == pytest.approx(expected)
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


@given(_ranking)
def test_fusing_a_ranking_with_itself_changes_nothing(ranking):
    assert [key for key, _ in reciprocal_rank_fusion([ranking, ranking], [1.0, 1.0])] == ranking


def test_weighted_scores_are_scaled():
    fused = weighted_fusion([{("c", "a"): 10.0, ("c", "b"): 20.0}, {("c", "a"): -1.0}], [1.0, 0.5])
    assert fused == [(("c", "b"), 1.0), (("c", "a"), 0.5)]
    assert weighted_fusion([{}, {}], [1.0, 1.0]) == []


class _Fixed:
    """A searcher with fixed results."""

    def __init__(self, name, hits, corpus="c@1"):
        self.spec = name
        self.corpus = corpus
        self.asked = []
        self._hits = hits

    async def search(self, query, k):
        self.asked.append((query, k))
        hits = self._hits(query) if callable(self._hits) else self._hits
        return [
            Passage(id=i, document=i.split("_")[0], title="", text=f"text {i}", corpus=self.corpus, score=score, rank=n)
            for n, (i, score) in enumerate(hits, 1)
        ][:k]


async def test_fused_searchers():
    one = _Fixed("one", [("a", 9.0), ("b", 8.0)])
    two = _Fixed("two[x=1]", [("b", 0.5), ("d", 0.4)])
    fused = FusedSearcher(parse("rrf[p=one,q=two]"), {"p": one, "q": two})
    found = await fused.search("why", 2)
    assert [(p.id, p.rank, p.score) for p in found] == [("b", 1, pytest.approx(1 / 62 + 1 / 61)), ("a", 2, 1 / 61)]
    assert fused.spec == "rrf[p=one,q=two[x=1]]"
    assert {p.retriever for p in found} == {fused.spec}
    assert one.asked == [("why", 100)]
    doubled = FusedSearcher(parse("rrf[p=one,q=two,double=true,constant=100]"), {"p": one, "q": two})
    await doubled.search("why", 80)
    assert one.asked[-1] == ("why", 160)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("rrf[a=bm25]", "two retrievers"),
        ("rrf[a=bm25,b=bm25,constant=-1]", "0 or more"),
        ("rrf[a=bm25,b=bm25,depth=0]", "1 or more"),
        ("rrf[a=bm25,b=bm25,joined=apart]", "cut or whole"),
        ("joined[from=bm25]", "no parameter"),
        ("rrf[a=bm25,b=bm25,c=3]", "no parameter 'c'"),
        ("rrf[a=bm25,b=bm25,c_weight=3]", "none of its retrievers"),
        ("maxp[of=bm25,max=3]", "no parameter 'max'"),
        ("maxp[of=bm25,query=headings]", "without headings"),
    ],
)
def test_combinations_that_make_no_sense(spec, reason, beir, tmp_path):
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, beir([("a", "", "x")]), tmp_path)


async def test_corpora_are_merged_by_raw_score(beir, tmp_path):
    one = beir([("a", "", "asthma asthma"), ("b", "", "gout and more words")], "one")
    two = beir([("a", "", "asthma in a longer text of several words"), ("c", "", "none")], "two")
    apart = [await open_searcher("bm25", corpus, tmp_path).search("asthma", 5) for corpus in (one, two)]
    together = await open_searcher("bm25", f"{one}+{two}", tmp_path).search("asthma", 5)
    expected = sorted((hit for hits in apart for hit in hits), key=lambda hit: -hit.score)
    assert [(p.corpus, p.id, p.score) for p in together] == [(p.corpus, p.id, p.score) for p in expected]
    assert [p.rank for p in together] == [1, 2]
    fused = await open_searcher("rrf[a=bm25,b=bm25[b=0]]", f"{one}+{two}", tmp_path).search("asthma", 5)
    assert len({(p.corpus, p.id) for p in fused}) == 2


def test_a_plus_in_a_path_is_no_join(tmp_path):
    folder = tmp_path / "a+b"
    folder.mkdir()
    assert corpora_of(f"beir:{folder}") == [f"beir:{folder}"]
    assert corpora_of("x+y") == ["x", "y"]


@given(
    table=st.dictionaries(
        st.sampled_from(["p0", "p1", "p2"]),
        st.dictionaries(st.sampled_from([f"d{d}_{c}" for d in range(4) for c in range(3)]), st.integers(1, 99)),
        min_size=3,
    ),
    k=st.integers(1, 5),
)
async def test_maxp_is_the_best_chunk_for_the_best_piece(table, k):
    def hits(query):
        return sorted(((i, float(score)) for i, score in table[query.strip()].items()), key=lambda hit: -hit[1])

    inner = _Fixed("inner", hits)
    searcher = MaxPSearcher(parse("maxp[of=inner,query=tokens[size=2,stride=2]]"), inner)
    found = await searcher.search("p0 p1 p2", k)
    best = {}
    for scores in table.values():
        for chunk, score in scores.items():
            best[chunk.split("_")[0]] = max(best.get(chunk.split("_")[0], 0), score)
    assert sorted((p.score for p in found), reverse=True) == [p.score for p in found]
    assert {p.document: p.score for p in found}.items() <= best.items()
    assert [p.score for p in found] == sorted(best.values(), reverse=True)[:k]


async def test_maxp_fetches_until_no_other_chunk_can_change_the_order():
    """With one chunk fetched for each piece, `d1` would be found by its weaker piece alone, and `d2` not at all."""
    table = {"p0": [("d0_0", 9.0), ("d1_0", 8.0), ("d2_0", 7.0)], "p1": [("d0_1", 5.0), ("d1_1", 4.0)]}
    inner = _Fixed("inner", lambda query: table[query.strip()])
    searcher = MaxPSearcher(parse("maxp[of=inner,query=tokens[size=2,stride=2],depth=1]"), inner)
    found = await searcher.search("p0 p1", 2)
    assert [(p.id, p.score, p.rank) for p in found] == [("d0_0", 9.0, 1), ("d1_0", 8.0, 2)]
    assert [p.id for p in await searcher.search("p0 p1", 3)] == ["d0_0", "d1_0", "d2_0"]
    deep = [(f"a_{number}", 50.0 - number) for number in range(40)] + [("b_0", 1.0)]
    many = MaxPSearcher(parse("maxp[of=inner,depth=8]"), _Fixed("inner", deep))
    assert [p.id for p in await many.search("x", 2)] == ["a_0", "b_0"]


def test_overlap_of_wording():
    question = "Does aspirin prevent heart attacks in healthy adults over seventy?"
    assert overlap(question, f"Title. {question.upper()} Yes.") == 1.0
    assert overlap(question, "Aspirin and heart attacks in adults") == 0.0
    assert overlap("", "anything") == 0.0
    assert overlap("gout", "about gout") == 1.0


async def test_the_guard_leaves_out_and_fills_up():
    inner = _Fixed("inner", [(f"d{n}", 10.0 - n) for n in range(9)])
    searcher = GuardedSearcher(inner, LeakGuard(documents=frozenset({"d0", "d2"})))
    found = await searcher.search("q", 3)
    assert [(p.id, p.rank) for p in found] == [("d1", 1), ("d3", 2), ("d4", 3)]
    assert [p.id for p in await searcher.search("q", 99)] == ["d1", "d3", "d4", "d5", "d6", "d7", "d8"]
    near = GuardedSearcher(inner, LeakGuard(question="text d1", share=1.0))
    assert "d1" not in [p.id for p in await near.search("q", 9)]


async def test_a_chunked_corpus_is_scored_by_document(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "x_1", "text": "asthma", "document": "x"}) + "\n")
    found = await open_searcher("maxp[of=bm25]", f"beir:{tmp_path}", tmp_path).search("asthma", 3)
    assert [(p.id, p.document) for p in found] == [("x_1", "x")]


@pytest.mark.parametrize("spec", ["bm25", "rrf[a=bm25,b=bm25[b=0]]", "maxp[of=bm25]", "rrf[a=maxp[of=bm25],b=bm25]"])
def test_documents_are_given_by_id(spec, tmp_path):
    rows = [{"id": f"{name}{n}", "document": name, "text": f"asthma {n}"} for n in range(2) for name in ("x", "xx")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    searcher = open_searcher(spec, f"jsonl:{tmp_path / 'a.jsonl'}", tmp_path)
    assert isinstance(searcher, Library)
    assert [p.id for p in searcher.document("x")] == ["x0", "x1"]  # also where they do not stand together
    assert searcher.document("z") == []
    guarded = GuardedSearcher(searcher, LeakGuard(documents=frozenset({"x1"})))
    assert [p.id for p in guarded.document("x")] == ["x0"]


def test_documents_of_joined_corpora(beir, tmp_path):
    one, two = beir([("a", "", "asthma")], "one"), beir([("b", "", "gout")], "two")
    searcher = open_searcher("bm25", f"{one}+{two}", tmp_path)
    assert [p.text for name in "ab" for p in searcher.document(name)] == ["asthma", "gout"]


_scores = st.integers(0, 4).map(float)
_lists = st.lists(
    st.lists(st.lists(_scores, max_size=5), min_size=2, max_size=2), min_size=2, max_size=2
)  # retriever, corpus, scores


@given(_lists, st.integers(0, 12), st.booleans())
async def test_joined_corpora_are_ranked_whole(lists, k, distances):
    """Beside a plain reading: one list a retriever, reversed where its scores are no distances, ranked to its end."""
    spec = "m[metric=l2]" if distances else "m"

    def hits(retriever, corpus, scores):
        return sorted(((f"{corpus}{n}", score) for n, score in enumerate(scores)), key=lambda hit: -hit[1])

    members, expected = {}, {}
    for name, corpora in zip("pq", lists, strict=True):
        found = [hits(name, corpus, scores) for corpus, scores in zip("xy", corpora, strict=True)]
        members[name] = JoinedSearcher(
            spec, [_Fixed(spec, one, corpus) for one, corpus in zip(found, "xy", strict=True)]
        )
        together = [hit for one in found for hit in one]
        if not distances:
            together.reverse()
        for rank, (id, _) in enumerate(sorted(together, key=lambda hit: -hit[1]), 1):
            expected[id] = expected.get(id, 0.0) + 1 / (100 + rank)
    fused = FusedSearcher(parse("rrf[p=m,q=m,constant=100,joined=whole]"), members)
    found = await fused.search("why", k)
    assert [(p.id, p.score) for p in found] == sorted(expected.items(), key=lambda item: -item[1])[:k]
    assert "joined=whole" in fused.spec


async def test_one_retriever_over_joined_corpora(beir, tmp_path):
    one = beir([("a", "", "asthma today"), ("b", "", "gout")], "one")
    two = beir([("a", "", "asthma today"), ("c", "", "none")], "two")
    default = await open_searcher("bm25", f"{one}+{two}", tmp_path).search("asthma", 5)
    searcher = open_searcher("joined[of=bm25]", f"{one}+{two}", tmp_path)
    joined = await searcher.search("asthma", 5)
    assert [p.corpus for p in joined] == [p.corpus for p in reversed(default)]  # equal scores
    assert [(p.score, p.rank) for p in joined] == [(p.score, p.rank) for p in default]
    assert {p.retriever for p in joined} == {"joined[of=bm25[analyser=lucene-english,b=0.4,k1=0.9]]"}
    whole = await open_searcher("rrf[a=bm25,b=bm25[b=0.0],joined=whole]", f"{one}+{two}", tmp_path).search("asthma", 5)
    assert [(p.id, p.rank) for p in whole] == [("a", 1)]  # one id, whichever corpus


def test_medrags_presets_join_corpora_as_its_program(tmp_path):
    spec = "rrf2[bm25=bm25,medcpt=bm25[b=0.0]]"
    assert "constant=100,double=true,joined=whole" in open_searcher(spec, "sample+sample", tmp_path).spec
    assert "joined=cut" in open_searcher(parse(spec).having(joined="cut"), "sample+sample", tmp_path).spec


@pytest.mark.parametrize(
    ("preset", "names"), [("rrf2", ("bm25", "medcpt")), ("rrf4", ("bm25", "contriever", "specter", "medcpt"))]
)
async def test_a_preset_adds_one_over_a_hundred_and_the_rank(preset, names, beir, tmp_path):
    corpus = beir([("a", "", "asthma asthma today"), ("b", "", "asthma yesterday")], "one")
    members = ",".join(f"{name}=bm25[b={place / 10}]" for place, name in enumerate(names))
    found = await open_searcher(f"{preset}[{members}]", corpus, tmp_path).search("asthma", 2)
    assert [(p.id, p.score) for p in found] == [
        ("a", pytest.approx(len(names) / 101)), ("b", pytest.approx(len(names) / 102)),
    ]  # fmt: skip
