"""A living index: any sequence of builds, additions, deletions and kills is what a fresh build of the documents is."""

import multiprocessing
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragrounds as rr
from ragrounds.api import index
from ragrounds.api.resume import kept_options
from ragrounds.api.workspace import chosen_settings
from ragrounds.errors import StopRun, UserError
from ragrounds.tools import collection_builder
from ragrounds.tools.collection import POINTER, Collection, generation_folder, open_named
from ragrounds.tools.collection_builder import exclusive_build
from ragrounds.tools.generations import note_searcher, opened_specs
from ragrounds.tools.retriever import open_searcher
from tests.tools.embedding_doubles import Hashing
from tests.tools.living_index import WORDS, Killed, Rows, dying, held, jsonl, rankings, settled

DENSE = "dense[model=import:tests.tools.embedding_doubles:Hashing,store=faiss]"
SMALLER = [DENSE.replace("store=faiss", f"store=faiss[index={form}]") for form in ("sq8", "hnsw")]
CUT = "recursive[overlap=5,size=40]"
ROWS = {f"d{n}": f"{word} and the number {n}, told at such length that it is cut" for n, word in enumerate(WORDS)}


@pytest.fixture(autouse=True)
def _settled():
    with settled():
        yield


def built(home: Path, rows: Rows, name: str = "mine", **more):
    source = jsonl(home / name / "corpus.jsonl", rows)
    return index.build(name, source, home=home, progress=False, confirmed=True, **more)


def added(home: Path, rows: Rows):
    return index.add("mine", jsonl(home / "more" / "more.jsonl", rows), home=home, progress=False)


def test_an_index_grows_with_its_folder(tmp_path):
    folder = tmp_path / "docs"
    for name, text in ROWS.items():
        jsonl(folder / f"{name}.txt", {name: text})
    first = index.build("mine", folder, home=tmp_path, progress=False)
    assert (first.index.generation, first.new, first.changes.added) == (1, True, 7)
    again = index.build("mine", folder, home=tmp_path, progress=False)
    assert (again.index.generation, again.new, again.changes.unchanged) == (1, False, 7)
    jsonl(folder / "d1.txt", {"d1": "sepsis now"})
    jsonl(folder / "e.txt", {"e": "something new"})
    (folder / "d3.txt").unlink()
    grown = index.build("mine", folder, home=tmp_path, progress=False)
    found = grown.changes
    assert (found.added, found.replaced, found.removed, found.unchanged) == (1, 1, 1, 5)
    assert grown.index.report.files == {"read": 7}
    fresh = index.build("fresh", folder, home=tmp_path, progress=False)
    assert grown.manifest.version == fresh.manifest.version
    assert rankings(tmp_path, "mine", "bm25") == rankings(tmp_path, "fresh", "bm25")
    (former,) = [one for one in grown.index.generations if not one.searched]
    assert len(open_named(f"mine@{former.version}", tmp_path).store) == 7
    with pytest.raises(UserError, match="no version 'beef'"):
        open_named("mine@beef", tmp_path)


def test_a_file_changed_a_moment_ago_is_read_again(tmp_path, monkeypatch):
    """A file may change twice in one tick of the file system's clock, with the same size."""
    monkeypatch.setattr("ragrounds.tools.collection_builder._RACE", 10**12)
    first = built(tmp_path, {"a": "gout one"})
    path = tmp_path / "mine" / "corpus.jsonl"
    held_time = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace("one", "two"))
    os.utime(path, ns=(held_time, held_time))
    changed = index.build("mine", path, home=tmp_path, progress=False)
    assert (changed.changes.replaced, held(tmp_path)) == (1, {"a": "gout two"})
    assert first.manifest.version != changed.manifest.version


