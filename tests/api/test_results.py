"""Results as text and as HTML: what commands print, in real tables, and nothing in them is markup."""

from __future__ import annotations

import ast
import html.parser
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.api.functions import public_modules
from ragrounds.base.records import Attempt, Gold, Question, Run, Score
from ragrounds.evals.store.store import Store
from tests.beir_folders import write_beir
from tests.conftest import ROOT, Cli
from tests.extensions.arena.staging import stage
from tests.extensions.arena.test_cli import judges as judges
from tests.ui.trace.making import Journal, attempt, make_run, model_call, passages, score, search_call, step

HOSTILE = '</td><script>alert(1)</script>[bold]x[/bold]\x1b[31m\u202e"onclick="x'
PUBLIC = [
    rr.run, rr.arun, rr.compare, rr.score, rr.judge, rr.retrieve, rr.arena, rr.analyse, rr.ledger, rr.report, rr.load,
    rr.runs, rr.benchmark,
]  # fmt: skip


class Elements(html.parser.HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += "" if self.open and self.open[-1] == "style" else data


def page(result: Any) -> Elements:
    elements = Elements(result._repr_html_())
    assert elements.open == []
    assert set(elements.names) <= set(
        "style div table caption thead tbody tr th td p pre progress svg title line text g circle path rect "
        "details summary ol li".split()
    )
    assert "\x1b" not in elements.text
    assert "\u202e" not in elements.text
    return elements


@pytest.mark.slow
def test_text_is_what_the_command_prints(command: Cli) -> None:
    made = command("run", "--agent", "direct", "--agent", "vanilla_rag[top_k=2]", "--limit", "6", "--display", "none")

    def same(result: rr.Result, *arguments: str) -> None:
        lines = [line.rstrip() for line in command(*arguments).stdout.strip("\n").splitlines()]
        assert str(result).splitlines() == lines

    result = rr.run(agents=["direct", "vanilla_rag[top_k=2]"], limit=6)
    assert str(result).splitlines() == [line.rstrip() for line in made.stdout.strip("\n").splitlines()]
    both = list(result.ids)
    same(rr.compare(both), "compare", *both)
    same(rr.runs(), "runs", "ls")
    same(rr.load("direct"), "runs", "show", "direct")
    same(rr.ledger(both), "ledger", *both)
    same(rr.analyse("success", both[1]), "analyse", "success", both[1])
    assert "\n" not in repr(result)
    assert len(repr(result)) < 300
    for one in (result, rr.compare(result), rr.runs(), rr.load("direct"), rr.ledger(), rr.analyse("success", both[1])):
        shown = page(one)
        assert "table" in shown.names
        cells = re.sub(r"\s", "", shown.text)
        for line in str(one).splitlines()[:3]:
            assert re.sub(r"\s", "", line) in cells


def test_nothing_that_a_model_or_a_file_says_is_markup(home: Path) -> None:
    questions = [Question(id="q1", benchmark=HOSTILE, text=HOSTILE, group=HOSTILE)]
    run = Run(
        id="r-1", agent=HOSTILE, benchmark=HOSTILE, questions="s", count=1, epochs=1, fingerprint="f", created=1.0,
        identity={"models": {"model": HOSTILE}, HOSTILE: HOSTILE},
    )  # fmt: skip
    attempt = Attempt(run=run.id, question_id="q1", epoch=0, status="failed", text=HOSTILE, reason=HOSTILE)
    score = Score(question_id="q1", epoch=0, scorer="strict", value=0.0, answer_status="empty", prediction=HOSTILE)
    with Store(home) as store:
        store.add_run(run, questions, {"q1": Gold(question_id="q1", answer="A")})
        store.add_attempts(run, [attempt], [score])
    answer = rr.show("r-1", "q1")
    assert answer == rr.load("r-1").attempt("q1")
    for result in (rr.runs(), rr.load("r-1"), rr.compare("r-1", group_by="subject"), rr.ledger("r-1"), answer):
        page(result)
        assert "\x1b" not in str(result)
    assert rr.load("r-1").to_pandas()["text"][0] == HOSTILE


def test_retrieval_and_arenas_are_results_too(home: Path, tmp_path: Path, judges: object) -> None:
    texts = {"d1": "methylene blue treats methaemoglobinaemia", "d2": "aspirin thins blood"}
    folder = write_beir(tmp_path / "set", texts, {"q1": "methylene blue"}, [("q1", "d1")])
    found = rr.retrieve(f"beir:{folder}", ["bm25", "bm25[b=0.4]"])
    assert found.to_pandas().query("measure == 'nDCG@10'")["value"].tolist() == [1.0, 1.0]
    assert found.to_pandas("queries")["query"].unique().tolist() == ["q1"]
    assert "nDCG@10" in str(found)
    assert page(found).names.count("table") >= 2
    stage(home, 20).close()
    played = rr.arena(["strong", "middle", "weak"], "openai:j", schedule="full", resamples=100)
    ratings = played.to_pandas()
    assert ratings.groupby("axis")["system"].first().unique().tolist() == ["strong"]
    matches = played.to_pandas("matches")
    assert set(matches["outcome"].dropna()) <= {"first", "second", "tie"}
    assert len(matches) == 4 * 120
    assert "strong" in str(played)
    assert "strong" in page(played).text


@pytest.mark.parametrize("function", PUBLIC, ids=lambda one: one.__name__)
def test_public_functions_say_everything(function: object) -> None:
    words = inspect.getdoc(function) or ""
    assert re.search(r"^ {4}.*rr\.\w+\(", words, re.M), "an example"
    assert "Raises:" in words
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    said = words.split("Args:")[1].split("Raises:")[0]
    if function is not rr.arun:
        assert [name for name in parameters if not re.search(rf"\b{name}\b", said)] == []
    assert all(each.annotation is not inspect.Parameter.empty for each in parameters.values())


def test_run_and_arun_take_the_same() -> None:
    one, other = inspect.signature(rr.run), inspect.signature(rr.arun)
    assert one.parameters == other.parameters


def test_types_are_told_of_the_names_that_are_imported_lazily() -> None:
    tree = ast.parse((ROOT / "ragrounds" / "__init__.py").read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == public_modules()
    assert set(rr.__all__) == {*typed, "__version__"}
    for name in typed:
        assert getattr(rr, name).__module__ == typed[name]


LOADED = """
import sys
import ragrounds as rr
heavy = [name for name in sys.modules if name.startswith("ragrounds.")]
print(sorted(heavy), "msgspec" in sys.modules, "asyncio" in sys.modules)
rr.UserError
print(sorted(name for name in sys.modules if name.startswith("ragrounds.")))
assert "run" in dir(rr) and "arena" in rr.__all__
try:
    rr.rnu
except AttributeError as error:
    print(error)
import ragrounds
exec("from ragrounds import *")
print(run is rr.run)
"""


@pytest.mark.slow
def test_importing_the_package_loads_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    first, later, wrong, everything = done.stdout.splitlines()
    assert first == "['ragrounds.version'] False False"
    assert "has no attribute 'rnu'" in wrong
    names = "['ragrounds.base', 'ragrounds.base.errors', 'ragrounds.recorder', 'ragrounds.recorder.errors', "
    assert later == f"{names}'ragrounds.recorder.redaction', 'ragrounds.version']"
    assert everything == "True"


def test_an_attempt_is_tables_in_a_notebook(tmp_path: Path) -> None:
    """Question, passages, replies and errors are somebody else's words."""
    with Store(tmp_path) as store:
        run, journal = make_run(store, "seeker", 1), Journal(store)
        asked = search_call(journal, "search", f"query {HOSTILE}", passages(0, HOSTILE))
        said = model_call(journal, "answer", f"prompt {HOSTILE}", f"reply {HOSTILE}")
        events = [*step(0, "search", asked), *step(1, "answer", said)]
        store.add_attempts(run, [replace(attempt(run, 0, events, "completed"), text=f"B {HOSTILE}")])
        store.add_scores(run, [score(0, right=False)])
        journal.close()
    found = rr.load("seeker", home=tmp_path).attempt("quiz/000")
    shown = page(found)
    for text in (
        "query <",
        "prompt <",
        "reply <",
        "B <",
        "Chapter 1",
        "case 0",
        "search",
        "answer",
        "strict",
        "completed",
    ):
        assert text.replace("<", "</td>") in shown.text, text
    assert len(repr(found)) < 100
    assert "Chapter 1" in str(found)
    assert "\x1b" not in str(found)
    assert found.attempt.text.startswith("B"), "the record itself is as it was"
