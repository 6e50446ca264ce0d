"""Commands of a block one by one, and their options against the command line as it is."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "(", ")", "2>", "|&", "&>"}
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")


@dataclass(frozen=True)
class Command:
    """A command as it is typed, several lines of it perhaps."""

    text: str
    offset: int
    """Lines of the block before it."""


def split_commands(text: str) -> Iterator[Command]:
    """The commands of a block: lines are taken together until Bash finds them complete."""
    gathered: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if not gathered and (not line.strip() or line.lstrip().startswith("#")):
            continue
        gathered.append(line)
        if _is_complete("\n".join(gathered)):
            yield Command("\n".join(gathered), number + 1 - len(gathered))
            gathered = []
    if gathered:
        yield Command("\n".join(gathered), len(text.splitlines()) - len(gathered))


def _is_complete(text: str) -> bool:
    if text.endswith("\\"):
        return False
    # Nothing but a check of the syntax. An unclosed heredoc is a warning alone.
    checked = subprocess.run(["bash", "-n"], input=text + "\n", capture_output=True, text=True, check=False)
    return not checked.returncode and not checked.stderr


def option_faults(text: str, tree: Any) -> list[str]:
    """What a command line names that `ragrounds` does not have: commands and options.

    Args:
        text: a command, or a span of running text with ``…`` and words in capitals.
        tree: :func:`ragrounds.cli.entry.command_tree`.
    """
    return [fault for words in _ours(text) for fault in _faults(words, tree)]


def _ours(text: str) -> Iterator[list[str]]:
    """The words after each `ragrounds` that is a command's name."""
    text = text.replace("\\\n", " ")
    heredoc = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", text)
    if heredoc:
        text = text.partition("\n")[0]
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        tokens = list(lexer)
    except ValueError:  # a quotation in running text that is not closed
        tokens = text.split()
    words: list[str] | None = None
    first = True
    for token in [*tokens, ";"]:
        if token in _ENDS or set(token) <= set("();<>|&"):
            if words is not None:
                yield words
            words, first = None, True
        elif words is not None:
            words.append(token)
        elif first:
            if token == "ragrounds" or token.endswith("/ragrounds"):
                words = []
            first = bool(_ASSIGNED.match(token)) or token in ("time", "exec", "watch", "nohup")


def _faults(words: list[str], tree: Any) -> Iterator[str]:
    command, path, at = tree, "ragrounds", 0
    while known := getattr(command, "commands", None):
        word = words[at] if at < len(words) else ""
        default = getattr(command, "default", "")
        found = known.get(word)
        if found is None and ":" in word:
            return  # an object of a file of the user's: which options it takes, its own code says
        if found is None and word and not word.startswith("-"):
            found = command.get_command(None, word)  # made when asked for, as those of export formats are
        if found is not None:
            command, path, at = found, f"{path} {word}", at + 1
        elif default and (not word or word.startswith("-") or command.any_word):
            command = known[default]
        elif not word or word.startswith("-") or word == "…" or word.isupper():
            break
        else:
            yield f"{path} has no command {word!r}"
            return
    if (getattr(command, "context_settings", None) or {}).get("ignore_unknown_options"):
        return
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    for word in words[at:]:
        if word == "--":
            return
        name = word.partition("=")[0].rstrip("…,.")
        if re.match(r"--?[a-zA-Z]", name) and name not in options:
            yield f"{path} has no option {name}"
