"""Keys never reach a stream whose output is redacted, whichever method writes."""

from __future__ import annotations

import io

from ragrounds.recorder.redaction import HIDDEN, RedactedStream, redactor


def test_every_method_of_a_redacted_stream_leaves_keys_out():
    key = "sk-" + "Ab1" * 8
    below = io.StringIO()
    stream = RedactedStream(below)
    stream.write(f"one {key}\n")
    stream.writelines([f"two {key}\n", f"three {key}\n"])
    print("four", key, file=stream)
    assert below.getvalue() == f"one {HIDDEN}\ntwo {HIDDEN}\nthree {HIDDEN}\nfour {HIDDEN}\n"


def test_redactor_of_a_requests_keys_is_made_once_for_an_environment(monkeypatch):
    first = redactor("quiet-horse-4711")
    assert redactor("quiet-horse-4711") is first
    monkeypatch.setenv("SERVICE_TOKEN", "other-horse-0815")
    assert redactor("quiet-horse-4711")("quiet-horse-4711, other-horse-0815") == f"{HIDDEN}, {HIDDEN}"
    assert redactor()("quiet-horse-4711") == "quiet-horse-4711"
