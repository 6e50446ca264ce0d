"""A living index: any sequence of builds, additions, deletions and kills is what a fresh build of the documents is."""

import asyncio
from pathlib import Path

import pytest

from ragrounds.api import index
from ragrounds.tools import collection_builder, document_ledger
from ragrounds.tools.collection import open_named
from ragrounds.tools.retriever import open_searcher

WORDS = "gout asthma croup sepsis fever cough rash".split()
DENSE = "dense[model=import:tests.tools.embedding_doubles:Hashing,store=faiss]"
CHROMA = "dense[model=import:tests.tools.embedding_doubles:Hashing,store=chroma]"
CUT = "recursive[overlap=5,size=40]"


def folder_of(home: Path, texts: dict[str, str], name: str = "docs") -> Path:
    """A folder that holds these texts and nothing else; those that stay are not touched."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for file, text in texts.items():
        path = folder / file
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)
    return folder


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are old as soon as they are written: no test waits for a clock."""
    monkeypatch.setattr(document_ledger, "_RACE", -1)


def rows(home: Path, name: str = "mine") -> list[tuple[str, str, str, str]]:
    return list(open_named(name, home).store.each())


def rankings(home: Path, name: str, spec: str) -> list[list[tuple[str, float]]]:
    searcher = open_searcher(spec, name, home)
    found = [asyncio.run(searcher.search(query, 5)) for query in (*WORDS, "gout cough fever")]
    return [[(hit.id, round(hit.score, 6)) for hit in hits] for hits in found]


def test_an_index_grows_with_its_folder(tmp_path, monkeypatch):
    settle(monkeypatch)
    texts = {f"d{n}.txt": f"{word} and the number {n}" for n, word in enumerate(WORDS)}
    folder = folder_of(tmp_path, texts)
    first = index.build("mine", folder, home=tmp_path, progress=False)
    assert (first.index.generation, first.new, first.changes.added) == (1, True, 7)
    again = index.build("mine", folder, home=tmp_path, progress=False)
    assert (again.index.generation, again.new, again.changes.unchanged) == (1, False, 7)
    read, reading = [], collection_builder.passages
    noting = lambda source, **more: read.extend(source.files) or reading(source, **more)  # noqa: E731
    monkeypatch.setattr(collection_builder, "passages", noting)
    texts = {**texts, "d1.txt": "sepsis now", "e.txt": "something new"}
    del texts["d3.txt"]
    grown = index.build("mine", folder_of(tmp_path, texts), home=tmp_path, progress=False)
    found = grown.changes
    assert (found.added, found.replaced, found.removed, found.unchanged) == (1, 1, 1, 5)
    assert [path.name for path in read] == ["d1.txt", "e.txt"]
    assert grown.manifest.version == index.build("fresh", folder, home=tmp_path, progress=False).manifest.version
    assert rankings(tmp_path, "mine", "bm25") == rankings(tmp_path, "fresh", "bm25")
    (former,) = [one for one in grown.index.generations if not one.searched]
    old = open_named(f"mine@{former.version}", tmp_path)
    assert (len(old.store), old.corpus) == (7, f"mine@{former.version}")
