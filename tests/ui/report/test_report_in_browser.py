"""The report in a real browser: opened, filtered, searched, a trace unfolded; hostile text does nothing."""

import base64

import msgspec
import pytest

from ragrounds.ui.report.payload import attempt_link
from tests.compare.making import add_run, questions
from tests.ui.report.making import passage, traced_events

HOSTILE = (
    "</script><script>window.planted=1</script><img src=x onerror='window.planted=2'>"
    '"><svg onload="window.planted=3"><style>body{display:none}</style><a href="javascript:alert(1)">x</a>'
    "<iframe src=https://planted.example></iframe>\u202etxt\x1b[2J\x00&lt;b&gt;"
)


def planted(where):
    return f"{HOSTILE} {where}"


@pytest.fixture
def two_runs(store):
    asked = [
        msgspec.structs.replace(question, group="heart" if index % 2 else "lung", text=f"What of case {index}?")
        for index, question in enumerate(questions(6))
    ]
    first = add_run(
        store, "direct", asked, [1, 0, 1, 0, 1, 0], texts={0: "A long answer about beriberi. " * 5}, cost_uncached=0.01
    )
    events = {2: traced_events(store, 1, passages=[passage(1), passage(2, "A passage about pellagra. " * 10)])}
    second = add_run(store, "rag", asked, [1, 1, 1, 0, 0, 0], events=events, cost_uncached=0.02)
    return [first, second]


def shown(browser):
    return browser.run("return [...document.querySelectorAll('.row')].map(row => row.textContent)")


def unfold(browser):
    """Open all that is folded in the detail: steps, their calls, what these hold."""
    folded = "[...document.querySelectorAll('#detail details')]"
    for _ in range(3):
        browser.run(f"{folded}.forEach(one => {{ one.open = true; }})")
        browser.wait(lambda: browser.run(f"return {folded}.every(one => !one.open || one.dataset.drawn)"))


def choose(browser, selector, value):
    browser.run(
        "const e=document.querySelector(arguments[0]); e.value=arguments[1]; e.dispatchEvent(new Event('change'))",
        selector,
        value,
    )


def test_a_reply_in_json_is_read_by_its_names(browser, written, store):
    asked = questions(2)
    reply = msgspec.json.encode({"step_by_step": f"Two\nlines. {HOSTILE}", "answer": "A", "sure": 0.5}).decode()
    texts = {0: reply, 1: '{"why": "cut'}
    run = add_run(store, "direct", asked, [1, 1], texts=texts)
    browser.open(written([run]))
    browser.run("location.hash = arguments[0]", attempt_link(run.id, asked[0].id))
    browser.wait(lambda: browser.all("#title"))
    read = browser.run("return [...document.querySelectorAll('#detail :is(pre,.prose)')].map(one => one.textContent)")
    assert any(text.startswith("Two\nlines. </script>") for text in read)
    assert {"answer: A", "sure: 0.5"} <= set(read)
    assert browser.run("return document.querySelector('#detail h6').textContent") == "Step by step"
    assert reply not in read
    folded = "[...document.querySelectorAll('#detail summary')].find(s => s.textContent.startsWith('As it'))"
    browser.run(f"{folded}.click()")
    browser.wait(lambda: browser.run(f"return {folded}.parentElement.querySelector('pre')?.textContent") is not None)
    assert browser.run("return typeof window.planted") == "undefined"


