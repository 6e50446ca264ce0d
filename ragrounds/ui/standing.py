"""How a claim that a run is watched for stands, as text."""

from __future__ import annotations

from ragrounds.evals.compare.stopped import Stopping
from ragrounds.evals.compare.watching import Watched, WatchedCondition
from ragrounds.ui.figures import p_value
from ragrounds.ui.text import one_line, safe


def standing(watched: Watched) -> str:
    """One line, for a display."""
    conditions = "; ".join(_interval(one) for one in watched.conditions)
    return f"{one_line(watched.claim)}: {watched.decision}, {conditions} after {watched.questions:,} questions"


def told(stopping: Stopping) -> str:
    """What came of it: the decision, every condition with its interval and p value, why it ended."""
    watched = stopping.watched
    lines = [f"{watched.decision}: {safe(watched.claim)}   (accuracy by {stopping.scorer})"]
    for one in watched.conditions:
        left_out = f", {one.missing:,} without a score left out" if one.missing else ""
        p = "" if one.p is None else f", p = {p_value(one.p)}".replace("= <", "< ")
        lines.append(f"  left - right = {_interval(one)} (always valid){p}, n = {one.rounds:,}{left_out}")
    counted = f"  {watched.questions:,} questions, in the order drawn by --seed {stopping.seed}"
    lines.append(f"{counted}; {safe(stopping.reason)}" if stopping.reason else counted)
    return "\n".join(lines)


def _interval(one: WatchedCondition) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "nothing counted yet"
    return f"{one.value:.4g}, {100 * one.level:g} % interval {one.low:.4g} to {one.high:.4g}"
