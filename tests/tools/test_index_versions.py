"""Versions of a named index: built beside each other, found by name and version, kept by whoever has them open."""

import os
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.api import index
from ragrounds.api.resume import kept_options
from ragrounds.api.workspace import chosen_settings
from ragrounds.base.errors import StopRun, UserError
from ragrounds.tools.index import collection_builder
from ragrounds.tools.index.collection import open_named
from ragrounds.tools.index.collection_builder import exclusive_build
from ragrounds.tools.retriever import open_searcher


@pytest.fixture
def folder(tmp_path):
    """Seven documents whose times are long past."""
    texts = tmp_path / "docs"
    texts.mkdir()
    for number, word in enumerate("gout asthma croup sepsis fever cough rash".split()):
        write(texts / f"d{number}.txt", f"{word} and the number {number}")
    return texts


def write(path, text, moment=10**18):
    path.write_text(text)
    os.utime(path, ns=(moment, moment))


def built(folder, home, **more):
    return index.build("mine", folder, home=home, progress=False, **more)


@pytest.fixture
def old(monkeypatch):
    """Files count as old as soon as they are written."""
    monkeypatch.setattr(collection_builder, "_RACE", -(10**19))


def test_an_index_grows_with_its_folder(folder, tmp_path, old):
    first = built(folder, tmp_path)
    assert (first.new, first.index.manifest.documents) == (True, 7)
    searcher = open_searcher("bm25", "mine", tmp_path)
    assert not built(folder, tmp_path).new
    write(folder / "d1.txt", "sepsis now", 10**18 + 10**9)
    (folder / "d3.txt").unlink()
    grown = built(folder, tmp_path)
    before, after = (one.version for one in grown.index.versions)
    assert (grown.new, grown.index.manifest.version) == (True, after)
    fresh = index.build("fresh", folder, home=tmp_path, progress=False)
    assert fresh.index.manifest.version == after
    assert [hit.document for hit in searcher.find("sepsis", 2)] == ["d3.txt"]  # what is open stays over its own
    assert [hit.document for hit in open_searcher("bm25", "mine", tmp_path).find("sepsis", 2)] == ["d1.txt"]
    assert [hit.document for hit in open_searcher("bm25", f"mine@{before}", tmp_path).find("sepsis", 2)] == ["d3.txt"]
    with pytest.raises(UserError, match="no version 'beef'"):
        open_named("mine@beef", tmp_path)
    index.remove(f"mine@{before}", home=tmp_path)
    assert [one.version for one in index.describe("mine", home=tmp_path).versions] == [after]


def test_a_state_that_was_there_is_searched_again(folder, tmp_path):
    first = built(folder, tmp_path).index.manifest.version
    write(folder / "more.txt", "croup")
    built(folder, tmp_path)
    (folder / "more.txt").unlink()
    back = built(folder, tmp_path)
    assert (back.index.manifest.version, len(back.index.versions), back.new) == (first, 2, True)
    assert open_named("mine", tmp_path).manifest.version == first


def test_a_file_changed_a_moment_ago_is_read_again(folder, tmp_path, monkeypatch):
    """A file may change twice in one tick of the file system's clock, with the same size."""
    monkeypatch.setattr(collection_builder, "_RACE", 10**12)
    first = built(folder, tmp_path)
    write(folder / "d0.txt", "rash and the number 0")
    assert built(folder, tmp_path).index.manifest.version != first.index.manifest.version


def test_a_version_that_a_run_searched_is_found_again(tmp_path):
    source = Path(rr.__file__).parent / "sample" / "corpus.jsonl"
    version = index.build("mine", source, home=tmp_path, progress=False).index.manifest.version
    (run,) = rr.run("sample", "vanilla_rag", corpus="mine", limit=1, progress=False, home=tmp_path).ids
    (tmp_path / "more.jsonl").write_text(source.read_text() + '{"id": "new", "text": "croup"}\n')
    index.build("mine", tmp_path / "more.jsonl", home=tmp_path, progress=False)
    assert [one.runs for one in index.describe("mine", home=tmp_path).versions] == [(run,), ()]
    options = kept_options(run, chosen_settings(None, tmp_path))[1].options
    assert f"mine@{version}" in options  # `runs resume` goes on over what the run searched
    again = rr.run("sample", "vanilla_rag", corpus=f"mine@{version}", limit=1, progress=False, home=tmp_path)
    assert again.ids == (run,)
    assert rr.run("sample", "vanilla_rag", corpus="mine", limit=1, progress=False, home=tmp_path).ids != (run,)


def test_two_builders_at_once_are_told_in_one_line(folder, tmp_path):
    built(folder, tmp_path)
    with (
        exclusive_build(tmp_path / "indexes" / "mine"),
        pytest.raises(UserError, match=r"^Another process is building in .* try again\.$"),
    ):
        built(folder, tmp_path)


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), Killed()], ids=["full disk", "kill"])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_death_at_any_moment_leaves_the_version_before_or_the_one_after(folder, tmp_path, monkeypatch, fault, name):
    before = built(folder, tmp_path).index.manifest.version
    write(folder / "more.txt", "croup")
    after = index.build("fresh", folder, home=tmp_path, progress=False).index.manifest.version
    real, found = getattr(os, name), before
    for moment in range(100):
        left = [moment]

        def dies(*given, left=left, **more):
            left[0] -= 1
            if left[0] == -1:
                raise fault
            return real(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, name, dies)
            try:
                built(folder, tmp_path)
            except (Killed, StopRun):
                found = open_named("mine", tmp_path).manifest.version
                assert found in (before, after)
                continue
        break
    assert moment > 2
    assert built(folder, tmp_path).index.manifest.version == after
    assert open_searcher("bm25", "mine", tmp_path).find("croup", 5)[0].document == "more.txt"
