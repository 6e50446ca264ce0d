"""Text of a row of the tree: ``search "edema upper lower limb" → 10, gold at 3``, ``answer C ✓``.

A row has a name, a text that may be shortened, and an end that is shown in full. It is made from recorded requests and
responses; content that the journal does not have is not guessed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len

from ragrounds.base.records import TOKENS_APART, Call, Fault
from ragrounds.evals.trace.hops import Hop
from ragrounds.evals.trace.traces import TracedCall, retried_faults
from ragrounds.ui.call_words import fault_word
from ragrounds.ui.text import number_of, one_line
from ragrounds.ui.trace.layout import Cells, fit

_LONGEST = 400
"""Characters of a text that a row keeps."""
_LEAST = 8
"""Cells of the quote that are kept before the end is cut."""
_LARGEST = 20_000
"""Characters of a reply up to which its JSON is parsed."""
_TAG = re.compile(r"<\|[\w ]{1,40}\|>|</?[a-z_]{1,30}>")
_EMPHASIS = re.compile(r"(?<!\w)\*\*(?=\S)|(?<=\S)\*\*(?!\w)")
_OPENING = re.compile(r'\A\s*(?:```\w*\s*)?(?:\{\s*"[^"\\]{0,60}"\s*:\s*")')


class RowText(Struct, frozen=True):
    """Text of a row."""

    name: str
    """Name of the node, the call or the round."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Parts right after the name, with styles: ``C ✓``."""
    quote: str = ""
    """Query or beginning of a reply, as it was recorded."""
    tail: tuple[tuple[str, str], ...] = ()
    """Results, with styles: ``→ 10``, ``gold at 3``."""

    @property
    def plain(self) -> str:
        """Whole row as one line."""
        quoted = f"“{one_line(self.quote, _LONGEST)}”" if self.quote else ""
        text = ""
        for part in (
            self.name,
            *(part_text for part_text, _ in self.annotations),
            quoted,
            *(end for end, _ in self.tail),
        ):
            text += part if not text or part[:1] in ",:" else f" {part}" if part else ""
        return text

    def cells(self, width: int, style: str = "plain") -> Cells:
        """Return the row in exactly `width` cells. The quote is cut first, the name last; `style` is the name's."""
        row_cells: Cells = [(one_line(self.name[:_LONGEST], 200), style)]
        row_cells += [(f" {text}", name) for text, name in self.annotations]
        ends = [(f" {text}" if text[:1] not in ",:" else text, name) for text, name in self.tail]
        room = width - sum(cell_len(text) for text, _ in (*row_cells, *ends))
        if self.quote:
            text = f" “{one_line(self.quote[:_LONGEST], max(_LEAST, room - 3))}”"
            row_cells.append((text, "plain"))
        return cut([*row_cells, *ends], width)


def cut(cells: Sequence[tuple[str, str]], width: int) -> Cells:
    """Return cells in exactly `width` cells: cut with an ellipsis at the end, or padded."""
    fitted: Cells = []
    for text, style in cells:
        size = cell_len(text)
        if size > width:
            fitted.append((fit(text, width), style))
            width = 0
            break
        fitted.append((text, style))
        width -= size
    return [*fitted, (" " * width, "plain")] if width > 0 else fitted


def call_row(name: str, traced: TracedCall, hop: Hop | None) -> RowText:
    """Return the row of a call; `name` is the name of its node, or the kind of the call."""
    call, retried = traced.call, retried_faults(traced.call)
    tail = ((f", {number_of(len(retried), 'retry')}", "trouble"),) if retried else ()
    if call.error:
        tail = ((failure(call), "trouble"),)
    if call.kind == "search":
        query = traced.searched.query if traced.searched else ""
        results = () if call.error else found_words(traced, hop)
        late = ((", time not known", "dim"),) if hop is not None and hop.untimed else ()
        return RowText(name, quote=query, tail=(*results, *tail, *late))
    if call.error:
        return RowText(name, tail=tail)
    if call.role in TOKENS_APART:
        return RowText(name, annotations=((one_line(call.role, 30), "dim"),), tail=tail)
    if traced.reply is not None:
        wishes = [f"{wish.name}({_arguments(wish.arguments)})" for wish in traced.reply.calls]
        asks = (("→ " + one_line(", ".join(wishes), 60), "key"),) if wishes else ()
        finish = traced.reply.finish
        odd = ((f"({one_line(finish, 30)})", "trouble"),) if finish not in ("stop", "tool_calls", "") else ()
        return RowText(name, quote=beginning(traced.reply.text), tail=(*asks, *odd, *tail))
    if traced.gave is not None:
        used = one_line(_tool_use_text(traced.used), 60)
        return RowText(name, annotations=((used, "key"),), quote=beginning(_plain(given_text(traced.gave))), tail=tail)
    return RowText(name, tail=tail)


