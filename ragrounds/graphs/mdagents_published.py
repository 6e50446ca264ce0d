"""The discussion and the teams of `mdagents` as the authors' program runs them (mitmedialab/MDAgents at 3adbd76).

Every voice is a chat with memory: it sees its own prompts and replies so far. Faults of the program are kept: experts
never see the report; in the first round they see all first answers and none of the messages; later reports are made of
nothing; they answer again only where somebody spoke in the last turn; the moderator sees the last new answers, or
``None`` where nobody ever spoke; a team of final review meets twice; the decision sees the reports of initial
assessment alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragrounds.base.contracts import Context
from ragrounds.base.records import Message
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.voices import numbered, say

PROMPTS = ("mdagents/participate", "mdagents/to_whom", "mdagents/message")
Chats = dict[str, list[Message]]
"""Voice → its prompts and replies so far."""


def copy_chats(chats: Mapping[str, Sequence[Message]]) -> Chats:
    """Return a copy that a node may extend."""
    return {voice: list(messages) for voice, messages in chats.items()}


async def give_answers(context: Context, team: Sequence[str], chats: Chats, again: bool) -> list[str]:
    """Ask each expert for an answer, or for a new one after a talk."""
    brief = "mdagents/again" if again else "mdagents/opine"
    return [
        await say(context, brief, "answer", chat=chats.setdefault(f"{index} {expert}", []), expert=expert)
        for index, expert in enumerate(team)
    ]


async def take_turn(context: Context, team: Sequence[str], chats: Chats, opinions: Sequence[str]) -> bool:
    """Run a turn of messages, and return True if anybody wanted to talk. `opinions` are those that are shown, if any.

    Without them each expert sees the messages to it that were written earlier in this turn.
    """
    comments, spoke = [""] * len(team), False
    for index, expert in enumerate(team):
        chat = chats.setdefault(f"{index} {expert}", [])
        seen = {"Answers": numbered(opinions, team)} if opinions else {"Messages to you": comments[index]}
        wish = without_thought(await say(context, "mdagents/participate", "question", seen, chat=chat, expert=expert))
        if "yes" not in wish.casefold():
            continue
        spoke = True
        listed = {"Experts": numbered(team)}
        chosen = without_thought(await say(context, "mdagents/to_whom", "question", listed, chat=chat, expert=expert))
        for part in chosen.replace(".", ",").split(","):
            number = int(part) if part.strip().isdecimal() else 0
            if 1 <= number <= len(team):
                other = f"{number}. {team[number - 1]}"
                message = await say(context, "mdagents/message", "question", chat=chat, expert=expert, other=other)
                comments[number - 1] += f"[{expert}] {without_thought(message)}\n"
    return spoke


def order_teams(teams: Sequence[list[str]]) -> list[list[str]]:
    """Return the teams in the order in which they meet: initial assessment, others, and final review once more."""
    initial = [team for team in teams if is_initial(team)]
    review = [team for team in teams if any(word in team[0].casefold() for word in ("review", "decision", "frdt"))]
    return [*initial, *(team for team in teams if not is_initial(team)), *review]


def is_initial(team: Sequence[str]) -> bool:
    """Return True if a team, by its purpose, makes the initial assessment."""
    return any(word in team[0].casefold() for word in ("initial", "iap"))
