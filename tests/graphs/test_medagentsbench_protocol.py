"""Who is asked what, in which order: ours beside the programs of MedAgentsBench on the same scripted replies.

What `THEIRS` holds was recorded from gersteinlab/medagents-benchmark at commit f5e50b6 (`baselines/`) with a client
that only writes down what it is asked. Left out are calls that carry no part of the method: an extractor that reads the
letter out of each reply, and MDAgents' calls that send a voice its own system prompt before its first question.
"""

import json
import re

import pytest

from ragrounds.graphs import catalogue
from ragrounds.prompts.loader import PromptFolder
from tests.graphs.playing import ANSWER, play
from tests.graphs.test_diagram import DOCUMENT

EVERYBODY = "abcdefg"
GATHERED = (
    "experts | option_experts | analyse a | analyse b | analyse c | analyse d | analyse e | weigh f | weigh g | report"
)


def votes(*against):
    """The calls of a vote of all seven, those against it being asked for advice at once."""
    return " | ".join(f"ballot {one} | advise {one}" if one in against else f"ballot {one}" for one in EVERYBODY)


TEAM = "lead {0} | look_into {1} | look_into {2} | conclude {0}"
OPINE = "opine a | opine b | opine c | opine d | opine e"
TALK = "talk a | talk b | talk c | talk d | talk e"
DISCUSSED = f"assess | recruit | {OPINE} | report | {TALK}"
THEIRS = {
    "cot": "answer",
    "multi_persona": "persona1 | persona2 | persona3 | again | again | again | moderate",
    "self_refine, the review objects": "answer | review",
    "medagents, all agree": f"{GATHERED} | {votes()} | decide",
    "medagents, b objects once": f"{GATHERED} | {votes('b')} | revise | {votes()} | decide",
    "medagents, nobody ever agrees": " | ".join([GATHERED, *[votes(*EVERYBODY), "revise"] * 3, "decide"]),
    "mdagents, basic": "assess | answer",
    "mdagents, intermediate, nobody talks": f"{DISCUSSED} | moderate",
    "mdagents, intermediate, a talks once": " | ".join(
        [DISCUSSED.replace("talk a", "talk a | to whom a | message a"), TALK, "moderate"]
    ),
    "mdagents, advanced": " | ".join(
        ["assess | assemble", *(TEAM.format(*team) for team in ("abc", "def", "ghi", "ghi")), "decide"]
    ),
}
"""Arm, and what the scripted voices do → what their program asks."""
CALLS = {
    "cot": (1, 1),
    "multi_persona": (7, 7),
    "self_refine, the review objects": (2, 7),
    "medagents, all agree": (18, 18),
    "medagents, b objects once": (27, 27),
    "medagents, nobody ever agrees": (56, 56),
    "mdagents, basic": (2, 2),
    "mdagents, intermediate, nobody talks": (14, 14),
    "mdagents, intermediate, a talks once": (21, 30),
    "mdagents, advanced": (19, 15),
}
"""Arm → how many calls theirs and ours make."""


def asked(graph, request):
    """The prompt that a request was made of (the longest whose words are all in it), and the expert who is asked."""
    folder, system = PromptFolder(), request.messages[0].content
    sources = {
        name.partition("/")[2]: folder.source(name).strip() for name in catalogue.prompts_of(graph) if graph in name
    }
    fitting = [
        name for name, source in sources.items() if all(part.strip() in system for part in re.split(r"\$\w+", source))
    ]
    name = max(fitting, key=lambda name: len(sources[name]), default="answer")
    expert = re.search(r"expert in (\w)\b", system) if "$expert" in sources.get(name, "") else None
    return f"{name} {expert[1]}" if expert else name


def voices(*, objects=(), once=True, level="low", talks=()):
    """What each voice says. `objects`: those who vote against the report, the first time or, if not `once`, always.
    `talks`: those who write to the second expert once."""
    against, talking = list(objects), list(talks)

    def say(name):
        brief, _, who = name.partition(" ")
        if brief == "ballot":
            says = "NO" if who in against else "YES"
            if once and who in against:
                against.remove(who)
            return says
        if brief == "talk" and who in talking:
            talking.remove(who)
            return json.dumps({"to": [2], "message": "B."})
        teams = [{"purpose": "x", "members": list(team)} for team in ("abc", "def", "ghi")]
        return {
            "experts": json.dumps({"experts": list("abcde")}),
            "option_experts": json.dumps({"experts": list("fg")}),
            "recruit": json.dumps({"experts": list("abcde")}),
            "assemble": json.dumps({"teams": teams}),
            "assess": level,
            "talk": json.dumps({"to": [], "message": ""}),
            "review": json.dumps({"critique": "No.", "accept": False}),
        }.get(brief, ANSWER)

    return say


OURS = [
    ("cot", "direct_cot", voices(), ""),
    ("multi_persona", "debate[final=moderator,personas=true]", voices(), ""),
    # Theirs reads the letter out of the review, takes any letter for consent, and never revises.
    (
        "self_refine, the review objects",
        "critique",
        voices(),
        "answer | review | revise | review | revise | review | revise",
    ),
    ("medagents, all agree", "medagents", voices(), ""),
    ("medagents, b objects once", "medagents", voices(objects="b"), ""),
    ("medagents, nobody ever agrees", "medagents", voices(objects=EVERYBODY, once=False), ""),
    ("mdagents, basic", "mdagents", voices(), ""),
    ("mdagents, intermediate, nobody talks", "mdagents", voices(level="moderate"), ""),
    # Theirs ends with the silent turn, without new answers.
    (
        "mdagents, intermediate, a talks once",
        "mdagents",
        voices(level="moderate", talks="a"),
        " | ".join([DISCUSSED, TALK, OPINE.replace("opine", "again"), "report", TALK, "moderate"]),
    ),
    # Theirs has the review team meet twice, as one of the others and as itself.
    (
        "mdagents, advanced",
        "mdagents",
        voices(level="high"),
        " | ".join(["assess | assemble", *(TEAM.format(*team) for team in ("abc", "def", "ghi")), "decide"]),
    ),
]
"""Arm, our agent, what its voices say, and what ours asks where that is not what theirs asks."""


@pytest.mark.parametrize(("arm", "agent", "say", "other"), OURS, ids=[row[0] for row in OURS])
async def test_ours_asks_what_theirs_asks_or_what_is_said_to_differ(arm, agent, say, other):
    graph = agent.partition("[")[0].removesuffix("_cot")
    played = await play(agent, lambda request: say(asked(graph, request)))
    assert played.attempt.status == "completed", played.attempt.reason
    sequence = " | ".join(asked(graph, request) for request in played.model.requests)
    assert sequence == (other or THEIRS[arm])
    assert other != THEIRS[arm]
    assert len(played.model.requests) == CALLS[arm][1]
    assert THEIRS[arm].count("|") + 1 == CALLS[arm][0]


def test_the_documentation_names_these_numbers():
    text = DOCUMENT.read_text(encoding="utf-8").split("## Checked against MedAgentsBench")[1].split("\n## ")[0]
    for theirs, ours in list(CALLS.values())[3:]:
        assert f"| {theirs} | {ours} |" in text
