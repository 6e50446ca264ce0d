"""How the stores of version 5 beside this file were made: by the code of the last release that wrote that version.

Run it with that release's own checkout first on the path, and an empty folder::

    git worktree add /tmp/release f2a9853
    cd /tmp/release && python …/make_version_5.py /tmp/made

It starts a server on loopback that answers as writer, judge of the arena and grader, and gives the commands of that
release: two agents on three questions in two epochs (one answer is filtered, one cannot be read), a run that is stopped
by a claim, one that a budget interrupts, long answers judged, an arena. It leaves ``version_5.sql`` (the store),
``version_5.postgresql.sql`` (that release's tables on PostgreSQL), ``version_5.export.sql`` (a file of `export store`
of two runs) and ``version_5.json`` (what that release itself said of these two). No test runs it.
"""

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from ragrounds.evals.store import schema
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Gold, Question, Run

PRICES = '["openai:writer"]\ninput = 1.0\noutput = 2.0\n\n["openai:grader"]\ninput = 1000\noutput = 1000\n'
BLOCKS = re.compile(r"### Answer ([AB])\n<<<\n(.*?)\n>>>", re.DOTALL)


class Answers(BaseHTTPRequestHandler):
    """Writer, judge and grader, by the model's name; every reply depends on the request alone."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["messages"][-1]["content"]
        lot = int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % 4
        finish, text = "stop", ""
        if body["model"] == "writer":
            finish = "content_filter" if lot == 3 else "stop"
            letters = re.findall(r"^([A-D])\. ", prompt, re.MULTILINE) or ["A"]
            letter = letters[lot % len(letters)]
            text = (
                "Hard to say, really."
                if lot == 2
                else json.dumps({"step_by_step_thinking": "So.", "answer_choice": letter})
            )
        elif body["model"] == "judge":
            (one, first), (two, second) = BLOCKS.findall(prompt)
            word = one if len(first) < len(second) else two if len(second) < len(first) else "tie"
            axes = ("usefulness", "readability", "knowledge", "reasoning")
            text = "Compared.\n" + json.dumps(dict.fromkeys(axes, word)) if lot else "Both have their merits."
        else:
            _, reference, answer = re.findall(r"<<<\n(.*?)\n>>>", prompt, re.DOTALL)
            text = json.dumps({"grade": "equivalent" if reference.lower() in answer.lower() else "mismatch"})
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 20, "total_tokens": len(prompt) // 4 + 20}
        choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]
        data = json.dumps({"model": body["model"], "choices": choices, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Nothing is printed."""


def stage_long_answers(home):
    """A run with long answers to judge."""
    questions = [Question(id=f"og/{n}", benchmark="og", text=f"{n}?", kind="long") for n in range(3)]
    golds = {question.id: Gold(question_id=question.id, answer="methylene blue") for question in questions}
    texts = ["methylene blue, of course", "wait", None]
    run = Run(
        id="long-1", agent="long", benchmark="og", questions="set long", count=3, epochs=1, fingerprint="long",
        identity={"models": {"model": "openai:writer"}}, created=1.0,
    )  # fmt: skip
    attempts = [
        Attempt(
            run=run.id, question_id=question.id, epoch=0, text=text or "",
            status="refused" if text is None else "completed",
        )
        for question, text in zip(questions, texts, strict=True)
    ]  # fmt: skip
    with Store(home) as store:
        store.add_run(run, questions, golds)
        store.add_attempts(run, attempts)


def main(made):
    """Make the files in the folder `made`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url, home = f"http://127.0.0.1:{server.server_port}/v1", made / "home"
    home.mkdir(parents=True)
    (home / "prices.toml").write_text(PRICES)

    def ragrounds(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "ragrounds", *arguments], capture_output=True, text=True, check=False, cwd="/",
            env={**os.environ, "RAGROUNDS_HOME": str(home), "OPENAI_API_KEY": "none", "PYTHONPATH": str(Path.cwd())},
        )  # fmt: skip
        print(arguments, done.returncode, done.stderr[-300:])
        return done.stdout

    said = {}
    quiet = ("--display", "none", "--yes")
    writer = ("--model", f"openai:writer[alias=desk,base_url={json.dumps(url)}]")
    two = ("--agent", "direct", "--agent", "vanilla_rag[top_k=2]")
    ragrounds("run", "--limit", "3", "--epochs", "2", *two, *writer, *quiet)
    ragrounds("run", "--limit", "6", "--agent", "direct_cot", "--concurrency", "1", "--max-tokens", "300", *quiet)
    ragrounds("run", "--limit", "5", "--agent", "vanilla_rag[top_k=1]", "--agent", "cot_refine", "--until",
              "separated(vanilla_rag, cot_refine) @ 95%", "--max-questions", "3", *quiet)  # fmt: skip
    stage_long_answers(home)
    ragrounds("judge", "long", "--kind", "equivalence", "--judge", "openai:grader", "--base-url", url)
    ids = [run["run"]["id"] for run in json.loads(ragrounds("runs", "ls", "--json"))]
    ragrounds("arena", "play", *ids[:2], "--judge", "openai:judge", "--base-url", url, "--schedule", "full",
              "--replicates", "100")  # fmt: skip
    ragrounds("export", "store", *ids[:2], "--to", str(made / "exported"))
    said["compare"] = json.loads(ragrounds("compare", *ids[:2], "--json"))
    said["ledger"] = json.loads(ragrounds("ledger", *ids[:2], "--json"))
    (made / "version_5.json").write_text(json.dumps(said, separators=(",", ":")) + "\n")
    for source, target in ((home / "store.sqlite", "version_5.sql"), (made / "exported", "version_5.export.sql")):
        connection = sqlite3.connect(source)
        (made / target).write_text("\n".join(connection.iterdump()) + "\n")
    tables = [
        str(sa.schema.CreateTable(table).compile(dialect=postgresql.dialect())).strip() + ";"
        for table in schema.metadata.sorted_tables
    ]
    (made / "version_5.postgresql.sql").write_text("\n\n".join(tables) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
