"""What `ragrounds verify` finds, and takes: `python perf/bundle.py HOME [ATTEMPTS] [CHANGES]`.

Two runs of the built-in baseline answer questions made of the sample's, ATTEMPTS (8,000) in all; they are published as
a bundle, and its figures derived again. Then CHANGES (1,000) copies are looked at, in each of which one byte at a
random place is another: a copy is found where the command ends with an error, or names the digest that is another. The
first few are given to the command itself.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import load
from ragrounds.extensions.publishing.bundle import SUFFIX, read_bundle

_BY_COMMAND = 5


def main() -> None:
    home = Path(sys.argv[1])
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 8_000
    changes = int(sys.argv[3]) if len(sys.argv) > 3 else 1_000
    home.mkdir(parents=True, exist_ok=True)
    questions = home / "questions.jsonl"
    questions.write_text("".join(made_questions(wanted // 2)), encoding="utf-8")
    agents = ("--agent", "direct", "--agent", "vanilla_rag[top_k=4]", "--model", "baseline:extractive")
    ragrounds(home, "run", "--benchmark", f"jsonl:{questions}", *agents, "--corpus", "sample", "--display", "none")
    published, _ = ragrounds(home, "publish", str(home / "site"), "--bundle", "--attempts", "all")
    (bundle,) = (home / "site").glob(f"*{SUFFIX}")
    verified, said = ragrounds(home, "verify", str(bundle))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{datetime.now(UTC):%Y-%m-%d}")
    print(f"bundle: {bundle.stat().st_size:,} bytes; published in {published:.0f} s, verified in {verified:.0f} s")
    print(f"at most {most:.0f} MB in a process")
    print(said.splitlines()[0].replace(str(bundle), "verify"))
    held, draw, found = bundle.read_bytes(), random.Random(0), 0
    began, by_command = time.monotonic(), 0
    for number in range(changes):
        at = draw.randrange(len(held))
        changed = bytearray(held)
        changed[at] ^= draw.randrange(1, 256)
        copy = home / f"changed{SUFFIX}"
        copy.write_bytes(changed)
        found += is_found(copy)
        if number < _BY_COMMAND:
            with suppress(subprocess.CalledProcessError):
                ragrounds(home, "verify", str(copy))
                continue
            by_command += 1
    print(f"single-byte changes: {changes:,}, found: {found:,}, in {time.monotonic() - began:.0f} s")
    print(f"of the first {_BY_COMMAND} the command itself found {by_command}")


def is_found(path: Path) -> bool:
    """Whether the digests of a bundle tell that it is another."""
    try:
        return not read_bundle(path).whole
    except UserError:
        return True


def made_questions(count: int) -> list[str]:
    """Questions of the sample, with a number before each so that none is another's double."""
    sample = load("sample", Path())
    chosen = [one for one in sample.questions if one.kind == "choice"]
    lines = []
    for number in range(count):
        one = chosen[number % len(chosen)]
        row = {"id": f"q{number}", "question": f"Case {number}. {one.text}", "options": one.options}
        lines.append(json.dumps({**row, "answer": sample.golds[one.id].answer}) + "\n")
    return lines


def ragrounds(home: Path, *arguments: str) -> tuple[float, str]:
    """One command in a process of its own: its seconds, and what it printed."""
    began = time.monotonic()
    command = [sys.executable, "-m", "ragrounds", *arguments]
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return time.monotonic() - began, done.stdout


if __name__ == "__main__":
    main()
