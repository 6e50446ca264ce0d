"""What Sphinx reads: the pages of docs/, the measurements of perf/ and the pages made from source, in one folder.

The files in the repository are plain Markdown that any viewer shows. This module copies them, so that nothing made here
lies beside them, and does three things on the way: links to files outside docs/ point to pages of the site, source
files that a page links to become pages, and every folder gets its part of the navigation: the pages in the order in
which the folder's ``index.md`` names them.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OF_PROJECT = ("CONTRIBUTING", "CHANGELOG", "GOVERNANCE", "CODE_OF_CONDUCT", "SECURITY", "MAINTAINING")
"""Pages at the root of the repository that are in the site's section on the project."""
MOVED = {"README.md": "index.md"} | {f"{name}.md": f"project/{name.lower()}.md" for name in OF_PROJECT}
"""Files of the repository → where they stand in the site."""
SECTIONS = (
    ("Learn", ("five-minutes", "tutorials/index", "examples/index")),
    ("Do", ("how-to/index", "coming-from/index", "troubleshooting")),
    ("Understand", ("concepts/index", "glossary")),
    ("Look up", ("reference/index", "measurements/index", "project/index")),
)
"""Headings of the navigation → pages below them."""
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)#\s]*)(#[^)\s]*)?\)")
"""A link of Markdown: its text, the place, the part of the page."""
SHOWN = {
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".jsonl": "json",
    ".yml": "yaml",
    ".sh": "sh",
    ".txt": "text",
}
"""Files that become pages, by suffix → the language they are coloured as."""
_FENCE = re.compile(r"^\s*(```+|~~~+)")
_MADE = "<!-- pages made from source -->"


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """The lines of a page, each with whether it stands in a fenced block."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence and found:
            fence = found[1]
            yield line, True
        elif fence and found and line.strip() == fence[0] * len(line.strip()) and len(line.strip()) >= len(fence):
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def place_of(path: str) -> str:
    """Where a page of the repository stands in the site."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith("perf/") and path.endswith(".md"):
        return "measurements/" + ("index.md" if path == "perf/README.md" else path.removeprefix("perf/"))
    if path.startswith("docs/"):
        return path.removeprefix("docs/").removesuffix(".ipynb") + (".md" if path.endswith(".ipynb") else "")
    return f"files/{path}"


