"""Scores of stored answers: by scorers, without a model; by judges; and judges compared with people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.event_loop import finish
from ragrounds.api.execution import ServedExecution, Workspace
from ragrounds.api.frames import JUDGEMENTS, OF_RUNS, Frame
from ragrounds.api.progress import counted
from ragrounds.api.results import RunsResult
from ragrounds.api.servers import met_retrievers, open_judges
from ragrounds.api.workspace import (
    Progress,
    closing,
    open_selected_runs,
    texts,
)
from ragrounds.base.contracts import Model
from ragrounds.base.errors import UserError
from ragrounds.base.records import Run, Score
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.evals.judges.gate import LEAST, Probing
from ragrounds.evals.judges.labels import LabelAgreement
from ragrounds.evals.judges.methods import (
    JudgeResources,
    find_method,
    judgeable,
    label_method,
    open_method,
)
from ragrounds.evals.judges.runs import JudgedRuns, JudgingOptions, judge_runs
from ragrounds.evals.scorers import find_scorer, score_by, scorers_for
from ragrounds.evals.scorers.words import keep_words
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.models.prices import read_prices
from ragrounds.prompts.loader import PromptFolder
from ragrounds.tools.index.cards import named_embedder
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.progress.judged import JudgeProgress
from ragrounds.ui.tables.notebook import in_notebook
from ragrounds.ui.tables.one_screen import print_one_screen


class ScoredRuns(ComparisonResult, frozen=True, kw_only=True):
    """Result of :func:`score`."""

    counts: tuple[tuple[Run, int], ...]
    """Each run with the number of scores that were written."""
    scorers: tuple[str, ...] = ()
    """Requested scorers; if empty, all that fit."""

    def by_scorers(self) -> tuple[str, ...]:
        """Return the requested scorers."""
        return self.scorers


class JudgeResult(RunsResult, frozen=True, kw_only=True):
    """Result of :func:`judge`."""

    judged: JudgedRuns
    comparison: Comparison | None
    """Comparison by the judges' scores; ``None`` if no score was written, as some judge gave no verdict at all."""
    verifier: LabelAgreement | None = None
    """Agreement of the verifier with the given labels; ``None`` if no labels were given."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the judged runs."""
        return tuple(judged_run.run for judged_run in self.judged.runs)

    @property
    def ended(self) -> str:
        """Return why not all questions were judged: a limit, or Ctrl-C; empty if all were."""
        return self.judged.ended

    def draw(self, console: Console, *, full: bool = False) -> None:
        """Print the comparison by the judges' scores; with `full`, also the frontier and what was not answered."""
        if self.comparison is not None:
            scorers = self.judged.runs[0].scorers
            names = agent_names(self.comparison)
            print_one_screen(self.comparison, scorers[:_SHOWN], names, console, table_only=not full)
            if more := scorers[_SHOWN:]:
                console.print(f"also (compare RUNS --scorer NAME): {', '.join(more)}")

    def own_frames(self) -> tuple[Frame, ...]:
        """Return the frames, judgements first."""
        return (JUDGEMENTS, *(frame for frame in OF_RUNS if frame is not JUDGEMENTS))


_SHOWN = 5
"""Number of scorers of one way of judging that its table shows: RAGChecker has eleven."""
_BATCH = 1000
"""Number of scores that are written together."""


class ScoreArguments(Workspace, frozen=True):
    """Runs to score, and the scorers."""

    runs: arguments.Runs
    scorers: Annotated[
        str | Sequence[str],
        Arg("A scorer (repeatable). [default: all that fit the questions]", option="--scorer", many=True),
    ] = ()


@takes(ScoreArguments)
def score(arguments: ScoreArguments) -> ScoredRuns:
    """Score stored runs again, and compare them. No model is asked.

        rr.score("direct", scorers="strict").to_pandas("scores")

    Raises:
        UserError: a run or scorer is unknown.
    """
    requested = [find_scorer(name) for name in texts(arguments.scorers)]
    settings = arguments.used_settings
    with open_selected_runs(arguments.runs, settings) as (store, runs):
        counts = []
        for run in runs:
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            n_written, scores = 0, list[Score]()
            for attempt in store.attempts(run):
                question, gold = by_id[attempt.question_id], golds[attempt.question_id]
                fitting = requested or scorers_for(question)
                scores += [score_by(scorer, attempt, question, gold) for scorer in fitting if scorer.suits(question)]
                if len(scores) >= _BATCH:
                    store.add_scores(run, scores)
                    n_written, scores = n_written + len(scores), []
            store.add_scores(run, scores)
            counts.append((run, n_written + len(scores)))
        comparison = compare(store, runs, shared_scorers=True)
        keep_words(store, [table.scorer for table in comparison.tables])
    names = tuple(scorer.name for scorer in requested)
    return ScoredRuns(settings=settings, counts=tuple(counts), comparison=comparison, scorers=names)


