"""Systems that know nothing of ragrounds, run and measured: writes perf/compatibility.md.

python docs/scripts/compatibility.py [--only a,b,c] [--write] [--venvs FOLDER | --python PATH] [--questions 4]

Every system of docs/foreign, and some packages as they come, is run bare and then by `ragrounds run`: whole, once more,
killed and resumed, replayed with the server gone, capped. The command makes environments of its own for what has to be
installed (uv, else pip); `--python` takes one that is there. It needs nothing but Python itself, a package index, and a
quarter of an hour. The exit code is 1 where a column of a row does not hold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compatibility_rows import ROOT, Cell, Foreign, Measure, Row
from compatibility_servers import ServerMeasure, gpu, servers
from compatibility_systems import GRAPHS, SYSTEMS

PAGE = ROOT / "perf" / "compatibility.md"
UNDER_SERVERS = ("openai_function", "agent")
COLUMNS = {
    "unchanged": "lines changed",
    "calls": "calls seen = counted",
    "again": "the same command again",
    "resumed": "resumed after `kill -9`",
    "replayed": "replayed, server gone",
    "passages": "passages",
    "cost": "cost",
    "caps": "capped at",
}


class Environments:
    """Environments with ragrounds and what a system needs, made once for each list of packages."""

    def __init__(self, folder: Path, given: Path | None, clones: Path) -> None:
        self._folder, self._given, self._clones = folder, given, clones
        self._uv = shutil.which("uv") or ""

    def clone(self, repository: str) -> Path:
        """A repository of GitHub, in a folder of its name; what lies there is taken as it is."""
        place = self._clones / repository.rpartition("/")[2]
        if not place.exists():
            address = f"https://github.com/{repository}"
            subprocess.run(["git", "clone", "-q", "--depth", "1", address, place], check=True)
        return place.absolute()

    def python(self, packages: Sequence[str], *, ours: bool = True) -> Path:
        """The Python of the environment that holds `packages`, and ragrounds where it is `ours`."""
        if self._given is not None and ours:
            return self._given
        place = self._folder / hashlib.sha256("\n".join([*packages, f"{ours}"]).encode()).hexdigest()[:12]
        python = place / "bin" / "python"
        if not (place / "made").exists():
            self._make(place, python, packages, ours)
            (place / "made").touch()
        return python

    def _make(self, place: Path, python: Path, packages: Sequence[str], ours: bool) -> None:
        done("-m", "venv", "--clear", str(place))
        if not self._uv:
            tools = self._folder / "tools"
            done("-m", "venv", str(tools))
            subprocess.run([tools / "bin" / "pip", "install", "-q", "uv"], check=False, capture_output=True)
            self._uv = str(tools / "bin" / "uv") if (tools / "bin" / "uv").exists() else "-"
        # pip for servers of models: it finds a torch without CUDA where one lies ready.
        if self._uv == "-" or any(name.startswith(("torch", "vllm")) for name in packages):
            installer = [python, "-m", "pip", "install", "-q"]
        else:
            installer = [self._uv, "pip", "install", "-q", "--link-mode", "copy", "--python", python]
        subprocess.run([*installer, *(["-e", ROOT] if ours else []), *packages], check=True)


def done(*words: str) -> None:
    """Run this Python with these words."""
    subprocess.run([sys.executable, *words], check=True)


def versions(python: Path, names: Sequence[str]) -> str:
    """The versions of distributions, as an environment has them."""
    code = "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    told = subprocess.run([python, "-c", code, *names], capture_output=True, text=True, check=False)
    return told.stdout.strip() or f"? {told.stderr.strip()[-80:]}"


def commit() -> str:
    """The commit of this checkout; `-dirty`: with changes."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Measure the rows that are asked for, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="keys of rows, with commas between")
    parser.add_argument("--questions", type=int, default=4, help="of the sample benchmark")
    parser.add_argument("--venvs", type=Path, help="where environments are kept from one call to the next")
    parser.add_argument("--python", type=Path, help="an environment that holds ragrounds and what its guests need")
    parser.add_argument("--clones", type=Path, help="where repositories of rows are, or are cloned to")
    parser.add_argument(
        "--beside", action="store_true", help="what has an environment of its own is installed beside ragrounds"
    )
    parser.add_argument("--folder", type=Path, help="where runs, logs and rows are kept; the page has all rows there")
    parser.add_argument("--jobs", type=int, default=2, help="rows at the same time")
    parser.add_argument("--columns", default=",".join(COLUMNS), help="of the table; `calls` always")
    parser.add_argument("--streamed", action="store_true", help="systems that can stream their replies do")
    parser.add_argument("--servers", default="", help="the table of servers, too: all, or parts of their names")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page of what --folder holds")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    chosen = [key for key in options.only.split(",") if key]
    unknown = set(chosen) - {one.key for one in SYSTEMS}
    if unknown:
        parser.error(
            f"no row is called {', '.join(sorted(unknown))}; there are {', '.join(one.key for one in SYSTEMS)}"
        )
    with tempfile.TemporaryDirectory(prefix="ragrounds-compatibility-") as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        given = None if options.python is None else options.python.absolute()
        clones = options.clones or folder / "clones"
        environments = Environments((options.venvs or folder / "venvs").absolute(), given, clones)
        told: dict[str, str] = {}
        wanted = [one for one in SYSTEMS if (not chosen or one.key in chosen) and not options.page]
        made_rows = [begun_row(foreign, environments, folder.absolute(), options, told) for foreign in wanted]
        with ThreadPoolExecutor(options.jobs) as pool:
            columns = options.columns.split(",")
            begun = [pool.submit(finished_row, one, columns, options.questions, folder, told) for one in made_rows]
            rows = [one.result() for one in begun]
        if options.servers or not (chosen or options.page):
            (folder / "servers.md").write_text("\n".join(served(environments, folder.absolute(), options)))
        lines = (folder / "servers.md").read_text().split("\n") if (folder / "servers.md").exists() else []
        shown = rows if options.folder is None else [*kept(folder, told)]
    text = page(shown, told, options.streamed, lines)
    sys.stdout.write(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    sys.exit(1 if any(row.broken for row in shown) else 0)


def begun_row(
    foreign: Foreign, environments: Environments, folder: Path, options: argparse.Namespace, told: dict[str, str]
) -> Measure | Row:
    """What measures a row; where its packages cannot be installed, a row that says so."""
    clone = None
    try:
        if repository := foreign.repository or foreign.notebook.partition(":")[0]:
            clone = environments.clone(repository)
        wanted = [package.replace("{clone}", str(clone)) for package in foreign.packages]
        apart = foreign.own and not options.beside
        theirs = environments.python(wanted, ours=not apart)
        python = environments.python(GRAPHS) if apart else theirs
    except subprocess.CalledProcessError as error:
        return Row(foreign, {"calls": Cell(None, f"not installed ({error})")})
    told[foreign.key] = versions(theirs, foreign.shown) if foreign.shown else ""
    own = theirs if apart else None
    return Measure(foreign, python, folder, options.questions, options.streamed, theirs=own, clone=clone)


def finished_row(
    begun: Measure | Row, columns: Sequence[str], questions: int, folder: Path, told: dict[str, str]
) -> Row:
    """A row, told and kept as soon as it is measured."""
    row = begun if isinstance(begun, Row) else begun.row(columns)
    row.measured = f"{datetime.now(UTC):%Y-%m-%d}, {commit()}, {questions}"
    said = [f"{row.foreign.key}: {row.seconds:.0f} s; {', '.join(row.broken) or 'all hold'}"]
    sys.stderr.write("\n    ".join([*said, *(f"{name}: {row.cells[name]}" for name in row.broken)]) + "\n")
    sys.stderr.flush()
    keep(folder / f"{row.foreign.key}.json", row, told.get(row.foreign.key, ""))
    return row


def keep(path: Path, row: Row, version: str) -> None:
    """Write a row beside the runs that it comes from."""
    cells = {name: (cell.holds, cell.words) for name, cell in row.cells.items()}
    held = {"cells": cells, "seconds": row.seconds, "measured": row.measured, "versions": version}
    path.write_text(json.dumps(held), encoding="utf-8")


def kept(folder: Path, told: dict[str, str]) -> Iterator[Row]:
    """The rows that a folder holds, of this call and of earlier ones; their versions go to `told`."""
    for foreign in SYSTEMS:
        path = folder / f"{foreign.key}.json"
        if path.exists():
            held = json.loads(path.read_text(encoding="utf-8"))
            told[foreign.key] = held["versions"]
            cells = {name: Cell(*cell) for name, cell in held["cells"].items()}
            yield Row(foreign, cells, held["seconds"], held["measured"])


def page(rows: Sequence[Row], told: dict[str, str], streamed: bool, beside: Sequence[str]) -> str:
    """The page in Markdown."""
    quickest, slowest = min(row.seconds for row in rows), max(row.seconds for row in rows)
    lines = [
        "# Systems of others, unchanged",
        "",
        f"Python {platform.python_version()}. `python docs/scripts/compatibility.py --write` "
        "installs each system from the package index, runs it bare and then by `ragrounds run`, and writes this page "
        f"({quickest:.0f} to {slowest:.0f} s a row, some at the same time); "
        "the last column says on which day and commit a row was measured, and with how many questions. "
        "[docs/foreign](../docs/foreign) holds files of ours, by the public recipes; "
        "none of them knows ragrounds. "
        "The model server is a scripted one on loopback that counts its requests"
        + (", and replies are streamed where a system can." if streamed else "."),
        "",
        "| system | " + " | ".join(COLUMNS.values()) + " | versions | measured |",
        "|---|" + "---|" * len(COLUMNS) + "---|---|",
    ]
    for row in rows:
        cells = [str(row.cells.get(name, Cell(None, "not asked for, or no run"))) for name in COLUMNS]
        said = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
        place = (
            f"[{row.foreign.title}](../docs/foreign/{row.foreign.place.rpartition(':')[0]})"
            if row.foreign.file
            else row.foreign.title
        )
        if row.foreign.repository:
            place = f"[{place}](https://github.com/{row.foreign.repository})"
        place += ", apart" if row.foreign.own else ""
        lines.append(f"| {place} | {' | '.join(said)} | {told.get(row.foreign.key, '')} | {row.measured} |")
    return "\n".join([*lines, "", *EXPLAINED, "", *beside])


def served(environments: Environments, folder: Path, options: argparse.Namespace) -> list[str]:
    """The table of servers: two systems under each, streamed and not."""
    ours = environments.python(GRAPHS)
    names = ("calls", "again", "replayed", "cost")
    lines = [
        "## Servers",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {commit()}, {options.questions}. "
        "The same under other servers, counted by their own access logs. "
        + (f"GPU: {gpu()}." if gpu() else "No GPU was at hand, so vLLM was not run."),
        "",
        "| server | system | streamed | " + " | ".join(COLUMNS[name] for name in names) + " |",
        "|---|---|---|" + "---|" * len(names),
    ]
    made = servers(ours, folder / "servers", lambda packages: environments.python(packages, ours=False))
    for number, (title, make) in enumerate(made.items()):
        if options.servers not in ("", "all") and not any(one in title for one in options.servers.split(",")):
            continue
        try:
            server, version = make()
        except (LookupError, OSError, subprocess.CalledProcessError) as error:
            lines.append(f"| {title} | | | **not run**: {error} |" + " |" * (len(names) - 1))
            continue
        for foreign in (one for one in SYSTEMS if one.key in UNDER_SERVERS):
            for streamed in (False, True):
                measure = ServerMeasure(
                    foreign, ours, folder / f"server{number}{streamed:d}", options.questions, streamed
                )
                measure.given = server
                row = measure.row(names)
                said = [str(row.cells.get(name, Cell(None, "no run"))) for name in names]
                cells = " | ".join(one.replace("|", "\\|").replace("\n", " ") for one in said)
                lines.append(f"| {title} {version} | {foreign.title} | {'yes' if streamed else 'no'} | {cells} |")
                (folder / "servers.md").write_text("\n".join([*lines, ""]))
                sys.stderr.write(
                    f"{title}, {foreign.key}, streamed {streamed}: {', '.join(row.broken) or 'all hold'}\n"
                )
                sys.stderr.flush()
    return [*lines, ""]


EXPLAINED = [
    "Each command is a process of its own, forked from one that has loaded the libraries and nothing of the system.",
    "",
    "- **apart**: in an environment of its own, which `--python` names: no package of it changes, and of a killed "
    'command nothing runs on. Services that a template searches are recorded as `record = ["…"]` in its file says.',
    "- **lines changed**: the files that `bare.py` runs and those that ragrounds ran are the same, byte for byte, and "
    "name it nowhere.",
    "- **calls seen = counted**: calls of models in the journal (embeddings are among them), and requests that the "
    "server answered.",
    "- **the same command again**: requests that it sends.",
    "- **resumed after `kill -9`**: calls that the journal held when the process died, and those that the same command "
    "then asked for: together what an undisturbed run asks, with the same answers.",
    "- **replayed, server gone**: every attempt made anew with `--journal replay --new`; at the server's address a "
    "socket counts connections, and there are none.",
    "- **passages**: of searches inside the system, as every analysis by hop reads them.",
    "- **cost**: dollars in the ledger, equal to what the server's own count of tokens comes to. Of a stream that did "
    "not ask for its tokens it is unknown: the cell says no.",
    "- **capped at**: calls (of models, and searches) that an attempt may make, of those that it needs; it ends as "
    "`capped`, and the server counts no more.",
    "- **said beside the figures**: of a system that cannot be recorded, the notes of the run say so, and no replay "
    "goes through.",
]

if __name__ == "__main__":
    main()
