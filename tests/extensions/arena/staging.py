"""A store with runs of long answers, and an arena on it, for tests."""

import json
import re

from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.store.arenas import Arena, ArenaStore
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.arena.lineup import gather_lineup, load_axes
from ragrounds.extensions.arena.play import ArenaPlayer, PlayOptions
from ragrounds.extensions.arena.schedules import open_schedule
from ragrounds.prompts.loader import PromptFolder

ANSWER = re.compile(r"### Answer ([AB])\n<<<\n(.*?)\n>>>", re.DOTALL)


def question(number, **more):
    return Question(
        **{"id": f"q{number}", "benchmark": "own", "text": f"What helps in case {number}?", "kind": "long"} | more
    )


def add_run(store, name, texts, *, questions=None, status="completed", model=""):
    """A run of agent `name` with these answers (``None``: not asked)."""
    questions = questions or [question(number) for number in range(len(texts))]
    run = Run(
        id=f"{name}-1",
        agent=name,
        benchmark="own",
        questions=f"set{len(questions)}{questions[0].kind}",
        count=len(questions),
        epochs=1,
        fingerprint=name,
        identity={"models": {"model": model or f"openai:{name}"}},
        created=0.0,
    )
    golds = {q.id: Gold(question_id=q.id, answer=f"gold for {q.id}") for q in questions}
    store.add_run(run, questions, golds)
    attempts = [
        Attempt(
            run=run.id, question_id=q.id, epoch=0, status=status if text is not None else "not_run", text=text or ""
        )
        for q, text in zip(questions, texts, strict=True)
    ]
    store.add_attempts(run, attempts)
    return run


def stage(tmp_path, count=12, url=None):
    """A store with three runs; answers carry a strength: ``strength=3``."""
    store = Store(tmp_path, url)
    for name, strength in (("strong", 3), ("middle", 2), ("weak", 1)):
        add_run(store, name, [f"{name} says {number}. strength={strength}" for number in range(count)])
    return store


def arena_of(field, judges, **more):
    settings = {
        "systems": field.systems,
        "benchmark": field.benchmark,
        "questions": field.version,
        "count": len(field.questions),
        "axes": load_axes(["usefulness", "knowledge"]),
        "judges": tuple(judge.spec for judge in judges),
        "prompts": PromptFolder().digest(("judge/pair",)),
        "schedule": "full",
    }
    return Arena(**settings | more)


def shown(prompt):
    """The answers as the judge sees them: [(label, text), (label, text)]."""
    return ANSWER.findall(prompt)


def by_strength(prompt, occurrence=0):
    """A judge that goes by the strength written into the answers."""
    rated = [(label, int(re.findall(r"strength=(\d+)", text)[-1])) for label, text in shown(prompt)]
    (one, first), (two, second) = rated
    word = one if first > second else two if second > first else "tie"
    return json.dumps({"usefulness": word, "knowledge": word})


class Stage:
    """An arena that can be played, and played again."""

    def __init__(self, store, judges, runs=("strong", "middle", "weak"), reference=False, **more):
        self.store, self.judges = store, judges
        self.field = gather_lineup(store, runs, reference=reference, part=more.get("part", "whole"))
        self.arena = arena_of(self.field, judges, **more)
        self.keeper = ArenaStore(store)
        self.heard = []

    async def play(self, concurrency=16, max_cost=None, max_tokens=None, max_seconds=None, **more):
        journal = StoreJournal(self.store)
        budget = Budget(cost=max_cost, tokens=max_tokens, seconds=max_seconds)
        player = ArenaPlayer(
            self.arena,
            self.field,
            self.judges,
            self.keeper,
            journal,
            PlayOptions(budget=budget, at_once=concurrency, listener=self.heard.append, **more),
        )
        schedule = open_schedule(
            self.arena.schedule,
            len(self.field.systems),
            len(self.field.questions),
            seed=self.arena.seed,
            least=self.arena.least,
            confidence=self.arena.confidence,
        )
        try:
            return await player.play(schedule)
        finally:
            journal.close()

    @property
    def judgements(self):
        return self.keeper.judgements(self.keeper.add(self.arena))
