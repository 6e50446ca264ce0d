"""Dependencies of the results of a user's system, and the check that a stored run still matches the system.

Its dependencies (code, files, variables, packages, the servers of its models) are recorded while it is opened and while
it answers, and stored with the run. A stored run is resumed if its identity is the same and none of its dependencies
has changed. The models that it calls are known from its recorded calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from ragrounds.agents.systems.reads import Difference, SystemDependencies
from ragrounds.base.records import Run
from ragrounds.evals.store.leases import worker
from ragrounds.evals.store.reads import reads_of
from ragrounds.evals.store.run_names import made_attempts
from ragrounds.evals.store.store import Store
from ragrounds.models.server_facts import described, differing
from ragrounds.recorder.redaction import redacted

SYSTEM_PARTS = ("wiring", "config", "context", "system", "process", "read")
"""Keys that the identity of a user's system has in addition to those of every agent."""
SEEN_BY_LEADER = ("models", "graph_code", "read", "process")
"""Keys that other machines cannot determine by opening a system; they follow from its recorded dependencies."""
_MOST_SAID = 3


class SystemIdentity(NamedTuple):
    """Identity of a user's system, as it is now."""

    identity: Mapping[str, object]
    """Identity of the run, without the models that it calls."""
    reads: SystemDependencies | None = None
    """Dependencies of the system; ``None`` if it is not a user's system."""
    reported_facts: Mapping[str, str] = {}
    """Facts that the servers of runs report now, as :func:`ragrounds.evals.engine.run_reads.told_by`."""


def is_own(identity: Mapping[str, object]) -> bool:
    """Return True if an identity is of a user's system."""
    return "system" in identity


def same_agent(run: Run, now: SystemIdentity) -> bool:
    """Return True if a run is of the present agent, on the same questions, whatever its dependencies."""
    return compared(run.identity) == compared(now.identity)  # with the agent, without its interpreter's path


def find_matching_run(store: Store, now: SystemIdentity) -> Run | None:
    """Return the newest run that still matches this system; ``None`` if no run does."""
    same = (run for run in reversed(store.runs()) if same_agent(run, now))
    return next((run for run in same if not differences(store, run, now)), None)


def find_abandoned_run(store: Store, now: SystemIdentity) -> Run | None:
    """Return the newest run of the present agent without attempts; ``None`` if there is none.

    A command that was killed during its first attempts leaves such a run. What its system had written by then is not
    recorded, so it may not match the system any more.
    """
    same = [run for run in reversed(store.runs()) if same_agent(run, now)]
    attempts_made = made_attempts(store.engine, same)
    return next((run for run in same if run.id not in attempts_made and not worker(store.engine, run.id)), None)


def differences(store: Store, run: Run, now: SystemIdentity) -> list[Difference]:
    """Return the dependencies of the run that have changed since it was recorded."""
    if now.reads is None:
        return []
    recorded = reads_of(store, run)
    changed = now.reads.differences(recorded)
    for dependency in recorded:
        earlier_facts, present_facts = (
            _facts(dependency.value),
            _facts(now.reported_facts.get(dependency.name, "")) if dependency.kind == "server" else {},
        )
        if names := differing(earlier_facts, present_facts):
            changed.append(
                Difference("server", dependency.name, described(earlier_facts, names), described(present_facts, names))
            )
    return changed


def changes(store: Store, run: Run, now: SystemIdentity) -> list[str]:
    """Return all changes since a run was made, each as a clause: the fewer, the nearer it is."""
    return [*_declared(run.identity, _plain(now.identity)), *map(in_words, differences(store, run, now))]


def join_clauses(clauses: list[str]) -> tuple[str, ...]:
    """Return some clauses; of many only the first."""
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
"""Tables of an identity, and the name of one of their entries."""
PARTS_IN_WORDS = frozenset({*_TABLES, "graph_code", "limits", "inner"})
"""Parts of an identity whose changes :func:`changes` describes."""


def _declared(before: Mapping[str, object], now: Mapping[str, object]) -> Iterator[str]:
    """Yield the changes in an agent's settings, as clauses."""
    is_users_system = is_own(now)
    is_users_code = is_users_system and _is_code(now)
    if is_users_code and before.get("graph") != now.get("graph"):
        yield f"it is {now.get('graph')}, was {before.get('graph')}"
    for key, noun in _TABLES.items():
        earlier_table, present_table = _table(before, key), _table(now, key)
        for name in sorted(
            key_name
            for key_name in {*earlier_table, *present_table}
            if earlier_table.get(key_name) != present_table.get(key_name)
        ):
            digests = key.endswith("_code") or key == "prompts"
            values = "" if digests else f" ({_value(present_table.get(name))}, was {_value(earlier_table.get(name))})"
            yield f"the {noun} {name} changed{values}"
    if not is_users_code and before.get("graph_code") != now.get("graph_code"):
        yield "its input or output settings changed" if is_users_system else "the graph changed"
    for key, noun in (("limits", "its caps"), ("inner", "the agent inside it")):
        if before.get(key) != now.get(key):
            yield f"{noun} changed"


def in_words(difference: Difference) -> str:
    """Return a difference as a clause."""
    if difference.kind == "code":
        return (
            "its code, or a model or value in it, changed"
            if difference.name == "session"
            else f"its code changed ({difference.name})"
        )
    if difference.kind in ("file", "folder"):
        how = "was removed" if not difference.now else "was added" if not difference.recorded else "changed"
        return f"the {difference.kind} {redacted(difference.name)} {how}"
    if difference.kind == "server":
        return f"the server of {difference.name} reported {difference.recorded}, and now reports {difference.now}"
    values = [_value(text.removeprefix("=") if text else None) for text in (difference.now, difference.recorded)]
    return f"the {difference.kind} {difference.name} changed ({values[0]}, was {values[1]})"


def _facts(text: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(text, type=dict[str, str])
    except msgspec.MsgspecError:
        return {"what": text} if text else {}


def _plain(identity: Mapping[str, object]) -> dict[str, object]:
    plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(identity))
    return plain


def _is_code(identity: Mapping[str, object]) -> bool:
    """Return True if a system is code, and not an address: its code is then among its dependencies."""
    return not any(key.startswith("endpoint.") for key in _table(identity, "wiring"))


def compared(identity: Mapping[str, object]) -> dict[str, object]:
    """Return the parts of an identity that are compared directly."""
    excluded = {"read", "process", *(["graph_code"] if _is_code(identity) else [])}
    excluded |= {"models"} if identity.get("tier") == "own" else set()
    return {key: value for key, value in _plain(identity).items() if key not in excluded}


def differing_parts(run: Run, now: SystemIdentity) -> list[str]:
    """Return the parts of an identity that have changed since a run began, by their keys."""
    recorded, present = compared(run.identity), compared(now.identity)
    return sorted(key for key in {*recorded, *present} if recorded.get(key) != present.get(key))


def _table(identity: Mapping[str, object], key: str) -> dict[str, object]:
    table = identity.get(key)
    return dict(table) if isinstance(table, Mapping) else {}


def _value(value: object) -> str:
    text = redacted(str(value)) if value is not None else "not there"
    return text if len(text) <= 60 else f"{text[:57]}…"
