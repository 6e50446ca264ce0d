"""Stands in for ``vllm serve`` where no model can be had: same arguments, same scorer, no model.

What it does besides is said by the environment: ``STAND_IN_LOADS`` seconds pass until it answers, ``STAND_IN_FAILS``
makes it end with that text, ``STAND_IN_SEEN`` is a file that gets its process id and arguments. It starts a child, as
vLLM starts its engine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.servers.openai_server import Server, answer, options_of


def main() -> None:
    assert sys.argv[1] == "serve", sys.argv
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    given, _ = parser.parse_known_args(sys.argv[2:])
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if seen := os.environ.get("STAND_IN_SEEN"):
        told = {"pid": os.getpid(), "engine": engine.pid, "port": given.port, "arguments": sys.argv[1:]}
        told["variables"] = sorted(os.environ)
        with Path(seen).open("a") as file:
            file.write(json.dumps(told) + "\n")
    print(f"loading {given.model}", file=sys.stderr, flush=True)
    time.sleep(float(os.environ.get("STAND_IN_LOADS", "0")))
    if failure := os.environ.get("STAND_IN_FAILS"):
        print(f"Traceback (most recent call last):\nValueError: {failure}", file=sys.stderr, flush=True)
        sys.exit(1)
    latency = os.environ.get("STAND_IN_LATENCY", "0")
    server = Server(options_of(["--port", str(given.port), "--latency", latency]))
    server.names = (given.served_model_name,)
    answer(server)


if __name__ == "__main__":
    main()
