"""Where no gold document is known: what the words of passages and replies say about the gold option.

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
"""Words before an option, in its clause, with which a reply speaks against it."""
_DENIED = re.compile(r"\b(?:would|not|unlikely|less likely|excluded|ruled out)\b")
"""Words behind an option, in its clause, that speak against it."""
_CLAUSE = re.compile(r"[.;:!?\n,]| but ")

Folded = Callable[[str], str]


def sign_of(
    gold: str, options: Mapping[str, str], prediction: str, text: str, calls: Sequence[TracedCall],
    hops: Sequence[Hop], folded: Folded,
) -> tuple[Sign, str, int | None]:  # fmt: skip
    """The first sign that holds, a sentence with what it rests on, and the hop that it points to.

    Args:
        gold: the letter of the gold option.
        options: all, by letter.
        prediction: the letter that was read.
        text: of the answer.
        calls: of the attempt.
        hops: of it, with what each found.
        folded: how words are compared.
    """
    plain = {letter: folded(option) for letter, option in options.items()}
    if ends_at(folded(text), plain) == gold and prediction in options:
        return "wrong letter", f"the reasoning ends at option {gold}, and {prediction} was chosen", None
    replies = [(place, one.reply.text) for place, one in enumerate(calls) if one.reply and one.call.kind == "model"]
    for place, reply in replies[:-1]:
        if ends_at(folded(reply), plain) == gold:
            before = [hop.number for hop in hops if hop.call < place]
            after = f"after search {before[-1]}" if before else "before any search"
            said = f"{after} a reply ended at option {gold}, and the answer is {prediction or 'no option'}"
            return "turned away", said, next((hop.number for hop in hops if hop.call > place), None)
    searched = [(hop, one, folded(f"{one.passage.title} {one.passage.text}")) for hop in hops for one in hop.found]
    named = [(hop, one) for hop, one, words in searched if _last(words, plain[gold]) >= 0]
    if named:
        hop, best = min(named, key=lambda pair: pair[1].rank)
        said = f"{len(named)} of {len(searched)} passages name the gold option (search {hop.number}, rank {best.rank})"
        return "named", f"{said}, and the answer does not follow them", hop.number
    return "never named", f"none of {len(searched)} passages names the gold option", None


def ends_at(text: str, options: Mapping[str, str]) -> str:
    """The option that a folded text names last without speaking against it; empty: none."""
    # Of two that end at one place the longer is meant: "heart failure" stands in "congestive heart failure".
    found = [(at + len(option), len(option), letter) for letter, option in options.items()
             if (at := _last(text, option, meant=True)) >= 0]  # fmt: skip
    return max(found, default=(0, 0, ""))[2]


def _last(text: str, option: str, meant: bool = False) -> int:
    """Where a text names an option last, as whole words; -1: nowhere. `meant`: without a word against it."""
    places = [one.start() for one in re.finditer(rf"(?<!\w){re.escape(option)}(?!\w)", text)] if option else []
    if meant:
        before = {at: _CLAUSE.split(text[max(0, at - 120) : at])[-1] for at in places}
        after = {at: _CLAUSE.split(text[at + len(option) :][:120])[0] for at in places}
        places = [at for at in places if not _AGAINST.search(before[at]) and not _DENIED.search(after[at])]
    return places[-1] if places else -1
