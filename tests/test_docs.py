"""The documentation: links lead somewhere, the navigation has every page, and the site is built of all of them."""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "docs" / "scripts"
PAGES = [
    path
    for folder in ("docs", "perf", "")
    for path in sorted((ROOT / folder).glob("**/*.md" if folder == "docs" else "*.md"))
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("site_", "reference_", "build_site", "diagram_svg")):
            del sys.modules[name]


def prose(path: Path) -> Iterator[str]:
    """The lines of a page that stand in no fenced block, without code."""
    fence = ""
    for line in path.read_text(encoding="utf-8").split("\n"):
        mark = re.match(r"\s*(```+)", line)
        if mark and (not fence or line.strip() == fence):
            fence = "" if fence else mark[1]
        elif not fence:
            yield line if line.startswith("#") else re.sub(r"`[^`]*`", "", line)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for line in prose(path):
        if heading := re.match(r"#+ (.*)", line):
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
            again = found.get(slug, 0)
            found[slug] = again + 1
            names.add(f"{slug}-{again}" if again else slug)
        names.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return frozenset(names)


def test_links_lead_somewhere() -> None:
    wrong = []
    for page in PAGES:
        for link in (link for line in prose(page) for link in LINK.findall(line)):
            if re.match(r"(https?|mailto):", link):
                continue
            place, _, part = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            if not target.exists() or (part and target.suffix == ".md" and part not in anchors(target)):
                wrong.append(f"{page.relative_to(ROOT)}: {link}")
    assert PAGES
    assert wrong == []


def test_every_page_is_linked_from_the_index_of_its_folder() -> None:
    lost = []
    for index in (ROOT / "docs").glob("*/index.md"):
        named = {posixpath.normpath(link.partition("#")[0]) for line in prose(index) for link in LINK.findall(line)}
        lost += [
            str(page.relative_to(ROOT)) for page in index.parent.glob("*.md") if page.name not in {*named, "index.md"}
        ]
    assert lost == [], "name them in the index.md of their folder: its order is the navigation's"


def test_every_folder_of_pages_has_an_index_in_the_navigation(scripts: None) -> None:
    from site_source import SECTIONS

    folders = {f"{path.parent.relative_to(ROOT / 'docs')}/index" for path in (ROOT / "docs").glob("*/*.md")}
    top = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert folders | top <= {name for _, names in SECTIONS for name in names}
    assert [name for name in folders if not (ROOT / "docs" / f"{name}.md").is_file()] == []


def test_the_source_of_the_site_holds_every_page_and_its_navigation(scripts: None, tmp_path: Path) -> None:
    from site_source import SiteSource, place_of

    source = SiteSource(tmp_path)
    source.add_repository()
    source.write()
    expected = {place_of(path.relative_to(ROOT).as_posix()) for path in PAGES if path.parent != ROOT}
    assert expected <= set(source.pages)
    index = (tmp_path / "how-to/index.md").read_text(encoding="utf-8")
    assert index.rstrip().endswith("```")
    assert "\nown-system\n" in index.partition("{toctree}")[2]
    assert (tmp_path / "pictures/report").is_dir()
    assert "```python" in (tmp_path / "files/docs/foreign/react_agent.py.md").read_text(encoding="utf-8")


def test_a_link_out_of_docs_leads_to_a_page_of_the_site(scripts: None, tmp_path: Path) -> None:
    from site_source import SiteSource

    source = SiteSource(tmp_path)
    page = (
        "[a](../../perf/engine.md#x) ![p](../pictures/frontier.svg) [recording.md](../concepts/recording.md) `[n](m)`"
    )
    made = source._linked(f"{page}\n```sh\n[z](../../perf/engine.md)\n```", "docs/reference/x.md")
    assert made.startswith("[a](../measurements/engine.md#x) ![p](../pictures/frontier.svg) ")
    assert "[What is recorded of a system that is not ours](../concepts/recording.md)" in made
    assert made.endswith("[z](../../perf/engine.md)\n```"), "code stays as it is"


