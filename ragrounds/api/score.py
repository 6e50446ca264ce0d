"""Scores of stored answers: by scorers, without a model; by judges; and judges set against people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from msgspec import Struct, structs
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.event_loop import finish
from ragrounds.api.frames import JUDGEMENTS, OF_RUNS, Frame
from ragrounds.api.progress import counted
from ragrounds.api.results import RunsResult
from ragrounds.api.servers import met_retrievers, open_judges
from ragrounds.api.workspace import (
    Progress,
    chosen_settings,
    closing,
    opened_runs,
    replaced,
    texts,
    user_prices,
)
from ragrounds.errors import UserError
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.engine.circuit_breaker import failure_limit
from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.evals.judges.labels import (
    LabelAgreement,
    agreement,
    disputed_labels,
    judge_agreements,
    label_sheet,
    people_labels,
    pooled,
    shown_items,
)
from ragrounds.evals.judges.methods import (
    JudgeMeans,
    by_panel,
    find_method,
    judgeable,
    label_method,
    open_method,
    verdicts,
    was_judged,
)
from ragrounds.evals.judges.recorded import JudgeFinder, RecordedVerdicts, ScoreJudges, recorded_verdicts
from ragrounds.evals.judges.runs import JudgedRuns, judge_runs
from ragrounds.evals.scorers import find_scorer, score_by, scorers_for
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.scorers.words import keep_words
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Run, Score
from ragrounds.tools.cards import named_embedder
from ragrounds.ui.comparison_tables import print_comparison
from ragrounds.ui.notebook import in_notebook
from ragrounds.ui.progress.judged import JudgeProgress
from ragrounds.ui.text import one_line


class ScoredRuns(ComparisonResult, frozen=True, kw_only=True):
    """What came of :func:`score`."""

    counts: tuple[tuple[Run, int], ...]
    """Each run with its scores, now written."""
    scorers: tuple[str, ...] = ()
    """The scorers that were asked for; none: all that fit."""

    def by_scorers(self) -> tuple[str, ...]:
        """The scorers that were asked for."""
        return self.scorers


class JudgeResult(RunsResult, frozen=True, kw_only=True):
    """What came of :func:`judge`."""

    judged: JudgedRuns
    comparison: Comparison | None
    """By the judges' scores; ``None``: some judge gave no verdict at all, so no score was written."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the runs that were judged."""
        return tuple(one.run for one in self.judged.runs)

    @property
    def ended(self) -> str:
        """Why not all questions were judged: a limit, or Ctrl-C; empty: all were."""
        return self.judged.ended

    def draw(self, console: Console) -> None:
        """Print the comparison by the judges' scores."""
        if self.comparison is not None:
            print_comparison(self.comparison, self.judged.runs[0].scorers, console)

    def own_frames(self) -> tuple[Frame, ...]:
        """The judgements first."""
        return (JUDGEMENTS, *(frame for frame in OF_RUNS if frame is not JUDGEMENTS))


class WrittenSheet(Struct, frozen=True):
    """A sheet that was written for people to label."""

    items: int
    of: int
    """Judged items that there are."""
    labels: tuple[str, ...]
    disputed: int = 0
    """Items on which judges disagree, of these."""


class AgreementResult(Struct, frozen=True):
    """How far a judge and people agree."""

    agreement: LabelAgreement
    raters: int
    """People who labelled."""


_BATCH = 1000
"""Scores that are written together."""


class ScoreArguments(Struct, frozen=True):
    """Which runs are scored, and how."""

    runs: arguments.Runs
    scorers: Annotated[
        str | Sequence[str],
        Arg("A scorer (repeatable). [default: all that fit the questions]", option="--scorer", many=True),
    ] = ()
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(ScoreArguments)
def score(given: ScoreArguments) -> ScoredRuns:
    """Score stored runs again, and compare them. No model is asked.

        rr.score("direct", scorers="strict").to_pandas("scores")

    Raises:
        UserError: an unknown run or scorer.
    """
    wanted = [find_scorer(name) for name in texts(given.scorers)]
    chosen = chosen_settings(given.settings, given.home)
    with opened_runs(given.runs, chosen) as (store, found):
        counts = []
        for run in found:
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            count, scores = 0, list[Score]()
            for attempt in store.attempts(run):
                question, gold = by_id[attempt.question_id], golds[attempt.question_id]
                fitting = wanted or scorers_for(question)
                scores += [score_by(one, attempt, question, gold) for one in fitting if one.suits(question)]
                if len(scores) >= _BATCH:
                    store.add_scores(run, scores)
                    count, scores = count + len(scores), []
            store.add_scores(run, scores)
            counts.append((run, count + len(scores)))
        comparison = compare(store, found, shared_scorers=True)
        keep_words(store, [table.scorer for table in comparison.tables])
    names = tuple(one.name for one in wanted)
    return ScoredRuns(settings=chosen, counts=tuple(counts), comparison=comparison, scorers=names)


