"""One sign for the outcome of an attempt, the same on every screen.

✓ right, ✗ wrong, ½ partly, ! failed, x refused or blocked, ^ capped, = paused, ~ abstained, ? unreadable, 0 empty,
- not scored, · not run. A sign for the reason takes precedence over the sign for wrong.
"""

from __future__ import annotations

_TROUBLE = {
    "failed": "!",
    "capped": "^",
    "blocked": "x",
    "paused": "=",
    "refused": "x",
    "abstained": "~",
    "unreadable": "?",
    "empty": "0",
}


def attempt_sign(outcome: str, value: float | None) -> tuple[str, str]:
    """Return the sign of an attempt with the name of its style: right, wrong, key, trouble or dim."""
    if outcome == "not_run":
        return "·", "dim"
    if outcome in _TROUBLE and (value is None or value < 1):
        return _TROUBLE[outcome], "trouble"
    return ("-", "dim") if value is None else score_sign(value)


def score_sign(value: float) -> tuple[str, str]:
    """Return a score as a sign with the name of its style: ✓ right, ✗ wrong, ½ partly."""
    return ("✓", "right") if value >= 1 else ("✗", "wrong") if value <= 0 else ("½", "key")


def outcome_sign(outcome: str) -> str:
    """Return the sign for the reason why an attempt has no full marks; empty if it simply answered."""
    return _TROUBLE.get(outcome, "")
