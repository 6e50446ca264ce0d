"""A published leaderboard: what stands in its pages, what does not, and what the command says."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.evals.benchmarks.cards import text_licence
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions
from tests.ui.report.making import passage, traced_events

HOSTILE = '</td><script>alert(1)</script>"onclick="x\u202e'

RIGHT, WRONG = '{"answer_choice": "A"}', '{"answer_choice": "B"}'


class Links(HTMLParser):
    """Where the links of a page lead, and what else it would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a":
            self.links.append(found.get("href") or "")
        elif "src" in found or "href" in found:
            self.loaded.append(str(found))
        self.ids.add(found.get("id") or "")


def dead_links(folder: Path) -> list[str]:
    """Links of all pages that lead to no file or no part of one, and what pages would load."""
    pages = {path.name: Links(path.read_text(encoding="utf-8")) for path in folder.glob("*.html")}
    dead = []
    for name, page in pages.items():
        dead += page.loaded
        for link in page.links:
            target, _, anchor = link.partition("#")
            there = pages.get(target or name)
            if not (folder / (target or name)).is_file() or (anchor and there and anchor not in there.ids):
                dead.append(f"{name}: {link}")
    return dead


@pytest.fixture
def filled(home: Path) -> Path:
    """A store with two sets of questions, and an agent whose name is markup."""
    with Store(home) as store:
        add_run(store, "direct", questions(30), [0] * 30, texts=dict.fromkeys(range(30), WRONG))
        hostile = f"rag[top_k=8,note={HOSTILE}]"
        add_run(store, hostile, questions(30), [1] * 30, id="rag-run", texts=dict.fromkeys(range(30), RIGHT))
        add_run(store, "stopped", questions(10), [1] * 4 + [...] * 6, texts=dict.fromkeys(range(4), RIGHT))
    return home


def test_a_folder_of_pages_whose_links_all_lead_somewhere(filled: Path, tmp_path: Path) -> None:
    made = rr.publish(tmp_path / "site", progress=False)
    assert (made.runs, len(made.rankings), made.studies) == (3, 2, 0)
    assert dead_links(tmp_path / "site") == []
    index = made.index.read_text(encoding="utf-8")
    assert "<script>alert" not in index
    assert "&lt;script&gt;alert(1)" in index
    assert "\u202e" not in index
    assert not re.findall(r"https?://", index)
    assert "Incomplete:" in index
    assert ">incomplete</td>" in index
    assert "6 of 10" in index