class JudgeArguments(Struct, frozen=True):
    """What is judged, by whom, and how it is carried out."""

    runs: arguments.Runs
    kind: Annotated[
        str,
        Arg(
            "equivalence (to a reference answer; equivalence-published by OGCaReBench's own rules), statements "
            "(entailed, contradicted), ragas (its five figures) or one of them, such as ragas_faithfulness.",
        ),
    ]
    max_cost: arguments.MaxCost = None
    max_total_tokens: arguments.MaxTotalTokens = None
    max_time: arguments.MaxTime = None
    fail_after: arguments.FailAfter = "50%"
    judges: arguments.Judges = ()
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    server_changed: arguments.ServerChanged = "stop"
    embedder: Annotated[
        str | None, Arg("'dense[model=…]' or a retriever's card: whose vectors are compared (ragas' relevancy).")
    ] = None
    epochs: Annotated[
        Sequence[int], Arg("Only this epoch, from 0 (repeatable). [default: all]", option="--epoch", many=True)
    ] = ()
    concurrency: arguments.Concurrency = None
    journal: arguments.Journal = "reuse"
    progress: Annotated[
        Progress | bool | None, Arg("Gets how many answers are judged; False: nothing is shown.", option="-")
    ] = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(JudgeArguments)
def judge(given: JudgeArguments) -> JudgeResult:
    """Grade stored runs' long answers by a judge or a panel. Answers are never generated again.

    Several runs are judged question by question, so that all have verdicts on the same questions where a limit or
    Ctrl-C ends it. A judge that gives no verdict at all replaces no score. The same call resumes.

        rr.judge("direct", "equivalence", judges="openai:gpt-4o-mini", max_cost=5).to_pandas("judgements")

    Raises:
        UserError: an unknown run, kind, model or embedder; a run without answers of this kind.
        StopRun: a judge cannot be asked at all; the calls that were made are kept.
    """
    chosen, wanted = chosen_settings(given.settings, given.home), find_method(given.kind)
    failing, changed, journal = failure_limit(given.fail_after), given.server_changed, given.journal
    with opened_runs(given.runs, chosen) as (store, found):
        fitting = {run.id: judgeable(store, run, wanted, given.epochs) for run in found}
        vectors = None
        if given.embedder:
            vectors = named_embedder(*met_retrievers([given.embedder], chosen, changed, journal))
        grader = open_method(wanted, JudgeMeans(store=store, embedder=vectors, prices=user_prices(chosen)))
        server = {"base_url": given.base_url, "alias": given.alias}
        models = open_judges(store, texts(given.judges), chosen, **server, changed=changed, journal=journal)
        recorded = StoreJournal(store, journal)

        async def carry_out() -> JudgedRuns:
            async with closing(models, recorded):
                return await judge_runs(
                    store,
                    found,
                    grader,
                    models,
                    recorded,
                    PromptFolder(),
                    budget=Budget(cost=given.max_cost, tokens=given.max_total_tokens, seconds=given.max_time),
                    fail_after=failing,
                    at_once=given.concurrency or chosen.concurrency,
                    wanted=lambda attempt: fitting[attempt.run](attempt),
                    done=hear,
                )

        with _shown([run.id for run in found], given.progress) as hear:
            judged = finish(carry_out())
        scorers = judged.runs[0].scorers
        comparison = None if judged.mute else compare(store, found, scorers=scorers, common=len(found) > 1)
    return JudgeResult(settings=chosen, judged=judged, comparison=comparison)


@contextmanager
def _shown(runs: Sequence[str], progress: Progress | bool | None) -> Iterator[Callable[[JudgedAnswer], None]]:
    """What shows every answer that is judged: a screen on a terminal, else as everywhere."""
    if progress in (None, True) and not in_notebook() and sys.stderr is not None and sys.stderr.isatty():
        with JudgeProgress(runs) as shown:
            yield shown.observe
        return
    with counted(progress) as tell:
        yield _counted(f"{', '.join(runs)}: answers judged", tell)


def _counted(what: str, progress: Progress) -> Callable[[JudgedAnswer], None]:
    seen = 0

    def done(answer: JudgedAnswer) -> None:
        nonlocal seen
        seen += 1
        progress(what, seen)

    return done


_Kind = Annotated[str, Arg("What was judged: equivalence, equivalence-published or statements.")]
_Epoch = Annotated[int, Arg("Which of the run's epochs, from 0.", 0)]


class SheetArguments(Struct, frozen=True):
    """What people are asked to label."""

    runs: arguments.Runs
    out: Annotated[Path, Arg("The file to write.", short="-o")] = Path("labels.csv")
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    limit: Annotated[int | None, Arg("Only this many, drawn by `seed`.", 1, short="-n")] = None
    seed: arguments.Seed = 0
    raters: Annotated[
        Sequence[str], Arg("A column for this rater (repeatable). [default: one, label]", option="--rater", many=True)
    ] = ()
    force: arguments.Force = False
    settings: arguments.OwnSettings = None


