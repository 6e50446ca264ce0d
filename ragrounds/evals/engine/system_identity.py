"""What the results of somebody's own system depend on, and whether a stored run is still that system's.

Which models such a system asks is not written anywhere: it is what its object holds, and what is seen when its first
question is asked with nothing being sent (a probe). A stored run is resumed where all else is the same and every model
of the probe is one that the run has asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ragrounds.agents.agent import Agent, Card
from ragrounds.agents.systems import code_of_system, open_system, own_source
from ragrounds.agents.systems.code import is_secret_name
from ragrounds.agents.systems.in_process import InProcessSystem
from ragrounds.agents.systems.models_held import models_held
from ragrounds.contracts import System
from ragrounds.errors import UserError
from ragrounds.evals.store.run_facts import reply_models
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from ragrounds.records import FINAL, Call, Question, Run
from ragrounds.redaction import redacted
from ragrounds.specs import Spec, parse

if TYPE_CHECKING:
    from ragrounds.evals.engine.recording.recorder import ProbedCall

SYSTEM_PARTS = (
    "files", "packages", "requirements", "environment", "wiring", "config", "context", "system", "process", "held",
)  # fmt: skip
"""The keys that the identity of a system of one's own has beside those of every agent."""
_OF_MODELS = ("models", "held")
"""What may differ in part between two runs of the same system: what is built when it is first used, what only later
questions ask."""
_APART = (*_OF_MODELS, "process")
"""What tells no two systems apart; where one runs changes nothing of what it is."""
SEEN_BY_LEADER = (*_OF_MODELS, "requirements")
"""What other machines take from whoever planned a run: which models it asks, and what its packages require there."""
_NOT_COUNTED = frozenset(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "timeout", "stream", "stream_options", "user"}
)
_ELSEWHERE = frozenset(
    "graph summary as source searches question_only guard guard_near oracle parameters switches profile models "
    "retriever corpus prompts limits nests config context system endpoint clock in_process".split()
)
"""What of an agent's file changes no reply of such a system, or stands in its identity already."""
_MOST_SAID = 3


Probe = Callable[[Agent, Question], Sequence["ProbedCall"]]
"""Asks a system its first question with nothing being sent, and gives the calls that it made, in order."""


class SystemIdentity(NamedTuple):
    """A system of one's own, as it is now."""

    identity: Mapping[str, object]
    """The whole of the run's identity, without the models that a probe sees."""
    probed: Sequence[ProbedCall]


def system_parts(card: Card) -> dict[str, object]:
    """What the identity of a system of one's own has beside that of every agent (:data:`SYSTEM_PARTS`).

    Raises:
        UserError: its source cannot be read.
    """
    code, system = code_of_system(card), open_system(card)
    return {
        "files": code.files,
        "packages": code.packages,
        "requirements": code.requirements,
        "environment": code.environment,
        "wiring": _wiring(card),
        "config": _without_secrets(card.config),
        "context": _without_secrets(card.context),
        "system": system.kind,
        **({} if card.endpoint else {"process": "ours" if isinstance(system, InProcessSystem) else "its own"}),
        "held": [] if system.takes_context else list(held_by(system, card)),
    }


def held_by(system: System, card: Card) -> tuple[str, ...]:
    """The models that an opened system holds; none that it has in a process of its own."""
    source = own_source(card)
    folders = tuple({*(str(path.parent) for path in source.files), *map(str, source.folders)})
    tops = {name.partition(".")[0] for name in source.modules}
    own = [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in tops or (folders and str(getattr(module, "__file__", None)).startswith(folders))
    ]
    return models_held(system.form if isinstance(system, InProcessSystem) else system, own)


def _wiring(card: Card) -> dict[str, object]:
    """What an agent's file says of how its system is asked and read, where it says anything."""
    plain: dict[str, object] = msgspec.to_builtins(card)
    usual: dict[str, object] = msgspec.to_builtins(Card(graph=card.graph, summary=card.summary))
    if card.endpoint is not None:
        plain["endpoint"] = card.endpoint.settled
    said = {key: value for key, value in plain.items() if key not in _ELSEWHERE and value != usual.get(key)}
    sent = card.endpoint.settled if card.endpoint is not None else {}
    return _without_secrets({**said, **{f"endpoint.{key}": value for key, value in sent.items()}})


def _without_secrets(values: Mapping[str, object]) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, value in values.items():
        if is_secret_name(key):
            continue
        kept[key] = (
            _without_secrets(value)
            if isinstance(value, Mapping)
            else redacted(value)
            if isinstance(value, str)
            else value
        )
    return kept


def with_models(identity: Mapping[str, object], probed: Sequence[ProbedCall]) -> dict[str, object]:
    """An identity with the models that a probe saw, each once, in order: ``model``, ``model 2`` …"""
    actors = list(dict.fromkeys(call.actor for call in probed))
    models = {"model" if number == 1 else f"model {number}": actor for number, actor in enumerate(actors, 1)}
    return {**identity, "models": models}


def found_run(store: Store, now: SystemIdentity, question: Question | None) -> Run | None:
    """The newest run that is this system's still; ``None``: there is none."""
    for run in reversed(store.runs()):
        same = run.agent == now.identity["agent"] and _rest(run.identity) == _rest(now.identity)
        if same and not list(other_models(store, run, now, question)):
            return run
    return None


def differing_parts(store: Store, run: Run, now: SystemIdentity, question: Question | None) -> list[str]:
    """The parts of an identity that are others now than when a run began, by their keys."""
    then, plain = _plain(run.identity), _plain(now.identity)
    keys = {*then, *plain} - {*_APART}
    differing = sorted(key for key in keys if then.get(key) != plain.get(key))
    return differing + (["models"] if list(other_models(store, run, now, question)) else [])


