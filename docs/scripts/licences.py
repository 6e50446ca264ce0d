"""Lists the licences of the packages that an installation without extras brings.

    python docs/scripts/licences.py

The packages are those of constraints/default.txt that are installed here. The exit code is 1 if one states no licence.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

DEFAULT = Path(__file__).resolve().parents[2] / "constraints" / "default.txt"


def licence(package: metadata.Distribution) -> str:
    """Return the licence that a package states: its expression, its classifiers or the first line of its text."""
    fields = {name: package.metadata.get_all(name) or [""] for name in ("License-Expression", "License", "Classifier")}
    classified = [line.rpartition(" :: ")[2] for line in fields["Classifier"] if line.startswith("License :: ")]
    return fields["License-Expression"][0] or ", ".join(classified) or fields["License"][0].strip().partition("\n")[0]


unstated = []
for name in dict.fromkeys(re.findall(r"^([\w.-]+)==", DEFAULT.read_text(encoding="utf-8"), re.MULTILINE)):
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue  # of another system or Python
    text = licence(installed)
    sys.stdout.write(f"{name:28} {installed.version:14} {text or 'no licence is stated'}\n")
    unstated += [name] * (not text)
sys.exit(1 if unstated else 0)
