"""What the results of somebody's own system depend on, and whether a stored run is still that system's.

What it reads (code, files, variables, packages, the servers of its models) is heard while it is opened and while it
answers, and kept with the run. A stored run is resumed where its identity is the same and nothing that it has read is
another now. Which models it asks is known from what it has asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from ragrounds.agents.agent import Card
from ragrounds.agents.systems import open_system, reads_of_system
from ragrounds.agents.systems.in_process import InProcessSystem
from ragrounds.agents.systems.reads import Difference, SystemReads
from ragrounds.base.records import Run
from ragrounds.base.redaction import redacted
from ragrounds.evals.store.reads import reads_of
from ragrounds.evals.store.store import Store
from ragrounds.models.server_facts import described, differing
from ragrounds.recorder.reads import is_secret_name

SYSTEM_PARTS = ("wiring", "config", "context", "system", "process", "read")
"""The keys that the identity of a system of one's own has beside those of every agent."""
SEEN_BY_LEADER = ("models", "graph_code", "read", "process")
"""What other machines do not find out by opening a system: what it has read says it."""
_ELSEWHERE = frozenset(
    "graph summary as source searches question_only guard guard_near oracle parameters switches profile models "
    "retriever corpus prompts limits nests config context system endpoint clock in_process reads".split()
)
"""What of an agent's file changes no reply of such a system, or stands in its identity already."""
_MOST_SAID = 3


class SystemIdentity(NamedTuple):
    """A system of one's own, as it is now."""

    identity: Mapping[str, object]
    """The whole of the run's identity, without the models that it asks."""
    reads: SystemReads | None = None
    """``None``: it is none of one's own."""
    told: Mapping[str, str] = {}
    """What the servers of runs tell now, as :func:`ragrounds.evals.engine.run_reads.told_by`."""


def system_parts(card: Card) -> dict[str, object]:
    """What the identity of a system of one's own has beside that of every agent (:data:`SYSTEM_PARTS`).

    Raises:
        UserError: it cannot be opened.
    """
    system = open_system(card)
    return {
        "wiring": _wiring(card),
        "config": _without_secrets(card.config),
        "context": _without_secrets(card.context),
        "system": system.kind,
        **({} if card.endpoint else {"process": "ours" if isinstance(system, InProcessSystem) else "its own"}),
        "read": reads_of_system(card).digest,
    }


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


def is_own(identity: Mapping[str, object]) -> bool:
    """Whether an identity is of a system of somebody's own."""
    return "system" in identity


def same_agent(run: Run, now: SystemIdentity) -> bool:
    """Whether a run is of the agent as it is now, on the same questions, whatever it reads."""
    return run.agent == now.identity["agent"] and compared(run.identity) == compared(now.identity)


def found_run(store: Store, now: SystemIdentity) -> Run | None:
    """The newest run that is this system's still; ``None``: there is none."""
    same = (run for run in reversed(store.runs()) if same_agent(run, now))
    return next((run for run in same if not differences(store, run, now)), None)


def differences(store: Store, run: Run, now: SystemIdentity) -> list[Difference]:
    """What of a run's reads is another now."""
    if now.reads is None:
        return []
    then = reads_of(store, run)
    found = now.reads.differences(then)
    for one in then:
        before, today = _facts(one.value), _facts(now.told.get(one.name, "")) if one.kind == "server" else {}
        if names := differing(before, today):
            found.append(Difference("server", one.name, described(before, names), described(today, names)))
    return found


def changes(store: Store, run: Run, now: SystemIdentity) -> list[str]:
    """All that is another than when a run was made, each a clause: the fewer, the nearer it is."""
    return [*_declared(run.identity, _plain(now.identity)), *map(in_words, differences(store, run, now))]


def said(clauses: list[str]) -> tuple[str, ...]:
    """Some clauses, of many the first."""
    more = len(clauses) - _MOST_SAID
    return (*clauses[:_MOST_SAID], f"{more} more differ") if more > 1 else tuple(clauses)


_TABLES = {
    "config": "config",
    "context": "context",
    "wiring": "setting",
    "retriever_code": "retriever",
    "prompts": "prompt",
    "model_code": "model of",
}
"""Tables of an identity, and what one of their entries is called."""


def _declared(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    """What is another of what is said of an agent, in words."""
    own = is_own(now)
    of_code = own and _is_code(now)
    if of_code and before.get("graph") != now.get("graph"):
        yield f"it is {now.get('graph')}, was {before.get('graph')}"
    for key, noun in _TABLES.items():
        then, today = _table(before, key), _table(now, key)
        for name in sorted(one for one in {*then, *today} if then.get(one) != today.get(one)):
            digests = key.endswith("_code") or key == "prompts"
            values = "" if digests else f" ({_value(today.get(name))}, was {_value(then.get(name))})"
            yield f"the {noun} {name} changed{values}"
    if not of_code and before.get("graph_code") != now.get("graph_code"):
        yield "its input or output settings changed" if own else "the graph changed"
    for key, noun in (("limits", "its caps"), ("inner", "the agent inside it")):
        if before.get(key) != now.get(key):
            yield f"{noun} changed"


def in_words(one: Difference) -> str:
    """A difference as a clause."""
    if one.kind == "code":
        return (
            "its code, or a model or value in it, changed"
            if one.name == "session"
            else f"its code changed ({one.name})"
        )
    if one.kind in ("file", "folder"):
        how = "was removed" if not one.now else "was added" if not one.then else "changed"
        return f"the {one.kind} {redacted(one.name)} {how}"
    if one.kind == "server":
        return f"the server of {one.name} reported {one.then}, and now reports {one.now}"
    values = [_value(text.removeprefix("=") if text else None) for text in (one.now, one.then)]
    return f"the {one.kind} {one.name} changed ({values[0]}, was {values[1]})"


def _facts(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        return {"what": text} if text else {}


def _plain(identity: Mapping[str, object]) -> dict[str, object]:
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(identity))
    return plain


def _is_code(identity: Mapping[str, object]) -> bool:
    """Whether a system is code, and no address: its code is then among what it reads."""
    return not any(key.startswith("endpoint.") for key in _table(identity, "wiring"))


def compared(identity: Mapping[str, object]) -> dict[str, object]:
    """What is compared as it is."""
    known = {"read", "process", *(["graph_code"] if _is_code(identity) else [])}
    known |= {"models"} if identity.get("tier") == "own" else set()
    return {key: value for key, value in _plain(identity).items() if key not in known}


def differing_parts(run: Run, now: SystemIdentity) -> list[str]:
    """The parts of an identity that are others now than when a run began, by their keys."""
    then, today = compared(run.identity), compared(now.identity)
    return sorted(key for key in {*then, *today} if then.get(key) != today.get(key))


def _table(identity: Mapping[str, object], key: str) -> dict[str, object]:
    held = identity.get(key)
    return dict(held) if isinstance(held, Mapping) else {}


def _value(value: object) -> str:
    text = redacted(str(value)) if value is not None else "not there"
    return text if len(text) <= 60 else f"{text[:57]}…"