def test_reasoning_is_folded_and_read_as_markdown(browser, written, store):
    said = "## 1. The **sign**\nit is `x < y`, *not* 2*3*4:\n\n"
    said += "| drug | dose |\n|---|---|\n| a | **2** |\n\n```json\n**{}**\n```\n"
    said += f"**{HOSTILE}**"
    asked = questions(1)
    run = add_run(store, "direct", asked, [1], events={0: traced_events(store, 1, reasoning=said)})
    browser.open(written([run]))
    browser.run("location.hash = arguments[0]", attempt_link(run.id, asked[0].id))
    browser.wait(lambda: browser.all("#detail details.step"))
    unfold(browser)
    browser.wait(lambda: browser.all("#detail .call .prose h6"))
    prose = "document.querySelector('#detail .call .prose')"
    texts = f"return [...{prose}.querySelectorAll(arguments[0])].map(one => one.textContent)"
    assert browser.run(texts, "h6") == ["1. The sign"]
    assert browser.run(texts, "td") == ["drug", "dose", "a", "2"]
    assert browser.run(texts, "pre") == ["json\n**{}**\n"]
    assert browser.run(texts, "p code") == ["x < y"]
    assert browser.run(texts, "p em") == ["not"]
    assert "<script>window.planted=1</script>" in browser.run(f"return {prose}.textContent")
    assert browser.run("return typeof window.planted") == "undefined"
    assert browser.run(f"return {prose}.querySelectorAll('script,img,svg,a,iframe,style').length") == 0
    assert browser.complaints() == []


def test_opened_filtered_searched_and_unfolded(browser, written, two_runs):
    path = written(two_runs, group_by=["subject"])
    browser.open(path)
    assert len(shown(browser)) == 12
    assert browser.text("#count") == "12 of 12"
    assert "40.00" not in browser.text("#results")  # 3 of 6 right each
    assert "50.00" in browser.text("#results")

    choose(browser, "#f-subject", "heart")
    assert browser.text("#count") == "6 of 12"
    choose(browser, "#f-score", "right")
    assert shown(browser) == ["✓right, x/one/1ragA 210 tokWhat of case 1?"]
    choose(browser, "#f-subject", "")
    choose(browser, "#f-score", "")
    choose(browser, "#f-run", "1")
    assert browser.text("#count") == "6 of 12"
    choose(browser, "#f-run", "")
    browser.find("#f-differ").click()
    assert browser.text("#count") == "4 of 12"
    browser.find("#f-differ").click()
    choose(browser, "#sort", "tokens")
    assert "x/one/5" in shown(browser)[0]
    choose(browser, "#sort", "")

    browser.find("#search").send_keys("case 4")
    browser.wait(lambda: browser.text("#count") == "2 of 12")
    browser.find("#search").clear()
    browser.find("#search").send_keys("pellagra")
    browser.wait(lambda: browser.text("#count") == "0 of 12: no attempt fits")
    browser.find("#deep").click()
    browser.wait(lambda: browser.text("#count") == "1 of 12")
    assert "x/one/2" in shown(browser)[0]

    browser.find(".row").click()
    browser.wait(lambda: browser.all("#detail details.step"))
    assert "A. yes  ← gold, chosen" in browser.text("#detail")
    assert "pellagra" not in browser.text("#detail")  # drawn only when unfolded
    browser.find("#detail details.step > summary").click()
    browser.wait(lambda: browser.all("#detail details.call"))
    assert "one passage was cut" in browser.text("#detail")
    browser.find("#detail details.call > summary").click()
    browser.wait(lambda: "2. Title 2" in browser.text("#detail"))
    browser.all("#detail details.call details > summary")[1].click()
    browser.wait(lambda: "pellagra" in browser.text("#detail"))
    browser.all("#detail details.step > summary")[-1].click()
    browser.wait(lambda: len(browser.all("#detail details.call")) == 2)
    browser.all("#detail details.call > summary")[-1].click()
    browser.wait(lambda: "You are careful." in browser.text("#detail"))
    assert browser.complaints() == []
    assert browser.requests() == [path.as_uri()]


def test_keys_move_through_the_list(browser, written, two_runs):
    browser.open(written(two_runs))
    browser.find("#list").send_keys("\ue015", "\ue015")  # arrow down, twice
    browser.wait(lambda: browser.all(".row[aria-selected=true]"))
    chosen = browser.find(".row[aria-selected=true]")
    assert chosen.get_attribute("aria-posinset") == "2"
    assert chosen.get_attribute("aria-setsize") == "12"
    assert browser.find("#list").get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    assert chosen.accessible_name == "right, x/one/0 rag A 110 tok What of case 0?"
    browser.wait(lambda: browser.all("#title"))
    focused(browser).send_keys("\ue007")  # enter
    assert browser.run("return document.activeElement.id") == "title"
    focused(browser).send_keys("\ue00c")  # escape
    assert browser.run("return document.activeElement.id") == "list"
    focused(browser).send_keys("/")
    assert browser.run("return document.activeElement.id") == "search"