class SiteSource:
    """The folder that Sphinx reads, while it is filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, str] = {}
        """Place in the site → Markdown."""
        self._wanted: list[str] = []

    def add_repository(self) -> None:
        """Take the pages of the repository, and the source files that these link to."""
        docs = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "scripts" not in path.parts]
        books = sorted((ROOT / "docs" / "examples").glob("*.ipynb"))
        for path in (*docs, *sorted((ROOT / "perf").glob("*.md")), *(ROOT / f"{name}.md" for name in OF_PROJECT)):
            name = path.relative_to(ROOT).as_posix()
            self.pages[place_of(name)] = self._linked(path.read_text(encoding="utf-8"), name)
        for path in books:
            name = path.relative_to(ROOT).as_posix()
            self.pages[place_of(name)] = self._linked(self._notebook(path), name)
        while self._wanted:
            self._show(self._wanted.pop())

    def write(self) -> None:
        """Write the pages with the navigation in them."""
        for place, text in self._with_navigation().items():
            file = self.folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def _linked(self, text: str, name: str) -> str:
        """A page whose links point to where their targets stand in the site."""
        here = posixpath.dirname(place_of(name))

        def _target(found: re.Match[str]) -> str:
            given, part = found[2], found[3] or ""
            if not given or re.match(r"[a-z]+:", given):
                return found[0]
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), given))
            if re.fullmatch(r"\[(docs/|perf/)?([\w-]+/)*[\w-]+\.md\]\(", found[1]) and (ROOT / target).is_file():
                title = title_of((ROOT / target).read_text(encoding="utf-8"))
                return f"[{title}]({posixpath.relpath(self._placed(target), here or '.')}{part})"
            return f"{found[1]}{posixpath.relpath(self._placed(target), here or '.')}{part})"

        return "\n".join(line if fenced else LINK.sub(_target, line) for line, fenced in lines_of(text))

    def _placed(self, target: str) -> str:
        """Where a file that a page links to stands in the site; source files become pages."""
        path = ROOT / target
        if path.is_dir():
            if (path / "index.md").is_file():
                return place_of(f"{target}/index.md")
            self._wanted.append(target)
            return f"files/{target}/index.md"
        if path.suffix in (".md", ".ipynb"):
            place = place_of(target)
            if place.startswith("files/") and place not in self.pages:  # a page of another folder, such as tests/
                self.pages[place] = ""
                text = self._linked(path.read_text(encoding="utf-8"), target)
                self.pages[place] = f"---\norphan: true\n---\n\n{text}"
            return place
        if path.suffix in SHOWN or path.name == "run":
            self._wanted.append(target)
            return f"files/{target}.md"
        place = place_of(target)
        if path.is_file() and not (self.folder / place).exists():
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.folder / place)
        return place

    def _show(self, target: str) -> None:
        """Make a page of a source file, or of a folder of them."""
        path = ROOT / target
        if not path.is_dir():
            text = path.read_text(encoding="utf-8")
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text) or [""]))
            language = SHOWN.get(path.suffix, "sh")
            self.pages[f"files/{target}.md"] = (
                f"---\norphan: true\n---\n\n# `{target}`\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"
            )
            return
        files = [one for one in sorted(path.rglob("*")) if one.suffix in SHOWN and one.is_file()]
        names = [one.relative_to(ROOT).as_posix() for one in files]
        listed = "\n".join(
            f"- [`{name.removeprefix(target + '/')}`]({name.removeprefix(target + '/')}.md)" for name in names
        )
        self.pages[f"files/{target}/index.md"] = f"---\norphan: true\n---\n\n# `{target}`\n\n{listed}\n"
        self._wanted += names

    def _notebook(self, path: Path) -> str:
        """A notebook as Markdown: its cells, and what they gave when it was run."""
        parts = []
        for at, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                parts.append(text)
                continue
            parts.append(f"```python\n{text}\n```")
            for output in cell.get("outputs", []):
                parts.append(self._output(output, place_of(f"docs/examples/{path.name}"), at))
        return "\n\n".join(part for part in parts if part) + "\n"

    def _output(self, output: dict[str, object], place: str, at: int) -> str:
        """What a cell gave: a picture where there is one, else text."""
        if output.get("output_type") == "stream":
            return f"```text\n{_joined(output.get('text')).rstrip()}\n```" if output.get("name") == "stdout" else ""
        data = output.get("data")
        if not isinstance(data, dict):
            return ""
        for kind, suffix in (("image/svg+xml", "svg"), ("image/png", "png")):
            if kind in data:
                file = self.folder / place.replace(".md", f"-{at}.{suffix}")
                file.parent.mkdir(parents=True, exist_ok=True)
                body = _joined(data[kind])
                file.write_bytes(b64decode(body) if suffix == "png" else body.encode())
                return f"![what cell {at} shows]({file.name})"
        return f"```text\n{_joined(data.get('text/plain')).rstrip()}\n```"

    def _with_navigation(self) -> dict[str, str]:
        """The pages, with the parts of the navigation at the end of each folder's index."""
        pages = dict(self.pages)
        for place, text in self.pages.items():
            folder, name = posixpath.split(place)
            if name != "index.md" or text.startswith("---\norphan"):
                continue
            if not folder:
                parts = [(caption, [one for one in names if f"{one}.md" in pages]) for caption, names in SECTIONS]
            else:
                parts = [("", ordered(text, folder, self.pages))]
            trees = "\n\n".join(_tree(names, caption) for caption, names in parts if names)
            made = [one for one in self.pages if re.fullmatch(re.escape(folder) + r"/[\w-]+/index\.md", one)]
            text = text.replace(_MADE, "\n".join(_listed(one, folder, self.pages) for one in made))
            pages[place] = f"{text.rstrip()}\n\n{trees}\n"
        return pages


def ordered(text: str, folder: str, pages: Iterable[str]) -> list[str]:
    """The pages and folders of a folder, as its index names them, then the others by name; without ``.md``."""
    here = {posixpath.relpath(one, folder) for one in pages if one.startswith(f"{folder}/")} - {"index.md"}
    below = {one for one in here if one.count("/") == 0 or (one.count("/") == 1 and one.endswith("/index.md"))}
    named = [
        posixpath.normpath(found[2]) for line, fenced in lines_of(text) if not fenced for found in LINK.finditer(line)
    ]
    first = [one for one in dict.fromkeys(named) if one in below]
    return [one.removesuffix(".md") for one in (*first, *sorted(below - set(first)))]


def title_of(text: str) -> str:
    """A page's first heading, without markup."""
    found = next((line for line, fenced in lines_of(text) if not fenced and line.startswith("# ")), "# ")
    return LINK.sub(lambda one: one[1].lstrip("![").removesuffix("]("), found[2:]).replace("`", "").strip()


def summary_of(text: str) -> str:
    """The first sentence below a page's heading, without markup."""
    lines = lines_of(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    first: list[str] = []
    begun = False
    for line, fenced in lines:
        if not begun:
            begun = not fenced and line.startswith("# ")
        elif not fenced and (line.strip() if first else re.match(r"[\w*`\[(“\"]", line)):
            first.append(line.strip())
        elif first:
            break
    plain = LINK.sub(lambda one: one[1].lstrip("![").removesuffix("]("), " ".join(first)).replace("**", "")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])|:$", plain, maxsplit=1)[0]


def _joined(text: object) -> str:
    return "".join(text) if isinstance(text, list) else str(text or "")


def _listed(place: str, folder: str, pages: dict[str, str]) -> str:
    """A line of a list of pages."""
    text = pages[place]
    return f"- [{title_of(text)}]({posixpath.relpath(place, folder)}): {summary_of(text)}"


def _tree(names: Iterable[str], caption: str) -> str:
    """A part of the navigation, in Sphinx's words."""
    said = f":caption: {caption}\n" if caption else ""
    return "```{toctree}\n:hidden:\n" + said + "\n" + "\n".join(names) + "\n```"
