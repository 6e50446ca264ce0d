"""The filter line of the page and the one of the viewer choose the same attempts."""

import pytest
from msgspec import structs

from ragrounds.evals.trace.summaries import Pages
from tests.compare.making import add_run, questions
from tests.ui.report.making import passage, traced_events

SAME = (
    "wrong",
    "right and hops>=1",
    "not right",
    "incorrect and not not scored",
    "gold found",
    "gold not found",
    "not gold found",
    "gold known",
    "gold not known and wrong",
    "hops>0 wrong",
    "hops and not repeated",
    "cost>0.015",
    "cost=unknown",
    "gold_rank<=1",
    "tokens>100",
    "tokens>0.1k",
    "time>10s",
    "failed",
    "troubled",
    "unscored",
    "errors",
    "score<50%",
    "steps>1 and faults=0",
    "not failed epoch=0 and model_calls>=0",
)


@pytest.fixture
def two_runs(store):
    asked = [structs.replace(one, group="heart" if index % 2 else "lung") for index, one in enumerate(questions(6))]
    documents = dict.fromkeys(range(4), ("d2",))
    events = {
        0: traced_events(store, 1, passages=[passage(1), passage(2)], prompt="Vitamin C cures scurvy."),
        2: traced_events(store, 3, passages=[passage(1)]),
        4: traced_events(store, 5, passages=[passage(2)]),
    }
    first = add_run(store, "direct", asked, [1, 0, 1, 0, ..., 0], cost_uncached=0.01, documents=documents)
    second = add_run(store, "rag", asked, [1, 1, 0, None, 0, 0], cost_uncached=0.02, events=events, documents=documents)
    return [first, second]


def listed(browser):
    return browser.run(
        "return [...document.querySelectorAll('.row')].map(row => "
        "['.name', '.agent'].map(part => row.querySelector(part).textContent).join(' '))"
    )


@pytest.mark.slow
def test_the_same_words_choose_the_same_attempts(browser, written, store, two_runs):
    browser.open(written(two_runs))
    pages = Pages(store, two_runs)
    for expression in SAME:
        pages.complete(expression)
        rows = pages.read(pages.order(f"({expression}) and made"))
        expected = sorted(f"{row.question.id} {row.run.agent}" for row in rows)
        browser.run(
            "const e=document.getElementById('search'); e.value=arguments[0]; e.dispatchEvent(new Event('change'))",
            expression,
        )
        assert browser.text("#problem") == "", expression
        assert sorted(listed(browser)) == expected, expression


@pytest.mark.slow
def test_the_first_click_after_typing_opens_a_row(browser, written, two_runs):
    browser.open(written(two_runs))
    browser.find("#search").send_keys("wrong")
    browser.wait(lambda: len(browser.all(".row")) == 6)
    wanted = browser.text(".row .name")
    browser.find(".row").click()
    browser.wait(lambda: browser.all("#title"))
    assert wanted in browser.text("#title")
