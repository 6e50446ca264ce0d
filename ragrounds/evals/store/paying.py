"""Who paid a recorded call first: a mark that a call carries, so that what a killed attempt paid is not lost."""

from __future__ import annotations

import hashlib

import msgspec

from ragrounds.records import Run


def payer(run: Run, question_id: str, epoch: int) -> bytes:
    """Eight bytes that name an attempt. A run that was removed and made again has others: what its first life paid
    is not paid by its second."""
    named = msgspec.msgpack.encode((run.id, run.created, question_id, epoch))
    return hashlib.sha256(named).digest()[:8]