def focused(browser):
    return browser.run("return document.activeElement")


def test_one_question_has_the_answers_of_all_agents_beside_each_other(browser, written, two_runs):
    browser.open(written(two_runs))
    choose(browser, "#search", "x/one/2")
    choose(browser, "#f-run", "1")
    browser.find(".row").click()
    browser.wait(lambda: browser.all(".card"))
    assert browser.text("#detail").count("What of case 2?") == 1
    assert browser.text(".card.chosen h5") == "✓ rag"
    assert "A. yes  ← gold, chosen by direct, rag" in browser.text("#detail")
    cells = browser.run("return [...document.querySelectorAll('.timeline tbody tr')].map(row => row.textContent)")
    assert cells == ["directnot known", "ragscurvy2 found, 2 new"]
    browser.find(".card a").click()
    browser.wait(lambda: browser.text(".card.chosen h5") == "✓ direct")
    assert browser.run("return location.hash") == "#a=direct-run/x%2Fone%2F2"


def test_a_link_opens_an_attempt(browser, written, two_runs):
    path = written(two_runs)
    link = attempt_link("rag-run", "x/one/2")
    assert link == "#a=rag-run/x%2Fone%2F2"
    browser.driver.get("about:blank")
    browser.driver.get(path.as_uri() + link)
    browser.wait(lambda: browser.all(".card.chosen"))
    assert browser.text(".card.chosen h5") == "✓ rag"
    browser.run("location.hash = arguments[0]", attempt_link("direct-run", "x/one/3"))
    browser.wait(lambda: browser.text("#title") == "x/one/3")
    for hash in ("#a=none/x", "#a=%E0%A4%A", "#a=", "#a=rag-run/x%2Fone%2F2/7"):
        browser.run("location.hash = arguments[0]", hash)
        browser.wait(lambda: "This page has no attempt" in browser.text("#problem"))
        browser.run("document.getElementById('problem').textContent = ''")
    assert browser.complaints() == []


def test_what_the_line_cannot_read_is_said_and_leaves_the_list(browser, written, two_runs):
    browser.open(written(two_runs))
    for line, said in {
        "hops>": 'This page cannot answer "hops>"; ragrounds trace can',
        "(wrong": 'cannot answer "(wrong"',
        "wrong or right": 'cannot answer "or"',
        "wrong and not": "A condition is missing",
        "agent:nobody": 'cannot answer "agent:nobody"',
        "marked": 'cannot answer "marked"',
        "gold": 'cannot answer "gold"',
        "gold_missed>1": 'cannot answer "gold_missed>1"',
        "size>3": 'cannot answer "size>3"',
        "agent：rag": 'cannot answer "agent：rag"',
        '"open': "A quote is not closed",
        "constructor=x": 'cannot answer "constructor=x"',
        "hops>many": "a figure was expected",
    }.items():  # fmt: skip
        choose(browser, "#search", line)
        assert said in browser.text("#problem"), line
        assert browser.find("#search").get_attribute("aria-invalid") == "true"
        assert len(shown(browser)) == 12
    choose(browser, "#search", "__proto__ wrnog")
    assert browser.text("#problem") == "Text: __proto__, wrnog."
    assert browser.text("#count") == "0 of 12: no attempt fits"
    assert browser.complaints() == []


