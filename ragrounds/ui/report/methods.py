"""The methods paragraph: what was done, in the words of a paper, from the runs' own records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragrounds.evals.compare.comparison import Comparison
from ragrounds.evals.scorers import described
from ragrounds.records import Run
from ragrounds.ui.frontier import UNITS


def methods(comparison: Comparison, runs: Sequence[Run], scorers: Sequence[str]) -> list[str]:
    """Paragraphs of plain text. They say only what the runs' records say; what is unknown is said to be."""
    return [
        part for part in (_data(comparison, runs), *_agents(comparison, runs), _scores(comparison, scorers)) if part
    ]


def _data(comparison: Comparison, runs: Sequence[Run]) -> str:
    table = comparison.tables[0] if comparison.tables else None
    datasets = list(table.lines[0].datasets) if table else []
    parts = f" from {len(datasets)} datasets ({', '.join(datasets)})" if len(datasets) > 1 else ""
    versions = {run.begun_by for run in runs} - {""}
    tool = f"ragrounds {', '.join(sorted(versions))}" if versions else "ragrounds"
    asked = "once" if comparison.epochs == 1 else f"{comparison.epochs} times"
    selections = {str(_selection(run)) for run in runs} - {""}
    drawn = f" {'; '.join(sorted(selections))}." if selections else ""
    return (
        f"We evaluated {_count(len(runs), 'system')} with {tool} on {comparison.questions:,} questions of "
        f"{comparison.benchmark}{parts}; every question was asked {asked} of each system. Questions and answers have "
        f"the content hash {runs[0].questions[:16]}.{drawn}"
    )


def _selection(run: Run) -> str:
    chosen = run.identity.get("selection")
    if not isinstance(chosen, dict):
        return ""
    limits = [f"{chosen[name]} {what}" for name, what in (("per_dataset", "of each dataset"), ("limit", "in all"))
              if chosen.get(name)]  # fmt: skip
    named = chosen.get("ids") or ()
    if named:
        return f"{len(named)} of {chosen.get('of')} were named{f', and drawn from: {limits[0]}' if limits else ''}"
    return f"They were drawn from {chosen.get('of')} with seed {chosen.get('seed')}: {', '.join(limits)}"


def _agents(comparison: Comparison, runs: Sequence[Run]) -> list[str]:
    names = {row.run: row.name for row in comparison.rows}
    return [_agent(number, run, names.get(run.id, "")) for number, run in enumerate(runs, 1)]


def _agent(number: int, run: Run, name: str) -> str:
    known, agent = run.identity, f"{name}: {run.agent}" if name else run.agent
    if run.origin == "imported":
        given = ", ".join(f"{name} {known[name]}" for name in ("setting", "model") if known.get(name))
        return f"System {number} ({agent}): answers made elsewhere and imported ({given or 'as given'})."
    models: dict[str, Any] = known.get("models") or {}
    named = "; ".join(f"{'' if role == 'model' else f'{role}: '}{model}" for role, model in models.items())
    parts = [f"graph {known['graph']}" if known.get("graph") else "", f"model {named}" if named else ""]
    if known.get("retriever"):
        parts.append(f"retriever {known['retriever']} over {known.get('corpus')}")
    if known.get("prompts"):
        parts.append(_prompts(known["prompts"]))
    said = ", ".join(part for part in parts if part)
    return f"System {number} ({agent}): {said or 'as recorded'}; run {run.id}, fingerprint {run.fingerprint[:12]}."


def _prompts(digests: Any) -> str:
    if not isinstance(digests, dict):
        return f"prompts {str(digests)[:12]}"
    return "prompts " + ", ".join(f"{name} ({str(digest)[:8]})" for name, digest in digests.items())


def _scores(comparison: Comparison, scorers: Sequence[str]) -> str:
    tables = [table for table in comparison.tables if table.scorer in scorers]
    if not tables:
        return "No score has been recorded."
    scored = "; ".join(f"{name}: {described(name).method}" for name in scorers)
    pairs = max(len(table.pairs) for table in tables)
    several = len(tables[0].lines[0].datasets) > 1
    text = f"Answers were scored by {_count(len(tables), 'scorer')}, each reported by itself ({scored}). "
    text += "Attempts that failed, were capped, asked a person or were not made count as not correct. "
    if any(line.overall.missing for table in tables for line in table.lines):
        text += "Scores that are missing (a judge that failed, or nothing to judge) are in no mean. "
    if several:
        text += "The figure of several datasets is the unweighted mean over them. "
    text += (
        "Intervals are 95 %: adjusted Wald by dataset for right-or-wrong scores (Agresti and Coull; Bonett and Price "
        "for differences), with duplicated questions and epochs as clusters; otherwise the percentile interval of "
        "10,000 bootstrap resamples of that design, and none where the questions are too few for it. "
    )
    if any(described(table.scorer).aggregation.questions == "ratio" for table in tables):
        text += "A micro-F1 is resampled by texts with all their counts, and by 2,000 resamples of each type. "
    if any(line.overall.error is not None for table in tables for line in table.lines):
        text += "The ± beside a figure is MIRAGE's sqrt(p(1-p)/n), which is not an interval. "
    tested = any(pair.tests.p_mcnemar is not None for table in tables for pair in table.pairs)
    if pairs and not tested:
        text += "Systems were compared on the same questions by the interval of their difference. "
    elif pairs:
        text += (
            "Systems were compared on the same questions by the interval of their difference and by McNemar's exact "
            "test, one question of each cluster"
        )
        text += f", with Holm's correction over the {pairs} pairs. " if pairs > 1 else ". "
    found = next((table.frontier for table in tables if table.frontier), None)
    if found is not None:
        text += (
            f"Cost is counted in {UNITS[found.measure]} a question, averaged as scores are; intervals of costs"
            + (", of the cost of a correct answer and of prices" if found.tradeoffs else "")
            + " come from 2,000 joint bootstrap resamples of the questions. "
        )
    return text.strip()


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
