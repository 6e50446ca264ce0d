"""Rules for names, the beginnings of docstrings, phrases, and the tokens of each package."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "ragrounds"
LIMITS = Path(__file__).with_name("package_limits.toml")
MOST, MOST_IN_A_PACKAGE, MOST_GENERIC = 5, 10, 4
"""Per 1,000 lines: of the whole, of a package of 500 lines and more, and names such as ``data`` of the whole."""
VAGUE = frozenset(
    "one ones found made said told known asked held given own here apart kept drawn wanted shown others each whole "
    "then of by them place places what why most at chosen named judged written begun met".split()
)
GENERIC = frozenset("res obj tmp val data item result thing".split())
CLAUSE = re.compile(r"(What|Whether|How|Why|Who|Whose|Where|When|Which|That|Those|Of|As|In|By|With|It|Its|There)\b")
PHRASES = re.compile(
    r"\b(told|hear[ds]?|hearers?|stands?(?!-in)|stood|beside|somebody('s)?|nobody|of one's own|of anyone's|"
    r"of somebody's|is another( now)?|there is none|there are none|rests? on|goes by|is drawn|are drawn|drawn|"
    r"put into words|at work|is said|are said|dear)\b",
    re.I,
)
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma|ruff|mypy|fmt)")
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
}  # fmt: skip
NESTED = ("evals", "ui", "tools", "agents", "extensions")
"""Packages that consist of packages."""


def names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield every name that is given: parameters, functions, variables, attributes, exceptions."""
    for node in nodes:
        match node:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ExceptHandler(name=str(name)):
                yield name


def docstrings(nodes: Sequence[ast.AST]) -> Iterator[ast.Constant]:
    """Yield the docstrings of functions and classes, and the strings below assignments."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for number, statement in enumerate(body):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                continue
            below = number and isinstance(body[number - 1], ast.Assign | ast.AnnAssign)
            if below or (not number and not isinstance(node, ast.Module)):
                yield statement.value


def count(path: Path) -> Counter[str]:
    """Count lines, tokens, vague and generic names, clauses and phrases of one file."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    prose = sum(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in nodes)
    counts = Counter(lines=source.count("\n"), tokens=-prose)  # a docstring is one token, and is not counted
    for name in names(nodes):
        counts["vague"] += name.strip("_") in VAGUE
        counts["generic"] += name.strip("_") in GENERIC
    counts["clauses"] = sum(bool(CLAUSE.match(str(text.value).strip())) for text in docstrings(nodes))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    texts = [text for text in constants if isinstance(text, str) and " " in text]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        counts["tokens"] += token.type not in LAYOUT
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            texts.append(token.string)
    counts["phrases"] = sum(len(PHRASES.findall(text)) for text in texts)
    return counts


@cache
def packages() -> dict[str, Counter[str]]:
    """Return the counts of every package."""
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        totals["/".join(parts[: 2 if len(parts) > 2 and parts[0] in NESTED else 1])].update(count(path))
    return totals


def rate(counts: Counter[str], *kinds: str) -> float:
    return 1000 * sum(counts[kind] for kind in kinds) / max(counts["lines"], 1)


@pytest.mark.slow
def test_packages_are_plain_and_within_their_tokens() -> None:
    """A package that needs more tokens needs a commit of its own that raises its limit and gives the reason."""
    whole = sum(packages().values(), Counter[str]())
    assert rate(whole, "vague", "clauses", "phrases") <= MOST
    assert rate(whole, "generic") <= MOST_GENERIC
    rates = {name: rate(counts, "vague", "clauses", "phrases") for name, counts in packages().items()}
    large = {name for name, counts in packages().items() if counts["lines"] >= 500}
    assert {name: rates[name] for name in large if rates[name] > MOST_IN_A_PACKAGE} == {}
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))["tokens"]
    tokens = {name: counts["tokens"] for name, counts in packages().items() if not name.endswith(".py")}
    assert set(tokens) == set(limits)
    assert {name: value for name, value in tokens.items() if value > limits[name]} == {}


@pytest.mark.slow
def test_pages_say_it_plainly() -> None:
    """What a page quotes (code, outputs, messages) is as it is quoted."""
    root = PACKAGE.parent
    pages = [
        *root.joinpath("docs").rglob("*.md"),
        *map(root.joinpath, ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ]
    found = {}
    for page in pages:
        quoted = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$|`[^`]+`|^>[^\n]*$", re.MULTILINE | re.DOTALL)
        if phrases := [match[0] for match in PHRASES.finditer(quoted.sub("", page.read_text(encoding="utf-8")))]:
            found[str(page.relative_to(root))] = phrases
    assert not found


def unknown_arguments(source: str) -> list[str]:
    """Return the names that a function's section "Args" describes and that are none of its parameters."""
    unknown = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            section = re.search(r"^Args:\n((?:[ ].*\n?|\n)+)", ast.get_docstring(node) or "", re.M)
            described = re.findall(r"^ {4}(\w+): ", section.group(1), re.M) if section else []
            parameters = {parameter.arg for parameter in ast.walk(node.args) if isinstance(parameter, ast.arg)}
            unknown += [f"{node.name}: {name}" for name in described if name not in parameters]
    return unknown


@pytest.mark.slow
def test_described_arguments_are_parameters() -> None:
    planted = '"""Do.\n\n    Args:\n        a: x.\n        b: y.\n        c: z.\n    """'
    assert unknown_arguments(f"def f(a, *b):\n    {planted}\n") == ["f: c"]
    files = {path: unknown_arguments(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    assert {str(path): names for path, names in files.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("one = 1\ndef found(given, *, told=1): self.made = 2\n", "vague", 5),
        ("data = {}\n", "generic", 1),
        ('def f():\n    """What it does."""\n\n\nX = 1\n"""Whether it is."""\n', "clauses", 2),
        ('say("it stands beside it")  # drawn by hand\n', "phrases", 3),
        ("x = 1  # a comment\n", "tokens", 3),
    ],
)
def test_a_planted_fault_is_counted(tmp_path: Path, source: str, kind: str, expected: int) -> None:
    file = tmp_path / "module.py"
    file.write_text(source, encoding="utf-8")
    assert count(file)[kind] == expected
