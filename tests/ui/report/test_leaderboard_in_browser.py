"""The leaderboard in a browser: filters, their address, sorting, a keyboard, a telephone, and no request."""

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
        ".filter(row => row.offsetParent).map(row => row.dataset.w.split(' ')[0])).filter(rows => rows.length)"
    )


def choose(browser, field, value):
    browser.run(
        "const one = document.getElementById(arguments[0]); one.value = arguments[1];"
        "one.dispatchEvent(new Event('input', {bubbles: true}))",
        field,
        value,
    )


def test_filters_and_the_address_that_keeps_them(browser, site):
    browser.open(site)
    assert shown(browser) == [["run-2", "run-1", "run-0"], ["run-few"]]
    choose(browser, "f-strategy", "rag")
    choose(browser, "f-model", "b:two")
    assert shown(browser) == [["run-2"]]
    assert browser.text("#count") == "1 of 4 runs"
    address = browser.driver.current_url
    assert address.endswith("#strategy=rag&model=b%3Atwo")
    browser.driver.get("about:blank")
    browser.driver.get(address)
    assert shown(browser) == [["run-2"]]
    choose(browser, "f-model", "")
    choose(browser, "f-words", "K=8")
    assert shown(browser) == [["run-2"], ["run-few"]]
    browser.run("document.getElementById('f-complete').click()")
    assert shown(browser) == [["run-2"]]
    browser.run("document.querySelector('#choose [type=reset]').click()")
    browser.wait(lambda: len(shown(browser)) == 2)
    assert "#" not in browser.driver.current_url


def test_columns_sort_inside_their_ranking_by_keyboard(browser, site):
    from selenium.webdriver.common.keys import Keys

    browser.open(site)
    heads = browser.all("section.ranking:first-of-type thead th")
    agent = next(head for head in heads if head.text == "agent")
    agent.find_element("css selector", "button").send_keys(Keys.ENTER)
    assert agent.get_attribute("aria-sort") == "ascending"
    assert shown(browser) == [["run-0", "run-1", "run-2"], ["run-few"]]
    choose(browser, "f-scorer", "strict")
    assert shown(browser)[0] == ["run-2", "run-1", "run-0"]


def test_it_asks_nothing_and_fits_a_telephone(browser, site):
    browser.open(site)
    assert browser.requests() == [site.as_uri()]
    assert browser.complaints() == []
    size = {"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(site)
        assert browser.run("return document.documentElement.scrollWidth") == 420
        cell = "document.querySelector('tbody th')"
        assert "b:two" in browser.run(f"return getComputedStyle({cell}, '::after').content")
        assert browser.run("return document.querySelector('td.m').offsetParent") is None
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


def test_what_is_copied_is_what_is_seen(browser, site):
    browser.open(site)
    choose(browser, "f-model", "a:one")
    browser.run(
        "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); };"
        "[...document.querySelectorAll('.tools button')].find(one => one.textContent.includes('Markdown')).click()"
    )
    copied = browser.wait(lambda: browser.run("return window.copied"))
    assert "direct" in copied
    assert "b:two" not in copied
    assert "\n| place | agent | strict, % | 95 % |" in copied
