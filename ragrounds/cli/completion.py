"""What a shell offers when Tab is pressed: the completers of options and arguments, and the line that they belong to.

A completer gets the beginning of a word and gives whole words, each with a line about it. None raises: a word that
cannot be completed now is not. `ragrounds.cli.shells` has the scripts that ask here.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

SEPARATOR = "\x1f"
"""Between the words that zsh and fish hand over."""

Candidate = tuple[str, str]
"""A whole word, and a line about it."""
Completer = Callable[[str], list[Candidate]]
Tree = Callable[[str], Any]
"""Gives the command line, as Click has it, or that part of it which has the command of a name."""
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
    from ragrounds.api import names

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
    from ragrounds.api import names

    family, colon, path = incomplete.partition(":")
    if colon and family.partition("/")[0].partition("[")[0] in names.benchmark_families():
        return _files(f"{family}:", path)
    return names.benchmarks()


@completer
def corpora(incomplete: str) -> Iterable[Candidate]:
    """Corpora by name, several joined with ``+``, and the files of ``family:PATH``."""
    from ragrounds.api import names

    before, plus, last = incomplete.rpartition("+")
    family, colon, path = last.partition(":")
    if colon and family in names.corpus_families():
        return _files(f"{before}{plus}{family}:", path)
    return [(before + plus + text, about) for text, about in names.corpora()]


@completer
def retrievers(incomplete: str) -> Iterable[Candidate]:
    """Retrievers and cards, and an example of a retriever's parameters once its bracket is open."""
    from ragrounds.api import names

    return names.retriever_examples() if "[" in incomplete else names.retrievers()


@completer
def attempts(incomplete: str) -> Iterable[Candidate]:
    """Runs of the store, then their questions: ``RUN/QUESTION``."""
    from ragrounds.api import names

    return names.attempts(incomplete)


@completer
def graphs(incomplete: str) -> Iterable[Candidate]:
    """Graphs, and the agents that have them."""
    from ragrounds.api import names

    return (dict(names.agents()) | dict(names.graphs())).items()


def named(kind: str) -> Completer:
    """A completer of all names of a kind: of a function of :mod:`ragrounds.api.names`."""

    @completer
    def complete(incomplete: str) -> Iterable[Candidate]:
        from ragrounds.api import names

        found: list[names.Name] = getattr(names, kind)()
        return found

    return complete


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
    "--mark": one_of("right", "wrong", "unscored"),
    "--only": one_of("about", "tree", "mermaid"),
    "--order": one_of("given", "shared"),
    "--outcome": named("outcomes"),
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


class Word(NamedTuple):
    """The word before the cursor in a line of Bash."""

    text: str
    """Without quotes and backslashes."""
    kept: int
    """How many letters of `text` stay: Bash replaces what follows its last break (``:``, ``=``) or quote."""
    quote: str
    """The quote that is open; empty: none."""


def answer(environment: Mapping[str, str], tree: Tree) -> str | None:
    """What the shell that set these variables is told, a line for each word; ``None``: they are not of our scripts."""
    shell = environment.get("_RAGROUNDS_COMPLETE", "").removeprefix("complete_")
    if shell == "bash" and "COMP_LINE" in environment:
        words, word = bash_words(environment["COMP_LINE"], environment.get("COMP_WORDBREAKS", "\"'><=;|&(:"))
        found = candidates(words[1:], word.text, tree)
        return "\n".join(_quoted(text[word.kept :], word.quote) for text, _ in found)
    if shell == "bash" and "COMP_WORDS" in environment:  # Click's and Typer's scripts: words that Bash has split
        words, word = bash_words(environment["COMP_WORDS"], "")
        given, at = [*words, word.text], int(environment.get("COMP_CWORD", "1"))
        found = candidates(given[1:at], given[at] if at < len(given) else "", tree)
        return "\n".join(text for text, _ in found)
    if shell in ("zsh", "fish") and "_RAGROUNDS_WORDS" in environment:
        words = environment["_RAGROUNDS_WORDS"].split(SEPARATOR)
        _, word = bash_words(environment.get("_RAGROUNDS_CURRENT", ""), "")
        return "\n".join(
            "\t".join((text, " ".join(about.split()))) for text, about in candidates(words[1:], word.text, tree)
        )
    return None


def candidates(words: Sequence[str], incomplete: str, tree: Tree) -> list[Candidate]:
    """The words that may stand next in a command line.

    Args:
        words: those before, without the program.
        incomplete: the beginning of the word, without quotes.
        tree: gives the command line.
    """
    try:
        command, context, rest = _command(list(words), tree)
        if hasattr(command, "list_commands"):
            return _subcommands(command, context, incomplete)
        return _values(command, context, rest, incomplete)
    except Exception:
        return []


