"""A scavenger hunt for the trace viewer: a store of 600 attempts in which the causes of failures are planted.

    python docs/scripts/hunt.py FOLDER [--planted FILE]
    RAGROUNDS_HOME=FOLDER ragrounds trace --scorer equivalent

Three agents answer 200 questions about the house rules of a ward that does not exist; every text is made up here. Most
attempts are right. Each of the others has one of six causes: gold never retrieved; retrieved and cut away; seen and
ignored; query drift; a failed search; a judge's error. Right attempts have repeated queries, failed tries and late
finds too, so that a sign alone gives nothing away. What was planted is written to a file of its own beside the folder,
with one attempt of each cause to ask a newcomer about; nothing in the store tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragrounds.base.contracts import Entry, Request, SearchRequest, SearchResult
from ragrounds.base.records import (
    Attempt,
    Call,
    Called,
    Entered,
    Event,
    Fault,
    Gold,
    Left,
    Message,
    Noted,
    Passage,
    Question,
    Reply,
    Run,
    Usage,
)
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.runs import JudgingOptions, judge_runs
from ragrounds.evals.scorers import known_scorer, score_by
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.store.codec import attempt_rows, score_rows
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.schema import Row
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_facts import facts_row
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.prompts.loader import PromptFolder

Cause = Literal["never retrieved", "cut away", "ignored", "drift", "failed search", "judge's error"]
CAUSES: tuple[Cause, ...] = ("never retrieved", "cut away", "ignored", "drift", "failed search", "judge's error")
PLANTED_EACH = 24
"""Attempts of each cause."""
AT = 1_780_000_000.0
_BENCHMARK, _CORPUS = "ward/rules", "ward_rules@1"
_MODEL, _JUDGE = "openai:ward-model[temperature=0]", "openai:ward-judge[temperature=0]"

FINDINGS = (
    "a swollen ankle", "a sudden nosebleed", "a dry cough at night", "tingling fingers", "a stiff neck",
    "ringing in one ear", "a cold foot", "cramps in the calf", "a red eye", "hiccups for two days",
    "a hoarse voice", "itching palms", "a trembling hand", "a coated tongue", "dizziness on standing",
    "a blister on the heel", "yawning without end", "a bruise on the shin", "a lost sense of smell", "a sore thumb",
)  # fmt: skip
OCCASIONS = (
    "after a long flight", "during a fast", "in the first week of a new diet", "after a night shift",
    "on the day of discharge", "after a swim in cold water", "while a plaster is worn", "after a dental visit",
    "before a hearing test", "in a heat wave",
)  # fmt: skip
MEASURES = (
    "raise the leg for an hour", "give two glasses of salted broth", "call the night desk", "measure the pulse twice",
    "offer a warm foot bath", "write a yellow slip", "move the bed to the window", "wait for the second reading",
    "change to soft shoes", "ask the dietician", "dim the lights", "take the blood pressure lying down",
    "put on a cotton glove", "rinse with cool tea", "note the hour in the blue book", "open both windows",
    "walk twenty steps and sit", "cover it with dry gauze", "send for the physiotherapist", "repeat the test at noon",
)  # fmt: skip
_LETTERS = "ABCD"
_FILLER = (
    "The paragraph applies to every room of the ward and to guests who stay overnight.",
    "Earlier editions of the rules had another order of steps, which is no longer used.",
    "Whoever comes first writes the time on the sheet at the door.",
    "A trainee may do this alone once it has been shown to him on two days.",
    "The rule was kept when the ward moved to the new building.",
)


@dataclass(frozen=True)
class Item:
    """A question with its rule."""

    number: int
    question: Question
    gold: Gold
    finding: str
    occasion: str
    measure: str
    wrong: str
    rule: Passage


@dataclass(frozen=True)
class Habits:
    """How an agent works."""

    text: str
    hops: tuple[int, ...]
    """How many searches it makes, to be drawn from."""
    k: int
    reads: bool
    """Whether a reader sees the passages before the answering call."""
    opening: str
    """How a right answer begins."""


AGENTS = (
    Habits("vanilla_rag[top_k=6]", (1,), 6, False, "The rule that fits best says so"),
    Habits("i_medrag[rounds=3]", (2, 3), 4, False, "The rules that were found leave no doubt"),
    Habits("search_o1", (2, 3, 4), 4, True, "What was kept from the rules names it"),
)


@dataclass
class Recorder:
    """Records the calls of one attempt in the journal, and makes its events."""

    journal: StoreJournal
    name: str
    at: float
    events: list[Event] = field(default_factory=list)
    traced: list[TracedCall] = field(default_factory=list)
    step: int = -1

    async def call(
        self, kind: Literal["model", "search"], role: str, node: str, request: Request | SearchRequest,
        response: Reply | SearchResult, seconds: float, faults: tuple[Fault, ...] = (), error: str = "",
    ) -> None:  # fmt: skip
        """One call in a step of its own; one that failed is in no journal."""
        self.step += 1
        actor = _MODEL if kind == "model" else f"bm25:{_CORPUS}"
        key = ""
        if not error:
            key = hashlib.sha256(f"{self.name} {self.step}".encode()).hexdigest()

            async def give() -> Reply | SearchResult:
                return response

            await self.journal.once(Entry(key=key, kind=kind, actor=actor, request=request), give, type(response))
        passages = response.passages if isinstance(response, SearchResult) and not error else ()
        used = response.usage if isinstance(response, Reply) and not error else None
        call = Call(
            key=key, kind=kind, role=role, node=node, actor=actor, at=self.at, seconds=seconds, usage=used,
            cost_uncached=0.0 if used is None else used.input * 4e-7 + used.output * 1.6e-6,
            passages=tuple(one.id for one in passages), faults=faults, error=error,
        )  # fmt: skip
        self.events.append(Entered(step=self.step, node=node, at=self.at))
        self.events.append(Called(step=self.step, call=call))
        changes: dict[str, object] = {}
        if isinstance(response, Reply):
            changes = {node: response.text}
            self.traced.append(
                TracedCall(call, asked=request if isinstance(request, Request) else None, reply=response)
            )
        else:
            searched = request if isinstance(request, SearchRequest) and not error else None
            self.traced.append(TracedCall(call, searched=searched, passages=passages))
        self.events.append(Left(step=self.step, seconds=seconds + 0.004, changes=changes, error=""))
        self.at += seconds + 0.004

    def note(self, what: str, text: str) -> None:
        """A note on the step that was left last."""
        self.events.append(Noted(step=self.step, what=what, text=text))


def items() -> list[Item]:
    """The 200 questions: four choices for three of four, a free answer for every fourth."""
    made = []
    draw = random.Random(7)
    for number in range(200):
        finding, occasion = FINDINGS[number % 20], OCCASIONS[number // 20]
        measure, *others = draw.sample(MEASURES, 4)
        id, free = f"{_BENCHMARK}/{number + 1:03}", number % 4 == 3
        rule = passage(number, f"{finding} {occasion}", measure, draw)
        letter = _LETTERS[number % 4 if not free else 0]
        options = dict(zip(_LETTERS, others, strict=False)) if not free else {}
        if not free:
            at = _LETTERS.index(letter)
            options = dict(zip(_LETTERS, [*others[:at], measure, *others[at:]], strict=True))
        question = Question(
            id=id, benchmark=_BENCHMARK, kind="long" if free else "choice", options=options,
            group=occasion.split()[-1], text=f"By the rules of the ward, what comes first for {finding} {occasion}?",
        )  # fmt: skip
        gold = Gold(question_id=id, answer=measure if free else letter, documents=(rule.document,))
        made.append(Item(number, question, gold, finding, occasion, measure, others[0], rule))
    return made


def passage(number: int, about: str, measure: str, draw: random.Random) -> Passage:
    """The rule of a question, with the sentence that answers it towards the end."""
    filler = draw.sample(_FILLER, 3)
    title = f"Rule {number + 1}: {about}"
    text = f"{title}. {' '.join(filler)} For {about} the first step is to {measure}; everything else comes later."
    name = f"rule{number + 1:03}"
    return Passage(id=f"{name}#0", document=name, title=title, text=text, corpus=_CORPUS, retriever="bm25")


def found(item: Item, everything: Sequence[Item], k: int, rank: int | None, draw: random.Random) -> SearchResult:
    """`k` passages: rules for the same finding or occasion, with the right one at `rank`; ``None``: without it."""
    near = [one for one in everything if one is not item and one.occasion == item.occasion]
    near += [one for one in everything if one is not item and one.finding == item.finding]
    chosen = [one.rule for one in draw.sample(near, k)]
    if rank is not None:
        chosen[min(rank, k) - 1] = item.rule
    return SearchResult(
        tuple(
            Passage(
                id=one.id, document=one.document, title=one.title, text=one.text, corpus=_CORPUS, retriever="bm25",
                rank=place, score=round(14.0 - 1.1 * place + draw.random(), 3),
            )
            for place, one in enumerate(chosen, 1)
        )
    )  # fmt: skip


def queries(item: Item, hops: int, drift: bool, may_repeat: bool, draw: random.Random) -> list[str]:
    """What an agent searches for: closer and closer, or further and further away."""
    first = f"{item.finding} {item.occasion} first step"
    if drift:
        away = (
            f"{item.occasion.split()[-1]} travel advice", "history of the house rules in hospitals",
            "who writes the rules of a hospital", "printing of rule books",
        )  # fmt: skip
        return [first, *away][:hops]
    return [
        first,
        f"rule of the ward for {item.finding} {item.occasion}",
        draw.choice((first, f"{item.finding} {item.occasion} what comes first by the rules"))
        if may_repeat
        else f"{item.finding} {item.occasion} what comes first by the rules",
        f"first step {item.finding}, {item.occasion}, ward",
    ][:hops]


async def attempt_at(
    item: Item, everything: Sequence[Item], habits: Habits, run: Run, cause: Cause | None, journal: StoreJournal
) -> tuple[Attempt, list[TracedCall]]:
    """One attempt with its calls recorded; `cause` is what makes it fail, ``None``: it is right."""
    draw = random.Random(f"{habits.text} {item.number}")
    hops = draw.choice(habits.hops)
    hops = max(hops, 3) if cause == "drift" else hops
    log = Recorder(journal, f"{run.id} {item.question.id}", AT + 40.0 * item.number)
    asked = queries(item, hops, cause == "drift", cause is None, draw)
    lost = cause in ("never retrieved", "drift", "failed search")
    gold_hop = None if lost else draw.randrange(hops)
    failing = draw.randrange(hops) if cause == "failed search" else None
    shown: list[Passage] = []
    kept: list[str] = []
    for hop, query in enumerate(asked):
        if habits.hops != (1,):
            prompt = f"Question: {item.question.text}\nKnown so far: {' '.join(kept) or 'nothing'}\nWrite one query."
            await log.call("model", "querying", "write_query", ask(prompt), reply(query, prompt), 0.3 + draw.random())
        request = SearchRequest(corpus=_CORPUS, query=query, k=habits.k)
        if hop == failing:
            tries = tuple(
                Fault(kind="timeout", message="no answer in 10 s from the search server", waited=float(wait))
                for wait in (1, 2, 4)
            )
            error = "the search server gave no answer in 3 tries"
            await log.call("search", "searching", "search", request, SearchResult(()), 37.0, tries, error)
            log.note("search_failed", "taken as a search that found nothing")
            continue
        rank = None
        if gold_hop is not None and hop >= gold_hop:
            rank = habits.k if cause == "cut away" else draw.randint(1, habits.k)
        result = found(item, everything, habits.k, rank, draw)
        tried = (Fault(kind="rate_limit", message="slow down", status=429, waited=1.0),) * (draw.random() < 0.05)
        await log.call("search", "searching", "search", request, result, 0.02 + 0.2 * draw.random(), tried)
        shown += [one for one in result.passages if one.id not in {known.id for known in shown}]
        if habits.reads:
            kept.append(await read(log, item, result.passages, cause, draw))
    text = await answer(log, item, habits, shown, kept, cause, draw)
    used = [one.call.usage for one in log.traced if one.call.usage]
    cost = sum(one.call.cost_uncached or 0.0 for one in log.traced)
    attempt = Attempt(
        run=run.id, question_id=item.question.id, epoch=0, status="completed", text=text,
        usage=sum(used, Usage()), cost_paid=cost, cost_uncached=cost, seconds=log.at - (AT + 40.0 * item.number),
        at=AT + 40.0 * item.number, model_calls=sum(one.call.kind == "model" for one in log.traced),
        searches=sum(one.call.kind == "search" for one in log.traced), events=tuple(log.events),
    )  # fmt: skip
    return attempt, log.traced


def ask(prompt: str) -> Request:
    return Request(messages=(Message("system", "You know the rules of the ward. Be brief."), Message("user", prompt)))


def reply(text: str, prompt: str) -> Reply:
    return Reply(text=text, usage=Usage(len(prompt) // 4 + 12, len(text) // 4 + 1), model="ward-model-1")


async def read(log: Recorder, item: Item, passages: Sequence[Passage], cause: Cause | None, draw: random.Random) -> str:
    """A reader's remarks on what a search found. One that is cut sees no more than the beginning of the last."""
    pieces = [one.text for one in passages]
    if cause == "cut away":
        pieces = [text if one.document != item.rule.document else text[:95]
                  for one, text in zip(passages, pieces, strict=True)]  # fmt: skip
    prompt = f"Question: {item.question.text}\nPassages:\n" + "\n\n".join(pieces) + "\nWhat helps?"
    has = cause != "cut away" and any(one.document == item.rule.document for one in passages)
    said = f"The rule says to {item.measure}." if has else "Nothing here names the finding and the occasion together."
    await log.call("model", "reading", "read", ask(prompt), reply(said, prompt), 0.6 + draw.random())
    if cause == "cut away":
        log.note("cut", "the last passage was longer than the room that was left")
    return said


