"""One question across runs: what each answered, how it was scored, what it took."""

from __future__ import annotations

from rich.console import Console

from ragrounds.api.results import Result
from ragrounds.api.workspace import RunsGiven, opened_runs
from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import question_named
from ragrounds.evals.compare.question_answers import AnswerLine, answer_line
from ragrounds.evals.store.run_names import kept_names
from ragrounds.records import Gold, Question
from ragrounds.settings import Settings
from ragrounds.ui.question_table import print_question
from ragrounds.ui.text import number_of


class QuestionAnswers(Result, frozen=True, kw_only=True):
    """A question with what is right, and a line for each run and epoch."""

    question: Question
    gold: Gold
    lines: tuple[AnswerLine, ...]

    def draw(self, console: Console) -> None:
        """Print the question, what is right, and the answers."""
        print_question(self.question, self.gold, self.lines, console)

    def brief(self) -> str:
        """The question, and how many answers there are."""
        return f"{self.question.id}: {number_of(len(self.lines), 'answer')}"


def question_answers(runs: RunsGiven, question: str, settings: Settings | None = None) -> QuestionAnswers:
    """What runs answered to one question.

    Args:
        runs: ids, beginnings of ids, agents' texts, results or loaded runs.
        question: its id, or the end of it.
        settings: of the store; ``None``: the user's.

    Raises:
        UserError: an unknown run; a question that the runs do not have; nobody has answered it yet.
    """
    with opened_runs(runs, settings) as (store, found):
        names = kept_names(store.engine)
        questions, golds = store.questions(found[0])
        asked = question_named(questions, question, found[0].benchmark)
        made = (
            answer_line(store, run, asked, epoch, names.get(run.id, run.agent))
            for run in found
            for epoch in range(run.epochs)
        )
        lines = tuple(line for line in made if line is not None)
        if not lines:
            raise UserError(f"None of these runs has answered {asked.id!r} yet.")
        return QuestionAnswers(question=asked, gold=golds[asked.id], lines=lines)