def test_another_source_or_chunker_asks_first(tmp_path):
    built(tmp_path, ROWS)
    source = tmp_path / "mine" / "corpus.jsonl"
    with pytest.raises(index.OtherIndex, match=r"it was cut with none, now with recursive.*`confirmed=True`"):
        index.build("mine", source, chunker=CUT, home=tmp_path, progress=False)
    other = jsonl(tmp_path / "other.jsonl", ROWS)
    with pytest.raises(index.OtherIndex, match=r"it was built from jsonl:.*now from jsonl:"):
        index.build("mine", other, home=tmp_path, progress=False)
    added(tmp_path, {"x": "croup"})
    with pytest.raises(index.OtherIndex, match=r"documents were added to it from .*more.jsonl, which would go"):
        index.build("mine", source, home=tmp_path, progress=False)
    with pytest.raises(
        index.OtherIndex, match=r"cut with none, now .*; documents were added .*which would go; .*now from"
    ):
        index.build("mine", other, chunker=CUT, home=tmp_path, progress=False)
    made = index.build("mine", source, chunker=CUT, confirmed=True, home=tmp_path, progress=False)
    assert (made.changes.removed, made.index.generation) == (1, 3)
    assert list(held(tmp_path)) == list(ROWS)


def test_engines_follow_and_vectors_are_not_made_again(tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(Hashing, "calls", [])
    built(tmp_path, ROWS, retrievers=["bm25", DENSE])
    assert sum(Hashing.calls) == len(ROWS)
    added(tmp_path, {"new": "croup and cough", "d2": "replaced"})
    assert sum(Hashing.calls) == len(ROWS) + 2
    folder = generation_folder(tmp_path / "indexes" / "mine", 2)
    assert len(opened_specs(folder)) == 2
    assert len(list(folder.glob("*/engine.json"))) >= 2
    before = len(Hashing.calls)
    assert rankings(tmp_path, "mine", DENSE)
    assert len(Hashing.calls) == before  # nothing is left to embed when it is searched


def test_what_is_open_keeps_its_generation(tmp_path):
    built(tmp_path, ROWS)
    searcher = open_searcher("bm25", "mine", tmp_path)
    before = [hit.id for hit in searcher.find("croup", 5)]
    made = added(tmp_path, {"d2": "nothing of that kind", "new": "croup croup"})
    assert [hit.id for hit in searcher.find("croup", 5)] == before == ["d2"]
    assert rankings(tmp_path, "mine", "bm25")[2][0][0] == "new"
    (looked,) = index.prune(home=tmp_path)
    assert (looked.removed, looked.generation.kept) == (False, "open in a process")
    del searcher
    (looked,) = index.prune(home=tmp_path)
    assert looked.removed
    assert [one.number for one in index.describe("mine", home=tmp_path).generations] == [made.index.generation]


def test_a_generation_that_a_run_searched_stays(tmp_path):
    source = Path(rr.__file__).parent / "sample" / "corpus.jsonl"
    index.build("mine", source, home=tmp_path, progress=False)
    result = rr.run("sample", "vanilla_rag", corpus="mine", limit=1, progress=False, home=tmp_path)
    (run,) = result.ids
    added(tmp_path, {"new": "croup"})
    (looked,) = index.prune(home=tmp_path)
    assert (looked.removed, looked.generation.kept) == (False, f"needed by the run {run}")
    version = looked.generation.version
    options = kept_options(run, chosen_settings(None, tmp_path))[1].options
    assert f"mine@{version}" in options  # `runs resume` goes on over what the run searched
    again = rr.run("sample", "vanilla_rag", corpus=f"mine@{version}", limit=1, progress=False, home=tmp_path)
    assert again.ids == (run,)
    assert rr.run("sample", "vanilla_rag", corpus="mine", limit=1, progress=False, home=tmp_path).ids != (run,)


def test_documents_are_deleted_by_their_ids(tmp_path):
    built(tmp_path, ROWS, chunker=CUT)
    made = index.delete("mine", ["d1", "d4"], home=tmp_path, progress=False)
    assert (made.changes.removed, made.changes.unchanged) == (2, 5)
    assert list(held(tmp_path)) == [one for one in ROWS if one not in ("d1", "d4")]
    with pytest.raises(UserError, match="no document 'd1'"):
        index.delete("mine", "d1", home=tmp_path, progress=False)
    with pytest.raises(UserError, match="one passage of the document 'd2'"):
        index.delete("mine", "d2_0", home=tmp_path, progress=False)
    with pytest.raises(UserError, match="would be empty"):
        index.delete("mine", list(held(tmp_path)), home=tmp_path, progress=False)
    back = built(tmp_path, ROWS, chunker=CUT)
    assert (back.changes.added, back.index.generation) == (2, 1)  # that state is there: it is searched again


def test_two_builders_at_once_are_told_in_one_line(tmp_path):
    built(tmp_path, ROWS)
    with (
        exclusive_build(tmp_path / "indexes" / "mine"),
        pytest.raises(UserError, match=r"^Another process is building in .* try again\.$"),
    ):
        added(tmp_path, {"new": "croup"})


def test_a_pointer_that_cannot_be_read_says_what_to_do(tmp_path):
    built(tmp_path, ROWS)
    (tmp_path / "indexes" / "mine" / POINTER).write_text("{")
    with pytest.raises(UserError, match=r'Write {"generation": NUMBER} into it'):
        open_named("mine", tmp_path)


def test_a_full_disk_leaves_the_generation_that_is_searched(tmp_path, monkeypatch):
    built(tmp_path, ROWS)

    def _full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(collection_builder.PassageWriter, "flush", _full)
        with pytest.raises(StopRun, match=r"No space left.*What is built is kept"):
            added(tmp_path, {"new": "croup"})
    assert held(tmp_path) == ROWS
    assert added(tmp_path, {"new": "croup"}).changes.added == 1


def test_a_retriever_that_cannot_be_built_is_told_and_the_others_follow(tmp_path):
    built(tmp_path, ROWS)
    folder = generation_folder(tmp_path / "indexes" / "mine", 1)
    note_searcher(folder, "dense[model=import:nowhere.at.all:GONE,store=faiss]")
    made = added(tmp_path, {"new": "croup"})
    (told,) = made.not_followed
    assert told.startswith("dense[model=")
    assert made.retrievers == ("bm25[analyser=lucene-english,b=0.4,k1=0.9]",)


def test_a_spec_with_a_key_is_not_noted(tmp_path):
    built(tmp_path, ROWS)
    folder = generation_folder(tmp_path / "indexes" / "mine", 1)
    note_searcher(folder, 'dense[model="openai:x",base_url="https://host/v1?api_key=sk-abcdefghij1234567890ABCDEF"]')
    assert opened_specs(folder) == ["bm25[analyser=lucene-english,b=0.4,k1=0.9]"]


# --- deaths


def states(home: Path) -> tuple[Rows, str]:
    """What an index holds and its version, after looking at it as a search does."""
    rankings(home, "mine", "bm25")
    return held(home), open_named("mine", home).manifest.version


@pytest.mark.parametrize(
    ("change", "every"),
    [("add", 6), *(pytest.param(one, 1, marks=pytest.mark.slow) for one in ("add", "delete", "build"))],
)
def test_a_death_at_any_moment_leaves_the_state_before_or_after(tmp_path, change, every):
    start = tmp_path / "start"
    built(start, ROWS)
    before = states(start)

    def _change(home: Path) -> None:
        if change == "add":
            added(home, {"d2": "rash", "new": "croup and cough"})
        elif change == "delete":
            index.delete("mine", "d2", home=home, progress=False)
        else:
            built(home, {**ROWS, "d2": "rash", "new": "croup"})

    shutil.copytree(start, tmp_path / "whole")
    with dying(None) as moments:
        _change(tmp_path / "whole")
    after = states(tmp_path / "whole")
    assert before != after
    seen = set()
    for at in range(len(moments) - 1, -1, -every):
        home = tmp_path / f"at{at}"
        shutil.copytree(start, home)
        with pytest.raises(Killed), dying(at):
            _change(home)
        found = states(home)
        assert found in (before, after), (at, moments[at])
        seen.add(found == after)
        if found == before:
            _change(home)
            assert states(home) == after
        assert index.describe("mine", home=home).generation == 2
        shutil.rmtree(home)
    assert seen == {True, False}  # the last moments come after the change


@pytest.mark.slow
def test_a_killed_process_leaves_the_state_before_or_after(tmp_path):
    """`kill -9` at forty moments of an addition to an index of 3,000 documents."""
    start = tmp_path / "start"
    built(start, {f"d{n}": f"{WORDS[n % 7]} number {n}" for n in range(3000)})
    more = {f"d{n}": f"replaced {WORDS[n % 5]}" for n in range(0, 4000, 3)}
    before = states(start)
    whole = tmp_path / "whole"
    shutil.copytree(start, whole)
    began = time.monotonic()
    added(whole, more)
    took = time.monotonic() - began
    after = states(whole)
    fork = multiprocessing.get_context("fork")
    seen = []
    for trial in range(40):
        home = tmp_path / f"trial{trial}"
        shutil.copytree(start, home)
        process = fork.Process(target=added, args=(home, more))
        process.start()
        process.join(took * 1.1 * (trial + 0.5) / 40)
        process.kill()
        process.join()
        found = states(home)
        assert found in (before, after)
        seen.append(found == after)
        if trial % 4 == 0 and found == before:
            added(home, more)
            assert states(home) == after
        shutil.rmtree(home)
    assert False in seen


# --- any sequence


IDS = st.sampled_from([f"d{n}" for n in range(6)])
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
DOCUMENTS = st.dictionaries(IDS, TEXTS, min_size=1, max_size=5)
STEP = st.tuples(
    st.one_of(
        st.tuples(st.just("build"), DOCUMENTS),
        st.tuples(st.just("add"), DOCUMENTS),
        st.tuples(st.just("delete"), IDS),
    ),
    st.one_of(st.none(), st.integers(0, 60)),
)


def stepped(home: Path, model: Rows, kind: str, what: Rows | str, chunker: str) -> Rows:
    """Carry out one change, on the index and on what it should hold."""
    if kind == "build" and isinstance(what, dict):
        built(home, what, chunker=chunker)
        return dict(what)
    if kind == "add" and isinstance(what, dict):
        added(home, what)
        return {**model, **what}
    left = {one: text for one, text in model.items() if one != what}
    if left == model or not left:
        with pytest.raises(UserError):
            index.delete("mine", what, home=home, progress=False)
        return model
    index.delete("mine", what, home=home, progress=False)
    return left


def untied(hits: list[tuple[str, float]]) -> list[tuple[float, list[str]]]:
    """Scores, and the passages that have each. Graphs and codes promise no order among equal scores: who shares the
    last score is left open, since more may have it than are shown."""
    last = hits[-1][1] if hits else 0.0
    scores = sorted({score for _, score in hits}, reverse=True)
    return [(one, sorted(id for id, score in hits if score == one and one != last)) for one in scores]


def lives(engines: list[str], first: Rows, steps: list, chunker: str) -> None:
    with tempfile.TemporaryDirectory() as folder, settled():
        home = Path(folder)
        built(home, first, chunker=chunker, retrievers=engines)
        model = dict(first)
        for (kind, what), death in steps:
            if death is not None:
                try:
                    with dying(death):
                        stepped(home, model, kind, what, chunker)
                except Killed:
                    changed = open_named("mine", home)  # whole, whatever happened
                    assert len(changed.store) == changed.manifest.passages
            if kind == "delete" and what not in held(home):  # it took effect before the death
                model = {one: text for one, text in model.items() if one != what}
            else:
                model = stepped(home, model, kind, what, chunker)
        fresh = home / "fresh"
        made = built(fresh, model, chunker=chunker, retrievers=engines)
        assert open_named("mine", home).manifest.version == made.manifest.version
        passages = list(open_named("mine", fresh).store.each())
        assert list(open_named("mine", home).store.each()) == passages
        for spec in engines:
            both = [rankings(where, "mine", spec) for where in (home, fresh)]
            if spec in SMALLER:
                both = [[untied(hits) for hits in found] for found in both]
            assert both[0] == both[1], spec
        number = index.describe("mine", home=home).generation
        assert number is not None
        kept = Collection(generation_folder(home / "indexes" / "mine", number))
        assert len(opened_specs(kept.folder)) == len(engines)


@pytest.mark.slow
@settings(max_examples=6)
@given(DOCUMENTS, st.lists(STEP, min_size=1, max_size=4), st.sampled_from(["none", CUT]))
def test_any_sequence_of_changes_is_a_fresh_build(first, steps, chunker):
    lives(["bm25[analyser=lucene-english,b=0.4,k1=0.9]"], first, steps, chunker)


@pytest.mark.slow
@settings(max_examples=12)
@given(DOCUMENTS, st.lists(STEP, min_size=1, max_size=5), st.sampled_from(["none", CUT]))
def test_any_sequence_of_changes_is_a_fresh_build_for_every_engine(first, steps, chunker):
    pytest.importorskip("faiss")
    lives(["bm25[analyser=lucene-english,b=0.4,k1=0.9]", DENSE, *SMALLER], first, steps, chunker)