def test_planted_markup_is_shown_and_does_nothing(browser, written, store):
    asked = [
        msgspec.structs.replace(
            question,
            text=planted("question"),
            options={"A": planted("option"), "B": "no"},
            group=planted("subject"),
        )
        for question in questions(2)
    ]
    events = traced_events(
        store, 3, passages=[passage(1, planted("passage"))], query=planted("query"), prompt=planted("prompt"),
        reply=planted("reply"), error=planted("error"),
    )  # fmt: skip
    run = add_run(
        store, planted("agent"), asked, [1, 0], texts={0: planted("answer")}, events={0: events},
        identity={"models": {"model": planted("model")}, planted("key"): planted("value")},
    )  # fmt: skip
    path = written([run], group_by=["subject"], title=planted("title"))
    browser.open(path)
    browser.find(".row").click()
    browser.wait(lambda: browser.all("#detail details.step"))
    unfold(browser)
    browser.wait(lambda: "passage" in browser.text("#detail"))
    detail = browser.text("#detail")
    for where in ("question", "option", "answer", "query", "passage", "prompt", "reply", "error"):
        assert "</script><script>window.planted=1</script>" in detail
        assert f"&lt;b&gt; {where}" in detail, where
    assert "<U+202E>" in detail
    assert "<U+001B>" in detail
    page = browser.run("return document.body.textContent")
    assert "window.planted=1</script>" in page
    assert browser.run("return window.planted") is None
    assert browser.run("return document.querySelectorAll('iframe,img,a[href^=javascript]').length") == 0
    assert browser.run("return getComputedStyle(document.body).display") != "none"
    assert browser.requests() == [path.as_uri()]
    assert browser.complaints() == []


def test_the_policy_stops_what_would_be_planted_anyway(browser, written, two_runs):
    path = written(two_runs)
    page = path.read_text(encoding="utf-8")
    path.write_text(page.replace("<h2>Abstract</h2>", "<script>window.planted=1</script><img src='x.png'>"))
    browser.open(path)
    assert browser.run("return window.planted") is None
    complaints = browser.complaints()
    assert any("inline script" in complaint and "Content Security Policy" in complaint for complaint in complaints)
    assert any("x.png" in complaint and "Content Security Policy" in complaint for complaint in complaints)


def test_a_telephone_shows_the_price_next_to_all_scores(browser, written, two_runs):
    size = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(written(two_runs))
        browser.run(  # the score of a second headline
            "document.querySelectorAll('.first tr')"
            ".forEach(row => row.children[2].after(row.children[1].cloneNode(true)))"
        )
        heads = browser.run(
            "return [...document.querySelectorAll('.first thead th')].filter(head => head.checkVisibility())"
            ".map(head => [head.innerText.trim(), head.getBoundingClientRect().right])"
        )
        assert [name for name, right in heads if right <= 400][:5] == ["agent", "strict", "95 %", "strict", "$/100"]
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_prints_the_sections_and_not_the_browser(browser, written, two_runs, tmp_path):
    pypdf = pytest.importorskip("pypdf", reason="needs pypdf to read what was printed")
    browser.open(written(two_runs))
    printed = tmp_path / "printed.pdf"
    printed.write_bytes(base64.b64decode(browser.driver.print_page()))
    text = "".join(page.extract_text() for page in pypdf.PdfReader(printed).pages)
    assert "Limitations" in text
    assert "print of dir" in text
    assert "print of direct" not in text, "fingerprints are printed folded"
    assert "What can be typed" not in text


@pytest.mark.slow
def test_many_attempts_are_drawn_only_where_they_are_looked_at(browser, written, store):
    asked = questions(3000)
    run = add_run(store, "one", asked, [index % 2 for index in range(3000)])
    browser.open(written([run]))
    assert browser.text("#count") == "3,000 of 3,000"
    assert len(shown(browser)) < 60
    browser.run("document.getElementById('list').scrollTop = 44 * 2990")
    browser.wait(lambda: any("x/one/2995" in row for row in shown(browser)))
    assert len(shown(browser)) < 60


def test_a_row_has_the_sign_of_the_viewer(browser, written, store):
    run = add_run(
        store, "direct", questions(3), [0, 0, 0], status={0: "failed"}, answer_statuses={1: "abstained"}, texts={0: ""}
    )
    browser.open(written([run]))
    assert [row[0] for row in shown(browser)] == ["!", "~", "✗"]