def test_a_page_is_summed_up_by_its_first_sentence(scripts: None) -> None:
    from site_source import summary_of, title_of

    page = (
        "<!-- setup:\nx\n-->\n# The `title`\n\n```toml\n# a comment\n```\n\n![a picture](x.png)\n\n"
        "It [does](y.md)\n**much**. More.\n"
    )
    assert title_of(page) == "The title"
    assert summary_of(page) == "It does much."


def test_faults_of_a_built_site_are_found(scripts: None, tmp_path: Path) -> None:
    from site_check import faults

    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>', encoding="utf-8")
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#there">2</a><a href="c.html">3</a><a href="../../etc/passwd">4</a>'
        '<a href="https://example.org/x">5</a><a href="http:/broken">6</a><img src="https://example.org/y.png">',
        encoding="utf-8",
    )
    (tmp_path / "a.css").write_text("@font-face{src:url(//fonts.example.org/f.woff)}", encoding="utf-8")
    found = faults(tmp_path)
    assert [line for line in found if "#here" in line or "example.org/x" in line] == []
    for part in ("#there", "c.html", "etc/passwd", "http:/broken", "y.png from elsewhere", "fonts.example.org"):
        assert any(part in line for line in found), (part, found)
    assert len(found) == 6


def test_pages_are_mended_for_keyboards_and_screen_readers(scripts: None) -> None:
    from site_html import mended

    made = mended(
        '<p class="caption" role="heading"></p><div class="table-wrapper docutils"><th class="head"><p></p></th></div>'
        '<div class="table-wrapper"></div><pre>x</pre>'
    )
    assert 'aria-level="2"' in made
    assert 'aria-label="Table 1"' in made
    assert 'aria-label="Table 2"' in made
    assert "<th" not in made
    assert '<pre tabindex="0">' in made


def test_diagrams_are_drawn_with_every_node_and_arrow(scripts: None) -> None:
    from diagram_svg import diagram_svg

    drawn = diagram_svg("graph TD;\n\ta(a)\n\tb\\3ax(x)\n\ta --> b\\3ax;\n\ta -.-> a;\n\tb\\3ax -.-> a;\n")
    assert drawn.count('class="head"') == 3
    assert drawn.count('class="dashed"') == 2
    assert 'aria-label="a to b: x, a to a on a condition, b: x to a on a condition"' in drawn
    assert "<script" not in drawn


def test_each_page_has_the_navigation_with_its_own_links_and_marks(scripts: None) -> None:
    from site_navigation import Navigation

    navigation = Navigation(
        '<ul><li class="toctree-l1 has-children"><a class="reference internal" href="a/index.html">A</a>'
        '<input id="1" class="x"/><ul><li class="toctree-l2"><a class="reference internal" href="a/b.html">B</a></li>'
        '<li class="toctree-l2"><a class="reference internal" href="c.html#d">D</a></li></ul></li></ul>'
    )
    assert navigation.for_page("a/b.html") == (
        '<ul class="current"><li class="toctree-l1 current has-children"><a class="reference internal" '
        'href="index.html">A</a><input id="1" checked="" class="x"/><ul class="current">'
        '<li class="toctree-l2 current current-page"><a class="current reference internal" href="#">B</a></li>'
        '<li class="toctree-l2"><a class="reference internal" href="../c.html#d">D</a></li></ul></li></ul>'
    )
    assert 'checked="" class="x"/><ul><li class="toctree-l2"><a' in navigation.for_page("a/index.html")
    assert "current" not in navigation.for_page("c.html")


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="pip install -e '.[docs]'")
    import subprocess

    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "build_site.py"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/llms-full.txt").stat().st_size > 300_000
    for line in (tmp_path / "site/llms.txt").read_text(encoding="utf-8").split("\n"):
        if link := re.search(r"\]\(([^)]*)\)", line):
            assert (tmp_path / "site" / link[1]).is_file()


