"""A pipeline as data, and the agent that it is when it runs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ragrounds.agents.agent import Agent, Card
from ragrounds.specs import Spec, Value


class Pipeline(Struct, frozen=True, kw_only=True):
    """One way to make a benchmark."""

    name: str
    """As the command has it: ``case-questions``."""
    graph: str
    """``ragrounds.build.cases.graph:build``."""
    summary: str
    source: str
    """The paper and the section that it follows."""
    stages: tuple[str, ...]
    """The graph's nodes in their order."""
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    """What the graph reads from its context, with the defaults."""
    searches: bool = False

    def agent(self, parameters: Mapping[str, Value], models: Mapping[str, str]) -> Agent:
        """The agent of a run: `parameters` set beside the defaults, and models by role."""
        settled = {**self.parameters, **parameters}
        changed = {name: value for name, value in settled.items() if self.parameters.get(name) != value}
        card = Card(
            graph=self.graph,
            summary=self.summary,
            source=self.source,
            searches=self.searches,
            question_only=False,
            models=dict(models),
            output="answer",
        )
        return Agent(spec=str(Spec(self.name, changed)), card=card, parameters=dict(settled))
