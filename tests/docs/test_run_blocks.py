"""docs/scripts/run_blocks.py: what it finds in a page, what it runs, and that it sees what is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

sys.path.append(str(ROOT / "docs" / "scripts"))
from blocks import commands, outputs, pages, runner, scratch, shims
from blocks.rules import Rules, Special

from ragrounds.cli.entry import command_tree

PAGE = """\
# A page

Make `words.txt` and look:

<!-- setup:
export GREETING=hello
-->

```sh
echo "$GREETING" > words.txt
cd . && cat words.txt \\
  words.txt
```

```output
hello
…
```

1. In a list:

   ```console
   $ cat words.txt
   hello
   $ echo "12.5 s" and more
   3.1 s …
   ```

```python
# doubled.py
def doubled(number):
    return 2 * number
```

```python
from doubled import doubled
print(doubled(21))
```

```output
42
```

<!-- exit: 3 -->
```sh
exit 3
```

<!-- file: questions.jsonl -->
```json
{"id": 1}
{"id": 2}
```

```python
print(len(open("questions.jsonl").readlines()))
```

```output
2
```
"""
Run = Callable[..., list[Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a page's text; gives what came of its blocks."""
    shims.write_shims(tmp_path / "bin", ROOT)

    def outcomes(text: str, rules: Rules = Rules()) -> list[Any]:  # noqa: B008
        page = pages.page_of(text, "page.md")
        made = scratch.Scratch(page, tmp_path / str(len(list(tmp_path.iterdir()))), ROOT, rules, {"8000": "1"})
        return runner.PageRun(page, made, rules, command_tree()).run()

    return outcomes


@pytest.mark.slow
def test_a_page_is_run_as_a_reader_would(run: Run) -> None:
    seconds = outputs.Volatile(re.compile(r"\d+\.\d s"), "<time>", "")
    found = run(PAGE, Rules(volatile=(seconds,)))
    assert [fault for outcome in found for fault in outcome.faults] == []
    assert [outcome.fate for outcome in found] == [
        "setup", "run", "compared", "compared", "written", "run", "compared", "run", "written", "run", "compared",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```sh\nfalse\n```\n", "exit code 1, not 0"),
        ("```sh\necho a; exit 4\n```\n", "exit code 4, not 0"),
        ("<!-- exit: 1 -->\n```sh\ntrue\n```\n", "exit code 0, not 1"),
        ("```console\n$ echo one\ntwo\n```\n", "+one"),
        ("```console\n$ echo one\n```\n", "another output"),
        ("```python\nprint(1)\n```\n\n```output\n2\n```\n", "+1"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```pycon\n>>> 1 + 1\n3\n```\n", "Expected"),
        ("```toml\na = \n```\n", "no toml"),
        ("```json\n{'a': 1}\n```\n", "no json"),
        ("```sh\ntrue || ragrounds compare --no-such-option\n```\n", "has no option --no-such-option"),
        ("```sh\npip install 'ragrounds[nothing]'\n```\n", "no extra 'nothing'"),
    ],
)
def test_what_is_wrong_is_seen(run: Run, text: str, said: str) -> None:
    [*_, last] = run(text)
    assert last.fate == "failed"
    assert said in "\n".join(last.faults)


def test_what_is_listed_is_checked_and_not_run(run: Run) -> None:
    rules = Rules(not_run=(Special("page.md", "ragrounds run", reason="a GPU"),))
    [one, output] = run("```sh\nragrounds run --model vllm:NAME\n```\n\n```output\n…\n```\n", rules)
    assert (one.fate, output.fate, one.not_run) == (
        "not run",
        "not run",
        [("ragrounds run --model vllm:NAME", "a GPU")],
    )
    [one] = run("```sh\nragrounds run --modell vllm:NAME\n```\n", rules)
    assert one.fate == "failed"


@pytest.mark.parametrize(
    "text",
    ["```\nx\n```\n", "```shell\nls\n```\n", "```text\n$ ragrounds run --limit 3\n```\n"],
    ids=["no language", "unknown language", "a command as text"],
)
def test_a_page_that_keeps_no_convention_is_refused(text: str) -> None:
    with pytest.raises(pages.PageFault, match=r"page\.md:[12]: "):
        pages.page_of(text, "page.md")


def test_commands_are_split_where_bash_ends_them() -> None:
    text = "# a comment\ncat > a <<'END'\nragrounds nothing\nEND\n\nfor i in 1 2; do\n  echo $i\ndone\necho 'a\nb'\n"
    found = list(commands.split_commands(text))
    assert [one.text.splitlines()[0] for one in found] == ["cat > a <<'END'", "for i in 1 2; do", "echo 'a"]
    assert [one.offset for one in found] == [1, 5, 8]


@pytest.mark.parametrize(
    ("typed", "faults"),
    [
        ("ragrounds run --limit 3 | head -2", []),
        ("RAGROUNDS_HOME=x ragrounds runs ls --json > runs.json", []),
        ("ragrounds judge RUN --kind ragas --judge openai:NAME …", []),
        ("ragrounds runs", []),
        ("ragrounds runs --jsom", ["ragrounds runs has no option --jsom"]),
        ("echo; ragrounds comparre a b", ["ragrounds has no command 'comparre'"]),
        ("ragrounds index bild x", ["ragrounds index has no command 'bild'"]),
    ],
)
def test_commands_and_options_are_those_of_the_command_line(typed: str, faults: list[str]) -> None:
    assert list(commands.option_faults(typed, command_tree())) == faults


@pytest.mark.parametrize(
    ("shown", "printed", "agrees"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b\nc\n", False),
        ("…\n", "", True),
        ("a.b\n", "axb\n", False),
        ("a\n", "\x1b[1ma\x1b[0m\n", True),
    ],
)
def test_outputs_are_compared_line_by_line(shown: str, printed: str, agrees: bool) -> None:
    assert outputs.agrees(shown, printed) is agrees
