"""Pictures of the trace viewer's screens, from a run of the sample: `python docs/draw_trace.py`.

Writes SVG into docs/pictures; with `--png`, PNG beside them where cairosvg is installed. The answers are the built-in
baseline's; times differ from run to run, so the pictures do too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.ui.trace.app import DARK, LIGHT, TraceApp

PICTURES = Path(__file__).with_name("pictures")
AGENTS = ("direct", "vanilla_rag[top_k=8]", "i_medrag[rounds=3]")
RAG = 20
"""The first row of the second agent: each answers so many questions."""
SCREENS: dict[str, tuple[int, tuple[int, int], str, tuple[str, ...]]] = {
    # Name: row, size, theme, keys.
    "trace": (RAG, (150, 42), DARK, ("tab", "down", "down", "shift+tab")),
    "trace-small": (RAG, (80, 24), DARK, ()),
    "trace-light": (2 * RAG, (150, 42), LIGHT, ("tab", "end")),
    "trace-find": (RAG, (150, 42), DARK, ("tab", "slash", "p", "a", "i", "n", "enter")),
    "trace-filter": (0, (110, 32), DARK, ("f", *"wrong", "space", "h", "o")),
    "trace-text": (0, (110, 32), DARK, ("F", *"pain", "enter", "down")),
    "trace-marks": (0, (110, 32), LIGHT, ("asterisk",)),
    "trace-compare": (RAG, (150, 42), DARK, ("c", "d", "down", "tab", "down", "down")),
    "trace-keys": (0, (110, 46), DARK, ("question_mark",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", action="store_true", help="PNG beside the SVG (needs cairosvg)")
    given = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "ragrounds", "run", "--limit", str(RAG), "--display", "none"]
        for agent in AGENTS:
            command += ["--agent", agent]
        environment = {**os.environ, "RAGROUNDS_HOME": home}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 (our own words)
        with Store(Path(home)) as store:
            for name in SCREENS:
                picture = asyncio.run(draw(store, name))
                (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")
                if given.png:
                    import cairosvg  # type: ignore[import-not-found]

                    cairosvg.svg2png(bytestring=picture.encode(), write_to=str(PICTURES / f"{name}.png"))


async def draw(store: Store, name: str) -> str:
    """One screen as SVG that asks nothing of the network."""
    row, size, theme, keys = SCREENS[name]
    app = TraceApp(Pages(store, store.runs()), row=row, theme=theme)
    async with app.run_test(size=size) as pilot:
        for key in ("", *("space" if key == " " else key for key in keys)):
            await pilot.press(*([key] if key else []))
            await app.workers.wait_for_complete()
            await pilot.pause()
        picture = app.export_screenshot(title=f"ragrounds {name.replace('-', ' ')}")
    # Rich names a font on the web; any monospaced one does.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = picture.replace("Fira Code", "DejaVu Sans Mono")
    # Numbers of its own, so that a picture of the same screen is the same file.
    return re.sub(r"terminal-\d+", f"terminal-{name}", picture)


if __name__ == "__main__":
    main()
