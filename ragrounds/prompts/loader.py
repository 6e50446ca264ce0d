"""Loader of prompt files.

A prompt is a Markdown file of turns. Each turn begins with a line ``[system]``, ``[user]`` or ``[assistant]``; a fixed
text (a notice) has no such line. ``$name`` is replaced by a value. Values are inserted once and verbatim: nothing in
them is interpreted, whatever a document or a model wrote. ``name.zh.md`` next to ``name.md`` is the Chinese form.
"""

from __future__ import annotations

import functools
import hashlib
import re
import string
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct

from ragrounds.base import hooks
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Message, Speaker
from ragrounds.prompts.layout import OPTIONAL, arrange_turns

_NAME = re.compile(r"(?!.*\.\.)[^\0/\\\ud800-\udfff]{1,100}(?:/[^\0/\\\ud800-\udfff]{1,100}){0,9}")
"""Name of a prompt: a path inside its folder."""
_TURN = re.compile(r"^\[(system|user|assistant)\][ \t]*\n", re.MULTILINE)


class PromptFolder(Struct, frozen=True):
    """Prompts of one agent: the package's files, overridden by the user's files of the same names.

    Raises:
        UserError: the folder does not exist and is not the name of a variant that ships.
    """

    folder: str | None = None
    """The user's folder, or the name of a variant that ships (:func:`variants`)."""
    layout: str = ""
    """Order of the parts of the package's prompts (:mod:`ragrounds.prompts.layout`); empty: the order in the file.

    A prompt of the user's folder is not rearranged: its layout is the user's.
    """

    def __post_init__(self) -> None:
        if self.folder is not None and self.folder not in variants() and not Path(self.folder).is_dir():
            raise UserError(
                f"There is no folder of prompts {self.folder!r}.{nearest(self.folder, variants())} "
                f"Expected a folder, or a variant that ships: {', '.join(variants())}."
            )

    def render(self, name: str, language: str = "en", /, **values: str) -> tuple[Message, ...]:
        """Fill the template `name`.

        Raises:
            UserError: the prompt does not exist, or it needs a value that this node does not give.
        """
        text, from_user = self._read(name, language)
        if from_user or not (self.layout or any(values.get(part) == "" for part in OPTIONAL)):
            return tuple(Message(role, self._fill(name, turn, values)) for role, turn in _turn_templates(name, text))
        parted = _arranged_templates(name, text, self.layout)
        return tuple(
            Message(role, "\n\n".join(self._fill(name, part, values) for kind, part in parts if values.get(kind) != ""))
            for role, parts in parted
        )

    def text(self, name: str, language: str = "en", /, **values: str) -> str:
        """Fill a text without turns: a notice, a correction."""
        return self._fill(name, string.Template(self._read(name, language)[0].strip()), values)

    def source(self, name: str, language: str = "en") -> str:
        """Return the text of a prompt as in its file, with its placeholders.

        Raises:
            UserError: the prompt does not exist.
        """
        return self._read(name, language)[0]

    def digest(self, names: tuple[str, ...]) -> dict[str, str]:
        """Return name → hash over all languages of the prompts `names`: a part of a run's fingerprint."""
        digests = {}
        for name in sorted(names):
            texts = "\0".join([self._read(name, language)[0] for language in ("en", "zh")])
            digests[name] = hashlib.sha256(texts.encode()).hexdigest()[:16]
        return digests

    def names(self) -> list[str]:
        """List the names of all prompts."""
        names = _packaged_names()
        if self.folder and self.folder not in variants():  # a variant only rewords prompts of the package
            root = Path(self.folder)
            names |= {str(path.relative_to(root).with_suffix("")).split(".")[0] for path in root.rglob("*.md")}
        return sorted(names)

    def _read(self, name: str, language: str) -> tuple[str, bool]:
        """Return a prompt's text, and True if it comes from the user's folder."""
        folders = (self.folder, None) if self.folder else (None,)
        for folder in folders if _NAME.fullmatch(name) else ():
            for file in (f"{name}.{language}.md", f"{name}.md"):
                text = _text(folder, file)
                if text is not None:
                    return text, folder is not None and folder not in variants()
        raise UserError(f"There is no prompt {name!r}.{nearest(name, self.names())} Known: {', '.join(self.names())}.")

    def _fill(self, name: str, template: string.Template, values: dict[str, str]) -> str:
        try:
            return template.substitute(values)
        except KeyError as error:
            raise UserError(
                f"The prompt {name!r} asks for ${error.args[0]}, which is not given here. Given: "
                f"{', '.join('$' + value for value in sorted(values))}. A dollar sign is written $$."
            ) from error
        except ValueError as error:
            raise UserError(f"The prompt {name!r}: {error}. A dollar sign is written $$.") from error


_VARIANTS = "variants"


@functools.cache
def variants() -> tuple[str, ...]:
    """List the variants that ship: other wordings of some prompts.

    ``prompts=hundred_words`` asks for long answers in fewer than 100 words and without reasoning, as OGCaReBench asks
    medical models (Fig. 10b).
    """
    root = files("ragrounds.prompts").joinpath(_VARIANTS)
    return tuple(sorted(entry.name for entry in root.iterdir() if entry.is_dir()))


@functools.lru_cache(maxsize=512)
def _turn_templates(name: str, text: str) -> tuple[tuple[Speaker, string.Template], ...]:
    return tuple((speaker, string.Template(turn)) for speaker, turn in _split(name, text))


@functools.lru_cache(maxsize=512)
def _arranged_templates(
    name: str, text: str, layout: str
) -> tuple[tuple[Speaker, list[tuple[str, string.Template]]], ...]:
    """Return the turns in their parts, in the order of a layout. Only a part that may be left out keeps its name."""
    return tuple(
        (speaker, [(part.name if part.name in OPTIONAL else "", string.Template(part.text)) for part in parts])
        for speaker, parts in arrange_turns(_split(name, text), layout)
    )


def _split(name: str, text: str) -> list[tuple[Speaker, str]]:
    parts = _TURN.split(text)
    if parts[0].strip() or len(parts) < 3:
        raise UserError(f"The prompt {name!r} must begin with a line [system], [user] or [assistant].")
    speakers: list[Speaker] = [part for part in parts[1::2] if part in ("system", "user", "assistant")]  # type: ignore[misc]
    return [(speaker, turn.strip("\n")) for speaker, turn in zip(speakers, parts[2::2], strict=True)]


@functools.lru_cache(maxsize=512)
def _text(folder: str | None, file: str) -> str | None:
    if folder is None:
        candidates = [root.joinpath(file) for root in _roots()]
    else:
        root = files("ragrounds.prompts").joinpath(_VARIANTS, folder) if folder in variants() else Path(folder)
        candidates = [root.joinpath(file)]
    for candidate in candidates:
        try:
            return candidate.read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            continue
        except UnicodeDecodeError as error:
            raise UserError(f"The prompt {file} is not UTF-8 text: {error}") from error
    return None


@functools.cache
def _roots() -> tuple[Traversable, ...]:
    """Return the folders of the prompts that ship: the core's, then those of extensions."""
    packages = (package for package in hooks.extensions().values() if hasattr(package, "__path__"))
    extended = (files(package).joinpath("prompts") for package in packages)
    return (files("ragrounds.prompts"), *(root for root in extended if root.is_dir()))


def _packaged_names() -> set[str]:
    return {
        f"{folder.name}/{file.name.split('.')[0]}"
        for root in _roots()
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".md")
    }