class JudgeArguments(ServedExecution, frozen=True):
    """Runs to judge, the judges, and options of the judging."""

    runs: arguments.Runs
    kind: Annotated[
        str,
        Arg(
            "equivalence (to a reference answer; equivalence-published by OGCaReBench's own rules), statements "
            "(entailed, contradicted), rubric (criteria with points), claims (RAGChecker, FActScore; claims-together "
            "against all passages at once, as FActScore's program), citations (ALCE; "
            "citations-published by its own reading), grounding (ragas' faithfulness, context precision and recall), "
            "answer-relevancy, ragas (five figures by ragas itself) or one of them, such as "
            "ragas_faithfulness. [required]",
        ),
    ] = ""
    rubric: Annotated[str | Path, Arg("Criteria of your own, for --kind rubric.", metavar="FILE.toml")] = ""
    judges: arguments.Judges = ()
    base_url: arguments.BaseUrl = None
    alias: arguments.Alias = None
    embedder: Annotated[
        str | None, Arg("'dense[model=…]' or a retriever's card: whose vectors are compared (relevancy).")
    ] = None
    verifier: Annotated[
        Literal["llm", "lexical", "nli"],
        Arg("What says whether a text entails a claim: the judge, the overlap of words, a model of inference."),
    ] = "llm"
    labelled: Annotated[
        Path | None, Arg("CSV of text, claim, label: the verifier is set against these labels as well.")
    ] = None
    epochs: Annotated[
        Sequence[int], Arg("Only this epoch, from 0 (repeatable). [default: all]", option="--epoch", many=True)
    ] = ()
    probes: Annotated[
        int | None, Arg("Probe judges on so many answers; 0: none. [default: a tenth of the calls]", 0)
    ] = None
    withhold_below: Annotated[
        float,
        Arg("Share of probes that an able judge passes; scores of a judge significantly below it are withheld.", 0, 1),
    ] = LEAST
    progress: Annotated[
        Progress | bool | None, Arg("Gets how many answers are judged; False: nothing is shown.", option="-")
    ] = None


@takes(JudgeArguments)
def judge(arguments: JudgeArguments) -> JudgeResult:
    """Grade stored runs' long answers by a judge or a panel. Answers are never generated again.

    Several runs are judged question by question, so that all have verdicts on the same questions if a limit or Ctrl-C
    ends the judging. A judge that gives no verdict at all replaces no score. The same call resumes.

        rr.judge("direct", "equivalence", judges="openai:gpt-4o-mini", max_cost=5).to_pandas("judgements")

    Raises:
        UserError: a run, kind, model or embedder is unknown, or a run has no answers of this kind.
        StopRun: a judge cannot be asked at all; the calls that were made are kept.
    """
    settings, method = arguments.used_settings, find_method(arguments.kind)
    if arguments.rubric:
        method = label_method(arguments.kind).by_rubric(Path(arguments.rubric))
    failure_limit, changed, journal = arguments.failure_limit, arguments.server_changed, arguments.journal
    with open_selected_runs(arguments.runs, settings) as (store, runs):
        fitting = {run.id: judgeable(store, run, method, arguments.epochs) for run in runs}
        vectors = None
        if arguments.embedder:
            vectors = named_embedder(*met_retrievers([arguments.embedder], settings, changed, journal))
        means = JudgeResources(
            store=store, embedder=vectors, verifier=arguments.verifier, prices=read_prices(settings.home)
        )
        grader = open_method(method, means)
        if (arguments.labelled or arguments.verifier != "llm") and not method.verifiers:
            raise UserError(f"--verifier and --labelled are for claims and citations, not for --kind {method.name}.")
        server = {"base_url": arguments.base_url, "alias": arguments.alias}
        models = [cast("Model", grader)]  # a verifier that asks no judge
        if arguments.verifier == "llm" or arguments.judges:
            models = open_judges(store, texts(arguments.judges), settings, **server, changed=changed, journal=journal)
        recorded = StoreJournal(store, journal)

        async def carry_out() -> tuple[JudgedRuns, LabelAgreement | None]:
            async with closing(models, recorded):
                if arguments.labelled:
                    against = cast("Any", grader).against_people(
                        arguments.labelled, models[0], recorded, PromptFolder()
                    )
                agreed: LabelAgreement | None = await against if arguments.labelled else None
                judged_runs = await judge_runs(
                    store,
                    runs,
                    grader,
                    models,
                    recorded,
                    PromptFolder(),
                    JudgingOptions(
                        budget=arguments.budget,
                        fail_after=failure_limit,
                        at_once=arguments.in_flight,
                        wanted=lambda attempt: fitting[attempt.run](attempt),
                        done=report,
                        probing=Probing(arguments.probes, arguments.withhold_below),
                    ),
                )
                return judged_runs, agreed

        with _judge_display([run.id for run in runs], arguments.progress) as report:
            judged_runs, agreed = finish(carry_out())
        scorers = judged_runs.runs[0].scorers
        comparison = None if judged_runs.mute else compare(store, runs, scorers=scorers, common=len(runs) > 1)
    return JudgeResult(settings=settings, judged=judged_runs, comparison=comparison, verifier=agreed)


@contextmanager
def _judge_display(runs: Sequence[str], progress: Progress | bool | None) -> Iterator[Callable[[JudgedAnswer], None]]:
    """Yield a function that shows every judged answer: on a screen in a terminal, else as other progress."""
    if progress in (None, True) and not in_notebook() and sys.stderr is not None and sys.stderr.isatty():
        with JudgeProgress(runs) as screen:
            yield screen.observe
        return
    with counted(progress) as tell:
        numbers = count(1)
        yield lambda answer: tell(f"{', '.join(runs)}: answers judged", next(numbers))
