"""Keys never reach a stream whose output is redacted, whichever method writes."""

from __future__ import annotations

import io

from ragrounds.recorder.redaction import HIDDEN, RedactedStream


def test_every_method_of_a_redacted_stream_leaves_keys_out():
    key = "sk-" + "Ab1" * 8
    below = io.StringIO()
    stream = RedactedStream(below)
    stream.write(f"one {key}\n")
    stream.writelines([f"two {key}\n", f"three {key}\n"])
    print("four", key, file=stream)
    assert below.getvalue() == f"one {HIDDEN}\ntwo {HIDDEN}\nthree {HIDDEN}\nfour {HIDDEN}\n"
