"""Programs that a page finds on its PATH: `ragrounds` and `python` of this environment, and stand-ins for what would
download: `pip install`, `python3 -m venv`.

The stand-ins check what they are asked: an extra must be one of the package's. A folder's own package (`pip install .`
where a pyproject.toml of the page stands) is installed, from what is here, into the page's home.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_RAGROUNDS = """\
#!{python}
import sys
from ragrounds.cli import main
sys.exit(main())
"""
_PRELOADED = """\
#!/bin/bash
if [ -n "$BLOCKS_STARTED" ]; then exec "{shims}/ragrounds-started" "$@"; fi
exec "{python}" -I -S "{preloaded}" "{socket}" -- "$@"
"""
_PYTHON = """\
#!/bin/bash
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  for each in python python3 pip ragrounds pytest; do ln -sf "{shims}/$each" "$3/bin/$each"; done
  printf 'export PATH="%s:$PATH"\\n' "$(cd "$3/bin" && pwd)" > "$3/bin/activate"
  exit
fi
if [ "$1 $2" = "-m pip" ]; then shift 2; exec "{shims}/pip" "$@"; fi
exec "{python}" "$@"
"""
_PYTEST = """\
#!/bin/bash
exec "{python}" -m pytest "$@"
"""
_VLLM = """\
#!/bin/bash
exec "{python}" -m tests.servers.vllm_stand_in "$@"
"""
_PIP = """\
#!{python}
import os, re, subprocess, sys, tomllib
from pathlib import Path

project = tomllib.loads(Path({root!r}, "pyproject.toml").read_text())["project"]
words = sys.argv[1:]
if words[:1] != ["install"]:
    sys.exit("the stand-in for pip installs, and nothing else: " + " ".join(words))
for word in words[1:]:
    if word.startswith("-"):
        continue
    found = re.fullmatch(r"(ragrounds|\\.)(?:\\[([\\w,-]+)\\])?", word)
    if found and found[2]:
        for extra in found[2].split(","):
            if extra not in project["optional-dependencies"]:
                sys.exit(f"ragrounds has no extra {{extra!r}}")
    if word == "." and tomllib.loads(Path("pyproject.toml").read_text())["project"]["name"] != "ragrounds":
        site = Path(os.environ["HOME"], "site")
        given = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(site), "."]
        sys.exit(subprocess.run([{python!r}, "-m", "pip", "install", *given]).returncode)
"""


def write_shims(folder: Path, root: Path, socket: Path | None = None) -> None:
    """Write the programs.

    Args:
        folder: where.
        root: the repository, whose extras are known.
        socket: of the process that has imported everything; none: each command starts as a reader's does.
    """
    folder.mkdir(parents=True)
    named = {"python": sys.executable, "shims": str(folder), "root": str(root), "socket": str(socket)}
    named["preloaded"] = str(Path(__file__).with_name("preloaded.py"))
    programs = {"ragrounds": _RAGROUNDS, "python": _PYTHON, "python3": _PYTHON, "pytest": _PYTEST, "pip": _PIP}
    programs["vllm"] = _VLLM
    if socket:
        programs |= {"ragrounds": _PRELOADED, "ragrounds-started": _RAGROUNDS}
    for name, text in programs.items():
        path = folder / name
        path.write_text(text.format(**named), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
