"""Texts of a benchmark, a graph and a model that try to be markup, cursor movements, formulas or HTML: in every table,
document and report they are texts."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from ragrounds.base.text import escaped_json
from ragrounds.ui.console import SafeConsole
from tests.conftest import Cli

TEXTS = (
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eevil\u202c",
    "\x9b31mred",
    "\u200bhidden\ufeff \u2028line",
    "[bold red]x[/] [link=http://x]a[/link]",
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script><!--",
    "../../etc/passwd %s {0} ${HOME}",
)
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
GRAPH = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph
TEXTS = {texts!r}
NODE = "say [red]<b>" + TEXTS[0]
class State(TypedDict):
    question: str
    answer: str
def say(state):
    text = TEXTS[int(state["question"].split()[0]) % len(TEXTS)]
    if "fail" in state["question"]:
        raise ValueError(text)
    return {{"answer": text + " The answer is A."}}
def build():
    graph = StateGraph(State)
    graph.add_node(NODE, say)
    graph.add_edge(START, NODE)
    graph.add_edge(NODE, END)
    return graph
"""


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """An agent whose name, node, answers and errors are hostile, and a benchmark that is too."""
    name = "=[bold]<b>é\u202e.py"
    (tmp_path / name).write_text(GRAPH.format(texts=TEXTS))
    rows = []
    for number, text in enumerate(TEXTS * 2):
        said = "fail" if number >= len(TEXTS) else ""
        one = {"id": f"{number} {text}" if text.isprintable() else str(number), "question": f"{number} {said} {text}"}
        rows.append({**one, "options": {"A": f"a {text}", "B": f"b {text}"}, "answer": "A", "group": text})
    rows.append(
        {
            "id": "long",
            "type": "long",
            "question": "0 long",
            "answer": TEXTS[0],
            "facts": [[TEXTS[1]]],
            "group": TEXTS[0],
        }
    )
    (tmp_path / "h.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return json.dumps(f"./{name}:build")


@pytest.mark.slow
def test_hostile_texts_are_texts_wherever_they_are_shown(command: Cli, agent: str, tmp_path: Path) -> None:
    made = command(
        *("run", "--agent", agent, "--agent", "direct", "--model", "baseline:extractive"),
        *("--benchmark", "jsonl:h.jsonl", "--display", "none"),
    )
    assert made.returncode == 3, made.stderr
    listed = command("runs", "ls", "--json")
    second, first = (one["run"]["id"] for one in json.loads(listed.stdout)["runs"])
    assert first.startswith("bold--b-é-u202e.py-build-")
    said = [made.stdout, made.stderr, listed.stdout]
    for line in (
        ("runs", "ls"),
        ("runs", "show", first),
        ("compare", first, second, "--group-by", "subject"),
        ("compare", first, second, "--group-by", "subject", "--json"),
        ("show", first, "h/0"),
        ("show", first, "h/9"),
        ("show", first, "h/1"),
        ("ledger", first),
        ("analyse", "flips", first, second),
        ("trace", first, "--format", "text"),
        ("trace", first, "--format", "text"),
        ("compare", first, second, "--group-by", "subject", "--latex"),
        ("data", "audit", "jsonl:h.jsonl"),
        ("list", "graphs", agent),
        ("list", "agents", agent, "--json"),
        ("doctor", "--store", "--json"),
        ("report", first, second, "--out", "r.html", "--group-by", "subject"),
        ("export", "store", first, "--out", "s.ragrounds"),
    ):
        done = command(*line)
        assert "Traceback" not in done.stderr, line
        said += [done.stdout, done.stderr]
        found = BAD.search(done.stdout + done.stderr)
        assert found is None, (line, ascii((done.stdout + done.stderr)[max(0, found.start() - 60) :][:100]))
    whole = "".join(said)
    assert "[bold red]x" in whole
    sheet = command("compare", first, second, "--group-by", "subject", "--csv").stdout.removeprefix("\ufeff")
    assert BAD.search(sheet) is None
    for cell in (cell for row in csv.reader(io.StringIO(sheet)) for cell in row):
        assert cell[:1] not in ("=", "@", "+", "-") or re.fullmatch(r"[+-]?[\d.,e+-]+|-", cell), cell
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for tag in ("<script>alert", "<img src=x", "<b>é", "</script><script>alert"):
        assert tag not in page
    assert BAD.search(page) is None


def test_the_console_lets_nothing_through_that_moves_a_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    console = SafeConsole(force_terminal=True, color_system="truecolor", width=200)
    table = Table("column")
    for text in TEXTS:
        console.print(Text(text), text, style="red", markup=False)
        table.add_row(Text(text))
    console.print(table)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)  # the console's own colours
    assert BAD.search(shown) is None
    assert shown.count("<U+001B>[31mred<U+001B>]0;title") == 3


def test_a_json_document_does_nothing_to_a_terminal_and_means_the_same() -> None:
    value = {text: [text, "\U000e0041é医\n"] for text in TEXTS}
    text = escaped_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert BAD.search(text) is None
    assert "é医" in text
