"""`mdagents`: one answer, a discussion or teams, as the question's complexity asks for (MDAgents: Kim et al., 2024).

Section 3. The question is judged to be of low, moderate or high complexity. Low: one answer, the call of `direct_cot`.
Moderate: `experts` (5) are recruited and answer; in each of `rounds` (5) a report is made of their answers, they send
each other messages in up to `turns` (5), and answer again; once no expert has anything to say, a moderator decides.
High: `teams` (3) of `members` (3), one after the other: the first member names the points to look into, the others look
into it, the first one reports; the decision is made by all reports.

Sees the options: all nodes but `assess`; nothing is searched. Differs: recruits come as JSON, all as equals; whether an
expert speaks, to whom, and what are one call; no solved examples are shown. The authors' program makes a report that it
shows to no expert, lets experts answer again only where the last turn was not silent, and decides by the first team's
report alone; here experts see the report, all answer again where anybody spoke, and the decision sees every team's
report.
"""

from __future__ import annotations

import re

from ragrounds.base.contracts import Context
from ragrounds.base.text import wellformed
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.model_text import without_thought
from ragrounds.graphs.shapes import branch, read_object
from ragrounds.graphs.state import Graph, Runtime, int_parameter
from ragrounds.graphs.state import State as Shared
from ragrounds.graphs.voices import experts, names, numbered, say

_MODERATE = ("recruit", "opine", "again", "report", "talk", "moderate")
_HIGH = ("assemble", "lead", "look_into", "conclude", "decide")
PROMPTS = (*ANSWERING, *(f"mdagents/{name}" for name in ("assess", *_MODERATE, *_HIGH)))

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
        return "opine" if any(state["messages"]) else "answer"

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
    for index, expert in enumerate(state["experts"]):
        seen = {"Your last answer": last[index], "Messages to you": state["messages"][index]} if last else {}
        brief = "mdagents/again" if last else "mdagents/opine"
        opinions.append(await say(context, brief, "answer", seen, expert=expert))
    return {"opinions": opinions, "rounds": state.get("rounds", 0) + 1}


async def summarise(state: State, runtime: Runtime[Context]) -> State:
    """Begin a round with a report of all answers."""
    seen = {"Answers": numbered(state["opinions"], state["experts"])}
    report = await say(runtime.context, "mdagents/report", "question", seen)
    return {"report": report, "messages": [""] * len(state["experts"]), "turns": 0}


async def talk(state: State, runtime: Runtime[Context]) -> State:
    """Run a turn in which each expert may write to others."""
    context, team, messages, spoke = runtime.context, state["experts"], list(state["messages"]), False
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
    return {"teams": (teams or [["", "general medicine"]])[:number]}


async def meet(state: State, runtime: Runtime[Context]) -> State:
    """Run the next team's meeting: its lead asks, the others look into the question, the lead reports."""
    context, reports, (purpose, lead, *members) = runtime.context, state.get("reports", []), state["teams"][0]
    values = {"purpose": purpose, "members": ", ".join(members) or "-"}
    before = {"Reports of other teams": numbered(reports)} if reports else {}
    request = await say(context, "mdagents/lead", "question", before, expert=lead, **values)
    findings = [
        await say(context, "mdagents/look_into", "question", {"Asked for": request}, expert=other, **values)
        for other in members
    ]
    seen = {**before, "Findings": numbered(findings, members)}
    report = await say(context, "mdagents/conclude", "question", seen, expert=lead, **values)
    return {"teams": state["teams"][1:], "reports": [*reports, f"{purpose}\n{without_thought(report)}"]}


async def answer(state: State, runtime: Runtime[Context]) -> Shared:
    """Ask for the answer: at once, by the discussion, or by the teams' reports."""
    context = runtime.context
    if "reports" in state:
        return {"answer": await say(context, "mdagents/decide", "answer", {"Reports": numbered(state["reports"])})}
    if "opinions" in state:
        seen = {"Answers": numbered(state["opinions"], state["experts"])}
        return {"answer": await say(context, "mdagents/moderate", "answer", seen)}
    return {"answer": await say(context, "", "answer")}
