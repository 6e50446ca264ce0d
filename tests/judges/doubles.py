"""A judge made of Python, for tests, many attempts put to it, and stored runs to be judged."""

from ragrounds.base.records import Attempt, Reply, Run, Usage
from ragrounds.evals.judges.attempts import JudgeTask, LabelJudge, judge_tasks
from ragrounds.evals.judges.runs import JudgingOptions, judge_runs
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder


class Scripted:
    """Answers by `say(prompt, occurrence)`; an exception class among the answers is raised."""

    def __init__(self, say, name="judge", price=0.001):
        self.say, self.spec, self.window, self.dollars = say, name, None, price
        self.requests = []

    async def complete(self, request, faults):
        self.requests.append(request)
        said = self.say(request.messages[-1].content, request.occurrence)
        if said is CallFailed:
            raise CallFailed("server", "gone")
        return said if isinstance(said, Reply) else Reply(text=said, usage=Usage(100, 10))

    def count(self, text):
        return len(text) // 4

    def cut(self, text, tokens, /):
        return text[: tokens * 4]

    def price(self, reply):
        return self.dollars

    async def close(self):
        pass


async def judge_stored(store, runs, judges, by=None, mode="reuse", **options):
    """Judge stored runs, by default for equivalence."""
    journal = StoreJournal(store, mode)
    try:
        by = by or LabelJudge(EQUIVALENCE)
        return await judge_runs(store, runs, by, judges, journal, PromptFolder(), JudgingOptions(**options))
    finally:
        journal.close()


async def judged(by, attempts, questions, golds, judge, journal, at_once=16, done=lambda *_: None):
    """The judged answers of attempts, in their order."""
    tasks = [JudgeTask(each, questions[each.question_id], golds[each.question_id], judge, journal) for each in attempts]
    return await judge_tasks(by, tasks, PromptFolder(), at_once=at_once, admits=lambda task: True, done=done)


def keep_run(store, questions, golds, texts, /, *, agent="direct", number=1, epochs=1, **more):
    """Store a run that gave these texts; ``None`` is an attempt that failed, a list has a text for each epoch."""
    usual = {"benchmark": "og", "questions": "set", "fingerprint": f"{agent} {number}", "created": float(number)}
    usual["identity"] = {"models": {"model": "openai:writer"}}
    run = Run(id=f"{agent}-{number}", agent=agent, count=len(questions), epochs=epochs, **usual | more)
    given = {(one.id, n): text[n] if isinstance(text, list) else text
             for one, text in zip(questions, texts, strict=True) for n in range(epochs)}  # fmt: skip
    store.add_run(run, questions, golds)
    ended = {None: "failed"}
    made = [Attempt(run=run.id, question_id=id, epoch=n, status=ended.get(text, "completed"), text=text or "")
            for (id, n), text in given.items()]  # fmt: skip
    store.add_attempts(run, made)
    return run
