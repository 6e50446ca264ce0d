"""Parent documents: what the chunkers cut is put together again, and each document is given once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.contracts import Library, MeanSearcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.tools.corpora import corpus_source
from ragrounds.tools.index.chunkers import chunker, complete
from ragrounds.tools.index.collection import open_named
from ragrounds.tools.index.collection_builder import build_collection
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.parent import ParentSearcher
from ragrounds.tools.whole_documents import joined_chunks

WORDS = "the lesion was excised and a sigmoid flap covered it while fever and rash of an unknown kind stayed".split()
prose = st.lists(st.sampled_from([*WORDS, *WORDS, ".\n", "\n\n", "0 0 0", "éß漢字"]), max_size=150).map(" ".join)


def cut(text, spec, title="A case"):
    document = Passage(id="r", document="r", title=title, text=text, corpus="c")
    return (chunker(spec) or (lambda whole: [whole]))(document)


def whole(text, spec, title="A case"):
    return joined_chunks(cut(text, spec, title), str(complete(spec)))


@given(text=prose, size=st.integers(4, 30), stride=st.integers(1, 30))
def test_windows_of_tokens_come_back_letter_by_letter_in_prose(text, size, stride):
    spec = f"tokens[size={size},stride={min(stride, size)}]"
    pieces = cut(text, spec)
    found = joined_chunks(pieces, str(complete(spec)))
    assert (found.id, found.document, found.title) == ("r", "r", "A case")
    if all(text.count(piece.text) == 1 for piece in pieces):
        assert found.text == text


@pytest.mark.parametrize("stride", [128, 256, 512])
def test_the_papers_windows_come_back_whole_also_where_a_text_repeats_itself(stride):
    table = "\n".join(f"day {day % 3} 37.2 0 0 0 0 0 0" for day in range(300))
    text = f"{' '.join(WORDS)}. {table}\n{'= ' * 900}{' '.join(reversed(WORDS))}"
    spec = f"tokens[size=512,stride={stride}]"
    assert len(cut(text, spec)) > 4
    assert whole(text, spec).text == text


@given(count=st.integers(0, 60), size=st.integers(10, 60), overlap=st.integers(0, 9))
def test_pieces_of_characters_come_back_but_for_white_space(count, size, overlap):
    text = "\n".join(f"w{number}" for number in range(count))
    assert whole(text, f"recursive[size={size},overlap={overlap}]").text.split() == text.split()


def test_a_letter_in_common_by_chance_is_kept():
    pieces = [
        Passage(id=f"r_{number}", document="r", title="", text=text, corpus="")
        for number, text in enumerate(["a piece of a", "and the other half", "half of it"])
    ]
    found = joined_chunks(pieces, str(complete("recursive[size=20,overlap=5]")))
    assert found.text == "a piece of a\n\nand the other half of it"


def test_paragraphs_come_back_under_their_headings():
    text = "Before any heading.\n\n## Case\n\nShe came.\n\n### Day 2\n\nShe went.\n\n## End\n\nAll was well."
    found = whole(text, "headings[short=0,most=1000]", "Fistula")
    assert found.title == "Fistula"
    assert found.text.split("\n\n") == [
        "Before any heading.", "Case", "She came.", "Case -- Day 2", "She went.", "End", "All was well.",
    ]  # fmt: skip
    assert whole("One paragraph.", "headings", "Fistula").text == "One paragraph."


REPORTS = {
    "a": "fistula " * 30 + "aorta " * 60 + "balloon " * 30,
    "b": "fistula balloon " + "rash " * 200,
    "c": "rash of unknown kind " * 30,
}


@pytest.fixture
def cases(beir, tmp_path):
    """An index `cases` of three long reports, cut into windows of 40 tokens, a new one every 10."""
    source = corpus_source(beir([(name, f"Report {name}", text) for name, text in REPORTS.items()]))
    spec = complete("tokens[size=40,stride=10]")
    build_collection(tmp_path / "indexes" / "cases", source, name="cases", chunker=str(spec), chunk=chunker(spec))
    return tmp_path


async def test_each_document_is_given_once_whole_and_says_its_chunk(cases):
    chunks = await open_searcher("bm25", "cases", cases).search("fistula balloon", 50)
    assert len(chunks) > len({hit.document for hit in chunks}) == 2
    searcher = open_searcher("parent[of=bm25]", "cases", cases)
    assert searcher.spec == f"parent[of={chunks[0].retriever}]"
    found = await searcher.search("fistula balloon", 5)
    best = {hit.document: hit for hit in reversed(chunks)}
    order = list(dict.fromkeys(hit.document for hit in chunks))
    assert [(hit.id, hit.rank) for hit in found] == [(name, rank) for rank, name in enumerate(order, 1)]
    assert [(hit.text, hit.title) for hit in found] == [(REPORTS[hit.id], f"Report {hit.id}") for hit in found]
    assert [(hit.chunk, hit.score) for hit in found] == [(best[hit.id].id, best[hit.id].score) for hit in found]
    assert {hit.retriever for hit in found} == {searcher.spec}
    assert [hit.id for hit in await searcher.search("fistula balloon", 1)] == [found[0].id]


async def test_it_goes_over_other_retrievers_and_joined_corpora(cases, beir):
    (cases / "other").mkdir()
    other = beir([("c", "Of the other", "rash of unknown kind, and nothing else")], "other")
    searcher = open_searcher("parent[of=maxp[of=bm25]]", f"cases+{other}", cases)
    found = await searcher.search("unknown rash", 4)
    assert sorted((hit.id, hit.title) for hit in found) == [("b", "Report b"), ("c", "Of the other"), ("c", "Report c")]
    assert {hit.title: hit.text for hit in found}["Report c"] == REPORTS["c"]
    assert isinstance(searcher, Library)
    assert [one.text for one in searcher.document("a")] == [REPORTS["a"]]
    assert searcher.document("zz") == []


class _Fixed:
    """A dense retriever over an index, by its order."""

    spec, corpus = "fixed", ""

    def __init__(self, ids):
        self.ids, self.depths = ids, []

    async def search(self, query, k):
        self.depths.append(k)
        hits = [Passage(id=i, document=i.split("_")[0], title="", text="", corpus=self.corpus) for i in self.ids]
        return hits[:k]


async def test_it_searches_deeper_until_there_are_enough_documents(cases):
    inner = _Fixed([*(f"a_{number}" for number in range(100)), "b_1", "c_0"])
    searcher = ParentSearcher(inner, [open_named("cases", cases)])
    assert [(hit.id, hit.chunk) for hit in await searcher.search("x", 3)] == [("a", "a_0"), ("b", "b_1"), ("c", "c_0")]
    assert inner.depths == [60, 240]
    inner.ids = ["zz_1"]
    with pytest.raises(UserError, match="'zz', which the corpus does not hold"):
        await searcher.search("x", 1)


def test_a_dense_retriever_keeps_its_means(cases):
    vectors = "dense[model=import:tests.tools.embedding_doubles:Hashing,store=faiss]"
    try:
        searcher = open_searcher(f"parent[of={vectors}]", "cases", cases)
    except UserError as missing:
        pytest.skip(str(missing))
    assert isinstance(searcher, MeanSearcher)
    assert not isinstance(open_searcher("parent", "cases", cases), MeanSearcher)


@pytest.mark.parametrize(("spec", "reason"), [("parent[off=bm25]", "'of'")])
def test_what_makes_no_sense_is_said(spec, reason, cases):
    with pytest.raises(UserError, match=reason):
        open_searcher(spec, "cases", cases)
