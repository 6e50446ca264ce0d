"""What a shell offers when Tab is pressed: the completers of options and arguments.

A completer gets the beginning of a word and gives whole words, each with a line about it. None raises: a word that
cannot be completed now is not. The scripts of the shells and what reads their words are Typer's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from ragrounds.api import names

Candidate = tuple[str, str]
"""A whole word, and a line about it."""
Completer = Callable[[str], list[Candidate]]
_Words = Callable[[str], Iterable[Candidate]]


def completer(words: _Words) -> Completer:
    """A completer that gives those words that begin as what is typed, and none where it fails."""

    @wraps(words)
    def complete(incomplete: str) -> list[Candidate]:
        try:
            return [(text, about) for text, about in words(incomplete) if text.startswith(incomplete)]
        except Exception:
            return []

    return complete


def one_of(*texts: str) -> Completer:
    """A completer of a few words."""
    return completer(lambda incomplete: [(text, "") for text in texts])


@completer
def agents(incomplete: str) -> Iterable[Candidate]:
    """Agents, their parameters in brackets, and files of agents of one's own."""
    name, bracket, inside = incomplete.partition("[")
    if not bracket:
        known = [one for one in names.agents() if one.text.startswith(name)]
        files = _files("", name, (".toml", ".py")) if "/" in name else []
        return [*known, *([(f"{known[0].text}[", "its parameters")] if len(known) == 1 else ()), *files]
    given, _, current = inside.rpartition(",")
    key, equals, _ = current.partition("=")
    before = incomplete.removesuffix(current)
    if equals and key in ("retriever", "corpus"):
        found = names.retrievers() if key == "retriever" else names.corpora()
        return [(f"{before}{key}={text}", about) for text, about in found]
    used = {part.partition("=")[0] for part in given.split(",")}
    free = [one for one in names.agent_parameters(name) if one.text.partition("=")[0] not in used]
    return [(before + text + ("" if text.endswith("=") else "]"), about) for text, about in free]


@completer
def benchmarks(incomplete: str) -> Iterable[Candidate]:
    """Benchmarks by name, and the files of ``family:PATH``."""
    family, colon, path = incomplete.partition(":")
    if colon and family.partition("/")[0].partition("[")[0] in names.benchmark_families():
        return _files(f"{family}:", path)
    return names.benchmarks()


@completer
def corpora(incomplete: str) -> Iterable[Candidate]:
    """Corpora by name, several joined with ``+``, and the files of ``family:PATH``."""
    before, plus, last = incomplete.rpartition("+")
    family, colon, path = last.partition(":")
    if colon and family in names.corpus_families():
        return _files(f"{before}{plus}{family}:", path)
    return [(before + plus + text, about) for text, about in names.corpora()]


# Once a bracket is open, an example of each retriever's parameters.
retrievers = completer(lambda typed: names.retriever_examples() if "[" in typed else names.retrievers())
attempts = completer(lambda typed: names.attempts(typed))
# Graphs, and the agents that have them.
graphs = completer(lambda typed: (dict(names.agents()) | dict(names.graphs())).items())


def named(kind: str) -> Completer:
    """A completer of all names of a kind: of a function of :mod:`ragrounds.api.names`."""
    return completer(lambda typed: getattr(names, kind)())


def _files(before: str, path: str, endings: tuple[str, ...] = ()) -> list[Candidate]:
    """Files and folders whose paths begin as `path`; a folder ends in a slash."""
    folder, slash, beginning = path.rpartition("/")
    found = []
    for entry in sorted(Path(f"{folder}{slash}" or ".").expanduser().iterdir()):
        hidden = entry.name.startswith(".") and not beginning.startswith(".")
        if entry.is_dir() and not hidden:
            found.append((f"{before}{folder}{slash}{entry.name}/", ""))
        elif not hidden and (not endings or entry.suffix in endings):
            found.append((f"{before}{folder}{slash}{entry.name}", ""))
    return found


RUNS = named("runs")
OPTIONS: Mapping[str, Completer] = {
    "--agent": agents,
    "--analysis": named("analyses"),
    "--attempt": attempts,
    "--attempts": one_of("licensed", "all", "never"),
    "--baseline": RUNS,
    "--benchmark": benchmarks,
    "--answer-status": one_of("empty", "unreadable", "refused", "abstained"),
    "--corpus": corpora,
    "--cost": one_of("auto", "uncached", "paid", "tokens", "calls", "seconds"),
    "--display": one_of("full", "plain", "json", "none"),
    "--embedder": retrievers,
    "--engine": one_of("local", "ray"),
    "--format": one_of("text", "json", "markdown"),
    "--journal": one_of("reuse", "replay", "fresh"),
    "--kind": named("judge_kinds"),
    "--language": one_of("en", "zh"),
    "--only": one_of("about", "tree", "mermaid"),
    "--order": one_of("given", "shared"),
    "--profile": named("profiles"),
    "--retriever": retrievers,
    "--schedule": one_of("published", "full", "adaptive"),
    "--server-changed": one_of("stop", "new"),
    "--scorer": named("scorers"),
    "--sort": one_of("asked", "cost", "calls", "time", "tokens", "score", "newest"),
    "--status": one_of("failed", "blocked", "capped", "paused"),
}
"""Option → its completer: an option has one meaning in all commands."""
ARGUMENTS: Mapping[tuple[str, str], Completer] = {
    ("", "run"): RUNS,
    ("", "runs"): RUNS,
    ("agents profiles", "name"): named("profiles"),
    ("agents show", "agent"): agents,
    ("analyse", "name"): named("analyses"),
    ("analyses show", "name"): named("analyses"),
    ("arena show", "name"): named("arenas"),
    ("arena rm", "name"): named("arenas"),
    ("arena vote", "name"): named("arenas"),
    ("build relevance-mining", "questions"): benchmarks,
    ("build consensus-labels", "queries"): benchmarks,
    ("build false-negatives", "benchmark"): benchmarks,
    ("data show", "name"): benchmarks,
    ("data add", "name"): benchmarks,
    ("data fetch", "name"): benchmarks,
    ("data rm", "name"): benchmarks,
    ("data verify", "reference"): benchmarks,
    ("data audit", "reference"): benchmarks,
    ("graph show", "name"): graphs,
    ("import store", "runs"): one_of(),  # they are in another store
    ("index show", "name"): named("indexes"),
    ("index add", "name"): named("indexes"),
    ("index delete", "name"): named("indexes"),
    ("index prune", "name"): named("indexes"),
    ("index rm", "name"): named("indexes"),
    ("index serve", "corpus"): corpora,
    ("prompts show", "name"): named("prompts"),
    ("retrievers show", "name"): retrievers,
    ("scorers show", "name"): named("scorers"),
}
"""Command and argument → its completer; an argument without a command has one meaning in all of them."""


def completed(parameter: Any, context: Any, incomplete: str) -> list[Any]:
    """The values that a shell offers of a parameter; none where files are meant: the shell has them."""
    from typer._click.shell_completion import CompletionItem

    if parameter.param_type_name == "argument":
        known = [ARGUMENTS.get((name, parameter.name)) for name in (context.command_path.partition(" ")[2], "")]
    else:
        known = [OPTIONS.get(name) for name in parameter.opts]
    complete = next((one for one in known if one is not None), None)
    return [CompletionItem(text, help=about) for text, about in complete(incomplete)] if complete else []
