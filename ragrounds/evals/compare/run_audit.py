"""The audit of imported runs: what makes their figures doubtful, a line a finding, and nothing where there is none.

What only the file could say (doubled rows, renumbered ids, rows to no question) stands in the run's identity since its
import; all else is found in the stored attempts, so that any run can be audited.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from ragrounds.base.records import Gold, Noted, Question, Run, blank
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.store import Store

SURE = 4.0
"""Standard errors from which a letter is given too often: some 6 in 100,000 by chance, since many are looked at."""
_LEAST = 20
"""Answers from which shares are looked at."""
_UNGIVEN = 5
"""Right answers of letters that are never given, from which that is said."""


class RunFinding(Struct, frozen=True):
    """What was found in a run."""

    run: str
    """Its id; empty: it is of the questions."""
    kind: str
    text: str


class _Answer(Struct):
    question: Question
    gold: Gold
    epoch: int
    text: str
    label: str
    """The option that was given, by its label alone; empty: another text."""
    status: str
    right: float | None
    usage: bool
    seconds: float
    cost: float | None
    odd: tuple[str, ...]


def audit_runs(store: Store, runs: Sequence[Run]) -> list[RunFinding]:
    """What is doubtful in these runs, and in their questions."""
    found: list[RunFinding] = []
    answers: dict[str, dict[tuple[str, int], bytes]] = {}
    repeated: dict[str, None] = {}
    for run in runs:
        held = list(_answers(store, run))
        questions = [answer.question for answer in held]
        twins = Counter(one.cluster for one in {q.id: q for q in questions}.values() if one.cluster)
        if many := [count for count in twins.values() if count > 1]:
            repeated[f"{sum(many):,} of {run.count:,} questions of {run.benchmark} stand in {len(many):,} sets of "
                     "equal texts: they are not independent, and tests take each set as one"] = None  # fmt: skip
        found += [RunFinding(run.id, kind, text) for kind, text in _of_run(run, held)]
        answers[run.id] = {
            (one.question.id, one.epoch): _digest(one.text)
            for one in held if not blank(one.text)
        }  # fmt: skip
    found += _equal(runs, answers)
    return [*found, *(RunFinding("", "repeated", text) for text in repeated)]


def _answers(store: Store, run: Run) -> Iterator[_Answer]:
    questions, golds = store.questions(run)
    by_id = {one.id: one for one in questions}
    scorers = {one.kind: one.scorer for one in headline_of(questions)}
    names = set(scorers.values())
    values = {(one.question_id, one.epoch, one.scorer): one.value for one in store.scores(run) if one.scorer in names}
    for one in store.attempts(run):
        question = by_id[one.question_id]
        plain = one.text.strip()
        label = one.choice or (plain if len(plain) == 1 and plain.isalpha() else "")
        yield _Answer(question, golds[question.id], one.epoch, one.text, label, one.status,
                      values.get((one.question_id, one.epoch, scorers.get(question.kind, ""))),
                      one.usage is not None, one.seconds, one.cost_uncached,
                      tuple(e.text for e in one.events if isinstance(e, Noted) and e.what == "imported"))  # fmt: skip


def _of_run(run: Run, held: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    yield from _matching(run.identity.get("matching") or {})
    absent = [one.question.id for one in held if one.status == "not_run"]
    made = [one for one in held if one.status != "not_run"]
    if absent:
        yield "missing", f"{len(absent):,} questions have no row: {_some(absent)}"
    sets: dict[str, list[_Answer]] = defaultdict(list)
    for one in made:
        sets[one.question.benchmark].append(one)
    for name, answers in sets.items():
        dataset = name.rpartition("/")[2]
        yield from ((kind, f"{dataset}: {text}") for kind, text in _of_dataset(answers))
    if untold := Counter(one.question.benchmark.rpartition("/")[2] for one in made if not one.usage):
        where = f" ({', '.join(untold)})" if len(sets) > 1 else ""
        yield "usage", f"the tokens of {untold.total():,} of {len(made):,} answers are unknown{where}"


def _matching(match: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if match.get("doubled"):
        yield "doubled", (f"{match['doubled']:,} rows repeat one of {match['doubled_questions']:,} questions, of which "
                          f"{match['differing']:,} have different answers; the first row counts")  # fmt: skip
    if match.get("renumbered"):
        yield "renumbered", (f"{match['renumbered']:,} of {match['rows']:,} rows have ids that are not their "
                             "questions'; they are matched by the questions' texts")  # fmt: skip
    if match.get("unmatched"):
        yield "different questions", (f"{match['unmatched']:,} of {match['rows']:,} rows answer no question of the "
                                      f"benchmark; the first: {match['unmatched_first']}")  # fmt: skip


def _of_dataset(held: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(held)
    empty = sum(blank(one.text) and not one.label and one.status == "completed" for one in held)
    if empty:
        yield "blank", f"{empty:,} of {n:,} answers are blank"
    nothing = sum(one.text.strip().lower() in ("nan", "null", "none") for one in held)
    if nothing:
        yield "blank", f"{nothing:,} of {n:,} answers are NaN or null"
    choices = [one for one in held if one.question.kind == "choice"]
    lettered = [one for one in choices if one.label]
    if len(lettered) * 2 > len(choices):
        yield from _letters(choices, lettered)
    yield from _figures(held)


def _letters(choices: Sequence[_Answer], lettered: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(choices)
    longer = [one.text for one in choices if not one.label and not blank(one.text)
              and one.text.strip().lower() not in ("nan", "null", "none")]  # fmt: skip
    if longer:
        yield "no letter", (f"{len(longer):,} of {n:,} answers are no single letter, such as {longer[0][:30]!r}: how "
                            "they are read can change the verdict")  # fmt: skip
    outside = [one for one in lettered if one.label not in one.question.options]
    if outside:
        yield "outside", f"{len(outside):,} of {n:,} answers are letters that the question does not have"
    given, golds = Counter(one.label for one in lettered), Counter(one.gold.answer for one in choices)
    never = {letter: count for letter, count in golds.items() if letter not in given}
    if sum(never.values()) >= max(_UNGIVEN, n / 20):
        yield "never given", (f"no answer is {', '.join(sorted(never))}, and {sum(never.values()):,} right answers "
                              "are: perhaps no parser could give them")  # fmt: skip
    top, count = given.most_common(1)[0]
    share = (count + golds[top]) / (2 * n)
    error = (2 * share * (1 - share) / n) ** 0.5
    if n >= _LEAST and error and (count - golds[top]) / n > SURE * error:
        yield (
            "one letter",
            f"{top} is the answer {count:,} times of {n:,}, and right {golds[top]:,} times{_where(choices, top)}",
        )
    else:
        yield from _positions(choices)


def _where(choices: Sequence[_Answer], top: str) -> str:
    there = [one.right for one in choices if one.gold.answer == top and one.right is not None]
    other = [one.right for one in choices if one.gold.answer != top and one.right is not None]
    if not there or not other:
        return ""
    shares = [100 * sum(values) / len(values) for values in (there, other)]
    return f": {shares[0]:.0f} % right where it is right, {shares[1]:.0f} % elsewhere"


def _positions(choices: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    """Whether accuracy depends on where the right answer stands, by a chi-square test over the positions."""
    from scipy.stats import chi2_contingency

    by: dict[str, list[float]] = defaultdict(list)
    for one in choices:
        if one.right in (0, 1):
            by[one.gold.answer].append(one.right)
    table = [[sum(values), len(values) - sum(values)] for values in by.values() if len(values) >= _UNGIVEN]
    if len(table) < 2 or not all(sum(column) for column in zip(*table, strict=True)):
        return
    if (p := float(chi2_contingency(table)[1])) < 1e-3:
        said = ", ".join(f"{letter} {100 * sum(v) / len(v):.0f} %" for letter, v in sorted(by.items()))
        yield "position", f"accuracy depends on where the right answer stands ({said}; p {p:.2g})"


def _figures(held: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(held)
    if odd := [text for one in held for text in one.odd]:
        yield "impossible", f"{len(odd):,} figures are impossible and count as unknown; the first: {odd[0][:120]}"
    for what, values in (("seconds", [one.seconds for one in held]), ("cost", [one.cost for one in held])):
        if n >= _LEAST and values[0] and len(set(values)) == 1:
            yield "constant", f"the {what} of all {n:,} answers are {values[0]:.4g}: an average, no measurement"


def _equal(runs: Sequence[Run], answers: dict[str, dict[tuple[str, int], bytes]]) -> Iterator[RunFinding]:
    for place, one in enumerate(runs):
        for other in runs[:place]:
            shared = answers[one.id].keys() & answers[other.id].keys() if one.questions == other.questions else set()
            if len(shared) >= _LEAST and all(answers[one.id][key] == answers[other.id][key] for key in shared):
                yield RunFinding(one.id, "equal", f"all {len(shared):,} answers are those of {other.id}")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "replace"), digest_size=8).digest()


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:5]) + (", …" if len(ids) > 5 else "")
