"""The abstract of a comparison in sentences: who answered what, when, with which models, what can be concluded at which
level, and what is missing. Plain text, safe to show."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from ragrounds.evals.compare.abstract import Abstract, AbstractSystem, Lack, ScorerFinding
from ragrounds.evals.scorers import described, figure_word
from ragrounds.ui.comparison_verdict import (
    all_others,
    alone_words,
    difference_words,
    equal_words,
    figure_words,
    listed,
    none_words,
    turned_words,
    verdict,
)
from ragrounds.ui.judge_words import judged_by
from ragrounds.ui.text import joined_words, number_of, one_line, p_value, percent, safe

_NAMED = 8
"""Systems up to which a sentence names each."""
_TOLD = 3
"""Systems up to which a conclusion names those that are behind."""
_WORDS = {
    "not_run": "not made yet; they count as not correct",
    "failed": "failed; they count as not correct",
    "paused": "waiting for a person's answer; they count as not correct",
    "unjudged": "without a verdict of the judge; no mean counts them",
    "unscored": "without a score; no mean counts them",
}
"""What a lack means, after the number of attempts or questions."""


def abstract_sentences(abstract: Abstract, names: Mapping[str, str]) -> Iterator[str]:
    """Who answered what, and a sentence for each scorer.

    Args:
        abstract: of a comparison.
        names: run id → what the run is called, safe to show.
    """
    yield who_answered(abstract, names)
    for found in abstract.findings:
        yield conclusion_sentence(found, names)
    if not abstract.findings:
        yield "Nothing can be concluded: no answer has a score yet."


def who_answered(abstract: Abstract, names: Mapping[str, str]) -> str:
    """Who answered what, with which models, and when."""
    systems, asked = abstract.systems, number_of(abstract.questions, "question")
    named = f" ({joined_words([names[one.run] for one in systems])})" if len(systems) <= _NAMED else ""
    who = names[systems[0].run] if len(systems) == 1 else f"{number_of(len(systems), 'system')}{named}"
    often = "" if abstract.epochs == 1 else f", each {abstract.epochs} times"
    datasets = [safe(name.rpartition("/")[2]) for name in abstract.datasets]
    parts = f" ({joined_words(datasets)})" if 1 < len(datasets) <= _NAMED else ""
    models, when = model_words(systems, names), days(systems)
    elsewhere = sum(one.imported for one in systems)
    if elsewhere == len(systems):
        made = f"{often}; the answers were made elsewhere {models} and imported {when}"
    else:
        made = f"{often} {models} {when}"
        made += f"; the answers of {elsewhere} of them were made elsewhere and imported" if elsewhere else ""
    begun = any(one.kind == "not_run" for one in abstract.lacks)
    did = "answered" if not begun else "has answered a part of" if len(systems) == 1 else "have answered a part of"
    return f"{who} {did} {asked} of {safe(abstract.benchmark)}{parts}{made}."


def model_words(systems: Sequence[AbstractSystem], names: Mapping[str, str]) -> str:
    """With which models: one for all, or each with its systems."""
    by_models: dict[tuple[str, ...], list[str]] = {}
    for one in systems:
        by_models.setdefault(one.models, []).append(one.run)
    if len(by_models) == 1:
        (models,) = by_models
        return f"with {joined_words([one_line(name, 80) for name in models]) or 'a model that is not recorded'}"
    if len(by_models) > _NAMED:
        return f"with {number_of(len({name for models in by_models for name in models}), 'model')}"
    said = []
    for models, runs in by_models.items():
        who = f"({listed([names[run] for run in runs]) if len(systems) <= _NAMED else number_of(len(runs), 'system')})"
        said.append(f"{joined_words([one_line(name, 80) for name in models]) or 'a model that is not recorded'} {who}")
    return f"with {joined_words(said)}"


def days(systems: Sequence[AbstractSystem]) -> str:
    """On which day, or between which days, the work was done (UTC)."""
    first, last = (_day(end) for end in (min(one.began for one in systems), max(one.ended for one in systems)))
    return f"on {first}" if first == last else f"between {first} and {last}"


def conclusion_sentence(found: ScorerFinding, names: Mapping[str, str]) -> str:
    """What can be concluded under a scorer, or that nothing can; and where the careful reading says the opposite."""
    return f"{_concluded(found, names).removesuffix('.')}{turned_words(found, names)}."


def _concluded(found: ScorerFinding, names: Mapping[str, str]) -> str:
    level = f"at the {percent(found.level, 0)} % level"
    word = figure_word(found.scorer)
    under = f"Under {one_line(found.scorer)}" + (f" ({word})" if word != found.scorer else "")
    judges = judged_by(found.judges, names)
    under += f", judged by {judges}" if judges else ""
    name, value = names[found.best.run], figure_words(found.best, found.unit) + equal_words(found, names)
    match found.kind:
        case "alone":
            return f"{under}, {name} has {alone_words(found.best, found.unit)}. One run alone is set against no other."
        case "ahead":
            whom = all_others(len(found.ahead))
            nearest = difference_words(found, names, len(found.ahead) > 1, carried_by(found))
            return f"{under}, {name} is ahead of {whom} {level}: {value}, {nearest}."
        case "ahead of some":
            told = listed([names[one.worse] for one in reversed(found.ahead)])
            if len(found.ahead) > _TOLD:
                told = f"{len(found.ahead)} of {len(found.ahead) + len(found.untold)} others"
            apart = difference_words(found, names, len(found.ahead) > 1, carried_by(found))
            return (
                f"{under}, {name} has the best figure, {value}. It is ahead of {told} {level}, {apart}, and "
                f"not told from {listed([names[run] for run in found.untold])}{_power(found)}."
            )
        case "open":
            return (
                f"{under}, nothing can be concluded yet: {name} {verdict(found, names)}. As things are, the tests tell "
                f"systems apart {level}; but attempts that failed or are not made yet count as not correct."
            )
        case _:
            why = {"none": none_words(found), "best untold": "no test tells it from any other"}
            return (
                f"{under}, nothing can be concluded {level} about which system is best. {name} has the best figure, "
                f"{value}; {why.get(found.kind, 'no test says which runs differ')}"
                f"{_power(found)}."
            )


def carried_by(found: ScorerFinding) -> str:
    """The test that carries the smallest difference, as it stands after an interval."""
    one = found.ahead[0]
    if one.p is None:
        return ", which alone decides: there is no test"
    corrected = f" after Holm's correction over {found.tests:,} pairs" if one.corrected and found.tests > 1 else ""
    return f"; {one.test} p {p_value(one.p)}{corrected}"


def lack_lines(abstract: Abstract, names: Mapping[str, str]) -> list[str]:
    """A line for each kind of thing that is missing, with the runs that it is missing of."""
    said = []
    lacks = sorted(abstract.lacks, key=lambda one: (list(_WORDS).index(one.kind), one.scorer))
    for (kind, scorer), group in groupby(lacks, key=lambda one: (one.kind, one.scorer)):
        found = list(group)
        total = sum(one.count for one in found)
        under = f" under {one_line(scorer)}" if scorer else ""
        verb = "" if kind == "failed" else " is" if total == 1 else " are"
        what = number_of(total, "question" if scorer else "attempt")
        said.append(f"{what}{under}{verb} {_WORDS[kind]} ({_each(found, names)}).")
    return said


def missing_commands(abstract: Abstract) -> list[str]:
    """The commands that make what is missing, each once. Answers that were imported cannot be made here."""
    imported = {one.run for one in abstract.systems if one.imported}
    made = [
        described(one.scorer).command([one.run]) if one.scorer else f"ragrounds runs resume {one.run}"
        for one in abstract.lacks
        if one.scorer or one.run not in imported
    ]
    return list(dict.fromkeys(made))


def _each(found: Sequence[Lack], names: Mapping[str, str]) -> str:
    return "; ".join(f"{names[one.run]}: {one.count:,} of {one.of:,}" for one in found)


def _power(found: ScorerFinding) -> str:
    """Which difference would have been seen; nothing where that is not known."""
    if found.mde is None or found.unit != "percent":
        return ""
    return (
        f". With these questions a difference of {percent(found.mde, 1)} points to the nearest would be seen with 80 % "
        "power"
    )


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))