class AgreementArguments(Struct, frozen=True):
    """Which labels a run's verdicts are set against."""

    runs: arguments.Runs
    human: Annotated[
        str | Path,
        Arg(
            "CSV: a column of items, the digests or texts of the answers that people saw, and one column of labels a "
            "rater; or kqa:FOLDER, K-QA's physicians' labels of recorded answers."
        ),
    ]
    kind: _Kind = "equivalence"
    epoch: _Epoch = 0
    item: Annotated[str, Arg("The column with the items.")] = "item"
    raters: Annotated[
        Sequence[str], Arg("A rater's column (repeatable). [default: all others]", option="--rater", many=True)
    ] = ()
    settings: arguments.OwnSettings = None


def _judged(method: LabelMethod, epoch: int) -> Callable[[Store, Run], bool]:
    """Whether a run was judged in this way: of an agent's runs the newest such is meant."""
    return lambda store, run: was_judged(store, run, method, epoch)


def _by_all(store: Store, runs: Sequence[Run], method: LabelMethod) -> ScoreJudges | None:
    """Who gave the verdicts of all of these runs; ``None``: it is not kept, or not the same everywhere."""
    find = JudgeFinder(store)
    first, *others = (find(run, method.scorers[-1].name) for run in runs)
    return first if all(one == first for one in others) else None


@takes(SheetArguments)
def write_label_sheet(given: SheetArguments) -> WrittenSheet:
    """Write judged answers to a CSV file for people to label, blind to the verdicts.

    Items are drawn and ordered by the seed; a smaller sample is a part of a larger one.

    Raises:
        UserError: an unknown run or kind; nothing was judged; a file that is there and `force` is not set.
    """
    wanted, raters = label_method(given.kind), given.raters or ("label",)
    with opened_runs(given.runs, given.settings, suits=_judged(wanted, given.epoch)) as (store, found):
        sheet = label_sheet(store, found, wanted, epoch=given.epoch, limit=given.limit, seed=given.seed, raters=raters)
    with replaced(given.out, given.force) as file:
        file.write(sheet.csv())
    return WrittenSheet(len(sheet.rows), sheet.of, tuple(wanted.labels))


@takes(AgreementArguments)
def judge_agreement(given: AgreementArguments) -> AgreementResult:
    """Set the verdicts in the store against people's labels. No model is asked. A label whose answer is another now is
    left out, and named.

    Raises:
        UserError: an unknown run, kind or label; no item has both a verdict and a majority of people.
    """
    wanted, human = label_method(given.kind), given.human
    labels = people_labels(human, item=given.item, raters=given.raters)
    labelled = {label for row in labels.items.values() for label in row if label}
    unknown = sorted(labelled - set(wanted.labels))
    if unknown:
        raise UserError(
            f"{human}: the label {one_line(unknown[0])!r} is not one of {', '.join(wanted.labels)}. Give the columns "
            "with labels with --rater."
        )
    epoch = given.epoch
    with opened_runs(given.runs, given.settings, suits=_judged(wanted, epoch)) as (store, found):
        said = pooled({run.id: verdicts(store, run, wanted, epoch) for run in found})
        labels, changed = labels.of({run.id: shown_items(store, run, wanted, epoch) for run in found})
        recorded = {
            run.id: {one.judge: one.verdicts for one in recorded_verdicts(store, run, wanted, epoch)} for run in found
        }
        panel, by = any(by_panel(store, run, wanted) for run in found), _by_all(store, found, wanted)
    judges = [
        RecordedVerdicts(judge=name, verdicts=pooled({run: of.get(name, {}) for run, of in recorded.items()}))
        for name in dict.fromkeys(name for of in recorded.values() for name in of)
    ]
    try:
        agreed = structs.replace(
            agreement(said, labels),
            changed=changed,
            panel=panel,
            by=by,
            undecided_judges=disputed_labels(judges, said, labels) if panel else 0,
            judges=judge_agreements(judges, labels),
        )
        return AgreementResult(agreed, len(labels.raters))
    except ValueError:
        if changed:
            ids = ", ".join(run.id for run in found)
            raise UserError(
                f"{human}: the answers to {', '.join(map(one_line, changed[:5]))}{' …' if len(changed) > 5 else ''} "
                f"in {ids} have changed since people labelled them ({len(changed):,} of "
                f"{len(labels.items) + len(changed):,} labelled items), and no other item has both labels."
            ) from None
        first = next(iter(said))
        raise UserError(
            f"{human}: none of its items has both a majority of people and a verdict. Items look like {first!r}."
        ) from None
