"""Arenas and analyses in the report."""

import re
from html import unescape

import msgspec
import pytest

from ragrounds.base.errors import UserError
from ragrounds.evals.compare.comparison import compare
from ragrounds.ui.report.page import PageOptions, report_page
from tests.compare.making import add_run, questions
from tests.extensions.arena.staging import Stage, by_strength, stage
from tests.judges.doubles import Scripted


def page(store, runs, **more):
    return "".join(report_page(store, runs, compare(store, runs), PageOptions(**more)))


def texts(page, section):
    """The text of a section, blanks made one."""
    body = page.partition(f'<section id="{section}">')[2].partition("</section>")[0]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body.replace("<wbr>", ""))).split())


async def test_an_arena_of_these_runs_is_shown_and_another_is_not(tmp_path):
    with stage(tmp_path, 30) as store:
        await Stage(store, [Scripted(by_strength), Scripted(by_strength, "other:judge")]).play()
        runs = [store.run(name) for name in ("strong", "middle", "weak")]
        shown = texts(page(store, runs), "arena")
        assert "usefulness: 90 matches (rating: Bradley-Terry" in shown
        assert re.search(r"1 strong \d+ \S+ to \S+( \S+)* 2 middle", shown)
        assert "30-0-0" in shown
        assert "agree on 100.0 % of 90 matches" in shown, shown  # they agree on everything
        assert 'id="arena"' not in page(store, runs[:2])


async def test_an_arena_whose_answers_have_changed_is_left_out_by_name(tmp_path):
    with stage(tmp_path, 6) as store:
        await Stage(store, [Scripted(by_strength)]).play()
        runs = [store.run(name) for name in ("strong", "middle", "weak")]
        changed = next(iter(store.attempts(runs[0])))
        store.add_attempts(runs[0], [msgspec.structs.replace(changed, text="new")])
        assert "is left out: the runs have other answers now" in texts(page(store, runs), "arena")


def test_analyses_are_made_when_asked_for(store):
    asked = questions(4)
    runs = [
        add_run(store, f"rag[top_k={k}]", asked, [1] * k + [0] * (4 - k), identity={"parameters": {"top_k": k}})
        for k in (1, 3)
    ]
    shown = texts(page(store, runs, analyses=["passages"]), "behaviour")
    assert "Accuracy against top_k" in shown
    assert "25.00" in shown
    assert "75.00" in shown
    assert 'id="behaviour"' not in page(store, runs)
    with pytest.raises(UserError, match="nonsense"):
        page(store, runs, analyses=["nonsense"])


def test_results_say_why_answers_are_not_right_and_what_agents_do(store):
    runs = [
        add_run(store, "direct", questions(4), [1, 0, 0, 1], id="direct-1"),
        add_run(store, "own.py:graph", questions(4), [1, 1, 0, 1], id="own-1"),
    ]
    whole = page(store, runs)
    shown = texts(whole, "results")
    assert shown.startswith("Results direct: The model answers at once, from what it knows.")
    assert "own.py:graph: " not in shown.partition("Accuracy")[0]  # no code of others is opened
    assert "likely cause direct own.py:graph it means not known 2 1 its searches, prompts or score are missing" in shown
    assert re.search(r'href="#a=direct-1/[^"]+">not known</a>', whole)
    assert 'href="#a=' not in page(store, runs, attempts=False)
    assert "Why answers" not in texts(page(store, [add_run(store, "direct", questions(4), [1] * 4, id="x")]), "results")


def test_a_scorer_says_of_how_many_questions_its_figures_are(store):
    asked = [*questions(3), *(msgspec.structs.replace(one, kind="long", options={}) for one in questions(5)[3:])]
    run = add_run(store, "direct", asked, [1, 0, 1, ..., ...], id="direct-1")
    assert "strict is of 3 of 5 questions: those that it can score (multiple choice)." in texts(
        page(store, [run]), "results"
    )


def test_conclusion_table_and_frontier_come_first_and_few_failures_in_grey(store):
    asked = questions(40)
    shares = {"low": 8, "high": 36}
    runs = [
        add_run(store, name, asked, [1] * right + [0] * (40 - right), cost_uncached=cost, status={39: "failed"})
        for (name, right), cost in zip(shares.items(), (0.01, 0.02), strict=True)
    ]
    made = page(store, runs)
    first = made.partition('<section id="abstract">')[2].partition("</section>")[0]
    said = texts(made, "abstract")
    assert said.startswith(
        "Abstract Accuracy (strict reading): high is significantly better than the other: "
        "90.00 % for $2.00 per 100 questions"
    )
    assert first.index('class="lead"') < first.index("<table>") < first.index("<svg")
    assert "Incomplete: 2 attempts failed; they count as not correct (low: 1 of 40; high: 1 of 40)." in said
    assert 'class="incomplete"' not in made
    assert "resume low-run" in first
    assert made.count("Accuracy under strict, by dollars") == 2, "the picture stands once, with what is read aloud"


def test_a_brief_page_is_the_top_and_the_notes_alone(store):
    rights = {"a": [1] * 8 + [0] * 32, "b": [1] * 36 + [0] * 4}
    runs = [add_run(store, name, questions(40), right) for name, right in rights.items()]
    made, whole = page(store, runs, brief=True), page(store, runs)
    assert re.findall('<section id="([a-z-]+)">', made) == ["abstract", "notes"]
    assert "startAttempts" not in made
    assert texts(made, "abstract") == re.sub(r"\d+ notes? ?: Limitations ?\. ", "", texts(whole, "abstract"))
    assert texts(made, "notes").removeprefix("Notes ") in texts(whole, "limitations")
