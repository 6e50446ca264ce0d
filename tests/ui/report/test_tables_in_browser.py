"""Tables of the report in a real browser: sorted by mouse and by keys."""

import pytest

from ragrounds.ui.report.assets import page_script
from ragrounds.ui.report.page import head, page_style
from ragrounds.ui.tables.html_tables import html_table
from ragrounds.ui.tables.text_tables import Column, TextTable

TABLE = TextTable(
    key="figures",
    title="robust, percent",
    about="±: no interval & no test_",
    scorer="robust",
    columns=(
        Column("agent", right=False),
        Column("sample", right=True),
        Column("95 %", right=True),
        Column("cost", right=True),
    ),
    rows=(
        ("vanilla_rag[top_k=8]", "48.31 ±5.30", "38.2-58.5", "$0.019"),
        ("direct | <b>x</b>", "9.50", "too few", "unknown"),
        ("#2 - #1", "-12.36", "-21.6 to -2.6", "$1.10"),
        ("agent 10", "104.9 k", "1 min 11 s", "0.0002"),
        ("agent 9", "1.1 M", "294 ms", "<0.0001"),
    ),
)


@pytest.fixture
def page(browser, tmp_path):
    """A page with the table alone, open in the browser."""
    script = page_script(attempts=False)
    path = tmp_path / "tables.html"
    whole = head("Tables", [], page_style(), script) + html_table(TABLE, links={1: "other.html"})
    path.write_text(f"{whole}</main><script>{script}</script></body></html>", encoding="utf-8")
    browser.open(path)
    return browser


def column(browser, place):
    return browser.run(
        "return [...document.querySelectorAll('tbody tr')].map(r => r.cells[arguments[0]].innerText)", place
    )


def press(browser, text):
    browser.run(
        "[...document.querySelectorAll('button')].find(one => one.textContent.trim() === arguments[0]).click()", text
    )


def test_a_column_of_figures_is_sorted_by_what_the_figures_mean(page):
    press(page, "sample")
    assert column(page, 1) == ["1.1 M", "104.9 k", "48.31 ±5.30", "9.50", "-12.36"]
    assert page.run("return document.querySelectorAll('th')[1].getAttribute('aria-sort')") == "descending"
    page.wait(lambda: page.text("#announced") == "Sorted by sample, descending.")
    press(page, "sample")
    assert column(page, 1)[0] == "-12.36"
    press(page, "sample")
    assert column(page, 1) == [row[1] for row in TABLE.rows]
    press(page, "95 %")
    assert column(page, 2) == ["1 min 11 s", "38.2-58.5", "294 ms", "-21.6 to -2.6", "too few"]
    press(page, "cost")
    press(page, "cost")
    assert column(page, 3) == ["<0.0001", "0.0002", "$0.019", "$1.10", "unknown"]
    press(page, "agent")
    assert column(page, 0)[1:3] == ["agent 9", "agent 10"]


def test_keys_are_enough(page):
    page.run("document.querySelector('thead button').focus()")
    page.run("return document.activeElement").send_keys("\ue007")
    assert column(page, 0)[0] == "#2 - #1"


def test_a_cell_may_lead_somewhere_and_nothing_in_it_is_markup(page):
    assert page.run("return document.querySelector('tbody a').getAttribute('href')") == "other.html"
    assert page.text("tbody a") == "direct | <b>x</b>"
    assert page.all("tbody b") == []
    heads = page.run("return [...document.querySelectorAll('tbody th[scope=row]')].map(head => head.textContent)")
    assert heads == [row[0] for row in TABLE.rows]


def test_names_break_behind_their_signs_and_figures_nowhere():
    table = TextTable(key="x", title="x", columns=(Column("agent", right=False), Column("n", right=False)),
                      rows=(("a_b[c=d,e=2.5]", "1,000.5"),))  # fmt: skip
    assert '<th scope="row">a_<wbr>b[<wbr>c=<wbr>d,<wbr>e=2.5]</th><td>1,000.5</td>' in html_table(table)


def test_a_table_that_scrolls_can_be_reached_by_keys(page):
    page.run("document.querySelector('.scroll').style.width = '150px'; window.dispatchEvent(new Event('resize'))")
    scroll = page.find(".scroll")
    assert scroll.get_attribute("tabindex") == "0"
    assert scroll.get_attribute("aria-label") == TABLE.caption
    page.run("document.querySelector('.scroll').style.width = ''; window.dispatchEvent(new Event('resize'))")
    assert page.run("return document.querySelector('.scroll').hasAttribute('tabindex')") is False
