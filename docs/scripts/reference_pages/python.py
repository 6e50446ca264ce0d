"""Pages of Python: the public functions, the results with their frames, records, contracts, listeners and errors."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from ragrounds.api import frames
from ragrounds.api.functions import public_modules
from reference_pages.markdown import (
    ROOT,
    ClassFacts,
    block,
    class_facts,
    code,
    doc_parts,
    facts_of,
    members_table,
    module_doc,
    public_classes,
    read_doc,
    signature,
    tree_of,
)

FOLDER = "reference/python"
FRAMES_PAGE = "../lists/frames.md"
"""Where the columns of frames stand."""
_FRAMES = {name: one for name, one in vars(frames).items() if isinstance(one, frames.Frame)}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_pages() -> tuple[dict[str, str], dict[str, str]]:
    """The pages, and what code in sentences links to."""
    targets: dict[str, str] = {}
    pages = {
        "functions": _functions(targets),
        "results": _results(targets),
        "more": _more(targets),
        "records": _module_page(
            "ragrounds.base.records", "Records", "What every part of ragrounds hands to the others.", targets
        ),
        "contracts": _module_page(
            "ragrounds.base.contracts",
            "Contracts",
            "What a model, a retriever, a scorer or a system of your own must offer.",
            targets,
        ),
        "listeners": _listeners(targets),
        "errors": _errors(targets),
    }
    pages["index"] = _index(pages)
    return {f"{FOLDER}/{name}.md": text for name, text in pages.items()}, targets


def _index(pages: dict[str, str]) -> str:
    lines = []
    for name, text in pages.items():
        title, _, rest = text.removeprefix("# ").partition("\n")
        lines.append(f"- [{title}]({name}.md): {rest.strip().split(chr(10))[0]}")
    about = (
        "Everything that `import ragrounds as rr` gives, and the records and contracts behind it. [Python](../api.md) "
        f"shows how they are used together, [Frames]({FRAMES_PAGE}) has the columns of every frame."
    )
    return f"# Python: functions and records\n\n{about}\n\n" + "\n".join(lines) + "\n"


def _public() -> Iterator[tuple[str, str, ast.stmt]]:
    """Public name, its module, and its definition."""
    for name, module in public_modules().items():
        node = next((one for one in tree_of(module).body if getattr(one, "name", "") == name), None)
        if node is not None:
            yield name, module, node


def _functions(targets: dict[str, str]) -> str:
    parts = ["# Public functions", "Each is called as `rr.NAME(…)`, after `import ragrounds as rr`."]
    for name, module, node in _public():
        if isinstance(node, Function):
            targets[f"rr.{name}"] = f"{FOLDER}/functions#rr-{name.replace('_', '-')}"
            parts += [f"(rr-{name.replace('_', '-')})=\n## `rr.{name}`", *_function(node, f"rr.{name}", module)]
    return "\n\n".join(parts) + "\n"


def _function(node: Function, name: str, module: str) -> list[str]:
    """A function: its head, and what it says of itself."""
    head, text = signature(node, name), ast.get_docstring(node)
    if any(ast.unparse(one).startswith("takes(") for one in node.decorator_list):  # its arguments are a record
        function = getattr(import_module(module), node.name)
        given = inspect.signature(function)
        head = f"{name}(\n{''.join(f'    {one},' + chr(10) for one in given.parameters.values())})"
        head, text = f"{head} -> {given.return_annotation}", inspect.getdoc(function)
    doc = read_doc(text)
    return [block(head, "python"), *([doc.text] if doc.text else []), *doc_parts(doc)]


def _results(targets: dict[str, str]) -> str:
    parts = [
        "# Results",
        "What the functions return. Each shows itself in a notebook and when it is printed, and gives data frames: "
        f"`to_pandas()`. [Frames]({FRAMES_PAGE}) has the columns of each frame.",
    ]
    files = [file for folder in ("api", "extensions") for file in sorted((ROOT / "ragrounds" / folder).glob("**/*.py"))]
    for module in (".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files):
        for facts in public_classes(module):
            if facts.name == "Result" or any(base.endswith("Result") for base in facts.bases):
                parts += _class(facts, f"{FOLDER}/results", targets)
    return "\n\n".join(parts) + "\n"


def _class(facts: ClassFacts, page: str, targets: dict[str, str]) -> list[str]:
    """A class: what it says of itself, its fields, its properties and its methods."""
    label = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", facts.name).lower()
    anchor = f"{page.rpartition('/')[2]}-{label}"
    for name in (facts.name, f"rr.{facts.name}"):
        targets.setdefault(name, f"{page}#{anchor}")
    parts = [f"({anchor})=\n## `{facts.name}`", *([facts.doc.text] if facts.doc.text else []), *doc_parts(facts.doc)]
    bases = [
        base for base in facts.bases if base not in ("Struct", "Protocol", "Enum") and not base.startswith("Generic")
    ]
    if bases:
        parts.append(f"It has all that {', '.join(map(code, bases))} has.")
    if facts.members:
        parts.append(members_table(facts))
    if given := _frames_of(facts):
        parts.append("Frames, the natural one first: " + ", ".join(given) + ".")
    for method in facts.methods:
        parts += _method(method, facts)
    return parts


def _frames_of(facts: ClassFacts) -> list[str]:
    """The frames that a result gives, by what its source names."""
    own = next((one for one in facts.methods if one.name == "own_frames"), None)
    named = [node.id for node in ast.walk(own) if isinstance(node, ast.Name)] if own else []
    named += [node.attr for node in ast.walk(own) if isinstance(node, ast.Attribute)] if own else []
    found = [_FRAMES[name].name for name in dict.fromkeys(named) if name in _FRAMES]
    return [f"[`{name}`]({FRAMES_PAGE}#{name})" for name in found]


def _method(node: Function, facts: ClassFacts) -> list[str]:
    """A method or a property, where it says what it does."""
    kinds = {ast.unparse(one) for one in node.decorator_list}
    doc = read_doc(ast.get_docstring(node))
    if node.name in ("own_frames", "parts") or kinds & {"overload", "override"} or not doc.text:
        return []
    text = " ".join(doc.text.split()) if "\n\n" not in doc.text else doc.text
    if kinds & {"property", "cached_property"}:
        result = f": {code(ast.unparse(node.returns))}" if node.returns else ""
        return [f"`.{node.name}`{result} — {text}"]
    return [block(signature(node, f".{node.name}"), "python"), text, *doc_parts(doc)]


def _more(targets: dict[str, str]) -> str:
    """Functions of `ragrounds.api` that the package's root does not have."""
    parts = [
        "# Further functions",
        "What commands call and the root of the package does not have: `from ragrounds.api.… import NAME`.",
    ]
    public = {name for name, _, _ in _public()}
    for file in sorted((ROOT / "ragrounds" / "api").glob("*.py")):
        module = f"ragrounds.api.{file.stem}"
        nodes = [one for one in tree_of(module).body if isinstance(one, Function) and not one.name.startswith("_")]
        chosen = [one for one in nodes if one.name not in public and ast.get_docstring(one)]
        if chosen:
            parts += [f"## `{module}`", module_doc(module).text]
            for one in chosen:
                targets.setdefault(one.name, f"{FOLDER}/more#{file.stem}-{one.name}".replace("_", "-"))
                parts += [
                    f"({file.stem}-{one.name})=".replace("_", "-") + f"\n### `{one.name}`",
                    *_function(one, one.name, module),
                ]
    return "\n\n".join(parts) + "\n"


