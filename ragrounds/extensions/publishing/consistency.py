"""Checks of a bundle's records against each other: what two of them state must agree.

What only one record states is not derived, or is a line of :attr:`Derivation.unshown`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.agents.agent import names as shipped
from ragrounds.agents.agent import open_agent
from ragrounds.agents.systems.kinds import kind_of
from ragrounds.base.records import TOKENS_APART, Attempt, Call, Question, Run
from ragrounds.base.specs import without_addresses
from ragrounds.base.spent import total_spent
from ragrounds.evals.benchmarks.benchmark import Benchmark, with_clusters
from ragrounds.evals.engine.attempt_log import CoveredTime
from ragrounds.evals.engine.plan import fingerprint
from ragrounds.extensions.publishing.bundle import Statement
from ragrounds.extensions.publishing.leaderboard import Ranking

_MAX_DIFFERENCES = 20
"""Number of differences that are listed in full; further differences are counted."""
_CLOCK_STEP = 0.002
"""Seconds by which a call's stored start and duration may each be rounded, together."""
NO_TOKENS = "tokens and costs of attempts whose calls are not all recorded"


class Derivation(Struct, kw_only=True):
    """Result of deriving a bundle's figures again."""

    runs: list[str] = []
    attempts: int = 0
    figures: int = 0
    """Number of figures in the statement."""
    derived: int = 0
    """Number of these figures that the attempts gave again, digit by digit."""
    printed: int = 0
    """Number of printed figures in the statement."""
    differing: list[str] = []
    """First differences, in order."""
    more: int = 0
    """Number of further differences."""
    underived: dict[str, int] = {}
    """Number of figures, scores or costs that could not be derived, by reason."""
    notes: list[str] = []
    unshown: list[str] = []
    """Facts that no bundle, or not this one, can show."""
    same_code: bool = True
    """True if the code and the libraries are those that made the bundle, so that its pages are compared whole."""
    ranking: Ranking | None = None
    """Ranking that was derived."""
    statement: Statement | None = None
    scorers: set[str] = set()
    """Scorers whose figures depend on scores that could not be derived."""
    costs: bool = False
    """True if figures of costs depend on costs that could not be derived."""
    tokens: bool = False
    """True if figures of tokens depend on calls that are not recorded."""

    def differs(self, difference: str) -> None:
        """Record a difference."""
        if len(self.differing) < _MAX_DIFFERENCES:
            self.differing.append(difference)
        else:
            self.more += 1

    def cannot_show(self, fact: str) -> None:
        """Record a fact that the bundle cannot show, once."""
        if fact not in self.unshown:
            self.unshown.append(fact)

    def lacks(self, subject: str, count: int = 1) -> None:
        """Record something that cannot be derived."""
        self.underived[subject] = self.underived.get(subject, 0) + count


def check_run(run: Run, name: str, outcome: Derivation) -> None:
    """Compare what a run states in its record with its identity, and its identity with the agent of that name.

    Args:
        run: of unknown origin; no code or file that it names is opened.
        name: the publisher's name of the run; empty if its agent's text is shown.
        outcome: gets differences, and facts that cannot be shown.
    """
    identity = run.identity
    stated = {"questions": run.questions, "epochs": run.epochs, "benchmark": run.benchmark}
    for part, value in stated.items():
        if identity.get(part, value) != value:
            outcome.differs(f"run {run.id}: what made it names other {part}")
    if name and name != run.agent:
        outcome.cannot_show(f"that {name!r} is a fitting name: its publisher gave it to {run.id} ({run.agent})")
    if run.origin == "imported":
        outcome.cannot_show(f"who answered {run.id}, and its tokens, costs and times: it was imported from a file")
        return
    if fingerprint(identity) != run.fingerprint:
        outcome.differs(f"run {run.id}: its fingerprint is not that of what made it")
    if identity.get("agent", run.agent) not in (run.agent, without_addresses(run.agent)):
        outcome.differs(f"run {run.id}: its agent is {run.agent}, and what made it names {identity['agent']}")
    _check_rule(run, outcome)
    agent = run.agent.partition("[")[0]
    if identity.get("tier") != "journaled" or agent not in shipped():
        outcome.cannot_show(f"what {run.agent} is: its code is not in ragrounds")
        return
    card = open_agent(agent).card
    code = kind_of(card).code() if outcome.same_code else None
    if identity.get("graph", card.graph) != card.graph or (code and identity.get("graph_code", code) != code):
        outcome.differs(f"run {run.id}: its code is not that of the agent {agent}")


