"""`run --until` on MIRAGE's recorded answers: after how many questions two agents are separated.

    python perf/engine_until_mirage.py --data FOLDER [--workers N] [--seed N]

FOLDER holds ``mirage/benchmark.json``, ``mirage/predictions/gpt-35-turbo-16k_{cot,rag_32}.jsonl.gz`` and
``beir/pubmedqa_1k`` (tests/README.md says where they come from). A server process answers with the
recorded GPT-3.5 replies.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.process import openai_server

CLAIM = "separated(direct_cot, vanilla_rag) @ 95%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    mirage = options.data / "mirage"
    predictions = [mirage / "predictions" / f"gpt-35-turbo-16k_{setting}.jsonl.gz" for setting in ("cot", "rag_32")]
    arguments = ["--benchmark", mirage / "benchmark.json", "--predictions", *predictions, "--latency", 0.02]
    with openai_server(*map(str, arguments)) as server, tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "ragrounds", "run", "--benchmark", f"mirage:{mirage / 'benchmark.json'}"]
        command += ["--agent", "direct_cot[model=openai:recorded-cot]"]
        command += ["--agent", "vanilla_rag[model=openai:recorded-rag_32]"]
        command += ["--corpus", f"beir:{options.data / 'beir' / 'pubmedqa_1k'}", "--base-url", server.url]
        command += ["--until", CLAIM, "--seed", str(options.seed), "--workers", str(options.workers), "--json"]
        environment = {**os.environ, "RAGROUNDS_HOME": home, "OPENAI_API_KEY": "k"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
        if done.returncode not in (0, 1, 4):  # the claim holds, fails, cannot be told
            done.check_returncode()
        print(json.dumps({**json.loads(done.stdout)["until"]["state"], "asked": server.stats()["asked"]}, indent=2))


if __name__ == "__main__":
    main()
