"""Who paid a recorded call first: a mark that a call carries, so that what a killed process paid is not lost."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from ragrounds.records import Run


def payer(run: Run, question_id: str, epoch: int) -> bytes:
    """Eight bytes that name an attempt. A run that was removed and made again has others: what its first life paid
    is not paid by its second."""
    return _mark(run.id, run.created, question_id, epoch)


def judging(run: Run) -> bytes:
    """Eight bytes that name the judging of a run's answers."""
    return _mark(run.id, run.created, "judging")


def playing(fingerprint: str) -> bytes:
    """Eight bytes that name the judging of an arena's matches."""
    return _mark(fingerprint, "playing")


def _mark(*named: Any) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode(named)).digest()[:8]
