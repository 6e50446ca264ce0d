"""The model of docs/how-to/ci.md: it knows half of the answers by heart, and all of them with notes.

`python -m tests.servers.notes_model` serves it on loopback and says its port.
"""

from __future__ import annotations

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S))
GOLD = {one["question"]: one for one in map(json.loads, FILES["evals/questions.jsonl"].splitlines())}
WRONG = {"b2", "p1", "p2", "s2"}
"""What it does not know by heart."""


class Model(BaseHTTPRequestHandler):
    """Counts what it is asked."""

    asked = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][-1]["content"]
        known = next(one for question, one in GOLD.items() if question in prompt)
        letter = "A" if known["id"] in WRONG - {"p2", "s2"} else "B"
        if prompt.startswith("Notes:") or known["id"] not in WRONG:
            letter = known["answer"]
        type(self).asked += 1
        said = {"role": "assistant", "content": f"The answer is {letter}."}
        reply = {
            "id": "x", "object": "chat.completion", "created": 0, "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": said}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45},
        }  # fmt: skip
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    print(server.server_port, flush=True)
    server.serve_forever()
