"""A judge made of Python, for tests, and many attempts put to it."""

from ragrounds.evals.judges.attempts import JudgeTask, judge_tasks
from ragrounds.models.faults import CallFailed
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Reply, Usage


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


async def judged(by, attempts, questions, golds, judge, journal, at_once=16, done=lambda *_: None):
    """The judged answers of attempts, in their order."""
    tasks = [JudgeTask(each, questions[each.question_id], golds[each.question_id], judge, journal) for each in attempts]
    return await judge_tasks(by, tasks, PromptFolder(), at_once=at_once, admits=lambda task: True, done=done)
