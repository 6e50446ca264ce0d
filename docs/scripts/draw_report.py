"""Pictures of the report's four kinds: `python docs/scripts/draw_report.py DATA HOME [--every FOLDER]`.

DATA and HOME are those of `perf/report_kinds.py`, which makes the pages. Writes docs/pictures/frontier.svg and, as PNG
of 256 colours, two pictures of the first kind into docs/pictures/report; with --every all of all four into a folder:
1,400 and 420 px wide, light, dark and as printed. The answers are those of a stand-in: no figure in them is a result.
Needs chromium, chromium-driver, selenium and Pillow.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures/report"
sys.path.insert(0, str(ROOT / "perf"))

from report_browser import ReportBrowser  # noqa: E402
from report_kinds import KINDS, ragrounds, report_of  # noqa: E402

HEIGHTS = {1400: 1000, 420: 900}
A4 = (794, 1123)
"""A sheet of paper in CSS pixels."""
ROWS = {"search_o1": "hops>2 and gold found", "imported": "differ", "kqa": "partly", "interrupted": "hops>1"}
"""What the list is filtered by, so that its first attempt is worth a look."""
AGENTS = ("vanilla_rag[top_k=8]", "search_o1[reading=false]", "search_o1")
KEPT = ("search_o1-attempts-1400-light",)


def drawn(browser: ReportBrowser, kind: str, page: Path) -> dict[str, bytes]:
    """Name → PNG of every picture of a kind."""
    made = {}
    for width, height in HEIGHTS.items():
        browser.open(page, width, height)
        for theme in ("light", "dark"):
            browser.theme(theme == "dark")
            browser.run("window.scrollTo(0, 0)")
            made[f"{kind}-top-{width}-{theme}"] = browser.picture()
        browser.filter(ROWS[kind])
        browser.run("document.querySelector('.row').click()")
        browser.wait("return document.querySelector('#title')")
        time.sleep(0.5)
        for theme in ("light", "dark"):
            browser.theme(theme == "dark")
            browser.run("document.querySelector('#attempts').scrollIntoView()")
            made[f"{kind}-attempts-{width}-{theme}"] = browser.picture()
            browser.run("document.querySelector('#detail').scrollIntoView()")
            made[f"{kind}-attempt-{width}-{theme}"] = browser.picture()
    browser.open(page, *A4)
    browser.command("Emulation.setEmulatedMedia", media="print")
    made[f"{kind}-print"] = browser.picture()
    browser.command("Emulation.setEmulatedMedia", media="")
    return made


def compressed(png: bytes) -> bytes:
    """The same picture with 256 colours, which text and flat shapes do with."""
    from PIL import Image

    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("--every", type=Path, help="also write all pictures, into this folder")
    options = parser.parse_args()
    kinds = KINDS if options.every else ("search_o1",)
    pages = {kind: report_of(kind, options.data.resolve(), options.home.resolve()) for kind in kinds}
    made: dict[str, bytes] = {}
    with ReportBrowser() as browser:
        for kind, page in pages.items():
            made |= drawn(browser, kind, page)
        browser.theme(False)
        browser.open(pages["search_o1"], 1400, 900)
        made["readme"] = browser.picture()
    frontier = ("--plot", str(PICTURES.parent / "frontier.svg"), "--picture", "frontier")
    ragrounds(options.home.resolve() / "search_o1", "compare", *AGENTS, *frontier)
    for folder, names in ((PICTURES, ("readme", *KEPT)), (options.every, tuple(made))):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (folder / f"{name}.png").write_bytes(compressed(made[name]))


if __name__ == "__main__":
    main()
