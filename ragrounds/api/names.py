"""Names that can be typed now, each with a line about it: agents, benchmarks, runs, scorers and the rest.

They are for shells that complete a word, so they are quick: files are read instead of imported where that says as much,
no package of others runs, and the store is read without touching it. What ships stands before what is installed.
"""

from __future__ import annotations

import ast
import os
import time
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple


class Name(NamedTuple):
    """A name, or a text that a name begins with."""

    text: str
    about: str = ""
    """One line; empty: nothing is known."""


def agents() -> list[Name]:
    """Agents, by name."""
    found = [Name(stem, table.get("summary", "")) for stem, table in _tables("agents")]
    return [*found, *_installed("ragrounds.agents")]


def agent_parameters(name: str) -> list[Name]:
    """What may stand in an agent's brackets, as ``key=value`` with its default, or ``key=`` where it has none."""
    from ragrounds.agents.agent import ROLES, Limits
    from ragrounds.api.agents import describe_agent
    from ragrounds.specs import Spec

    card = describe_agent(name).card
    own = {**card.parameters, **card.switches}
    found = [Name(_inside(Spec("x", {key: value})), "its default") for key, value in own.items()]
    found += [Name(f"{role}=", "provider:model of this role") for role in ROLES]
    found += [Name(f"{name}=", about) for name, about in _SETTINGS.items()]
    return [*found, *(Name(f"limits.{key}=", "at most, for an attempt") for key in Limits.__struct_fields__)]


_SETTINGS = {
    "retriever": "what is searched with",
    "corpus": "what is searched",
    "prompts": "a folder of prompts of your own, or hundred_words",
    "profile": "as a paper's authors ran it",
    "question_only": "false: what searches may see the options",
    "guard": "false: searches find what the benchmark's guard.jsonl withholds",
    "guard_near": "0 to 1: withhold passages with this share of the question's wording",
}
"""What may stand in every agent's brackets."""


def profiles() -> list[Name]:
    """Papers' profiles, by name."""
    return [Name(stem, table.get("summary", "")) for stem, table in _tables("agents/published")]


def benchmarks() -> list[Name]:
    """Families and datasets: those with cards, registered copies, and those that are named with a file."""
    found = {"sample": "The sample benchmark of ragrounds"}
    for _, table in _tables("evals/benchmarks/cards"):
        found |= {card["name"]: card["title"] for card in table["card"]}
    folder = store_place()[0] / "benchmarks"
    for family in _folders(folder):
        for dataset in _folders(folder / family):
            found.setdefault(f"{family}/{dataset}", "a copy of yours")
    found |= {"jsonl:": "a JSON Lines file of yours", "csv:": "a table of yours"}
    names = [Name(name, about) for name, about in found.items()]
    return [*names, *_installed("ragrounds.benchmarks")]


def benchmark_families() -> list[str]:
    """Families whose files may be named, ``family:PATH``."""
    names = {card["name"].partition("/")[0] for _, table in _tables("evals/benchmarks/cards") for card in table["card"]}
    return sorted({*names, "csv", "jsonl"} - {"sample"})


def corpora() -> list[Name]:
    """The sample, indexes, and families whose files may be named."""
    indexes = [Name(name, "an index of yours") for name in _folders(store_place()[0] / "indexes")]
    families = [Name(f"{family}:", "a file or a folder of this form") for family in corpus_families()]
    return [Name("sample", "the corpus of the sample benchmark"), *indexes, *families]


def corpus_families() -> tuple[str, ...]:
    """Families of corpora whose files may be named, ``family:PATH``."""
    return ("beir", "r2med", "medrag", "jsonl", "files")


def indexes() -> list[Name]:
    """Indexes, whole or half-built."""
    return [Name(name) for name in _folders(store_place()[0] / "indexes")]


def scorers() -> list[Name]:
    """Scorers."""
    return [*sorted(_declared("evals/scorers")), *_installed("ragrounds.scorers")]


def judge_kinds() -> list[Name]:
    """The ways of judging of ``judge --kind``."""
    ragas = [one for one in scorers() if one.text.startswith("ragas_")]
    words = "entailed, contradicted or missing, each on its own"
    published = Name("equivalence-published", "the same by OGCaReBench's own rules")
    kinds = [Name("equivalence", "with a reference answer"), published, Name("statements", words)]
    return [*kinds, Name("ragas", "all of its figures"), *ragas]


def outcomes() -> list[Name]:
    """How an attempt can count."""
    from ragrounds.records import OUTCOMES

    return [Name(outcome, meaning) for outcome, meaning in OUTCOMES.items()]


