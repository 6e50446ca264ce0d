"""Reading of replies: where a model's thoughts and its reply end, and the text without markup and invisible characters.

Scorers, judges, arenas, importers, graphs, the trace viewer and the report read replies by :func:`read_reply`. Scorers
that reproduce a published evaluation read the raw text, as their authors do.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ragrounds.base.records import blank
from ragrounds.base.text import normalized, without_entities, without_invisible, words

OmissionKind = Literal["thought", "unfinished thought", "later turn", "further question"]

# Every repetition is bounded or cannot backtrack: a reply may be hostile, or a model's endless loop.
_TAG = (
    r"(?:[a-z]{1,20}[:_-]|ant)?(?:(?:think(?:ing)?|thoughts?)(?:[_-]process)?|reason(?:ing)?(?:[_-](?:content|process))?|"
    r"analysis|reflection|scratchpad|chain[_-]of[_-]thought|cot|(?:inner[_-])?monologue|ponder|思考(?:过程)?)"
)
_THOUGHT = r"(?:think(?:ing)?|thought|reasoning)"
_MARK_SIGNS = "<＜[&◁"
"""Characters with which a mark of a thought begins."""


@cache
def _thought_marks() -> re.Pattern[str]:
    """Return the pattern of the marks at the beginning (group ``begin``) and at the end of a thought.

    It is compiled when a reply may have such a mark, because this takes 30 ms.
    """
    return re.compile(
        rf"(?=[<＜\[&◁])(?:(?P<begin>(?:[<＜]|&lt;)\s?{_TAG}(?:\s+\w{{1,30}}=[^<>]{{0,200}})?\s?(?:(?<!/)[>＞]|&gt;)"
        rf"|\[THINK(?:ING)?\]|<\|(?:(?:begin|start)_?(?:of)?_?)?{_THOUGHT}(?:_start)?\|>|◁think▷|<unused94>(?:thought\b)?"
        r"|<\|channel>thought\b|<\|im_start\|>think\b|<\|inner_prefix\|>"  # Gemma, s1, Apertus
        r"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)\b[^<]{0,200}(?:<\|constrain\|>[^<]{0,60})?<\|message\|>)"
        rf"|(?:[<＜]|&lt;)\s?\\?/\s?{_TAG}\s?(?:[>＞]|&gt;)|<\|im_start\|>answer\b|<\|inner_suffix\|>"
        rf"|\[/THINK(?:ING)?\]|<\|(?:(?:/|end_?(?:of)?_?){_THOUGHT}|{_THOUGHT}_end)\|>|◁/think▷|<unused95>|<channel\|>"
        r"|(?:<\|start\|>assistant|<\|channel\|>final[^<]{0,60}){1,2}<\|message\|>)",
        re.IGNORECASE,
    )


_BARE_CHANNELS = (
    (re.compile(r"\A\s{0,9}analysis(?=[A-Z])"), "<think>"),
    (re.compile(r"assistantfinal(?=\S)"), "</think>"),
    (
        re.compile(
            r"\A\s{0,9}(?:(<details\b[^<>]{0,200}>\s{0,9}<summary>\W{0,9}(?:thinking|thought|reasoning)\b[^<>]{0,200}</summary>)"
            r"|#{1,4} Thinking[ \t]{0,9}\n|Thinking\.\.\.\n|here(?: i|')s my thought process:)(.*?)"
            r"(?:(?(1)</details>|(?:\n#{1,4} Final Response\b|here(?: i|')s my response:|\.\.\.done thinking\."
            r"|(?=\n(?:#{1,4} )?(?:final )?answer\b)))|\Z)",
            re.IGNORECASE | re.DOTALL,
        ),
        r"<think>\2</think>",
    ),
)
"""Thoughts without special tokens (gpt-oss, Open WebUI, HuatuoGPT-o1, Ollama, Granite), and marks for them."""
_TURN = (
    r"<\|(?:im_start|im_end|eot_id|eom_id|end_of_text|begin_of_text|endoftext|end|return|call|start|"
    r"start_header_id|end_header_id|user|assistant|system|eot|(?:start|end)_of_turn_token|(?:start|end)_response)\|>"
    r"|<(?:start|end)_of_turn>|<[|｜](?:User|Assistant|(?:begin|end)▁of▁sentence)[|｜]>|<(?:eos|bos)>|\[/?INST\]"
)
_LEADING = re.compile(rf"(?:\s|<s>|{_TURN}|(?<=>)(?:assistant|model)\b){{1,40}}", re.IGNORECASE)
_ENDS = re.compile(rf"{_TURN}|</s>", re.IGNORECASE)
_LATER_TURN = re.compile(
    rf"{_TURN}|</s>(?=\s|<|\[INST|\Z)"
    r"|\n[ \t]{0,9}(?:#{1,6}[ \t]{0,9})?\*{0,2}\[?(?:User|Human|用户)\]?\*{0,2}[ \t]?[:：]"
    r"|\n[ \t]{0,9}#{2,6}[ \t]{0,9}(?:User|Human|Instruction|Input)\b",
    re.IGNORECASE,
)
_FURTHER_QUESTION = re.compile(
    r"\n[ \t]{0,9}(?:#{1,6}[ \t]{0,9})?\*{0,2}(?:(?:Next |New )?Question|Q|"
    r"(?:下一)?(?:问题|问|题目|题)|質問|問題|질문|문제|Pregunta|Pergunta|Domanda|Frage|Вопрос|Câu hỏi|"
    r"Pertanyaan|Soru|(?:ال)?سؤال)"
    r"(?:[ \t]{0,3}\d{0,3}\*{0,2}[ \t]?[:：]|[ \t]{0,3}\d{1,3}(?:[.)]|\*{0,2}[ \t]{0,9}(?=\n)))([^\n]{0,400})",
    re.IGNORECASE,
)
_REPEATED = 8
"""Number of first words by which a question is recognised that a reply repeats."""
_MESSAGE = ("reasoning_content", "reasoning", "thinking")
"""Fields of thoughts in a message that is given as JSON next to its ``content``."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_EXPONENT = re.compile("(?<=[0-9])[⁰¹²³⁴-⁹⁺⁻]{1,9}")
_TYPOGRAPHY = str.maketrans("‘’‚‛ʼ′´“”„‟«»″【〔〖「『〈《】〕〗」』〉》", "'''''''" + '"' * 7 + "(" * 7 + ")" * 7)
_MACROS = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathsf|rm|bf)\s{0,3}\{([^{}]{0,300})\}")
_LINKS = re.compile(r"\[([^\[\]\n]{1,300})\]\(https?://[^()\s]{1,500}\)")
_TAGS = re.compile(r"</?[a-z_|]{1,30}(?:\s[a-z-]{1,20}=[^<>]{0,200})?/?>|<\|[a-z_]{1,30}\|>", re.IGNORECASE)
_STRUCK = re.compile(r"~~[^~\n]{1,300}~~|<(del|strike)>[^<>]{0,300}</\1>")
_FENCES = re.compile(r"^[ \t]{0,9}```\w{0,20}[ \t]{0,9}$", re.MULTILINE)
_SIGNS = re.compile(r"\\[()\[\]]|[*`$]|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_LINE_STARTS = re.compile(r"^[ \t]{0,9}(?:[#>]{1,6}|[-+•→⇒✅☑✔=]{1,2}>?|\[x\])[ \t]{1,9}(?:\[x\][ \t])?", re.MULTILINE)
_SPACES = re.compile(r"[^\S\n]{2,99}|[^\S\n ]")
"""Blanks that are not one space already: each match costs memory, and a long text has a million single spaces."""

_OBJECT_START = re.compile(r'\{(?=[ \t\n\r]*["}])')
"""Brace that may begin a JSON object."""
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"(?:[^"\\]|\\.)*"?', re.DOTALL)
_DEEPEST = 100
"""Number of levels of JSON that every decoder follows."""


class Omission(NamedTuple):
    """Part of a reply that is not its answer."""

    kind: OmissionKind
    text: str


class ReadReply(Struct, frozen=True):
    """Reply as it is read."""

    text: str
    """The reply without thoughts, later turns and further questions, as it was written otherwise."""
    omissions: tuple[Omission, ...] = ()

    @property
    def is_thought(self) -> bool:
        """Return True if the reply has thoughts and no answer."""
        return blank(self.text) and bool(self.omissions)

    @property
    def remark(self) -> str:
        """Return what was left out, and why; empty if nothing was."""
        parts = [f"{omission.kind} ({len(omission.text):,} characters)" for omission in self.omissions]
        return f"not read: {', '.join(parts)}" if parts else ""


@lru_cache(maxsize=64)
def read_reply(text: str, question: str = "") -> ReadReply:
    """Read a reply.

    Args:
        text: The reply as the model wrote it.
        question: Text of the question that was asked. A reply that repeats it does not end there.
    """
    text, omissions = split_thoughts(text)
    leading = _LEADING.match(text)
    start = leading.end() if leading and not blank(leading[0]) else 0
    turn = next((match for match in _LATER_TURN.finditer(text, start) if not blank(text[start : match.start()])), None)
    stop = turn.start() if turn else len(text)
    if turn and not blank(_ENDS.sub("", text[stop:])):
        omissions.append(Omission("later turn", text[stop:]))
    for match in _FURTHER_QUESTION.finditer(text, start, stop):
        first_words = words(question, _REPEATED)
        repeats = bool(first_words) and words(match[1], _REPEATED) == first_words
        if not repeats and not blank(text[start : match.start()]):
            omissions.append(Omission("further question", text[match.start() : stop]))
            stop = match.start()
            break
    return ReadReply(text[start:stop], tuple(omissions))


def split_thoughts(text: str) -> tuple[str, list[Omission]]:
    """Return a text without thoughts, and the thoughts.

    A thought that is never closed reaches to the end of the text. If one is closed and was never opened, the prompt
    opened it.
    """
    omissions: list[Omission] = []
    if text.lstrip()[:1] == "{" and any(f'"{name}"' in text for name in _MESSAGE):
        message, *_ = next(json_objects(text), ({}, 0, 0))
        thought = next((message[name] for name in _MESSAGE if isinstance(message.get(name), str)), "")
        if thought and isinstance(message.get("content"), str):
            omissions.append(Omission("thought", thought))
            text = message["content"]
    for channel, mark_text in _BARE_CHANNELS:
        text = channel.sub(mark_text, text)
    parts, start, begin, first = list[str](), 0, -1, 0
    # Most replies have no mark, and the search for its beginning is the slowest part of reading them.
    for mark in _thought_marks().finditer(text) if any(sign in text for sign in _MARK_SIGNS) else ():
        if begin < 0:
            parts.append(text[start : mark.start()])
        if mark["begin"] is not None:
            begin, first = (mark.start(), mark.end()) if begin < 0 else (begin, first)
            continue
        thought = text[first : mark.start()] if begin >= 0 else "".join(parts)
        if begin < 0:
            parts = []
        if not blank(thought):
            omissions.append(Omission("thought", thought))
        start, begin = mark.end(), -1
    if begin >= 0:
        omissions.append(Omission("unfinished thought", text[first:]))
        return "".join(parts), omissions
    return "".join((*parts, text[start:])), omissions


def plain_text(text: str) -> str:
    """Return a text without markup and invisible characters, with letters of one width, without ligatures, with
    straight quotation marks, round brackets and single blanks."""
    text = _EXPONENT.sub(lambda match: f"^{match[0].translate(_SUPERSCRIPTS)}", even_text(text))
    text = _STRUCK.sub("", _LINKS.sub(r"\1", _MACROS.sub(r"\1", normalized("NFKC", text))))
    return _SPACES.sub(" ", _LINE_STARTS.sub("", _SIGNS.sub("", _TAGS.sub(" ", _FENCES.sub("", text))))).strip()


def even_text(text: str) -> str:
    """Return a text without entities and invisible characters, with straight quotation marks and round brackets; other
    markup stays."""
    return without_invisible(without_entities(text)).translate(_TYPOGRAPHY)


def json_objects(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield the JSON objects in the text in order, each with its start and end. Nested objects are not yielded.

    The time is linear: an object that is still open where another one breaks off breaks off there, too.
    """
    decoder, uncounted_text = json.JSONDecoder(strict=False), _UncountedText(text)
    end, broken = 0, set[int]()
    for match in _OBJECT_START.finditer(text):
        if (begin := match.start()) < end or begin in broken:
            continue
        try:
            parsed, end = decoder.raw_decode(uncounted_text, begin)
        except json.JSONDecodeError as error:
            broken.update(_unclosed(text, begin, error.pos))
        except (ValueError, RecursionError):  # a number of thousands of digits; too many levels
            broken.update(_unclosed(text, begin, len(text), _DEEPEST))
        else:
            yield parsed, begin, end


class _UncountedText(str):
    """Text whose lines are not counted. The decoder counts all lines before each fault for its error's message."""

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return 0


def _unclosed(text: str, begin: int, end: int, deepest: int = sys.maxsize) -> list[int]:
    """Return the starts of the objects and lists that are open at `end`, or where `deepest` of them are."""
    starts = list[int]()
    for token in _BRACKET_OR_STRING.finditer(text, begin, end):
        if token[0] in "{[":
            starts.append(token.start())
        elif token[0] in "}]":
            starts.pop()
        if not starts or len(starts) == deepest:
            break
    return starts
