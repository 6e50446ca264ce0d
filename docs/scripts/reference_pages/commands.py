"""A page for each command, with its options by groups, and one with every option there is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from ragrounds.cli.commands import help_record
from ragrounds.cli.entry import command_tree
from ragrounds.cli.help_text import OPTIONS, SECTIONS, first_sentence
from reference_pages.markdown import block, cell, code, table

FOLDER = "reference/commands"


def command_pages() -> tuple[dict[str, str], dict[str, str]]:
    """The pages, and what code in sentences links to."""
    tree = command_tree()
    pages: dict[str, str] = {}
    targets: dict[str, str] = {}
    options: dict[str, list[tuple[str, Any, str]]] = {}
    for name, command in tree.commands.items():
        if command.hidden:
            continue
        pages[f"{FOLDER}/{page_of(name)}.md"] = _page(name, command)
        for path, one in commands_of(name, command):
            place = f"{FOLDER}/{page_of(name)}" + ("" if path == name else f"#{anchor(path)}")
            targets[f"ragrounds {path}"] = place
            for parameter in _options(one):
                for spelling in (*parameter.opts, *parameter.secondary_opts):
                    if spelling.startswith("--"):
                        options.setdefault(spelling, []).append((path, parameter, place))
    pages[f"{FOLDER}/options.md"] = _options_page(options, tree)
    targets |= {one: f"{FOLDER}/options#{_option_anchor(one)}" for one in options}
    pages[f"{FOLDER}/index.md"] = _index(tree)
    return pages, targets


def commands_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, and those below it, by the words that call them."""
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands_of(f"{name} {word}", below)


def page_of(name: str) -> str:
    """The file of a command's page: `index` is a command too."""
    return f"ragrounds-{name}"


def anchor(path: str) -> str:
    """The anchor of a command on its page."""
    return "command-" + path.replace(" ", "-")


def _index(tree: Any) -> str:
    parts = [
        "# Commands",
        "Every command of `ragrounds`, by what it is for. `ragrounds COMMAND --help` says the same in a terminal, and "
        "[every option](options.md) stands on one page.",
    ]
    known = {name: one for name, one in tree.commands.items() if not one.hidden}
    left = [name for name in known if not any(name in names for names in SECTIONS.values())]
    for heading, names in (*SECTIONS.items(), ("More", tuple(left))):
        lines = [
            f"- [`ragrounds {name}`]({page_of(name)}.md): {first_sentence(known[name].help or '')}"
            for name in names
            if name in known
        ]
        if lines:
            parts += [f"## {heading}", "\n".join(lines)]
    epilog = tree.epilog or ""
    codes = re.findall(r"(\d+) (.+?)(?:;|, and|\.$)", epilog.partition(": ")[2].replace(", 143 ", "; 143 "))
    parts += ["## Exit codes", table(("code", "meaning"), [(code(number), words) for number, words in codes])]
    return "\n\n".join(parts) + "\n"


def _page(name: str, command: Any) -> str:
    parts = [f"# `ragrounds {name}`", *_about(command)]
    below = list(commands_of(name, command))[1:]
    if below:
        listed = [(f"[`{path}`](#{anchor(path)})", first_sentence(one.help or "")) for path, one in below]
        parts.append(table(("command", ""), listed))
        if default := getattr(command, "default", ""):
            parts.append(f"Where no command is named, `{default}` is meant.")
    else:
        parts += _usage(name, command)
    for path, one in below:
        parts += [f"({anchor(path)})=\n## `ragrounds {path}`", *_about(one)]
        if not getattr(one, "commands", None):
            parts += _usage(path, one)
    return "\n\n".join(parts) + "\n"


def _about(command: Any) -> Iterator[str]:
    """What a command says of itself, its examples as blocks."""
    for paragraph in inspect.cleandoc(command.help or "").partition("\f")[0].split("\n\n"):
        if paragraph.strip().startswith("ragrounds "):
            yield block(
                re.sub(r" (?=--\w)", " \\\n    ", " ".join(paragraph.split())) if len(paragraph) > 88 else paragraph,
                "sh",
            )
        else:
            yield " ".join(paragraph.split())


def _usage(path: str, command: Any) -> Iterator[str]:
    """How a command is typed, its arguments and its options by groups: as `--help` says them."""
    context = command.context_class(command, info_name=f"ragrounds {path}")
    yield block(f"ragrounds {path} {' '.join(command.collect_usage_pieces(context))}", "text")
    groups: dict[str, list[tuple[str, str, str]]] = {}
    for one in command.params:
        record = help_record(one, context)
        if record is None or getattr(one, "hidden", False):
            continue
        argument = one.param_type_name == "argument"
        group = "Arguments" if argument else getattr(one, "rich_help_panel", None) or OPTIONS
        groups.setdefault(group, []).append((code(record[0]), *_meaning(record[1])))
    for group in sorted(groups, key=lambda name: (name == OPTIONS, name != "Arguments")):
        yield f"**{group}**"
        yield table(("argument" if group == "Arguments" else "option", "meaning", "default"), groups[group])


def _meaning(words: str) -> tuple[str, str]:
    """What an option does, and its default: a help text apart from what stands in brackets at its end."""
    found = re.match(r"(.*?)\s*\[default: (.*?)\](.*)$", words, re.DOTALL)
    return (found[1] + found[3], found[2]) if found else (words.replace("[required]", "*required*"), "")


def _options(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def _option_anchor(option: str) -> str:
    return "option-" + option.strip("-")


def _options_page(options: dict[str, list[tuple[str, Any, str]]], tree: Any) -> str:
    """Every option, with the commands that take it."""
    shared = {name for name, places in options.items() if len(places) > 3}
    parts = [
        "# Every option",
        f"The {len(options)} options of all commands. One spelling has one meaning everywhere; where commands describe "
        "an option in words of their own, each stands here.",
    ]
    for title, chosen in (("Options that many commands share", shared), ("All other options", set(options) - shared)):
        rows = [_option_row(name, options[name]) for name in sorted(chosen)]
        parts += [f"## {title}", "| option | meaning | commands |\n|---|---|---|\n" + "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _option_row(name: str, places: list[tuple[str, Any, str]]) -> str:
    words = list(dict.fromkeys(str(getattr(one, "help", "") or "").strip() for _, one, _ in places))
    value = next((f" {code(one.metavar)}" for _, one, _ in places if one.metavar and not one.is_flag), "")
    links = [f"[`{path}`]({_relative(place)})" for path, _, place in places]
    meaning = cell(" · ".join(one for one in words if one))
    return (
        f"| `{name}`{{#{_option_anchor(name)}}}{value.replace('|', chr(92) + '|')} | {meaning} | {', '.join(links)} |"
    )


def _relative(place: str) -> str:
    page, _, part = place.removeprefix(f"{FOLDER}/").partition("#")
    return f"{page}.md" + (f"#{part}" if part else "")