def _module_page(module: str, title: str, summary: str, targets: dict[str, str]) -> str:
    """All public classes of a module."""
    page = f"{FOLDER}/{title.lower()}"
    parts = [f"# {title}", f"{summary} They are in `{module}`.", module_doc(module).text]
    for facts in public_classes(module):
        parts += _class(facts, page, targets)
    return "\n\n".join(parts) + "\n"


def _listeners(targets: dict[str, str]) -> str:
    parts = ["# Listeners", "What is told while a run, a study or a build goes on: override the methods that you need."]
    for name, _, node in _public():
        if isinstance(node, ast.ClassDef) and name.endswith("Listener"):
            parts += _class(facts_of(node, ""), f"{FOLDER}/listeners", targets)
    return "\n\n".join(parts) + "\n"


def _errors(targets: dict[str, str]) -> str:
    parts = [
        "# Errors",
        "What a call may raise. Every error that a user can cause is a `UserError`: one line that names what was "
        "given, what was expected and what to do next. The command line prints it and ends with 2.",
    ]
    known = {"UserError", "Exception"}
    found: list[ClassFacts] = []
    for file in sorted((ROOT / "ragrounds").rglob("*.py")):
        found += _raised(file, known)
    first = [class_facts("ragrounds.base.errors", one.name) for one in public_classes("ragrounds.base.errors")]
    for facts in [*first, *(one for one in found if one.module != "ragrounds.base.errors")]:
        parts += _class(facts, f"{FOLDER}/errors", targets)
    return "\n\n".join(parts) + "\n"


def _raised(file: Path, known: set[str]) -> Iterator[ClassFacts]:
    """The public errors of a module that descend from those that are known."""
    text = file.read_text(encoding="utf-8")
    if "Error)" not in text and "Exception)" not in text:
        return
    module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for facts in public_classes(module):
        if any(base.rpartition(".")[2] in known or base.endswith(("Error", "Exception")) for base in facts.bases):
            known.add(facts.name)
            yield facts
