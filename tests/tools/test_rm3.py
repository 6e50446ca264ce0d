"""RM3 over BM25: the widened query, term by term, and what it finds that the query does not."""

import json

import pytest

from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.tools.retriever import open_searcher

ROWS = (
    ("a", "gout is treated with colchicine"),
    ("b", "gout pain falls with colchicine and rest"),
    ("c", "colchicine dose in kidney disease"),
    ("d", "statins lower cholesterol"),
    ("e", "statins and muscle pain"),
    *((f"f{n}", f"filler text number {n} on other matters") for n in range(40)),
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in ROWS))
    return f"jsonl:{path}"


async def test_it_finds_what_shares_only_the_terms_that_were_added(corpus, tmp_path):
    plain = open_searcher("bm25", corpus, tmp_path)
    rm3 = open_searcher("rm3[documents=2,terms=3]", corpus, tmp_path)
    assert {hit.id for hit in await plain.search("gout", 10)} == {"a", "b"}
    found = await rm3.search("gout", 10)
    assert "c" in [hit.id for hit in found]
    assert [hit.rank for hit in found] == list(range(1, len(found) + 1))
    assert {hit.retriever for hit in found} == {rm3.spec}
    assert rm3.spec == "rm3[documents=2,of=bm25[analyser=lucene-english,b=0.4,k1=0.9],original=0.5,terms=3]"
    assert await rm3.search("unknownword", 5) == []


def test_the_weights_are_those_of_the_formula(corpus, tmp_path):
    rm3 = open_searcher("rm3[of=bm25[analyser=plain],terms=2,original=0.6]", corpus, tmp_path)

    def hit(text, score):
        return Passage(id=text, document=text, title="", text=text, corpus="c", score=score, rank=1)

    found = [hit("colchicine gout gout", 3.0), hit("colchicine rest", 1.0)]
    # gout: 3 × 2/3 = 2; colchicine: 3 × 1/3 + 1 × 1/2 = 1.5; rest: 1/2, which is third.
    widened = rm3.widened("gout gout pain", found)
    assert widened == pytest.approx(
        {"gout": 0.6 * 2 / 3 + 0.4 * 2 / 3.5, "pain": 0.6 / 3, "colchicine": 0.4 * 1.5 / 3.5}
    )
    assert sum(widened.values()) == pytest.approx(1.0)


async def test_with_the_query_alone_the_ranking_is_bm25_s(corpus, tmp_path):
    plain, rm3 = (open_searcher(spec, corpus, tmp_path) for spec in ("bm25", "rm3[original=1]"))
    for query in ("gout colchicine", "statins pain", "kidney disease dose"):
        ours = [hit.id for hit in await rm3.search(query, 10)]
        theirs = [hit.id for hit in await plain.search(query, 10)]
        assert [id for id in ours if id in theirs] == theirs


@pytest.mark.parametrize("spec", ["rm3[terms=0]", "rm3[original=2]", "rm3[documents=x]", "rm3[of=medcpt]"])
def test_what_it_cannot_use_is_one_line(spec, corpus, tmp_path):
    with pytest.raises(UserError):
        open_searcher(spec, corpus, tmp_path)