def test_keys_are_hidden(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "sk-proj-abcdefghijklmnopqrstuvwx1234"
    with Store(filled) as store:
        add_run(store, f"own[key={hidden}]", questions(30), [1] * 30, id="own")
    rr.publish(tmp_path / "site", title=f"By {hidden}", progress=False)
    assert [path.name for path in (tmp_path / "site").iterdir() if hidden in path.read_text(encoding="utf-8")] == []


def test_a_study_is_a_table_with_the_figures_of_its_paper_and_its_notes(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "Two strategies"\nnote = "In percent. Read `ragrounds study show mine`."\n'
        '[settings]\nbenchmark = "sample"\n[[columns]]\nname = "all"\n'
        '[[rows]]\nname = "A"\nagent = "direct"\nmodel = "openai:a"\npublished = [51.2]\n'
    )
    made = rr.publish(tmp_path / "site", studies=str(tmp_path / "mine.toml"), progress=False)
    assert (made.runs, made.studies, made.pages) == (0, 1, 1)
    page = made.index.read_text(encoding="utf-8")
    for words in ("0 of 1 cell are done", "51.2", "In percent."):
        assert words in page
    assert "`ragrounds" not in page, "a reader of the site cannot run it"


def test_nothing_to_publish_and_unknown_words_leave_the_folder_alone(home: Path, tmp_path: Path) -> None:
    with pytest.raises(rr.UserError, match="has no run and no study"):
        rr.publish(tmp_path / "site")
    with pytest.raises(rr.UserError, match="`attempts` 'al' is unknown"):
        rr.publish(tmp_path / "site", attempts="al")
    with pytest.raises(rr.UserError, match="There is no run 'nobody'"):
        rr.publish(tmp_path / "site", "nobody")
    assert not (tmp_path / "site").exists()


def test_the_command(filled: Path, tmp_path: Path, command) -> None:
    done = command("publish", "site", "direct-run", "rag-run", "--title", "Ours", "--as", "direct-run=Without")
    assert done.returncode == 0, done.stderr
    assert "2 runs in 1 ranking" in done.stdout
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "<h1>Ours</h1>" in index
    assert "Without" in index
    assert "stopped" not in index
    told = json.loads(command("publish", "site", "--json").stdout)
    assert told["runs"] == 3


def test_a_second_call_replaces_all_pages_and_nothing_else(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    rr.publish(site, progress=False)
    former = {path.name: path.read_bytes() for path in site.iterdir()}
    (site / "CNAME").write_text("example.org")
    (site / ".ragrounds-new").mkdir()  # of a process that was killed
    (site / ".ragrounds-new" / "half.html").write_text("half")
    with monkeypatch.context() as patch:  # an error before the end leaves what is there
        patch.setattr("ragrounds.extensions.publishing.publish.index_page", lambda board: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rr.publish(site, progress=False)
    assert {path.name: path.read_bytes() for path in site.iterdir()} == {**former, "CNAME": b"example.org"}
    rr.publish(site, "stopped", progress=False)
    names = {path.name for path in site.iterdir()}
    assert {"CNAME", "index.html"} < names < {*former, "CNAME"}
    assert dead_links(site) == []


def test_pages_of_somebody_else_are_refused(filled: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.html").write_text("mine")
    with pytest.raises(rr.UserError, match=r"not from `ragrounds publish` \(thesis\.html\)"):
        rr.publish(tmp_path, progress=False)
    assert [path.name for path in tmp_path.glob("*.html")] == ["thesis.html"]


def everything(folder: Path) -> str:
    """All that stands in a folder, with what pages hold packed."""
    said = []
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        packed = re.findall(r'<script type="text/plain" id="[^"]+">([^<]*)</script>', text)
        said += [path.name, text, *(gzip.decompress(base64.b64decode(data)).decode() for data in packed)]
    return "\n".join(said)


def traced(home: Path, benchmark: str, corpus: str | None) -> None:
    """A run of one question whose attempt searched and asked a model; each text has a word of its own."""
    asked = [
        replace(one, id=f"{benchmark}/ward-7", text="A questionword?", options={"A": "an optionword", "B": "another"})
        for one in questions(1, benchmark)
    ]
    with Store(home) as store:
        events = traced_events(
            store, 1, passages=[passage(text="A passageword.")], query="A queryword",
            prompt="A promptword, passageword.", reply="A replyword",
        )  # fmt: skip
        identity = {"models": {"model": "test:model"}, "tier": "journaled", "corpus": corpus}
        texts = {0: '{"answer_choice": "A", "because": "answerword"}'}
        add_run(store, "rag", asked, [1], events={0: events}, texts=texts, identity=identity)


WORDS = ("questionword", "optionword", "answerword", "replyword", "queryword", "promptword", "passageword", "ward-7")


def shown_words(folder: Path) -> set[str]:
    found = everything(folder)
    return {word for word in WORDS if word in found}


@pytest.mark.parametrize(
    ("benchmark", "corpus", "attempts", "shown"),
    [
        ("jsonl/own", None, "licensed", set()),
        ("jsonl/own", None, "never", set()),
        ("mirage/medqa", "sample@1", "licensed", set()),
        ("kqa", "sample@1", "never", set()),
        ("kqa", "sample@1", "licensed", set(WORDS)),
        ("kqa", "pubmed@1", "licensed", set(WORDS) - {"promptword", "passageword"}),
        ("jsonl/own", "pubmed@1", "all", set(WORDS)),
    ],
)
def test_texts_are_published_where_the_licence_lets_anybody(
    home: Path, tmp_path: Path, benchmark: str, corpus: str | None, attempts: str, shown: set[str]
) -> None:
    traced(home, benchmark, corpus)
    made = rr.publish(tmp_path / "site", attempts=attempts, progress=False)
    assert shown_words(tmp_path / "site") == shown
    assert bool(made.withheld) == (attempts == "licensed" and not shown)
    assert (len(list((tmp_path / "site").glob("*-attempts.html"))) == 0) == (attempts == "never")
    assert dead_links(tmp_path / "site") == []


def test_a_digest_says_which_question_and_answer_to_whoever_has_them(home: Path, tmp_path: Path) -> None:
    traced(home, "jsonl/own", None)
    rr.publish(tmp_path / "site", progress=False)
    question = ["jsonl/own/ward-7", "A questionword?", {"A": "an optionword", "B": "another"}]
    answer = '{"answer_choice": "A", "because": "answerword"}'
    found = everything(tmp_path / "site")
    for parts in (question, [*question, answer]):
        written = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
        assert f"SHA-256 {hashlib.sha256(written.encode()).hexdigest()}" in found


def test_what_licences_let_anybody_do() -> None:
    assert [text_licence(name).free for name in ("sample", "kqa", "pubmedqa/test", "mrag/adint")] == [True] * 4
    # Forbidden for some purposes, said elsewhere, not known, without a card.
    others = ("ddi/test", "mirage/medqa", "mirage", "r2med/biology", "beir/scifact", "jsonl/own", "", "../sample")
    assert [text_licence(name).free for name in others] == [False] * len(others)