def other_models(store: Store, run: Run, now: SystemIdentity, question: Question | None) -> Iterator[str]:
    """What of the models is another than the run has asked, in words; nothing: they are the same."""
    then, held = {*_texts(run.identity.get("held"))}, {*_texts(now.identity.get("held"))}
    first = _first_calls(store, run, question)
    models = run.identity.get("models") or {}
    asked = {*map(str, models.values())} if isinstance(models, Mapping) else set[str]()
    asked |= {call.actor for call in first} | {*reply_models(store, [run]).get(run.id, {})}
    known = {_key(actor): actor for actor in asked}
    new = list(dict.fromkeys(call.actor for call in now.probed if _key(call.actor) not in known)) if known else []
    gone = sorted(then - held)
    come = sorted(one for one in held - then if not _is_asked(one, asked))
    if new:
        gave_way = [actor for key, actor in known.items() if key not in {_key(call.actor) for call in now.probed}]
        yield f"the system asks {_listed(new)} now" + (f", asked {_listed(gave_way)} then" if gave_way else "")
    elif swapped := _swapped(first, now.probed):
        yield swapped
    if not new and gone:
        yield f"the system holds {_listed(sorted(held - then)) or 'no such model'} now, held {_listed(gone)} then"
    elif not new and come and then:
        yield f"the system holds {_listed(come)} now, too"


def strays(store: Store, run: Run, probed: Sequence[ProbedCall], question: Question) -> bool:
    """Whether the system asks a question in other words than it did when the run answered it: something has changed
    that no digest covers, or its prompts hold a clock or chance."""
    before = store.attempt(run, question.id)
    return (
        before is not None
        and before.status == "completed"
        and before.replayable
        and any(call.kind == "model" for call in calls(before.events))
        and any(not call.recorded for call in probed)
    )


def _first_calls(store: Store, run: Run, question: Question | None) -> list[Call]:
    """The calls to models of the run's attempt at a question."""
    before = store.attempt(run, question.id) if question is not None else None
    if before is None or before.status not in FINAL:
        return []
    return [call for call in calls(before.events) if call.kind == "model"]


def _swapped(first: Sequence[Call], probed: Sequence[ProbedCall]) -> str:
    """Which node asks another model than in the stored attempt; empty: none does, or it cannot be told."""
    pairs = {(call.node, _key(call.actor)) for call in first if call.node}
    nodes = {node for node, _ in pairs}
    for call in probed:
        if call.node in nodes and (call.node, _key(call.actor)) not in pairs:
            return f"{call.node} asks {redacted(call.actor)} now"
    return ""


def _is_asked(held: str, asked: Iterable[str]) -> bool:
    """Whether a model that a system holds is one that it has asked: it may be made when it is first used."""
    if "model" not in held:
        return True  # a client, which asks whatever it is told to
    return any(f"={parse_name(actor)}" in held for actor in asked)


def parse_name(actor: str) -> str:
    """The name of a model without its provider."""
    return _spec(actor).name.partition(":")[2] or actor


def _key(actor: str) -> str:
    """A model with its server and its sampling, without what limits a reply alone."""
    spec = _spec(actor)
    return str(Spec(spec.name, {key: spec.parameters[key] for key in sorted({*spec.parameters} - _NOT_COUNTED)}))


def _spec(actor: str) -> Spec:
    try:
        return parse(actor)
    except UserError:
        return Spec(actor, {})


def _listed(models: Sequence[str]) -> str:
    said = ", ".join(redacted(model) for model in models[:_MOST_SAID])
    return said + (f" and {len(models) - _MOST_SAID} more" if len(models) > _MOST_SAID else "")


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def _plain(identity: Mapping[str, object]) -> dict[str, object]:
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(identity))
    return plain


def _rest(identity: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in _plain(identity).items() if key not in _APART}


def changes_in_words(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    """What of a system is another than before, in words, without its models."""
    if "system" not in before:
        yield "more is kept of what a system of one's own depends on"
        return
    of_code = not any(key.startswith("endpoint.") for key in _table(now, "wiring"))
    if of_code and before.get("graph") != now.get("graph"):
        yield f"it is {now.get('graph')}, was {before.get('graph')}"
    elif of_code and before.get("graph_code") != now.get("graph_code"):
        yield "its code changed"
    for key, noun in (("files", "file"), ("packages", "package"), ("environment", "variable")):
        yield from _changed(noun, _table(before, key), _table(now, key), values=key != "files")
    if before.get("packages") == now.get("packages"):
        yield from _changed("package", _table(before, "requirements"), _table(now, "requirements"), values=True)
    for key in ("config", "context", "wiring"):
        noun = "setting" if key == "wiring" else key
        yield from _changed(noun, _table(before, key), _table(now, key), values=True)
    if before.get("limits") != now.get("limits"):
        yield "its caps changed"


def _changed(noun: str, then: Mapping[str, object], now: Mapping[str, object], *, values: bool) -> Iterator[str]:
    keys = sorted(key for key in {*then, *now} if then.get(key) != now.get(key))
    for key in keys[:_MOST_SAID]:
        said = f" ({_value(now.get(key))}, was {_value(then.get(key))})" if values else ""
        yield f"the {noun} {key} changed{said}"
    if len(keys) > _MOST_SAID:
        yield f"{len(keys) - _MOST_SAID} more {noun}s changed"


def _table(identity: Mapping[str, object], key: str) -> dict[str, object]:
    held = identity.get(key)
    return dict(held) if isinstance(held, Mapping) else {}


def _value(value: object) -> str:
    text = redacted(str(value)) if value is not None else "not there"
    return text if len(text) <= 60 else f"{text[:57]}…"
