"""Builds the documentation site.

    python docs/scripts/build_site.py [FOLDER] [--source FOLDER]

FOLDER is build/site where none is named. Whatever Sphinx warns of is an error, and so is a link without a target or a
page that loads something from elsewhere. The site is files alone: any server of
files shows it, and so does a browser that opens index.html. With --source, what Sphinx read is kept there.

It needs `pip install -e '.[docs]'`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "scripts")]

from reference_pages import reference_pages  # noqa: E402
from site_check import faults  # noqa: E402
from site_html import mend  # noqa: E402
from site_llms import write_llms  # noqa: E402
from site_source import SiteSource, summary_of  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site", help="where the site goes")
    parser.add_argument("--source", type=Path, help="keep what Sphinx reads in this folder")
    given = parser.parse_args()
    if given.folder.exists() and any(given.folder.iterdir()) and not (given.folder / "llms.txt").is_file():
        sys.stderr.write(f"{given.folder} holds something else than a site: name an empty folder.\n")
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        source = given.source or Path(scratch) / "source"
        if source.exists():
            shutil.rmtree(source)
        return build(source, given.folder, Path(scratch) / "built")


def build(source: Path, folder: Path, built: Path) -> int:
    """Build the site into `built`, and put it in the place of `folder` where nothing is wrong with it."""
    from sphinx.cmd.build import main as sphinx

    began = time.monotonic()
    source.mkdir(parents=True)
    site = SiteSource(source)
    site.add_repository()
    pages, targets = reference_pages()
    site.pages |= pages
    site.write()
    (source / "targets.json").write_text(json.dumps(targets), encoding="utf-8")
    flags = [
        *([] if sys.stdout.isatty() else ["-q"]),  # a reader who waits sees which page is built
        "-j",
        "2",
        "-b",
        "html",
        "-W",
        "--keep-going",
        "-d",
        str(built.with_name("doctrees")),
        "-c",
        str(ROOT / "docs"),
    ]
    if code := sphinx([*flags, str(source), str(built)]):
        return code
    mend(built)
    write_llms(built, site.pages, summary_of(site.pages["index.md"]))
    if wrong := faults(built):
        sys.stderr.write("\n".join(wrong) + f"\n{len(wrong)} faults in links\n")
        return 1
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(built, folder)
    count, size = (
        len(list(folder.rglob("*.html"))),
        sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()),
    )
    sys.stdout.write(f"{folder}: {count} pages, {size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