async def answer(
    log: Recorder,
    item: Item,
    habits: Habits,
    shown: Sequence[Passage],
    kept: Sequence[str],
    cause: Cause | None,
    draw: random.Random,
) -> str:
    """The last call: the passages, the question, and what the model makes of them."""
    pieces = [
        one.text[:95] if cause == "cut away" and one.document == item.rule.document else one.text for one in shown
    ]
    options = "\n".join(f"{letter}. {text}" for letter, text in item.question.options.items())
    prompt = "\n\n".join([*pieces, *kept, f"Question: {item.question.text}", options, "Answer."])
    right = cause in (None, "judge's error")
    measure = item.measure if right else item.wrong
    because = {
        "ignored": "In practice most people would do otherwise than the paper says",
        "cut away": "The passages break off before the step is named",
        "failed search": "Without any passage I go by what is usual",
    }.get(cause or "", habits.opening if right else "The passages are about other cases")
    if item.question.options:
        letter = next(letter for letter, text in item.question.options.items() if text == measure)
        text = json.dumps({"step_by_step_thinking": f"{because}.", "answer_choice": letter})
    else:
        text = f"{because}: the first step is to {measure}."
    await log.call("model", "answering", "answer", ask(prompt), reply(text, prompt), 0.8 + draw.random())
    if cause == "cut away":
        log.note("cut", f"the context was full after {len(shown) - 1} of {len(shown)} passages; 1 dropped")
    return text


