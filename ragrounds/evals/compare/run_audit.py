"""Audit of imported runs: reasons to doubt their figures.

Each finding is a short text. Facts that only the imported file shows (doubled rows, renumbered ids, rows that match no
question) are kept in the run's identity. Everything else is computed from the stored attempts, so that any run can be
audited.
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
"""Standard errors from which a letter counts as given too often: some 6 in 100,000 by chance, since many letters are
tested."""
_LEAST_ANSWERS = 20
"""Smallest number of answers for which shares are tested."""
_LEAST_RIGHT = 5
"""Smallest number of right answers for which never-given letters are reported."""


class RunFinding(Struct, frozen=True):
    """Finding about a run."""

    run: str
    """Id of the run; empty if the finding is about the questions."""
    kind: str
    text: str


class _Answer(Struct):
    question: Question
    gold: Gold
    epoch: int
    text: str
    label: str
    """Label of the option if the answer is the label alone; empty for any other text."""
    status: str
    right: float | None
    usage: bool
    seconds: float
    cost: float | None
    odd: tuple[str, ...]


def audit_runs(store: Store, runs: Sequence[Run]) -> list[RunFinding]:
    """Return reasons to doubt these runs and their questions."""
    findings: list[RunFinding] = []
    digests: dict[str, dict[tuple[str, int], bytes]] = {}
    repeated: dict[str, None] = {}
    for run in runs:
        run_answers = list(_answers(store, run))
        questions = [answer.question for answer in run_answers]
        cluster_sizes = Counter(
            question.cluster
            for question in {question.id: question for question in questions}.values()
            if question.cluster
        )
        if sizes := [count for count in cluster_sizes.values() if count > 1]:
            repeated[f"{sum(sizes):,} of {run.count:,} questions of {run.benchmark} are in {len(sizes):,} sets of "
                     "equal texts: they are not independent, and tests take each set as one"] = None  # fmt: skip
        findings += [RunFinding(run.id, kind, text) for kind, text in _run_findings(run, run_answers)]
        digests[run.id] = {
            (answer.question.id, answer.epoch): _digest(answer.text)
            for answer in run_answers if not blank(answer.text)
        }  # fmt: skip
    findings += _equal_run_findings(runs, digests)
    return [*findings, *(RunFinding("", "repeated", text) for text in repeated)]


def _answers(store: Store, run: Run) -> Iterator[_Answer]:
    questions, golds = store.questions(run)
    question_by_id = {question.id: question for question in questions}
    scorers = {headline.kind: headline.scorer for headline in headline_of(questions)}
    names = set(scorers.values())
    values = {
        (score.question_id, score.epoch, score.scorer): score.value
        for score in store.scores(run)
        if score.scorer in names
    }
    for attempt in store.attempts(run):
        question = question_by_id[attempt.question_id]
        plain = attempt.text.strip()
        label = attempt.choice or (plain if len(plain) == 1 and plain.isalpha() else "")
        if label not in question.options and label.upper() in question.options:
            label = label.upper()
        yield _Answer(question, golds[question.id], attempt.epoch, attempt.text, label, attempt.status,
                      values.get((attempt.question_id, attempt.epoch, scorers.get(question.kind, ""))),
                      attempt.usage is not None, attempt.seconds, attempt.cost_uncached,
                      tuple(e.text for e in attempt.events
                            if isinstance(e, Noted) and e.what == "imported"))  # fmt: skip


def _run_findings(run: Run, answers: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    yield from _matching(run.identity.get("matching") or {})
    missing_ids = [answer.question.id for answer in answers if answer.status == "not_run"]
    given_answers = [answer for answer in answers if answer.status != "not_run"]
    if missing_ids:
        first_ids = ", ".join(missing_ids[:5]) + (", …" if len(missing_ids) > 5 else "")
        yield "missing", f"{len(missing_ids):,} questions have no row: {first_ids}"
    by_dataset: dict[str, list[_Answer]] = defaultdict(list)
    for answer in given_answers:
        by_dataset[answer.question.benchmark].append(answer)
    texts_by_kind: dict[str, list[str]] = defaultdict(list)
    for name, dataset_answers in by_dataset.items():
        for kind, text in _dataset_findings(dataset_answers):
            texts_by_kind[kind].append(f"{name.rpartition('/')[2]}: {text}")
    for kind, texts in texts_by_kind.items():
        yield kind, "; ".join(texts)
    if unknown_usage := Counter(
        answer.question.benchmark.rpartition("/")[2] for answer in given_answers if not answer.usage
    ):
        datasets = f" ({', '.join(unknown_usage)})" if len(by_dataset) > 1 else ""
        yield (
            "usage",
            f"the tokens of {unknown_usage.total():,} of {len(given_answers):,} answers are unknown{datasets}",
        )


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


def _dataset_findings(answers: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(answers)
    blank_count = sum(blank(answer.text) and not answer.label and answer.status == "completed" for answer in answers)
    if blank_count:
        yield "blank", f"{blank_count:,} of {n:,} answers are blank"
    null_count = sum(answer.text.strip().lower() in ("nan", "null", "none") for answer in answers)
    if null_count:
        yield "blank", f"{null_count:,} of {n:,} answers are NaN or null"
    choices = [answer for answer in answers if answer.question.kind == "choice"]
    lettered = [answer for answer in choices if answer.label]
    yield from _numbered_findings(choices)
    if len(lettered) * 2 > len(choices):
        yield from _letter_findings(choices, lettered)
    yield from _figure_findings(answers)


def _numbered_findings(choices: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    """Yield a finding if most answers are numbers and the options have letters: no reader takes them for options."""
    numbers = [
        (int(text), answer)
        for answer in choices
        if (text := answer.text.strip()).isdecimal() and len(text) < 3 and not answer.label
        and text not in answer.question.options and text not in answer.question.options.values()
    ]  # fmt: skip
    if len(numbers) * 2 <= len(choices) or len(numbers) < 2:
        return
    first = 0 if any(number == 0 for number, _ in numbers) else 1
    labels = [list(answer.question.options) for _, answer in numbers]
    right = sum(
        0 <= number - first < len(letters) and letters[number - first] == answer.gold.answer
        for (number, answer), letters in zip(numbers, labels, strict=True)
    )
    yield (
        "no letter",
        (
            f"{len(numbers):,} of {len(choices):,} answers are numbers, and the options are letters: none is read; by "
            f"position from {first}, {right:,} would be right: write the letters into the file"
        ),
    )


def _letter_findings(choices: Sequence[_Answer], lettered: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(choices)
    longer = [answer.text for answer in choices if not answer.label and not blank(answer.text)
              and answer.text.strip().lower() not in ("nan", "null", "none")]  # fmt: skip
    if longer:
        yield "no letter", (f"{len(longer):,} of {n:,} answers are no single letter, such as {longer[0][:30]!r}: how "
                            "they are read can change the verdict")  # fmt: skip
    unknown_labels = [answer for answer in lettered if answer.label not in answer.question.options]
    if unknown_labels:
        yield "outside", f"{len(unknown_labels):,} of {n:,} answers are letters that the question does not have"
    answer_counts, golds = (
        Counter(answer.label for answer in lettered),
        Counter(answer.gold.answer for answer in choices),
    )
    absent = {letter: count for letter, count in golds.items() if letter not in answer_counts}
    if sum(absent.values()) >= max(_LEAST_RIGHT, n / 20):
        yield "never given", (f"no answer is {', '.join(sorted(absent))}, and {sum(absent.values()):,} right answers "
                              "are: perhaps no parser could give them")  # fmt: skip
    top, count = answer_counts.most_common(1)[0]
    share = (count + golds[top]) / (2 * n)
    error = (2 * share * (1 - share) / n) ** 0.5
    if n >= _LEAST_ANSWERS and error and (count - golds[top]) / n > SURE * error:
        yield (
            "one letter",
            f"{top} is the answer {count:,} times of {n:,}, and right {golds[top]:,} times{_accuracies(choices, top)}",
        )
    else:
        yield from _position_findings(choices)


def _accuracies(choices: Sequence[_Answer], top: str) -> str:
    right_if_top = [answer.right for answer in choices if answer.gold.answer == top and answer.right is not None]
    right_otherwise = [answer.right for answer in choices if answer.gold.answer != top and answer.right is not None]
    if not right_if_top or not right_otherwise:
        return ""
    shares = [100 * sum(values) / len(values) for values in (right_if_top, right_otherwise)]
    return f": {shares[0]:.0f} % right where it is right, {shares[1]:.0f} % elsewhere"


def _position_findings(choices: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    """Yield a finding if accuracy depends on the position of the right answer, by a chi-square test over the
    positions."""
    values_by_letter: dict[str, list[float]] = defaultdict(list)
    for answer in choices:
        if answer.right in (0, 1):
            values_by_letter[answer.gold.answer].append(answer.right)
    table = [
        [sum(values), len(values) - sum(values)] for values in values_by_letter.values() if len(values) >= _LEAST_RIGHT
    ]
    if len(table) < 2 or not all(sum(column) for column in zip(*table, strict=True)):
        return
    from scipy.stats import chi2_contingency  # takes a second to import, and small imports need none of it

    if (p := float(chi2_contingency(table)[1])) < 1e-3:
        accuracies = ", ".join(
            f"{letter} {100 * sum(values) / len(values):.0f} %" for letter, values in sorted(values_by_letter.items())
        )
        yield "position", f"accuracy depends on the position of the right answer ({accuracies}; p {p:.2g})"


def _figure_findings(answers: Sequence[_Answer]) -> Iterator[tuple[str, str]]:
    n = len(answers)
    if impossible := [text for answer in answers for text in answer.odd]:
        yield (
            "impossible",
            f"{len(impossible):,} figures are impossible and count as unknown; the first: {impossible[0][:120]}",
        )
    for measure, values in (
        ("seconds", [answer.seconds for answer in answers]),
        ("cost", [answer.cost for answer in answers]),
    ):
        if n >= _LEAST_ANSWERS and values[0] and len(set(values)) == 1:
            yield "constant", f"the {measure} of all {n:,} answers are {values[0]:.4g}: an average, no measurement"


def _equal_run_findings(runs: Sequence[Run], answers: dict[str, dict[tuple[str, int], bytes]]) -> Iterator[RunFinding]:
    for index, run in enumerate(runs):
        for earlier in runs[:index]:
            shared = (
                answers[run.id].keys() & answers[earlier.id].keys() if run.questions == earlier.questions else set()
            )
            if len(shared) >= _LEAST_ANSWERS and all(
                answers[run.id][key] == answers[earlier.id][key] for key in shared
            ):
                yield RunFinding(run.id, "equal", f"all {len(shared):,} answers are those of {earlier.id}")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.strip().encode("utf-8", "replace"), digest_size=8).digest()