def _command(words: list[str], tree: Tree) -> tuple[Any, Any, list[str]]:
    """The command that the words name, and those of them that are its own."""
    plain = next((word for word in words if not word.startswith("-")), "")
    command = tree(plain)
    context = command.context_class(command, info_name="ragrounds", resilient_parsing=True)
    while hasattr(command, "list_commands"):
        at = next((place for place, word in enumerate(words) if not word.startswith("-")), None)
        # An import path would run its code.
        found = None if at is None or ":" in words[at] else command.get_command(context, words[at])
        default = str(getattr(command, "default", ""))
        if found is None and words and default:
            at, found = None, command.get_command(context, default)
        if found is None:
            break
        words = words[at + 1 :] if at is not None else words
        context = found.context_class(found, info_name=found.name, parent=context, resilient_parsing=True)
        command = found
    return command, context, words


def _subcommands(command: Any, context: Any, incomplete: str) -> list[Candidate]:
    """The commands of a group, and what its default command takes."""
    found = []
    if not incomplete.startswith("-"):
        known = ((name, one) for name, one in command.commands.items() if not one.hidden)
        found = [(name, one.get_short_help_str(80)) for name, one in known]
        found += command.summaries() if hasattr(command, "summaries") else []
    if getattr(command, "any_word", False) or (incomplete.startswith("-") and getattr(command, "default", "")):
        default = command.get_command(context, command.default)
        found += _values(default, context, [], incomplete)
    elif incomplete.startswith("-"):
        found = _options(command.get_params(context), [])
    return [(text, about) for text, about in found if text.startswith(incomplete)]


def _values(command: Any, context: Any, words: list[str], incomplete: str) -> list[Candidate]:
    """The values of the option or argument that comes next, or the command's options."""
    parameters = command.get_params(context)
    options = {name: one for one in parameters for name in (*one.opts, *one.secondary_opts) if name.startswith("-")}
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    waiting, given, dashes = None, 0, False
    for word in words:
        if waiting is not None:
            waiting = None
        elif word == "--" and not dashes:
            dashes = True
        elif word.startswith("-") and not dashes:
            option = options.get(word)
            waiting = option if option is not None and not option.is_flag else None
        else:
            given += 1
    name, equals, value = incomplete.partition("=")
    if waiting is not None:
        return _completed(waiting, context, incomplete)
    if incomplete.startswith("-") and not dashes:
        if equals and name in options:
            return [(f"{name}={text}", about) for text, about in _completed(options[name], context, value)]
        return [one for one in _options(parameters, words) if one[0].startswith(incomplete)]
    for argument in arguments:
        if argument.nargs == -1 or given < argument.nargs:
            return _completed(argument, context, incomplete)
        given -= argument.nargs
    return [] if incomplete else _options(parameters, words)


def _completed(parameter: Any, context: Any, incomplete: str) -> list[Candidate]:
    """The values of a parameter; none where files are meant: the shell has them."""
    command = context.command_path.partition(" ")[2].replace("benchmarks ", "data ", 1)
    if parameter.param_type_name == "argument":
        known = [ARGUMENTS.get((name, parameter.name)) for name in (command, "")]
    else:
        known = [OPTIONS.get(name) for name in parameter.opts]
    for complete in known:
        if complete is not None:
            return complete(incomplete)
    items = parameter.shell_complete(context, incomplete)
    return [(item.value, item.help or "") for item in items if item.type == "plain"]


def _options(parameters: Iterable[Any], words: Sequence[str]) -> list[Candidate]:
    """The long names of options, without those that stand already and cannot be repeated."""
    return [
        (name, parameter.help or "")
        for parameter in parameters
        if parameter.param_type_name == "option" and not parameter.hidden
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--") and (parameter.multiple or name not in words)
    ]


def bash_words(line: str, breaks: str) -> tuple[list[str], Word]:
    """The words of a line before the last, without quotes and backslashes, and the last, which may be empty."""
    words: list[str] = []
    text, quote, kept, begun, at = "", "", 0, False, 0
    while at < len(line):
        letter = line[at]
        if quote == "'" or (quote == '"' and letter != "\\"):
            quote, text = ("", text) if letter == quote else (quote, text + letter)
        elif letter == "\\" and at + 1 < len(line):
            at += 1
            text, begun = text + line[at], True
        elif letter in "'\"":
            quote, kept, begun = letter, len(text), True
        elif letter.isspace():
            words += [text] if begun or text else []
            text, kept, begun = "", 0, False
        else:
            text += letter
            kept = len(text) if letter in breaks else kept
        at += 1
    return words, Word(text, kept, quote)


_PLAIN = frozenset(string.ascii_letters + string.digits + "_-./:=,@%+")


def _quoted(text: str, quote: str) -> str:
    """A text as Bash takes it, inside the quote that is open."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)
    return "".join(letter if letter in _PLAIN or ord(letter) > 127 else f"\\{letter}" for letter in text)