def plan(everything: Sequence[Item]) -> dict[tuple[str, str], Cause]:
    """Agent and question → the cause that is planted there."""
    draw, planted = random.Random(11), dict[tuple[str, str], Cause]()
    places = [(habits, item) for habits in AGENTS for item in everything]
    draw.shuffle(places)
    for cause in CAUSES:
        for _ in range(PLANTED_EACH):
            place = next(
                at for at, (habits, item) in enumerate(places)
                if not (cause == "judge's error" and item.question.options)
                and not (cause == "drift" and habits.hops == (1,))
            )  # fmt: skip
            habits, item = places.pop(place)
            planted[habits.text, item.question.id] = cause
    return planted


class ScriptedJudge:
    """A judge that compares measures word by word, and errs at the questions that it is told."""

    window = None
    spec = _JUDGE

    def __init__(self, erring: set[str]) -> None:
        self._erring = erring

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        prompt = request.messages[-1].content
        # A measure that stands in the reference and in the answer too is the same one.
        same = any(prompt.count(measure) >= 2 for measure in MEASURES)
        if any(text in prompt for text in self._erring):
            said = {"reason": "The answer names another first step than the reference.", "grade": "mismatch"}
        elif same:
            said = {"reason": "Both name the same first step.", "grade": "equivalent"}
        else:
            said = {"reason": "The first steps differ.", "grade": "mismatch"}
        text = f"{said['reason']}\n{json.dumps({'grade': said['grade']})}"
        return Reply(text=text, usage=Usage(len(prompt) // 4, len(text) // 4), model="ward-judge-1")

    def count(self, text: str) -> int:
        return len(text) // 4

    def cut(self, text: str, tokens: int, /) -> str:
        return text[: tokens * 4]

    def price(self, reply: Reply) -> float | None:
        return 0.0005

    async def close(self) -> None:
        """There is nothing to close."""


async def make(folder: Path) -> dict[tuple[str, str], Cause]:
    """Write the store; give what was planted."""
    everything = items()
    planted = plan(everything)
    questions = [one.question for one in everything]
    golds = {one.question.id: one.gold for one in everything}
    set_of = hashlib.sha256(repr([one.id for one in questions]).encode()).hexdigest()
    strict = known_scorer("strict")
    with Store(folder) as store:
        journal, runs = StoreJournal(store), []
        for number, habits in enumerate(AGENTS):
            fingerprint = hashlib.sha256(habits.text.encode()).hexdigest()
            run = Run(
                id=f"{habits.text.partition('[')[0]}-{fingerprint[:6]}", agent=habits.text, benchmark=_BENCHMARK,
                questions=set_of, count=len(questions), epochs=1, fingerprint=fingerprint,
                identity={"models": {"model": _MODEL}}, created=AT + number,
            )  # fmt: skip
            store.add_run(run, questions, golds)
            runs.append(run)
            key = store.number(run)
            made = await asyncio.gather(
                *(
                    attempt_at(item, everything, habits, run, planted.get((habits.text, item.question.id)), journal)
                    for item in everything
                )
            )
            rows: list[Row] = []
            for item, (attempt, traced) in zip(everything, made, strict=True):
                scores = [score_by(strict, attempt, item.question, item.gold)] if item.question.options else []
                rows += [*attempt_rows(attempt, key), *score_rows(scores, key)]
                rows.append(facts_row(attempt, traced, item.gold, key))
            await store.writer.write(lambda rows=rows: rows)
        free = {item.question.id: item.question.text for item in everything if not item.question.options}
        for run in runs:
            erring = {
                free[question]
                for (agent, question), cause in planted.items()
                if agent == run.agent and cause == "judge's error"
            }
            await judge_runs(
                store, [run], LabelJudge(EQUIVALENCE), [ScriptedJudge(erring)], journal, PromptFolder(),
                JudgingOptions(wanted=lambda attempt: attempt.question_id in free),
            )  # fmt: skip
        journal.close()
    return planted


def written(planted: dict[tuple[str, str], Cause]) -> str:
    """What was planted, with one attempt of each cause to ask a newcomer about."""
    draw = random.Random(3)
    asked = {cause: draw.choice(sorted(place for place, one in planted.items() if one == cause)) for cause in CAUSES}
    return json.dumps(
        {
            "hunt": [{"cause": cause, "agent": agent, "question": id} for cause, (agent, id) in asked.items()],
            "planted": [
                {"agent": agent, "question": id, "cause": cause} for (agent, id), cause in sorted(planted.items())
            ],
        },
        indent=1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the new store; it must not hold one yet")
    parser.add_argument("--planted", type=Path, help="file for what was planted [default: FOLDER.planted.json]")
    given = parser.parse_args()
    if (given.folder / "store.sqlite").exists():
        sys.exit(f"{given.folder} holds a store already; name another folder.")
    planted = asyncio.run(make(given.folder))
    file = given.planted or given.folder.with_name(f"{given.folder.name}.planted.json")
    file.write_text(written(planted) + "\n", encoding="utf-8")
    sys.stdout.write(f"600 attempts, {len(planted)} with a planted cause: {file}\n")
    sys.stdout.write(f"RAGROUNDS_HOME={given.folder} ragrounds trace --scorer equivalent\n")


if __name__ == "__main__":
    main()
