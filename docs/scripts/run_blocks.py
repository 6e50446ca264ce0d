"""Runs every command and code block of README, docs, help texts and docstrings; compares what is shown with what comes.

    python docs/scripts/run_blocks.py                       # all of them
    python docs/scripts/run_blocks.py README.md docs/how-to # these pages, these folders
    python docs/scripts/run_blocks.py help docstrings       # examples of `--help`, of public functions
    python docs/scripts/run_blocks.py --list                # nothing is run: what there is, and what is not run

Each page has a folder and a home of its own, and a model server on loopback. `--update PAGE` writes into the page what
was really printed where it shows something else. `--write` writes perf/blocks.md. CONTRIBUTING.md says how pages are
written; `docs/scripts/blocks/blocks.toml` lists what is not run, with its reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from blocks.answer_server import answering
from blocks.code_examples import docstring_pages, example_pages, help_pages
from blocks.commands import option_faults
from blocks.pages import Page, PageFault, read_page
from blocks.report import Result, page_text, print_list, print_summary
from blocks.rules import Rules, read_rules
from blocks.runner import PageRun
from blocks.scratch import Scratch
from blocks.shims import write_shims

GENERATED = ("help", "docstrings", "examples")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages, folders, or help, docstrings, examples; none: all")
    parser.add_argument("--jobs", type=int, default=2, help="pages at once")
    parser.add_argument("--update", action="store_true", help="write what was printed into the pages")
    parser.add_argument("--write", action="store_true", help="write perf/blocks.md")
    parser.add_argument("--list", action="store_true", help="list the blocks, run none")
    parser.add_argument("--quick", action="store_true", help="fork commands from one process: to write pages by")
    parser.add_argument("--keep", action="store_true", help="keep the folders")
    given = parser.parse_args()
    rules = read_rules()
    from ragrounds.cli.entry import command_tree

    tree = command_tree()
    faults: list[str] = []
    pages = list(_pages(given.pages or ["README.md", "CONTRIBUTING.md", "docs", *GENERATED], tree, rules, faults))
    if given.list:
        print_list(pages)
        return _told(faults)
    began = time.monotonic()
    results = _run(pages, rules, tree, given.jobs, given.keep, given.quick)
    if given.update:
        _update(results)
    if not given.pages:
        met = {rule for result in results for rule in result.met}
        faults += [f"blocks.toml: no command is met by {rule}" for rule in rules.not_run if rule not in met]
    print_summary(results, time.monotonic() - began)
    if given.write:
        text = page_text(results, rules, time.monotonic() - began, given.quick)
        (ROOT / "perf" / "blocks.md").write_text(text, encoding="utf-8")
    return _told(faults) or int(any(result.faults for result in results))


def _told(faults: Sequence[str]) -> int:
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


def _pages(names: Sequence[str], tree: Any, rules: Rules, faults: list[str]) -> Iterator[Page]:
    """The pages that are named, each once."""
    generated = {"help": lambda: help_pages(tree, rules), "docstrings": lambda: docstring_pages(ROOT, rules)}
    seen: set[Path] = set()
    for name in names:
        if name in generated:
            yield from generated[name]()
            continue
        if name == "examples":
            yield from example_pages(ROOT)
            continue
        path = ROOT / name
        for each in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
            if each in seen or "_build" in each.parts:
                continue
            seen.add(each)
            try:
                page = read_page(each, ROOT)
            except (OSError, PageFault) as fault:
                faults.append(str(fault))
                continue
            faults += [
                f"{page.name}:{span.line}: `{span.text}`: {fault}"
                for span in page.spans
                for fault in option_faults(span.text, tree)
            ]
            if rules.is_complete(page.name):
                faults += [f"{one.place}: a hidden setup" for one in page.blocks if one.role == "setup"]
            yield page


def _run(pages: Sequence[Page], rules: Rules, tree: Any, jobs: int, keep: bool, quick: bool) -> list[Result]:
    from ragrounds.extensions.stand_in.server import stand_in_server

    base = Path(tempfile.mkdtemp(prefix="blocks-"))
    socket = base / "preloaded" if quick else None
    write_shims(base / "bin", ROOT, socket)

    def one(numbered: tuple[int, Page]) -> Result:
        number, page = numbered
        began = time.monotonic()
        with _model_server(rules.model_server.get(page.name)) as port:
            scratch = Scratch(page, base / f"{number:03}", ROOT, rules, ports | port)
            run = PageRun(page, scratch, rules, tree)
            result = Result(page, run.run(), run.met, time.monotonic() - began)
        print(f"{page.name}: {result.counts}, {result.seconds:.0f} s", file=sys.stderr)
        for fault in result.faults:
            print(fault, file=sys.stderr)
        return result

    with stand_in_server() as models, answering() as service, _preloaded(socket), ThreadPoolExecutor(jobs) as pool:
        ports = {"8000": models.split(":")[2].partition("/")[0], "9000": service}
        results = list(pool.map(one, enumerate(page for page in pages if page.blocks)))
    if keep:
        print(f"kept: {base}", file=sys.stderr)
    else:
        shutil.rmtree(base, ignore_errors=True)
    return results


@contextmanager
def _model_server(module: str | None) -> Iterator[dict[str, str]]:
    """The page's own model server, where it needs one."""
    if module is None:
        yield {}
        return
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield {"8000": process.stdout.readline().strip()}
        finally:
            process.terminate()


@contextmanager
def _preloaded(socket: Path | None) -> Iterator[None]:
    if socket is None:
        yield
        return
    command = [sys.executable, str(Path(__file__).parent / "blocks" / "preloaded.py"), str(socket)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL) as process:
        while not socket.exists() and process.poll() is None:
            time.sleep(0.1)
        try:
            yield
        finally:
            process.terminate()


def _update(results: Sequence[Result]) -> None:
    for result in results:
        updates = sorted((one for outcome in result.outcomes for one in outcome.updates), reverse=True)
        path = ROOT / result.page.name
        if updates and path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            for first, behind, real in updates:
                lines[first - 1 : behind - 1] = [real]
            path.write_text("".join(lines), encoding="utf-8")
            print(f"{result.page.name}: {len(updates)} outputs written", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
