"""`mdagents`: one answer, a discussion or teams, as the question's complexity asks for (MDAgents: Kim et al., 2024).

Section 3. The question is judged to be of low, moderate or high complexity. Low: one answer, the call of `direct_cot`.
Moderate: `experts` (5) are recruited and answer; in each of `rounds` (5) a report is made of their answers, they send
each other messages in up to `turns` (5), and answer again; once no expert has anything to say, a moderator decides.
High: `teams` (3) of `members` (3), one after the other: the first member names the points to look into, the others look
into it, the first one reports; the decision is made by all reports.

With ``flow=published`` all of it runs as the authors' program does, in chats with memory
(`ragrounds/graphs/mdagents_published.py`).

Sees the options: all nodes but `assess`; nothing is searched. Differs: recruits come as JSON, all as equals; whether an
expert speaks, to whom, and what are one call; no solved examples are shown; a voice sees its last answer and the
messages to it, where theirs sees all that it was asked and said; later teams read the reports of earlier ones. The
authors' program makes a report that it shows to no expert, lets experts answer again only where the last turn was not
silent, and decides by the first team's report alone; here experts see the report, all answer again where anybody spoke,
and the decision sees every team's report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ragrounds.base.contracts import Context
from ragrounds.base.text import wellformed
from ragrounds.graphs import mdagents_published as published
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import branch, read_object
from ragrounds.graphs.state import Graph, Runtime, choice, int_parameter
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import experts, names, numbered, say

_MODERATE = ("recruit", "opine", "again", "report", "talk", "moderate")
_HIGH = ("assemble", "lead", "look_into", "conclude", "decide")
PROMPTS = (*ANSWERING, *(f"mdagents/{name}" for name in ("assess", *_MODERATE, *_HIGH)), *published.PROMPTS)

_LEVEL = re.compile(r"\b(low|moderate|high)\b", re.IGNORECASE | re.ASCII)


class State(Shared, total=False):
    complexity: str
    experts: list[str]
    opinions: list[str]
    """Last answer of each expert."""
    report: str
    messages: list[str]
    """Messages to each expert, in this round."""
    spoke: bool
    """True if any expert wrote a message in the last turn."""
    turns: int
    rounds: int
    """Number of answers of each expert."""
    teams: list[list[str]]
    """Teams that have not met yet: purpose, lead, other members."""
    reports: list[str]
    chats: published.Chats
    """Memory of each voice (``flow=published``)."""
    answers: list[str]
    """Last new answer of each expert (``flow=published``); absent before anybody spoke."""


def build() -> Graph:
    """Build the graph.

    START → assess → (recruit → opine → summarise → talk → opine … | assemble → meet … |) answer → END.
    """

    def after_opinions(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: the next round's report, or the final answer."""
        return "summarise" if state["rounds"] <= int_parameter(runtime.context, "rounds", 5) else "answer"

    def after_talk(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: another turn of messages, a new round of answers, or the final answer."""
        if state["spoke"] and state["turns"] < int_parameter(runtime.context, "turns", 5):
            return "talk"
        again = state["spoke"] if _is_published(runtime.context) else any(state["messages"])
        return "opine" if again else "answer"

    return branch(
        State,
        assess,
        choose_branch=lambda state, context: state["complexity"],
        ways={"low": [], "moderate": [recruit, opine, summarise, talk], "high": [assemble, meet]},
        answer=answer,
        more={
            "opine": (after_opinions, ["summarise", "answer"]),
            "talk": (after_talk, ["talk", "opine", "answer"]),
            "meet": (lambda state: "meet" if state["teams"] else "answer", ["meet", "answer"]),
        },
    )


def _is_published(context: Context) -> bool:
    """Return True if the discussion and the teams follow the authors' program."""
    return choice(context, "flow", ("paper", "published")) == "published"


async def assess(state: State, runtime: Runtime[Context]) -> State:
    """Ask how complex the question is."""
    levels = _LEVEL.findall(without_thought(await say(runtime.context, "mdagents/assess", "stem")))
    if not levels:
        runtime.context.note("no_complexity", "the reply names no complexity; the question counts as low")
    return {"complexity": levels[-1].casefold() if levels else "low"}


async def recruit(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for a list of experts."""
    context, expert_limit = runtime.context, int_parameter(runtime.context, "experts", 5)
    text = await say(context, "mdagents/recruit", "question", number=str(expert_limit))
    return {"experts": experts(context, text, expert_limit)}


async def opine(state: State, runtime: Runtime[Context]) -> State:
    """Ask each expert for an answer, or for a new answer after a talk."""
    context, opinions, last = runtime.context, list[str](), state.get("opinions")
    rounds = state.get("rounds", 0) + 1
    if _is_published(context):
        chats = published.copy_chats(state.get("chats", {}))
        answers = await published.give_answers(context, state["experts"], chats, again=bool(last))
        next_state: State = {"chats": chats, "rounds": rounds}
        return {**next_state, "answers": answers} if last else {**next_state, "opinions": answers}
    for index, expert in enumerate(state["experts"]):
        seen = {"Your last answer": last[index], "Messages to you": state["messages"][index]} if last else {}
        brief = "mdagents/again" if last else "mdagents/opine"
        opinions.append(await say(context, brief, "answer", seen, expert=expert))
    return {"opinions": opinions, "rounds": rounds}


async def summarise(state: State, runtime: Runtime[Context]) -> State:
    """Begin a round with a report of all answers."""
    seen = {"Answers": numbered(state["opinions"], state["experts"])}
    if _is_published(runtime.context) and state["rounds"] > 1:
        seen = {"Answers": ""}  # their program stores no opinions of later rounds
    report = await say(runtime.context, "mdagents/report", "question", seen)
    return {"report": report, "messages": [""] * len(state["experts"]), "turns": 0}


async def talk(state: State, runtime: Runtime[Context]) -> State:
    """Run a turn in which each expert may write to others."""
    context, team, messages, spoke = runtime.context, state["experts"], list(state["messages"]), False
    if _is_published(context):
        chats, opinions = published.copy_chats(state["chats"]), state["opinions"] if state["rounds"] == 1 else []
        spoke = await published.take_turn(context, team, chats, opinions)
        return {"chats": chats, "spoke": spoke, "turns": state["turns"] + 1}
    for index, expert in enumerate(team):
        seen = {"Experts": numbered(team), "Report": state["report"], "Messages to you": messages[index]}
        read = read_object(without_thought(await say(context, "mdagents/talk", "question", seen, expert=expert)))
        message, recipients = read.get("message"), read.get("to")
        if isinstance(message, str) and message.strip() and isinstance(recipients, list):
            # Numbers from 1. JSON's true would count as 1 otherwise.
            numbers = [recipient for recipient in recipients if not isinstance(recipient, bool)]
            for other in {number for number in range(len(team)) if number + 1 in numbers} - {index}:
                messages[other] += f"[{expert}] {wellformed(message)}\n"
                spoke = True
    return {"messages": messages, "spoke": spoke, "turns": state["turns"] + 1}


async def assemble(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for a list of teams."""
    context, member_limit = runtime.context, int_parameter(runtime.context, "members", 3)
    number = int_parameter(context, "teams", 3)
    text = await say(context, "mdagents/assemble", "question", number=str(number), members=str(member_limit))
    listed = read_object(without_thought(text)).get("teams")
    teams = [
        [" ".join(names([team.get("purpose")], 1)), *members]
        for team in (listed if isinstance(listed, list) else [])
        if isinstance(team, dict) and (members := names(team.get("members"), member_limit))
    ]
    if not teams:
        context.note("no_teams", "no team could be read; one of general medicine meets")
    teams = (teams or [["", "general medicine"]])[:number]
    return {"teams": published.order_teams(teams) if _is_published(context) else teams}


async def meet(state: State, runtime: Runtime[Context]) -> State:
    """Run the next team's meeting: its lead asks, the others look into the question, the lead reports."""
    context, reports, (purpose, lead, *members) = runtime.context, state.get("reports", []), state["teams"][0]
    present = ", ".join(members) or "-"
    in_chats, chats = _is_published(context), published.copy_chats(state.get("chats", {}))
    before = {"Reports of other teams": numbered(reports)} if reports and not in_chats else {}

    async def speak(brief: str, expert: str, seen: Mapping[str, str]) -> str:
        """Ask a member of this team."""
        chat = chats.setdefault(f"{purpose}\n{expert}", []) if in_chats else None
        return await say(context, brief, "question", seen, chat=chat, expert=expert, purpose=purpose, members=present)

    request = await speak("mdagents/lead", lead, before)
    findings = [await speak("mdagents/look_into", other, {"Asked for": request}) for other in members]
    seen = {**before, "Findings": numbered(findings, members)}
    report = await speak("mdagents/conclude", lead, seen)
    if not in_chats or published.is_initial(state["teams"][0]):
        reports = [*reports, f"{purpose}\n{without_thought(report)}"]
    return {"teams": state["teams"][1:], "reports": reports, "chats": chats}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer: at once, by the discussion, or by the teams' reports."""
    context = runtime.context
    if "reports" in state:
        return {"answer": await say(context, "mdagents/decide", "answer", {"Reports": numbered(state["reports"])})}
    if "opinions" in state:
        seen = {"Answers": numbered(state["opinions"], state["experts"])}
        if _is_published(context):
            seen = {"Answers": numbered(state["answers"], state["experts"]) if "answers" in state else "None"}
        return {"answer": await say(context, "mdagents/moderate", "answer", seen)}
    return {"answer": await say(context, "", "answer")}