def _check_rule(run: Run, outcome: Derivation) -> None:
    selection = run.identity.get("selection")
    rule = selection if isinstance(selection, Mapping) else {}
    of, limit = rule.get("of") or run.count, rule.get("limit") or run.count
    if not isinstance(of, int) or not isinstance(limit, int) or run.count > min(of, limit):
        outcome.differs(f"run {run.id}: {run.count:,} questions, and its rule draws {limit} of {of}")
    if rule.get("ids"):
        outcome.lacks(f"choice of questions by their ids ({run.count:,} of {of:,}): no rule draws them")


def check_calls(run: Run, attempt: Attempt, calls: Sequence[Call], location: str, outcome: Derivation) -> None:
    """Compare the counts, tokens, models and seconds of an attempt with those of its calls."""
    counts = Counter[str](call.kind for call in calls)
    stated = {"model": attempt.model_calls, "search": attempt.searches, "tool": attempt.tool_calls}
    for kind, count in stated.items():
        if counts[kind] != count and (calls or count):
            outcome.differs(f"{location}: {count} calls of kind {kind} are stated, and {counts[kind]} are recorded")
    replied = [call for call in calls if call.kind == "model" and call.is_counted and call.role not in TOKENS_APART]
    models, imported = set(_models(run.identity)), run.origin == "imported"
    is_without_calls = attempt.unrecorded or (models and not replied and attempt.status == "completed")
    if not imported and (is_without_calls or (attempt.usage and attempt.usage.total and not replied)):
        outcome.tokens = outcome.costs = True
        outcome.lacks(NO_TOKENS)
    total = total_spent(call.spent for call in replied).usage
    if calls and attempt.replayable and None not in (attempt.usage, total) and total != attempt.usage:
        outcome.differs(f"{location}, tokens: {attempt.usage} is stated, its calls sum to {total}")
    if imported:
        return
    if run.identity.get("tier") == "journaled" and models:
        for actor in sorted({call.actor for call in replied} - models):
            outcome.differs(f"{location}: {actor} was called, and the run names {', '.join(sorted(models))}")
    covered = CoveredTime()
    for call in calls:
        # In earlier code, calls that the journal answered took no time of the attempt.
        if outcome.same_code or not call.cached:
            covered.add(call.at, call.at + call.seconds)
    if attempt.seconds < covered.seconds - _CLOCK_STEP * len(calls):
        outcome.differs(f"{location}: {attempt.seconds:g} s are stated, and its calls took {covered.seconds:.4g} s")


def _models(identity: object) -> Iterator[str]:
    """Yield the models in an identity, those of agents inside it among them."""
    if isinstance(identity, Mapping):
        models = identity.get("models")
        yield from map(str, models.values()) if isinstance(models, Mapping) else ()
        for value in identity.values():
            yield from _models(value)
    elif isinstance(identity, list):
        for value in identity:
            yield from _models(value)


def check_clusters(
    questions: Mapping[str, Question],
    originals: Mapping[str, Question],
    benchmark: Benchmark | None,
    outcome: Derivation,
) -> None:
    """Compare the clusters of questions, which intervals depend on, with the benchmark's, or with their texts.

    Args:
        questions: as the bundle has them, by id.
        originals: those whose texts are known, by the bundle's ids.
        benchmark: the bundle's benchmark, if it is given.
        outcome: gets differences.
    """
    if len(originals) < len(questions):
        return  # texts are withheld: that is said elsewhere
    stated = _partition(questions)
    if benchmark is not None:
        clusters = {question.id: question.cluster for question in benchmark.questions}
        reference = {id: replace(question, cluster=clusters.get(question.id, "")) for id, question in originals.items()}
        if stated != _partition(reference):
            outcome.differs("clusters, which intervals depend on: the benchmark has others")
        return
    bare = with_clusters(replace(question, cluster="") for question in originals.values())
    duplicates = _partition(dict(zip(originals, bare, strict=True)))
    for group in duplicates - stated:
        if not any(group <= cluster for cluster in stated):
            outcome.differs(f"clusters: {', '.join(sorted(group)[:3])} have one text, and are not in one cluster")
    if others := stated - duplicates:
        outcome.lacks("clusters that the texts of their questions do not show: --benchmark FILE", len(others))


def _partition(questions: Mapping[str, Question]) -> set[frozenset[str]]:
    """Return the clusters of two or more questions as sets of ids."""
    members = defaultdict[str, set[str]](set)
    for id, question in questions.items():
        if question.cluster:
            members[question.cluster].add(id)
    return {frozenset(ids) for ids in members.values() if len(ids) > 1}