@pytest.mark.slow
def test_the_reference_has_every_command_and_option(scripts: None) -> None:
    from reference_pages import command_pages

    from ragrounds.cli.entry import command_tree

    pages, targets = command_pages()
    options = pages["reference/commands/options.md"]

    def _every(path: str, command: object) -> Iterator[tuple[str, object]]:
        yield path, command
        for name, below in getattr(command, "commands", {}).items():
            yield from _every(f"{path} {name}", below)

    for name, command in command_tree().commands.items():
        page = pages.get(f"reference/commands/ragrounds-{name}.md", "")
        if command.hidden:
            continue
        for path, one in _every(name, command):
            assert f"# `ragrounds {path}`" in page
            assert f"ragrounds {path}" in targets
            for parameter in getattr(one, "params", ()):
                if parameter.param_type_name == "option" and "--help" not in parameter.opts and not parameter.hidden:
                    assert all(
                        f"`{spelling}`{{#" in options for spelling in parameter.opts if spelling.startswith("--")
                    )


@pytest.mark.slow
def test_the_reference_has_every_public_name_and_record(scripts: None) -> None:
    from reference_pages import python_pages

    from ragrounds.api.functions import public_modules
    from ragrounds.base import contracts, records

    pages, targets = python_pages()
    assert [name for name in public_modules() if f"rr.{name}" not in targets and name != "Settings"] == []
    for module in (records, contracts):
        page = pages[f"reference/python/{module.__name__.rpartition('.')[2]}.md"]
        own = [name for name, one in vars(module).items() if getattr(one, "__module__", "") == module.__name__]
        assert [name for name in own if isinstance(vars(module)[name], type) and f"## `{name}`" not in page] == []


def test_the_reference_has_all_that_ships(scripts: None) -> None:
    from reference_pages import format_pages, list_pages

    from ragrounds.api import agents, choices, data
    from ragrounds.evals.store import schema

    pages = {**list_pages()[0], **format_pages()[0]}
    for page, names in {
        "lists/agents": list(agents.list_agents()),
        "lists/scorers": [one.name for one in choices.list_scorers()],
        "lists/analyses": [one.name for one in choices.list_analyses()],
        "lists/benchmarks": [one.name for one in data.list_cards()],
        "formats/store": list(schema.metadata.tables),
    }.items():
        assert [name for name in names if f"`{name}`" not in pages[f"reference/{page}.md"]] == []


def test_every_field_of_a_question_line_says_what_it_means(scripts: None) -> None:
    from reference_pages import format_pages

    from ragrounds.evals.benchmarks.families.jsonl import _FIELDS

    page = format_pages()[0]["reference/formats/questions.md"]
    rows = {row.split("|")[1].strip(" `"): row for row in page.split("\n") if row.startswith("| `")}
    assert set(_FIELDS) <= set(rows)
    assert "table of text or list of text" in rows["options"]
    assert [name for name in _FIELDS if rows[name].rstrip(" |").endswith("|")] == []


def test_a_docstring_becomes_markdown(scripts: None) -> None:
    from reference_pages.markdown import read_doc, table

    doc = read_doc("""What :func:`a.b.do` does.

        do(1)

    Args:
        one, two: the first
            and the second.
        **more: all else.

    Returns:
        A list: of ``x``.

    Raises:
        UserError: it is wrong.
    """)
    assert doc.text == "What `do` does.\n\n```python\ndo(1)\n```"
    assert doc.parts["Args"] == [("one, two", "the first and the second."), ("**more", "all else.")]
    assert doc.parts["Returns"] == [("", "A list: of ``x``.")]
    assert doc.parts["Raises"] == [("UserError", "it is wrong.")]
    assert table(("a", "b", "c"), [("x|y", "", "z\nw")]) == "| a | c |\n| --- | --- |\n| x\\|y | z w |"
