"""Replies laid out as Markdown: nothing of them is lost or opened; long ones are folded; a key shows them raw."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.layout import TextBlock, TextLayout
from tests.ui.trace.making import Journal, attempt, make_run, model_call, score, step
from tests.ui.trace.seeing import matches, press, screen, viewer

REASONED = """## 1. Mechanism
The drug **thins** the blood; `COX-1` is *blocked*.
<answer>A</answer> &lt; \\(p_1\\) ![scan](file:///etc/passwd) [open](http://evil.example) [red]not red[/red]

- first, a long line about platelets that does not fit into one line of a narrow pane and is cut at a word
- second

| option | fits |
|---|---|
| A | yes |

```python
print("A")
```
> quoted

[1]: http://hidden.example
"""
PIECES = (
    *("# ", "\n", "\n\n", "- ", "7. ", "> ", "**", "*", "_", "`", "```py\n", "```", "~~", "---\n", "    ", "\t"),
    *("| a | b |\n|---|---|\n", "<b>", "<!-- x", "<script>y</script>", "[a](http://x)", "![i](y)", "[r]: http://z\n"),
    *("&#x202E;", "\\(", "word ", "漢字", "\x1b[31m", "\u202e", "[red]x[/red]", "a" * 200, "\u0301" * 30),
)


def lines(text: str, width: int = 60, **how: Any) -> list[str]:
    return [line.text for line in TextLayout([TextBlock(text, markdown=True, fold=4)], width, **how).lines]


def test_a_reply_is_laid_out_and_what_would_be_hidden_or_opened_stands_there() -> None:
    made = lines(REASONED)
    assert made[:2] == ["1. Mechanism", ""]
    assert "The drug thins the blood; COX-1 is blocked." in made
    assert "<answer>A</answer> &lt; \\(p_1\\)" in " ".join(made)
    assert "open (http://evil.example) [red]not red[/red]" in " ".join(made)
    assert " • first, a long line about platelets that does not fit into" in made
    assert "[1]: http://hidden.example" in made
    assert lines(REASONED, raw=True)[0] == "## 1. Mechanism"


def test_the_styles_are_those_of_the_viewer() -> None:
    found = TextLayout([TextBlock(REASONED, markdown=True)], 60).lines
    named = {line.text[begin:end]: style for line in found for begin, end, style in line.spans}
    assert named["1. Mechanism"] == "heading"
    assert (named["thins"], named["COX-1"], named["blocked"]) == ("strong", "key", "note")


@pytest.mark.parametrize(
    "text",
    ["> " * 300 + "x", "- " * 300 + "x", "1. a\n\n1. b", "`" * 400, "|a" * 99 + "\n" + "|-" * 99 + "\n" + "|b" * 99],
)
def test_where_something_would_be_lost_the_text_stands_as_it_was_written(text: str) -> None:
    assert "".join("".join(lines(text)).split()) == "".join(text.split())


def test_any_text_keeps_its_letters_and_its_width() -> None:
    rng = random.Random(3)
    for number in range(270):
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(40)))
        width = (10, 38, 80)[number % 3]
        made = lines(text, width)
        assert max(map(cell_len, made), default=0) <= width
        assert "\x1b" not in "".join(made)
        raw = "".join(lines(text, width, raw=True))
        assert Counter(filter(str.isalnum, "".join(made))) == Counter(filter(str.isalnum, raw))


def test_a_long_text_is_folded_and_what_is_searched_is_found_across_its_lines() -> None:
    whole = lines(REASONED)
    assert lines(REASONED, unfolds="o") == [*whole[:2], f"⋯ {len(whole) - 4} more lines (o)", *whole[-2:]]
    layout = TextLayout([TextBlock(REASONED, markdown=True)], 60)
    assert [layout.lines[at].text for at in layout.find("does not fit into one")] == [
        " • first, a long line about platelets that does not fit into"
    ]


@pytest.fixture
def reasoned(tmp_path: Path) -> Iterator[Pages]:
    with Store(tmp_path) as store:
        run = make_run(store, "thinker", 1)
        journal = Journal(store)
        call = model_call(journal, "answer", "Why?", REASONED)
        journal.close()
        store.add_attempts(run, [attempt(run, 0, step(0, "answer", call))], [score(0, True)])
        yield Pages(store, [run])


@pytest.mark.parametrize("width", [80, 120])
async def test_a_reply_fills_the_screen_and_no_line_is_cut(reasoned: Pages, width: int) -> None:
    async with viewer(reasoned, "tab", "down", "tab", "z", size=(width, 40)) as (app, pilot):
        matches(app, f"reply-{width}x40")
        assert {len(line) for line in screen(app).splitlines()[1:-1]} == {width}  # its right border too
        await press(pilot, "m")
        assert "**thins**" in screen(app)
