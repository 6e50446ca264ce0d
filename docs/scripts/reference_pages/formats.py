"""A page for each kind of file that is read or written: the fields as the records say them that read the file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from ragrounds.evals.store import schema
from reference_pages.markdown import ClassFacts, block, class_facts, code, members_table, module_doc, read_doc, table

FOLDER = "reference/formats"


class Format(Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of file."""

    name: str
    """Of the page."""
    title: str
    summary: str
    """The first sentence of the page."""
    modules: tuple[str, ...] = ()
    """Whose docstrings stand on the page."""
    records: tuple[tuple[str, ...], ...] = ()
    """Module, class, and the heading above its fields; then a class of the module that says what fields mean which the
    first one leaves without words."""
    skip: int = 0
    """Paragraphs of the first docstring that say what `summary` does."""
    example: str = ""
    language: str = "toml"
    further: str = ""
    """Pages of the repository that say more."""


FORMATS = msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, list[Format]])["format"]


def format_pages() -> tuple[dict[str, str], dict[str, str]]:
    """The pages, and what code in sentences links to."""
    pages = {f"{FOLDER}/{one.name}.md": _page(one) for one in FORMATS}
    pages[f"{FOLDER}/store.md"] = _store()
    lines = [f"- [{one.title}]({one.name}.md): {one.summary}" for one in FORMATS]
    lines.append("- [The store](store.md): the tables of `store.sqlite`, or of a PostgreSQL store.")
    about = (
        "Every kind of file that is read or written. Unknown fields are errors wherever a page does not say otherwise."
    )
    pages[f"{FOLDER}/index.md"] = f"# File formats\n\n{about}\n\n" + "\n".join(lines) + "\n"
    targets = {
        "settings.toml": f"{FOLDER}/settings",
        "guard.jsonl": f"{FOLDER}/guard",
        "store.sqlite": f"{FOLDER}/store",
    }
    return pages, targets


def _page(one: Format) -> str:
    parts = [f"# {one.title}", one.summary]
    if one.example:
        parts.append(block(one.example, one.language))
    texts = [module_doc(module).text for module in one.modules]
    parts += ["\n\n".join(text.split("\n\n")[0 if at else one.skip :]) for at, text in enumerate(texts)]
    for module, name, heading, *other in one.records:
        facts = _worded(class_facts(module, name), class_facts(module, other[0]) if other else None)
        parts += [f"## {heading}", *([facts.doc.text] if facts.doc.text and not name.startswith("_") else [])]
        parts.append(members_table(facts, plain=True))
    if one.further:
        parts += ["## More", one.further]
    return "\n\n".join(parts) + "\n"


def _worded(facts: ClassFacts, other: ClassFacts | None) -> ClassFacts:
    """The fields of a file in words: types as a file has them, meanings of another record where there are none."""
    words = {one.name: one.words for one in other.members} if other else {}
    members = tuple(
        replace(one, type=type_words(one.type), words=one.words or words.get(one.name, "")) for one in facts.members
    )
    return replace(facts, members=members)


def type_words(text: str) -> str:
    """A type of Python's as a file has it: text, number, list, table."""
    text = re.sub(r" \| (UnsetType|None)$", "", text)
    text = re.sub(r"\bLiteral\[(.*?)\]", lambda one: " or ".join(re.findall(r"'([^']+)'", one[1])), text)
    text = re.sub(r"(?:tuple|list)\[([\w| ]+)(?:, \.\.\.)?\]", r"list of \1", text)
    text = re.sub(r"dict\[str, (.*)\]", r"table of \1", text)
    for name, word in (
        ("str", "text"),
        ("int", "whole number"),
        ("float", "number"),
        ("bool", "true or false"),
        ("Raw", "table"),
    ):
        text = re.sub(rf"\b{name}\b", word, text)
    return text.replace(" | ", " or ")


def _store() -> str:
    """The tables of a store."""
    parts = [
        "# The store",
        f"The tables of `store.sqlite`, or of a PostgreSQL store, in version {schema.VERSION} of the schema. A store "
        "of another version is refused. Read it freely; only ragrounds writes it.",
    ]
    for one in schema.metadata.sorted_tables:
        rows = [(code(column.name), _kind(column), _key(column), column.comment or "") for column in one.columns]
        words = read_doc(one.comment).text if one.comment else ""
        parts += [f"## `{one.name}`", *([words] if words else []), table(("column", "type", "", "meaning"), rows)]
    return "\n\n".join(parts) + "\n"


def _kind(column: object) -> str:
    kind = str(getattr(column, "type", "")).lower()
    return kind + ("" if getattr(column, "nullable", True) else ", not null")


def _key(column: object) -> str:
    refers = [str(one.column) for one in getattr(column, "foreign_keys", ())]
    return ", ".join(
        [*(["primary key"] if getattr(column, "primary_key", False) else []), *(f"→ {code(one)}" for one in refers)]
    )
