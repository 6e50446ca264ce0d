"""A published leaderboard: what stands in its pages, what does not, and what the command says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions

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
    assert "6 of 10 attempts not made" in index
    assert "Not in one ranking with the others of x: other questions: here all 10; elsewhere 30." in index


def test_the_data_are_the_figures_of_compare(filled: Path, tmp_path: Path) -> None:
    rr.publish(tmp_path / "site", progress=False)
    data = json.loads((tmp_path / "site" / "leaderboard.json").read_text(encoding="utf-8"))
    assert data["version"] == 1
    both = next(one for one in data["rankings"] if one["questions"] == 30)
    compared = rr.compare(["direct-run", "rag-run"]).comparison
    (table,) = compared.tables
    lines = {line.run: line.overall for line in table.lines}
    assert [one["run"] for one in both["runs"]] == ["rag-run", "direct-run"]
    for one in both["runs"]:
        figure = lines[one["run"]]
        assert one["figures"]["strict"] == {
            "value": figure.value, "low": figure.low, "high": figure.high, "best": figure.best, "n": 30, "missing": 0,
        }  # fmt: skip
    assert both["runs"][0]["places"] == {"strict": {"first": 1, "last": 1}}
    assert both["question_hash"].startswith(both["id"].removeprefix("x-"))


def test_keys_are_hidden(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = "sk-proj-abcdefghijklmnopqrstuvwx1234"
    with Store(filled) as store:
        add_run(store, f"own[key={hidden}]", questions(30), [1] * 30, id="own")
    rr.publish(tmp_path / "site", title=f"By {hidden}", progress=False)
    assert [path.name for path in (tmp_path / "site").iterdir() if hidden in path.read_text(encoding="utf-8")] == []


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
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    done = command("publish", "other")
    assert done.returncode == 2
    assert "did not make (thesis.tex)" in done.stderr
    told = json.loads(command("publish", "site", "--json").stdout)
    assert told["runs"] == 3