def found_words(traced: TracedCall, hop: Hop | None) -> tuple[tuple[str, str], ...]:
    """Return the results of a search, with styles: number of passages, best ranks of gold, repetition."""
    count = len(traced.passages or traced.call.passages)
    words = [(f"→ {count}" if count else "→ nothing", "plain" if count else "trouble")]
    if hop is None:
        return tuple(words)
    if hop.gold_ranks:
        words.append((", gold at " + " ".join(str(rank) for rank in hop.gold_ranks[:3]), "gold"))
    if hop.repeats is not None:
        words.append((f", asked before in hop {hop.repeats}", "note"))
    elif hop.number > 1 and hop.new < count:
        words.append((f", {hop.new} new", "dim"))
    return tuple(words)


def failure(call: Call) -> str:
    """Return the reason why a call failed, in a few words: ``failed: timeout after 3 tries``."""
    kind = call.faults[-1].kind if call.faults else ""
    reason = one_line(fault_word(kind) or call.error[:200], 80)
    tries = len(call.faults)
    return f"failed: {reason}" + (f" after {number_of(tries, 'try')}" if tries > 1 else "")


def fault_words(faults: Sequence[Fault]) -> str:
    """Return the failed tries by kind: ``2 × rate limit, 1 × timeout``."""
    kinds = Counter(fault.kind for fault in faults)
    return ", ".join(f"{count} × {one_line(fault_word(kind), 40)}" for kind, count in kinds.items())


def beginning(text: str) -> str:
    """Return the beginning of a text as one line, without tags and marks of emphasis.

    For a JSON object it is its first list of texts, else its first text.
    """
    start = (_text_in_json(text) or _OPENING.sub("", text[: 2 * _LONGEST], count=1))[: 2 * _LONGEST]
    return " ".join(_EMPHASIS.sub("", _TAG.sub(" ", start)).split())[:_LONGEST]


def _text_in_json(text: str) -> str:
    start = text.find("{")
    if not 0 <= start < _LONGEST or len(text) > _LARGEST:
        return ""
    try:
        parsed, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return ""
    values = list(parsed.values()) if isinstance(parsed, dict) else []
    lists = [
        field for field in values if isinstance(field, list) and field and all(isinstance(part, str) for part in field)
    ]
    texts = [field for field in values if isinstance(field, str) and any(letter.isalnum() for letter in field)]
    return "; ".join(lists[0]) if lists else texts[0] if texts else ""


def written_row(name: str, changes: Mapping[str, object]) -> RowText:
    """Return the row of a step without calls: its changes of the state."""
    texts = [change for change in changes.values() if isinstance(change, str) and change.strip()]
    if len(texts) == 1:
        return RowText(name, quote=beginning(texts[0]))
    return RowText(name, tail=((f"wrote {one_line(', '.join(changes), 60)}", "dim"),) if changes else ())


def _arguments(text: str) -> str:
    """Return the arguments of a tool call for readers: a single argument without its name."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(arguments, dict) and len(arguments) == 1:
        return json.dumps(next(iter(arguments.values())), ensure_ascii=False)
    return text


def _tool_use_text(used: object) -> str:
    """Return the use of a tool: ``read("p187")``; for a call of anything else, its request."""
    if not isinstance(used, dict) or not {"tool", "query"} <= used.keys():
        return f"({_plain(used)})"
    try:
        query = json.loads(str(used["query"]))
    except (ValueError, RecursionError):
        query = used["query"]
    if isinstance(query, dict) and "passage" in query:
        query = {
            key: value for key, value in query.items() if key != "document"
        }  # `document` is recorded in addition to the model's arguments
    return f"{used['tool']}({_arguments(json.dumps(query, ensure_ascii=False))})"


def given_text(gave: object) -> object:
    """Return the text of a tool's answer; for a record of another form, all of it."""
    return gave["text"] if isinstance(gave, dict) and isinstance(gave.get("text"), str) and gave["text"] else gave


def _plain(value: object) -> str:
    """Return a recorded value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and len(value) == 1:
        return _plain(next(iter(value.values())))
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return repr(type(value))
