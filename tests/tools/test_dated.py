"""A search as of a date: nothing later is ever found, whatever the corpus, the retriever and the date."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragrounds.base.errors import UserError
from ragrounds.base.specs import parse
from ragrounds.tools.retriever import open_searcher
from ragrounds.tools.retrievers.dated import day
from ragrounds.tools.search_notes import SEARCH_NOTES

DATES = st.one_of(
    st.none(),
    st.integers(1990, 2030).map(str),
    st.tuples(st.integers(1990, 2030), st.integers(1, 12)).map(lambda one: f"{one[0]}-{one[1]:02}"),
    st.tuples(st.integers(1990, 2030), st.integers(1, 12), st.integers(1, 28)).map(
        lambda one: f"{one[0]}-{one[1]:02}-{one[2]:02}"
    ),
)


def corpus_of(folder: Path, dates: list[str | None]) -> tuple[str, str]:
    """A corpus whose documents all fit one query, and the file of their dates."""
    (folder / "corpus" / "qrels").mkdir(parents=True, exist_ok=True)
    rows = [{"_id": str(place), "title": "", "text": f"fever and cough, case {place}"} for place in range(len(dates))]
    (folder / "corpus" / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = "".join(f"{place},{date}\n" for place, date in enumerate(dates) if date)
    (folder / "dates.csv").write_text(f"pmid,date\n{known}")
    return f"beir:{folder}/corpus", str(folder / "dates.csv")


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["bm25", "rrf[a=bm25,b=bm25[k1=0.4]]", "parent"])
@settings(max_examples=settings().max_examples // 3)
@given(st.lists(DATES, min_size=1, max_size=30), DATES.filter(bool), st.integers(1, 12))
def test_nothing_later_is_found(tmp_path_factory, inside, dates, until, k):
    folder = tmp_path_factory.mktemp("dated")
    corpus, file = corpus_of(folder, dates)
    searcher = open_searcher(parse(f'as_of[of={inside},date={until},dates="{file}"]'), corpus, folder / "home")
    with SEARCH_NOTES.collecting() as notes:
        found = asyncio.run(searcher.search("fever cough case", k))
    allowed = {str(place) for place, date in enumerate(dates) if date and day(date) <= day(until)}
    assert {one.document for one in found} <= allowed
    assert len(found) == min(k, len(allowed))  # and of these as many as were asked for
    assert [one.rank for one in found] == list(range(1, len(found) + 1))
    if len(allowed) < min(k, len(dates)):
        assert any(note.what == "as_of" for note in notes)
    assert all(not searcher.document(str(place)) for place in range(len(dates)) if str(place) not in allowed)


def test_what_was_left_out_is_counted_by_kind(tmp_path):
    corpus, file = corpus_of(tmp_path, ["2001", "2020", None, "2010-06"])
    searcher = open_searcher(parse(f'as_of[date=2010-06,dates="{file}"]'), corpus, tmp_path / "home")
    with SEARCH_NOTES.collecting() as notes:
        assert len(asyncio.run(searcher.search("fever", 4))) == 2
    assert [note.text for note in notes] == ["left out as of 2010-06-31: 1 later and 1 without a date"]


def test_the_printed_text_opens_the_same_and_another_file_is_refused(tmp_path):
    corpus, file = corpus_of(tmp_path, ["2001", "2020"])
    searcher = open_searcher(parse(f'as_of[date=2010,dates="{file}"]'), corpus, tmp_path / "home")
    again = open_searcher(parse(searcher.spec), corpus, tmp_path / "home")
    assert again.spec == searcher.spec
    Path(file).write_text("pmid,date\n0,2019\n")
    with pytest.raises(UserError, match="is not the file that"):
        open_searcher(parse(searcher.spec), corpus, tmp_path / "home")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("as_of", "needs date=YYYY-MM-DD and dates=FILE"),
        ("as_of[date=soon,dates=x.csv]", "needs date=YYYY-MM-DD"),
        ("as_of[date=2010,dates=nowhere.csv]", "nowhere.csv"),
        ("as_of[date=2010,day=3]", "has no parameter 'day'"),
    ],
)
def test_a_wrong_spec_is_refused(tmp_path, spec, said):
    corpus, _ = corpus_of(tmp_path, ["2001"])
    with pytest.raises(UserError) as refused:
        open_searcher(parse(spec), corpus, tmp_path / "home")
    assert said in str(refused.value)


def test_a_row_without_a_date_is_named(tmp_path):
    corpus, file = corpus_of(tmp_path, ["2001"])
    Path(file).write_text("pmid,date\n0,2001\n1,unknown\n")
    with pytest.raises(UserError, match="line 3 of"):
        open_searcher(parse(f'as_of[date=2010,dates="{file}"]'), corpus, tmp_path / "home")