def retrievers() -> list[Name]:
    """Retrievers and the cards of dense ones."""
    table = tomllib.loads((files("ragrounds") / "tools/retrievers.toml").read_text(encoding="utf-8"))
    cards = [Name(card["name"], card["title"]) for card in table["retriever"]]
    return [*_declared("tools/retrievers"), *cards, *_installed("ragrounds.retrievers")]


def retriever_examples() -> list[Name]:
    """Retrievers with parameters, as specs."""
    return list(_declared("tools/retrievers", "example"))


def analyses() -> list[Name]:
    """Analyses of stored runs."""
    return [*_declared("evals/analyses"), *_installed("ragrounds.analyses")]


def formats() -> list[Name]:
    """Formats that runs are exported to."""
    return [*_declared("evals/exchange"), *_installed("ragrounds.exports")]


def graphs() -> list[Name]:
    """State machines, by their own names, which agents share."""
    sources = sorted(Path(str(files("ragrounds") / "graphs")).glob("*.py"))
    texts = ((source.stem, source.read_text(encoding="utf-8")) for source in sources)
    return [
        Name(name, text.split('"""')[1].partition("\n")[0])
        for name, text in texts
        if "\ndef build(" in text and name != "catalogue"
    ]


def prompts() -> list[Name]:
    """Prompts."""
    from ragrounds.api.agents import list_prompts

    return [Name(name) for name in list_prompts()]


def runs() -> list[Name]:
    """Runs of the store, the newest first: the agents' texts, each for its newest run, then the ids."""
    from ragrounds.evals.store.run_completion import run_names

    found = run_names(*store_place())
    by_agent: dict[str, Name] = {}
    for run in found:
        by_agent.setdefault(run.agent, Name(run.agent, f"{run.id}, {run.benchmark}, {_day(run.created)}"))
    return [*by_agent.values(), *(Name(run.id, f"{run.agent}, {run.benchmark}, {_day(run.created)}") for run in found)]


def attempts(beginning: str) -> list[Name]:
    """Attempts as ``RUN/QUESTION``: the questions of the run that `beginning` names before a slash, else the runs."""
    from ragrounds.evals.store.run_completion import question_ids, run_names

    place = store_place()
    for run in run_names(*place):
        for text in (run.agent, run.id):
            if beginning.startswith(f"{text}/"):
                return [Name(f"{text}/{id}") for id in question_ids(run, *place)]
    return [Name(f"{text}/", about) for text, about in runs()]


def arenas() -> list[Name]:
    """Arenas of the store, the newest first."""
    from ragrounds.evals.store.run_completion import arena_names

    return [Name(id, _day(created)) for id, created in arena_names(*store_place())]


def store_place() -> tuple[Path, str | None]:
    """The home folder and the store's URL, as :func:`ragrounds.settings.read_settings` has them, without checking
    the other settings."""
    import platformdirs

    named = os.environ.get("RAGROUNDS_CONFIG")
    file = Path(named) if named else platformdirs.user_config_path("ragrounds", appauthor=False) / "settings.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    home = os.environ.get("RAGROUNDS_HOME") or table.get("home")
    place = Path(home) if home else platformdirs.user_data_path("ragrounds", appauthor=False)
    return place, os.environ.get("RAGROUNDS_STORE") or table.get("store")


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _inside(spec: object) -> str:
    return str(spec).partition("[")[2].removesuffix("]")


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _tables(folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The TOML files of a folder of the package, by name."""
    for file in sorted(Path(str(files("ragrounds") / folder)).glob("*.toml")):
        yield file.stem, tomllib.loads(file.read_text(encoding="utf-8"))


def _installed(group: str) -> list[Name]:
    """What installed packages add to a group of entry points, as they declare it."""
    from ragrounds.plugins import declared

    return [Name(one.name, f"added by {one.origin}") for one in declared(group) if one.group == group]


def _declared(folder: str, shown: str = "name") -> Iterator[Name]:
    """The objects with a name and a summary at the top level of a folder's modules, read from the sources: importing
    retrievers and analyses loads libraries that take longer than a person waits for a completion."""
    for file in sorted(Path(str(files("ragrounds") / folder)).glob("*.py")):
        body = ast.parse(file.read_bytes()).body
        defaults = {
            node.name: {ast.unparse(each.target): each.value for each in node.body if isinstance(each, ast.AnnAssign)}
            for node in body
            if isinstance(node, ast.ClassDef)
        }
        for node in body:
            made = node.value if isinstance(node, ast.Assign) else None
            if isinstance(made, ast.Call) and isinstance(made.func, ast.Name):
                given = defaults.get(made.func.id, {}) | {each.arg or "": each.value for each in made.keywords}
                texts = {name: one.value for name, one in given.items() if isinstance(one, ast.Constant)}
                if isinstance(texts.get("name"), str) and isinstance(texts.get("summary"), str):
                    yield Name(str(texts[shown]), str(texts["summary"]))
