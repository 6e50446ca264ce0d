"""Every study that ships, on the stand-in: are all its cells filled? Nothing that comes of it is a result.

python perf/stand_in.py [--write] [--home FOLDER] [NAME …]
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="none: all that ship")
    parser.add_argument("--home", type=Path, help="a folder that is kept, so that the next call resumes")
    parser.add_argument("--write", action="store_true", help="write perf/stand_in.md")
    options = parser.parse_args()
    from ragrounds.evals.studies.study import shipped_studies

    lines, empty = [], 0
    with tempfile.TemporaryDirectory(prefix="ragrounds-stand-in-") as folder:
        home = options.home or Path(folder)
        for name in options.names or shipped_studies():
            line, open_cells = carried_out(name, home)
            lines.append(line)
            empty += open_cells
            print(line, file=sys.stderr, flush=True)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    text = "\n".join(
        [
            "# Every study on the stand-in",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}. `python perf/stand_in.py --write`: every cell of every study that ships, "
            "on made-up sets and a server on loopback that is no model. Nothing of it is a result; it shows that each "
            f"cell is carried out to its figure. One process, {memory:,.0f} MB at its largest.",
            "",
            "| study | cells | filled | analyses | processor time | not filled |",
            "|---|---:|---:|---:|---:|---|",
            *lines,
            "",
        ]
    )
    print(text)
    if options.write:
        (ROOT / "perf" / "stand_in.md").write_text(text, encoding="utf-8")
    sys.exit(1 if empty else 0)


def carried_out(name: str, home: Path) -> tuple[str, int]:
    """The line of one study, and how many of its cells and analyses came to nothing."""
    from ragrounds.api.study import study

    began = time.process_time()
    made = study(name, stand_in=True, confirmed=True, progress=False, home=home)
    cells = made.table.cells
    empty = [cell for cell in cells if cell.state != "done" or cell.value is None]
    unmade = [one for one in made.findings if one.result is None]
    whys = dict.fromkeys([*(cell.why for cell in empty if not cell.why.startswith("needs ")), *(f.why for f in unmade)])
    analyses = f"{len(made.findings) - len(unmade)} of {len(made.findings)}" if made.findings else ""
    said = "; ".join(" ".join(why.split())[:200] for why in list(whys)[:3]).replace("|", "\\|")
    seconds = time.process_time() - began
    line = f"| {name} | {len(cells)} | {len(cells) - len(empty)} | {analyses} | {seconds:.0f} s | {said} |"
    return line, len(empty) + len(unmade)


if __name__ == "__main__":
    main()
