"""What the site does with pages beyond Markdown, as an extension of Sphinx.

* A word of the glossary is linked where it first stands on a page, and shows its meaning under the pointer.
* Code in a sentence that names a command, a function or an option is linked to its page in the reference.
* Diagrams in Mermaid's words are drawn as SVG while the site is built: no page loads a library for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from diagram_svg import diagram_svg
from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

GLOSSARY = "glossary"
TARGETS = "targets.json"
"""In the folder that Sphinx reads: what code names → the page and the place on it."""
EVERYDAY = frozenset(
    "agent average benchmark card family dataset layout match piece pilot plan pooled profile progress projection "
    "retry run runs stop study switch system verdict work item outcome garbage status budget claim interval bounds "
    "rating abstract passage gold corpus trace retriever panel generation".split()
)
"""Words of the glossary that sentences use in other senses too: they are not linked by themselves."""
_WORD = re.compile(r"\*\*([^*]+)\*\*")


@cache
def terms(folder: str) -> dict[str, tuple[str, str]]:
    """Word of the glossary, in small letters → its anchor and its meaning."""
    found: dict[str, tuple[str, str]] = {}
    for line in (Path(folder) / f"{GLOSSARY}.md").read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) > 3 and (word := _WORD.match(cells[1])):
            meaning = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda one: one[1] or "", cells[2])
            found[word[1].lower()] = (f"term-{nodes.make_id(word[1])}", meaning)
    return found


def mark_terms(app: Sphinx, tree: nodes.document) -> None:
    """Give each word of the glossary its anchor."""
    if app.env.docname != GLOSSARY:
        return
    known = terms(str(app.srcdir))
    for row in tree.findall(nodes.row):
        word = next(iter(row.findall(nodes.strong)), None)
        if word is not None and (found := known.get(word.astext().lower())):
            word["ids"].append(found[0])


def link_terms(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Link the first use of each word of the glossary on a page."""
    if docname == GLOSSARY or docname.startswith(("files/", "project/changelog")):
        return
    known = {word: place for word, place in terms(str(app.srcdir)).items() if word not in EVERYDAY}
    if not known:
        return
    words = re.compile(rf"\b({'|'.join(sorted(map(re.escape, known), key=len, reverse=True))})(s?)\b", re.IGNORECASE)
    uri = app.builder.get_relative_uri(docname, GLOSSARY)
    left = dict(known)
    for text in list(tree.findall(nodes.Text)):
        if not _plain(text):
            continue
        parts: list[nodes.Node] = []
        at = 0
        for found in words.finditer(text):
            place = left.pop(found[1].lower(), None)
            if place is not None:
                parts += [nodes.Text(text[at : found.start()]), _term(found[0], f"{uri}#{place[0]}", place[1])]
                at = found.end()
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(text[at:])])


def _plain(text: nodes.Text) -> bool:
    """Whether a text stands in a sentence, and in no heading, link or code."""
    above = text.parent
    inside = False
    while above is not None:
        if isinstance(
            above, nodes.reference | nodes.literal | nodes.literal_block | nodes.title | nodes.raw | nodes.thead
        ):
            return False
        inside = inside or isinstance(above, nodes.paragraph)
        above = above.parent
    return inside


def _term(text: str, uri: str, meaning: str) -> nodes.reference:
    link = nodes.reference("", text, refuri=uri, internal=True, reftitle=meaning)
    link["classes"].append("term")
    return link


def link_code(app: Sphinx, tree: nodes.document, docname: str) -> None:
    """Link code in sentences to what it names, once a section."""
    file = Path(app.srcdir) / TARGETS
    if not file.is_file() or docname.startswith("files/"):
        return
    targets: Mapping[str, str] = json.loads(file.read_text(encoding="utf-8"))
    seen: set[tuple[int, str]] = set()
    for code in list(tree.findall(nodes.literal)):
        if any(isinstance(one, nodes.reference | nodes.title) for one in _above(code)):
            continue
        target = named(code.astext(), targets)
        page, _, part = target.partition("#")
        section = next((id(one) for one in _above(code) if isinstance(one, nodes.section)), 0)
        if not target or page == docname or (section, target) in seen:
            continue
        seen.add((section, target))
        uri = app.builder.get_relative_uri(docname, page) + (f"#{part}" if part else "")
        link = nodes.reference("", "", refuri=uri, internal=True)
        code.parent.replace(code, link)
        link += code


def named(code: str, targets: Mapping[str, str]) -> str:
    """The page of what a piece of code names: a command, a public function, an option; empty: none."""
    words = code.split()
    if words[:1] == ["ragrounds"]:
        for size in (3, 2):
            if (name := " ".join(words[:size])) in targets:
                return targets[name]
    if found := re.match(r"rr\.\w+", code):
        return targets.get(found[0], "")
    if found := re.match(r"--[a-z][a-z-]+", code):
        return targets.get(found[0], "")
    return targets.get(code, "")


def _above(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def draw_diagrams(app: Sphinx, tree: nodes.document) -> None:
    """Put the drawing of each diagram in the place of its words."""
    for block in list(tree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            drawn = diagram_svg(block.astext())
            block.parent.replace(block, nodes.raw("", f'<div class="diagram">{drawn}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    for name in ("output", "csv", "mermaid"):
        app.add_lexer(name, TextLexer)
    app.connect("doctree-read", draw_diagrams)
    app.connect("doctree-read", mark_terms)
    app.connect("doctree-resolved", link_code)
    app.connect("doctree-resolved", link_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
