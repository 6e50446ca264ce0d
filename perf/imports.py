"""All MedAgentsBench files by one command: seconds, memory, findings. `python perf/imports.py FOLDER`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        began = time.perf_counter()
        command = [sys.executable, "-m", "ragrounds", "import", str(Path(sys.argv[1]))]
        done = subprocess.run(command, env={**os.environ, "RAGROUNDS_HOME": home}, capture_output=True, text=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        runs = sum("questions found" in line for line in done.stderr.splitlines())
        findings = sum(line.startswith("Audit: ") for line in done.stdout.splitlines())
        print(f"{time.strftime('%Y-%m-%d')}: exit code {done.returncode}, {runs} runs, {findings} findings,")
        print(f"{time.perf_counter() - began:.1f} s ({used.ru_utime + used.ru_stime:.1f} s of processor),")
        print(f"{used.ru_maxrss / 1024:.0f} MB at most")
