"""A judge made of Python, for tests."""

from ragrounds.models.faults import CallFailed
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
