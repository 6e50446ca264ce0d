"""Methods paragraph in the words of a paper, from the runs' records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ragrounds.base.records import Run
from ragrounds.evals.compare.abstract import selection_words
from ragrounds.evals.compare.comparison import Comparison, RunTotals
from ragrounds.evals.compare.findings import score_judges
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.scorers import described
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.frontier import UNITS
from ragrounds.ui.tables.comparison_words import judged_by, short_models
from ragrounds.ui.text import number_of


def methods(
    comparison: Comparison,
    runs: Sequence[Run],
    scorers: Sequence[str],
    judges: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Return paragraphs of plain text. They state only what the runs' records contain, and name what is unknown.

    Args:
        comparison: comparison of the runs.
        runs: runs in its order.
        scorers: scorers that are shown.
        judges: run id → models that gave verdicts on its answers, also if no score uses these verdicts.
    """
    rows, names = {row.run: row for row in comparison.rows}, agent_names(comparison)
    parts = (
        _data_words(comparison, runs),
        *(_agent_words(run, rows[run.id], names[run.id]) for run in runs),
        _score_words(comparison, scorers),
        _judge_words(comparison, scorers, judges),
    )
    return [part for part in parts if part]


def _data_words(comparison: Comparison, runs: Sequence[Run]) -> str:
    table = comparison.tables[0] if comparison.tables else None
    datasets = list(table.lines[0].datasets) if table else []
    parts = f" from {len(datasets)} datasets ({', '.join(datasets)})" if len(datasets) > 1 else ""
    versions = {run.version for run in runs} - {""}
    tool = f"ragrounds {', '.join(sorted(versions))}" if versions else "ragrounds"
    times = "once" if comparison.epochs == 1 else f"{comparison.epochs} times"
    selections = {selection_words(run) for run in runs} - {""}
    selection = f" Of the benchmark: {'; '.join(sorted(selections))}." if selections else ""
    return (
        f"We evaluated {number_of(len(runs), 'system')} with {tool} on {comparison.questions:,} questions of "
        f"{comparison.benchmark}{parts}; every question was asked {times} of each system. Questions and answers have "
        f"the content hash {runs[0].questions[:16]}.{selection}"
    )


def _agent_words(run: Run, row: RunTotals, name: str) -> str:
    identity, agent = run.identity, name if name == run.agent else f"{name} ({run.agent})"
    if run.origin == "imported":
        origin = ", ".join(f"{name} {identity[name]}" for name in ("setting", "model") if identity.get(name))
        return f"{agent}: answers made elsewhere and imported ({origin or 'as given'}); run {run.id}."
    # The models that were really called, as far as this is recorded.
    recorded = {text.partition("[")[0] for text in row.answered_by}
    models = "; ".join(
        f"{'' if role == 'model' else f'{role}: '}{model}"
        for role, model in row.models.items()
        if not recorded or model.partition("[")[0] in recorded
    )
    parts = [f"graph {identity['graph']}" if identity.get("graph") else "", f"model {models}" if models else ""]
    if identity.get("retriever"):
        parts.append(f"retriever {identity['retriever']} over {identity.get('corpus')}")
    details = ", ".join(part for part in parts if part)
    return f"{agent}: {details or 'as recorded'}; run {run.id}, fingerprint {run.fingerprint[:12]}."


def _judge_words(comparison: Comparison, scorers: Sequence[str], judges: Mapping[str, Sequence[str]]) -> str:
    """Name the judges behind the scores that are shown, and other judges of the same answers."""
    names = agent_names(comparison)
    tables = [table for table in comparison.tables if table.scorer in scorers]
    by_judges: dict[tuple[tuple[ScoreJudges, tuple[str, ...]], ...], list[str]] = {}
    for table in tables:
        if table_judges := score_judges(table.lines):
            by_judges.setdefault(table_judges, []).append(table.scorer)
    sentences = [
        f"The verdicts behind the scores under {', '.join(scorer_names)} were given by {judged_by(sources, names)}."
        for sources, scorer_names in by_judges.items()
    ]
    if noise := list(dict.fromkeys(line.noise for table in tables for line in table.lines if line.noise)):
        sentences.append(f"Asked again about some answers, the judge says another thing of {'; '.join(noise)} of them.")
    gave = {judge for several in by_judges for sources, _ in several for judge in sources.judges}
    short_names = short_models(judge for names in judges.values() for judge in names)
    if uninvolved := [name for judge, name in short_names.items() if judge not in gave]:
        sentences.append(f"Also asked, without a part in these scores: {', '.join(uninvolved)}.")
    return " ".join(sentences)


def _score_words(comparison: Comparison, scorers: Sequence[str]) -> str:
    tables = [table for table in comparison.tables if table.scorer in scorers]
    if not tables:
        return "No score has been recorded."
    scored = "; ".join(f"{name}: {described(name).method}" for name in scorers)
    pairs = max(len(table.pairs) for table in tables)
    several = len(tables[0].lines[0].datasets) > 1
    text = f"Answers were scored by {number_of(len(tables), 'scorer')}, each reported by itself ({scored}). "
    text += "Attempts that failed, were capped, asked a person or were not made count as not correct. "
    if any(line.overall.missing for table in tables for line in table.lines):
        text += "Scores that are missing (a judge that failed, or nothing to judge) are in no mean. "
    if several:
        text += "The figure of several datasets is the unweighted mean over them. "
    text += (
        "Intervals are 95 %: adjusted Wald by dataset for right-or-wrong scores (Agresti and Coull; Bonett and Price "
        "for differences), with duplicated questions and epochs as clusters; otherwise by 10,000 bootstrap resamples "
        "of that design, each end the further of the percentile's and the bootstrap-t's, and none where the questions "
        "are too few for it. "
    )
    if any(described(table.scorer).ratio for table in tables):
        text += "A micro-F1 is resampled by texts with all their counts, and by 2,000 resamples of each type. "
    tested = any(pair.tests.p_mcnemar is not None for table in tables for pair in table.pairs)
    if pairs and not tested:
        text += "Systems were compared on the same questions by the interval of their difference. "
    elif pairs:
        text += (
            "Systems were compared on the same questions by McNemar's exact test, over several datasets and with "
            "duplicates as a permutation test of the same mean, and by an interval that leaves 0 out where it does"
        )
        text += f", with Holm's correction over the {pairs} pairs. " if pairs > 1 else ". "
    frontier = next((table.frontier for table in tables if table.frontier), None)
    if frontier is not None:
        text += (
            f"Cost is counted in {UNITS[frontier.measure]} a question, averaged as scores are; intervals of costs"
            + (", of the cost of a correct answer and of prices" if frontier.tradeoffs else "")
            + " come from 2,000 joint bootstrap resamples of the questions. "
        )
    return text.strip()
