"""What all generated pages are written with: tables, docstrings as Markdown, and classes as their source says them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PARTS = ("Args", "Returns", "Yields", "Raises")
_ROLE = re.compile(r":(?:class|func|meth|mod|data|attr|exc):`~?(?:[\w.]*\.)?([\w]+)`")
_HEADING = re.compile(rf"^({'|'.join(PARTS)}):\s*$")


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; columns that are empty in every row are left out."""
    cells = [[cell(one) for one in row] for row in rows]
    kept = [at for at in range(len(headings)) if any(row[at] for row in cells)]
    lines = [[headings[at] for at in kept], ["---"] * len(kept), *([row[at] for at in kept] for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """A value as a cell: in one line, no bar ends it."""
    text = " ".join(markdown(str(value)).split()) if value is not None else ""
    return text.replace("\\|", "|").replace("|", "\\|")


def code(value: object) -> str:
    """A text as code, empty where it is empty."""
    text = " ".join(str(value).split())
    if not text:
        return ""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def block(text: str, language: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.strip()}\n```"


def markdown(doc: str) -> str:
    """A docstring's markup as Markdown: Python's roles become code, all else is Markdown already."""
    return _ROLE.sub(r"`\1`", doc)


def unrolled(text: str) -> str:
    """Indented code of a docstring as a fenced block."""
    found: list[str] = []
    held: list[str] = []
    for line in [*text.split("\n"), "."]:
        if line.startswith("    ") or (held and not line.strip()):
            held.append(line)
            continue
        if held:
            found += [_fenced(inspect.cleandoc("\n".join(held))), ""]
            held = []
        found.append(line)
    return "\n".join(found[:-1]).strip()


def _fenced(body: str) -> str:
    """Code as a block, of the language that it looks like."""
    if re.match(r"(ragrounds|python|pip) ", body):
        return block(body, "sh")
    if re.match(r"\[\[?\w|\w+ = [^(]*$", body, re.MULTILINE) and "(" not in body:
        return block(body, "toml")
    return block(body, "python" if re.match(r"[\w.]+ ?[(=]|import |from |@|def |class |async ", body) else "text")


@dataclass(frozen=True)
class Doc:
    """A docstring in its parts."""

    text: str
    parts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """``Args`` and the like → (name, words); of returned values the name is empty."""


def read_doc(doc: str | None) -> Doc:
    """Take a docstring of Google's form apart."""
    text: list[str] = []
    parts: dict[str, list[tuple[str, str]]] = {}
    current = ""
    for line in inspect.cleandoc(doc or "").split("\n"):
        if heading := _HEADING.match(line):
            current = heading[1]
            parts[current] = []
        elif current and (line.startswith(" ") or not line):
            _take(line, parts[current], named=current in ("Args", "Raises"))
        else:
            current = ""
            text.append(line)
    return Doc(unrolled(markdown("\n".join(text).strip())), parts)


def _take(line: str, entries: list[tuple[str, str]], *, named: bool) -> None:
    """Add a line of a part of a docstring."""
    found = re.match(r"    (\*{0,2}[\w., ]+?): +(.*)", line) if named else None
    if found:
        entries.append((found[1], found[2]))
    elif line.strip() and (not named or not entries) and (named or not entries):
        entries.append(("", line.strip()))
    elif line.strip():
        entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")


@dataclass(frozen=True)
class Member:
    """A field of a class."""

    name: str
    type: str
    default: str | None
    """``None``: it must be given."""
    words: str


@dataclass(frozen=True)
class ClassFacts:
    """A class as its source says it."""

    name: str
    module: str
    bases: tuple[str, ...]
    doc: Doc
    members: tuple[Member, ...]
    methods: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    """Public ones, properties too."""


@cache
def tree_of(module: str) -> ast.Module:
    """The source of a module, read and not run."""
    base = ROOT.joinpath(*module.split("."))
    file = base.with_suffix(".py") if base.with_suffix(".py").is_file() else base / "__init__.py"
    return ast.parse(file.read_text(encoding="utf-8"))


def module_doc(module: str) -> Doc:
    """What a module says of itself."""
    return read_doc(ast.get_docstring(tree_of(module)))


def class_facts(module: str, name: str) -> ClassFacts:
    """A class of a module."""
    node = next(one for one in tree_of(module).body if isinstance(one, ast.ClassDef) and one.name == name)
    return facts_of(node, module)


def facts_of(node: ast.ClassDef, module: str) -> ClassFacts:
    """What the source of a class says."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return ClassFacts(
        name=node.name,
        module=module,
        bases=tuple(ast.unparse(one) for one in node.bases),
        doc=read_doc(ast.get_docstring(node)),
        members=tuple(_members(node)),
        methods=tuple(one for one in methods if not one.name.startswith("_")),
    )


def _members(node: ast.ClassDef) -> Iterator[Member]:
    for at, one in enumerate(node.body):
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        kind = ast.unparse(one.annotation)
        if kind.startswith("ClassVar") or one.target.id.startswith("_"):
            continue
        after = node.body[at + 1] if at + 1 < len(node.body) else None
        said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        name, default = one.target.id, None if one.value is None else ast.unparse(one.value)
        if default is not None and (call := re.match(r"[Ff]ield\((.*)\)$", default, re.DOTALL)):
            if renamed := re.search(r"name='(\w+)'", call[1]):
                name = renamed[1]
            made = re.search(r"default_factory=(\w+)\b|default=([^,)]+)", call[1])
            empty = {"dict": "{}", "list": "[]", "tuple": "()"}
            default = (empty.get(made[1] or "", "") if made and made[1] else made[2] if made else "") or "…"
        yield Member(name, kind, default, markdown(inspect.cleandoc(str(said))))


def public_classes(module: str) -> list[ClassFacts]:
    """The public classes of a module, in their order."""
    body = tree_of(module).body
    return [facts_of(one, module) for one in body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")]


def members_table(facts: ClassFacts, *, plain: bool = False) -> str:
    """A class's fields; with `plain` types are words and no code."""
    kinds = [one.type if plain else code(one.type) for one in facts.members]
    rows = [
        (code(one.name), kind, _default(one.default), one.words) for one, kind in zip(facts.members, kinds, strict=True)
    ]
    return table(("field", "type", "default", "meaning"), rows) if rows else ""


def _default(text: str | None) -> str:
    text = text and re.sub(r"^'(.*)'$", r"\1", text)
    return "*required*" if text is None else "" if text in ("", "None", "_UNSET", "{}", "()", "[]", "…") else code(text)


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    """A function's head, a line each where one does not hold it."""
    given = node.args
    parts = [ast.unparse(ast.arguments([], [one], None, [], [], None, [])) for one in given.posonlyargs + given.args]
    skipped = 1 if parts[:1] in (["self"], ["cls"]) else 0
    tail = given.defaults
    every = given.posonlyargs + given.args
    for at, default in zip(range(len(every) - len(tail), len(every)), tail, strict=True):
        parts[at] = f"{parts[at]} = {ast.unparse(default)}"
    if given.vararg:
        parts.append(f"*{ast.unparse(given.vararg)}")
    elif given.kwonlyargs:
        parts.append("*")
    for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        parts.append(ast.unparse(one) + (f" = {ast.unparse(default)}" if default else ""))
    if given.kwarg:
        parts.append(f"**{ast.unparse(given.kwarg)}")
    parts = parts[skipped:]
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= 88:
        return line
    body = "".join(f"    {one},\n" for one in parts)
    return f"{name}(\n{body}){result}"


def doc_parts(doc: Doc) -> list[str]:
    """What a docstring says of arguments, results and errors."""
    found = []
    if entries := doc.parts.get("Args"):
        found.append(table(("argument", "meaning"), [(names(one), words) for one, words in entries]))
    for title in ("Returns", "Yields"):
        if entries := doc.parts.get(title):
            found.append(f"**{title}** {markdown(' '.join(words for _, words in entries))}")
    if entries := doc.parts.get("Raises"):
        found.append("**Raises**\n\n" + "\n".join(f"- {code(one)}: {markdown(words)}" for one, words in entries))
    return found


def names(text: str) -> str:
    """Names with commas between them, each as code."""
    return ", ".join(code(one.strip()) for one in text.split(",") if one.strip())
