"""What is nested thousands deep: read where that can be, or named in one line; never a traceback, never left out in
silence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ragrounds.base import files
from ragrounds.base.errors import UserError
from ragrounds.base.text import wellformed_all
from ragrounds.tools import jsonlines
from ragrounds.tools.corpora import BadLine, corpus_source, passages
from tests.conftest import Cli

DEEP = "[" * 100_000 + "]" * 100_000


def read(source: str, bad: list[BadLine] | None = None) -> list[str]:
    return [passage.text for passage, _ in passages(corpus_source(source), bad=bad)]


@pytest.mark.parametrize("around", ["div", "b", "ul><li", "table><tr><td", "sec"])
def test_html_of_any_depth_is_read(tmp_path: Path, around: str) -> None:
    pytest.importorskip("bs4")
    tags = [f"<{around}>" * 2000, "".join(f"</{tag}>" for tag in reversed(around.split("><"))) * 2000]
    (tmp_path / "deep.html").write_text(f"<html><body>before{tags[0]}<p>the text</p>{tags[1]}after</body></html>")
    (text,) = read(f"files:{tmp_path}")
    assert text.split() == ["before", "the", "text", "after"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<div>alone</div>", "alone"),
        ("loose <i>and</i> slanted", "loose and slanted"),
        ("<ul><li>one <ul><li>two</li></ul> three</li></ul>", "one\n\ntwo\n\nthree"),
        ("<table><tr><th>head</th><td>cell <p>more</p></td></tr></table>", "| head | cell more |"),
        ("<dl><dt>word</dt><dd>meaning</dd></dl>", "word\n\nmeaning"),
        ("<blockquote>said</blockquote><h2>A <b>head</b></h2>#tag", "said\n\n## A head\n\n\\#tag"),
        ("<!-- hidden --><nav>menu</nav><p>a<script>no()</script>b", "a b"),
        ("<p>H<sub>2</sub>O<br>and <b>CO</b><sub>2</sub>", "H2O and CO2"),
    ],
)
def test_no_text_of_html_is_left_out(tmp_path: Path, body: str, said: str) -> None:
    pytest.importorskip("bs4")
    (tmp_path / "a.html").write_text(f"<html><head><title>T</title></head><body>{body}</body></html>")
    assert read(f"files:{tmp_path}") == [said]


def test_html_and_pdf_without_any_text_are_named(tmp_path: Path) -> None:
    pytest.importorskip("bs4")
    (tmp_path / "empty.html").write_text("<html><body><script>all()</script></body></html>")
    (tmp_path / "full.html").write_text("<p>text</p>")
    with pytest.raises(UserError, match=r"empty\.html: it holds no text"):
        read(f"files:{tmp_path}")
    bad: list[BadLine] = []
    assert read(f"files:{tmp_path}", bad) == ["text"]
    assert len(bad) == 1


@pytest.mark.parametrize(
    "around", [("<sec><title>t</title>", "</sec>"), ("<p><italic>", "</italic></p>"), ("<x>", "</x>")]
)
def test_xml_of_any_depth_is_read(tmp_path: Path, around: tuple[str, str]) -> None:
    pytest.importorskip("defusedxml")
    inner = around[0] * 5000 + "<p>deep text</p>" + around[1] * 5000
    (tmp_path / "deep.nxml").write_text(f"<article><body><p>first</p>{inner}</body></article>")
    (text,) = read(f"files:{tmp_path}")
    assert text.startswith("first")
    assert text.endswith("deep text")


def test_a_row_of_any_depth_is_named_and_counted(command: Cli, tmp_path: Path) -> None:
    rows = [
        '{"id": "1", "text": "measles"}',
        f'{{"id": "2", "text": "gout", "x": {DEEP}}}',
        '{"id": "3", "text": "flu"}',
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(rows))
    refused = command("index", "build", "n", "--from", "c.jsonl")
    assert refused.returncode == 2
    assert "line 2 of c.jsonl: it is nested too deeply. Repair it. Or skip" in refused.stderr
    done = command("index", "build", "n", "--from", "c.jsonl", "--skip-bad", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["passed_over"] == ["line 2 of c.jsonl: it is nested too deeply"]
    assert (found["index"]["documents"], found["index"]["skipped"]) == (2, 1)


FILES = {
    "agent.toml": (f"graph = 'direct'\nx = {DEEP}", ("list", "agents", "agent.toml")),
    "train.toml": (f"x = {DEEP}", ("train", "care", "train.toml")),
    "q.jsonl": (
        f'{{"id": "1", "question": "q", "x": {DEEP}}}',
        ("run", "--agent", "direct", "--benchmark", "jsonl:q.jsonl"),
    ),
    "home/prices.toml": (f"x = {DEEP}", ("run", "--agent", "direct", "--limit", "1", "--display", "none")),
    "p.jsonl": (
        f'{{"dataset": "d", "x": {DEEP}}}',
        ("import", "--format", "mirage-predictions", "p.jsonl", "--benchmark", "sample"),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_a_user_may_be_nested_too_deeply(command: Cli, tmp_path: Path, name: str) -> None:
    content, line = FILES[name]
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(content)
    done = command(*line)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "nested too deeply" in done.stderr


def test_settings_may_be_nested_too_deeply_or_no_text(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(f"x = {DEEP}")
    done = command("runs", "ls", RAGROUNDS_CONFIG=str(tmp_path / "s.toml"))
    assert done.returncode == 2
    assert "nested too deeply" in done.stderr
    (tmp_path / "b.toml").write_bytes(b"\x80\x81")
    done = command("list", "agents", "b.toml")
    assert done.returncode == 2
    assert "is not UTF-8" in done.stderr


def test_values_of_any_depth_are_made_wellformed() -> None:
    deep: object = "\ud83d\ude00 \ud800"
    for _ in range(50_000):
        deep = {"k": [deep]}
    made = wellformed_all(deep)
    for _ in range(50_000):
        made = made["k"][0]
    assert made == "\U0001f600 \ufffd"


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_what_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zstandard

    monkeypatch.setattr(jsonlines, "_LONGEST", 1 << 16)
    monkeypatch.setattr(files, "_LARGEST", 1 << 16)
    row = b'{"id": "1", "text": "a"}\n'
    plain = row + b" " * (1 << 20)
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}[ending]
    path = tmp_path / f"c.jsonl{ending}"
    path.write_bytes(pack(plain))
    with pytest.raises(UserError, match="a line has more than"):
        read(f"jsonl:{path}")
    path.write_bytes(pack(row * 20))
    assert len(list(jsonlines.read_lines(path))) == 20
    if ending == ".gz":
        path.write_bytes(pack(plain))
        with pytest.raises(UserError, match="it unpacks to more than"):
            files.read_bytes(path)
