"""The leaderboard in a browser: sorting, a keyboard, a telephone, and no request."""

import pytest

import ragrounds as rr
from ragrounds.evals.store.store import Store
from tests.compare.making import add_run, questions

RIGHT, WRONG = '{"answer_choice": "A"}', '{"answer_choice": "B"}'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A leaderboard of two rankings with three and one runs."""
    home = tmp_path_factory.mktemp("home")
    with Store(home) as store:
        for number, (name, model) in enumerate([("direct", "a:one"), ("rag[k=1]", "a:one"), ("rag[k=8]", "b:two")]):
            right = [1] * (10 * number) + [0] * (30 - 10 * number)
            texts = {place: RIGHT if value else WRONG for place, value in enumerate(right)}
            identity = {"models": {"model": model}, "agent": name}
            add_run(store, name, questions(30), right, texts=texts, identity=identity, id=f"run-{number}")
        few = [1] * 4 + [...] * 6
        add_run(store, "rag[k=8]", questions(10), few, texts=dict.fromkeys(range(4), RIGHT), id="run-few")
    return rr.publish(tmp_path_factory.mktemp("site"), home=home, progress=False).index


def shown(browser):
    """The runs that are seen, ranking by ranking."""
    return browser.run(
        "return [...document.querySelectorAll('section.ranking')].map(one => [...one.querySelectorAll('tbody tr')]"
        ".map(row => row.querySelector('th').innerText.split('\\n')[0].split(' ')[0]))"
    )


def test_columns_sort_inside_their_ranking_by_keyboard(browser, site):
    from selenium.webdriver.common.keys import Keys

    browser.open(site)
    heads = browser.all("section.ranking:first-of-type thead th")
    agent = next(head for head in heads if head.text == "agent")
    agent.find_element("css selector", "button").send_keys(Keys.ENTER)
    assert agent.get_attribute("aria-sort") == "ascending"
    assert shown(browser) == [["direct", "rag[k=1]", "rag[k=8]"], ["rag[k=8]"]]


def test_it_asks_nothing_and_fits_a_telephone(browser, site):
    browser.open(site)
    assert browser.requests() == [site.as_uri()]
    assert browser.complaints() == []
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(site)
        assert browser.run("return document.documentElement.scrollWidth") == 400
        table = "document.querySelector('.ranking .scroll')"
        assert browser.run(f"return {table}.scrollWidth > {table}.clientWidth && {table}.tabIndex === 0")
        paid = "[...document.querySelectorAll('.ranking thead th')].find(head => head.innerText === 'paid')"
        assert browser.run(f"return {paid}.getBoundingClientRect().right <= {table}.getBoundingClientRect().right")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_row_leads_to_its_attempts_and_these_back(browser, site):
    browser.open(site)
    browser.find("section.ranking:first-of-type tbody th a").click()
    browser.wait(lambda: browser.run("return document.documentElement.dataset.ready"))
    assert "attempts of 3 runs" in browser.text("h1")
    browser.wait(lambda: browser.text("#count").startswith("90 of 90"))
    assert "Question" not in browser.text("#rows")
    assert "SHA-256" in browser.text("#rows")
    browser.find("nav a").click()
    assert browser.driver.current_url == site.as_uri()


def test_figures_and_the_frontier_come_before_prose_and_long_headings_wrap(browser, site):
    browser.open(site)
    top = browser.run(
        "return ['table', 'svg.picture', '.apart'].map(one => "
        "document.querySelector(`section.ranking ${one}`).getBoundingClientRect().top)"
    )
    assert top == sorted(top)
    assert top[0] < 400
    heads = "[...document.querySelectorAll('thead th')]"
    browser.run(f"for (const one of {heads}.slice(2)) one.querySelector('button').textContent = 'comprehensiveness, %'")
    assert browser.run(f"return {heads}.every(one => one.scrollWidth <= one.offsetWidth)")
