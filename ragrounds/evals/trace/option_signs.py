"""Signs for questions without gold documents: mentions of the gold option in passages and replies.

They are signs, not proofs: a passage may name an option to rule it out, and a reply may mean it by another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ragrounds.evals.trace.hops import Hop
from ragrounds.evals.trace.traces import TracedCall

Sign = Literal["wrong letter", "turned away", "named", "never named"]
_AGAINST = re.compile(
    r"\b(?:not|no|never|against|unlikely|less likely|excludes?|excluded|rules? out|ruled out|rather than|unlike)\b"
)
"""Words before an option, in its clause, with which a reply rejects it."""
_DENIED = re.compile(r"\b(?:would|not|unlikely|less likely|excluded|ruled out)\b")
"""Words after an option, in its clause, that reject it."""
_CLAUSE = re.compile(r"[.;:!?\n,]| but ")

Folded = Callable[[str], str]


def sign_of(
    gold: str, options: Mapping[str, str], prediction: str, text: str, calls: Sequence[TracedCall],
    hops: Sequence[Hop], folded: Folded,
) -> tuple[Sign, str, int | None]:  # fmt: skip
    """Return the first sign that holds, a sentence with its evidence, and the hop that it points to.

    Args:
        gold: the letter of the gold option.
        options: all, by letter.
        prediction: the letter that was read.
        text: of the answer.
        calls: of the attempt.
        hops: of it, with the passages of each.
        folded: normalizes words for comparison.
    """
    plain = {letter: folded(option) for letter, option in options.items()}
    if ends_at(folded(text), plain) == gold and prediction in options:
        return "wrong letter", f"the reasoning ends at option {gold}, and {prediction} was chosen", None
    replies = [
        (call_index, call.reply.text)
        for call_index, call in enumerate(calls)
        if call.reply and call.call.kind == "model"
    ]
    for call_index, reply in replies[:-1]:
        if ends_at(folded(reply), plain) == gold:
            before = [hop.number for hop in hops if hop.call < call_index]
            after = f"after search {before[-1]}" if before else "before any search"
            words = f"{after} a reply ended at option {gold}, and the answer is {prediction or 'no option'}"
            return "turned away", words, next((hop.number for hop in hops if hop.call > call_index), None)
    passages = [
        (hop, passage, folded(f"{passage.passage.title} {passage.passage.text}"))
        for hop in hops
        for passage in hop.found
    ]
    naming = [(hop, passage) for hop, passage, text in passages if _last(text, plain[gold]) >= 0]
    if naming:
        hop, best = min(naming, key=lambda pair: pair[1].rank)
        words = (
            f"{len(naming)} of {len(passages)} passages name the gold option (search {hop.number}, rank {best.rank})"
        )
        return "named", f"{words}, and the answer does not follow them", hop.number
    return "never named", f"none of {len(passages)} passages names the gold option", None


def ends_at(text: str, options: Mapping[str, str]) -> str:
    """Return the option that a folded text names last without rejecting it; empty if it names none."""
    # If two options end at the same position, the longer is meant: "heart failure" is part of "congestive heart
    # failure".
    mentions = [(position + len(option), len(option), letter) for letter, option in options.items()
             if (position := _last(text, option, meant=True)) >= 0]  # fmt: skip
    return max(mentions, default=(0, 0, ""))[2]


def _last(text: str, option: str, meant: bool = False) -> int:
    """Return the position at which a text names an option last, as whole words; -1 if nowhere.

    `meant`: count only mentions that no word rejects.
    """
    positions = [match.start() for match in re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text)] if option else []
    if meant:
        before = {position: _CLAUSE.split(text[max(0, position - 120) : position])[-1] for position in positions}
        after = {position: _CLAUSE.split(text[position + len(option) :][:120])[0] for position in positions}
        positions = [
            position
            for position in positions
            if not _AGAINST.search(before[position]) and not _DENIED.search(after[position])
        ]
    return positions[-1] if positions else -1
