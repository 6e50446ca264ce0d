"""All strategies by one table: what each does on scripted replies, and what holds for every one of them."""

import json
import math
import re
from dataclasses import dataclass, field
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from msgspec.structs import replace as other

from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Left, Question, Reply, TokenLogprob, Usage
from ragrounds.evals.trace.traces import steps
from ragrounds.graphs import catalogue, diagram
from ragrounds.graphs.crag import read_scores
from ragrounds.graphs.shapes import read_object, sentences
from ragrounds.models.faults import CallFailed
from ragrounds.models.request_arguments import CannotTake
from ragrounds.prompts.loader import PromptFolder
from tests.graphs.playing import ANSWER, CHOICE, LONG, Shelf, passage, play, text_of
from tests.graphs.test_any_model import EXAMPLES, PIECES, REPLIES
from tests.graphs.test_any_model import MOST as MOST_OF_OTHERS
from tests.rows import each_row

STEM = CHOICE.text
FINAL = "So the final answer is: Heparin."


def follow_up(text):
    return f"Are follow up questions needed here: Yes.\nFollow up: {text}\n"


def said(**keys):
    return json.dumps(keys)


def chosen(letter):
    return said(answer_choice=letter)


def counted(votes, letter):
    return said(step_by_step_thinking=f"Votes: {votes}", answer_choice=letter)


def doubting(text, *doubted, finish="stop"):
    """A reply whose tokens have a probability of 0.9, and 0.1 those that are doubted."""
    tokens = re.findall(r"\s*\S+", text)
    chances = [0.1 if token.strip() in doubted else 0.9 for token in tokens]
    pairs = zip(tokens, chances, strict=True)
    return Reply(
        text=text, finish=finish, logprobs=tuple(TokenLogprob(token, math.log(chance)) for token, chance in pairs)
    )


def marked(*tokens):
    """A reply of these tokens with their probabilities, each beside the likeliest of all of them."""
    listed = tuple((token, math.log(chance)) for token, chance in tokens)
    return Reply(
        text=" ".join(token for token, _ in tokens), logprobs=tuple(TokenLogprob(*one, top=listed) for one in listed)
    )


@dataclass(frozen=True)
class Row:
    """An agent, what its model says, and what must come of it."""

    agent: str
    script: list
    nodes: str
    calls: str
    """``m`` for a model call with the letter of its role, ``s`` for a search: ``ma s mr``."""
    # Those that reach the retriever: the same search again comes from the journal.
    queries: list = field(default_factory=list)
    text: str = ANSWER
    notes: list = field(default_factory=list)
    question: Question = CHOICE
    barren: tuple = ()
    sees: str = "answer"
    """Nodes whose prompts show the options."""


TALKED = "recruit opine summarise talk answer"
TEAMS = said(level="high", teams=[{"purpose": "first", "members": ["a", "b"]}, {"members": ["c", "d"]}, {"members": 1}])
CONSULTED = "gather_further weigh report consult revise answer"
ROWS = [
    Row(
        "ircot[top_k=2]", ["Clots are treated. More.", "So the answer is: heparin.", ANSWER],
        "search reason search reason answer", "s ma s ma ma", [STEM, "Clots are treated."],
    ),
    Row(
        "ircot[queries=published]",
        ["Which drug is used for clots. X", "Thus it is that. X", "The answer is x.", ANSWER],
        "search reason search reason search reason answer", "s ma s ma s ma ma",
        ["drug given first?", "drug used for clots."],
    ),
    Row("ircot[steps=2]", ["One.", "Two.", ANSWER], "search reason search reason answer", "s ma s ma ma",
        [STEM, "One."], notes=["step_limit"]),
    Row("ircot", ["", ANSWER], "search reason answer", "s ma ma", [STEM], notes=["no_sentence"]),
    Row("ircot", ["答案是肝素。", "It is heparin."], "search reason answer", "s ma ma", [LONG.text],
        text="It is heparin.", question=LONG),
    Row("iter_retgen", ["It may be heparin.", ANSWER], "search write search answer", "s ma s ma",
        [STEM, f"It may be heparin. {STEM}"]),
    Row("iter_retgen[rounds=1]", [ANSWER], "search answer", "s ma", [STEM]),
    Row("iter_retgen[rounds=3]", ["<think>x", "b", ANSWER], "search write search write search answer",
        "s ma s ma s ma", [STEM, f"b {STEM}"], notes=["nothing_generated"]),
    Row("iter_retgen", ["a", "Heparin."], "search write search answer", "s ma s ma", [LONG.text, f"a {LONG.text}"],
        text="Heparin.", question=LONG),
    Row("self_ask", [follow_up("What is first?"), "Heparin.", FINAL, ANSWER], "ask look_up ask answer",
        "ma s mr ma ma", ["What is first?"]),
    Row("self_ask[reading=false]", [follow_up("q"), FINAL, ANSWER], "ask look_up ask answer", "ma s ma ma", ["q"]),
    Row("self_ask[retrieval=false]", [f"{follow_up('q')}Intermediate answer: x\n{FINAL}", ANSWER], "ask answer",
        "ma ma"),
    Row("self_ask[follow_ups=1]", [follow_up("q"), "x", follow_up("r"), FINAL, ANSWER],
        "ask look_up ask look_up ask answer", "ma s mr ma ma ma", ["q"], notes=["search_limit"]),
    Row("self_ask", [follow_up("q"), FINAL, ANSWER], "ask look_up ask answer", "ma s ma ma", ["q"], barren=("q",)),
    Row("self_ask", ["I do not know.", ANSWER], "ask answer", "ma ma", notes=["no_answer"]),
    Row("self_ask", [FINAL], "ask answer", "ma", text="Heparin.", question=LONG),
    Row("chain_of_note", ["Note 1. Conclusion: heparin.", ANSWER], "search take_notes answer", "s mr ma", [STEM]),
    Row("chain_of_note", ["", "Heparin."], "search take_notes answer", "s mr ma", [LONG.text], text="Heparin.",
        question=LONG),
    Row("crag[top_k=2]", [said(scores=[-1, 0.9]), said(scores=[1, 0]), ANSWER], "search judge refine answer",
        "s mr mr ma", [STEM]),
    Row("crag[top_k=2]", [said(scores=[-1, -1]), "heparin, clots", said(scores=[0, 0]), ANSWER],
        "search judge rewrite search_further refine answer", "s mr mq s mr ma", [STEM, "heparin, clots"]),
    Row("crag[top_k=2]", ["It helps.", "", said(scores=[0, 0]), ANSWER],
        "search judge rewrite search_further refine answer", "s mr mq s mr ma", [STEM],
        notes=["unreadable_scores", "no_queries"]),
    Row("crag", ["a", ANSWER], "search judge rewrite search_further refine answer", "s mq s ma", [STEM, "a"],
        notes=["nothing_found"], barren=(STEM, "a")),
    Row("sure", [said(candidates=["heparin", "aspirin", "x"]), "H.", "True", "A.", "False", "Passage 2", "Passage 2",
                 ANSWER],
        "search propose summarise summarise rank answer", "s mr mr mr mr mr mr mr ma", [STEM]),
    Row("sure", [said(candidates=["heparin", " Heparin"]), "H.", "True"], "search propose summarise rank answer",
        "s mr mr mr", [LONG.text], text="heparin", question=LONG),
    Row("sure", ["None.", ANSWER], "search propose rank answer", "s mr ma", [STEM], notes=["no_candidates"]),
    Row("adaptive_rag", ["A", ANSWER], "assess answer", "mr ma"),
    Row("adaptive_rag", ["Class: B.", ANSWER], "assess retrieve answer", "mr s ma", [STEM]),
    Row("adaptive_rag", ["C", "One.", "The answer is x.", ANSWER], "assess search reason search reason answer",
        "mr s ma s ma ma", [STEM, "One."]),
    Row("adaptive_rag", ["Because", "Heparin."], "assess retrieve answer", "mr s ma", [LONG.text], text="Heparin.",
        notes=["no_class"], question=LONG),
    Row("plan_search", [said(queries=["q1", "q2", "Q1"]), "d", "d", ANSWER], "plan look_up look_up gather answer",
        "mq s s mr mr ma", ["q1", "q2"], notes=["repeated_query"]),
    Row("plan_search[rounds=3,queries=1]", [said(queries=["q1"]), "d", said(queries=["q1"]), ANSWER],
        "plan look_up gather plan gather answer", "mq s mr mq ma", ["q1"], notes=["repeated_query", "no_queries"]),
    Row("rationale_query[top_k=2]", ["Clots need heparin.", said(scores=[1, 0]), ANSWER], "reason search sift answer",
        "mq s mr ma", ["Clots need heparin."]),
    Row("rationale_query[filter=false]", ["<think>x", "Heparin."], "reason search sift answer", "mq s ma", [LONG.text],
        text="Heparin.", notes=["nothing_generated"], question=LONG),
    Row("rationale_query", ["x", said(scores=[-1] * 10), ANSWER], "reason search sift answer", "mq s mr ma", ["x"],
        notes=["nothing_found"]),
    Row("rationale_query", ["x", ANSWER], "reason search sift answer", "mq s ma", ["x"], notes=["nothing_found"],
        barren=("x",)),
    Row("self_rag[top_k=2]",
        ["[Retrieval]", "[Irrelevant] Aspirin. [Utility:1]", "[Relevant] Heparin. [Fully supported]", ANSWER],
        "retrieve write write choose answer", "ma s ma ma ma", [STEM]),
    Row("self_rag", ["[No Retrieval]", "[Relevant] Heparin. [Utility:5]"], "retrieve write choose answer", "ma ma",
        text="Heparin.", question=LONG),
    Row("self_rag[retrieval=always,segments=2,top_k=1]", ["It is. [Retrieval]", "Heparin. [Retrieval]", ANSWER],
        "retrieve write choose retrieve write choose answer", "s ma s ma ma", [STEM, f"{STEM} It is."]),
    Row("self_rag[mode=tokens,top_k=2]",
        [marked(("[No Retrieval]", 0.7), ("[Retrieval]", 0.3)), marked(("Heparin.", 0.9), ("[Utility:5]", 0.9)),
         marked(("Aspirin.", 0.9), ("[Utility:1]", 0.9)), ANSWER],
        "retrieve write write choose answer", "ma s ma ma ma", [STEM]),
    Row("self_rag[retrieval=never]", ["", ANSWER], "retrieve write choose answer", "ma ma", notes=["no_answer"]),
    Row("flare", [doubting("Clots need heparin. It is.", "heparin."), "Heparin is it. It helps.",
                  doubting("It is first."), ANSWER],
        "search write search write answer", "s ma s ma ma ma", [STEM, "Clots need"]),
    Row("flare[queries=questions,first_search=false]",
        [doubting("Clots need heparin at once, and then aspirin is given later.", "heparin", "given"), "What first?",
         "", "It is so.", ANSWER],
        "search write search write answer", "ma mq mq s ma ma", ["What first?"]),
    Row("flare[queries=sentence,steps=2]",
        [doubting("One so.", "so."), doubting("Two x. And on.", "x."), doubting("Three. X.", "X."), ANSWER],
        "search write search write answer", "s ma s ma ma ma", [STEM, "One so."], notes=["step_limit"]),
    Row("flare", [doubting("Heparin.", "Heparin.", finish="length"), "", ANSWER], "search write answer", "s ma ma ma",
        [STEM], notes=["empty_query"]),
    Row("flare", ["Clots.", "Clots need [Search(clot treatment", "Heparin."], "search write search write answer",
        "s ma ma s ma", [LONG.text, "clot treatment"], text="Clots need Heparin.", notes=["no_logprobs"],
        question=LONG),
    Row("flare[form=instruct,steps=1]", ["[Search(a)]", "x [Search(b)]", ANSWER], "search write search write answer",
        "s ma s ma ma", [STEM, "a"], notes=["step_limit"]),
    Row("flare[form=instruct]", ["[Search(a)]", "[Search(A)]", ANSWER], "search write search write answer",
        "s ma s ma ma", [STEM, "a"], notes=["repeated_query", "no_answer"]),
    Row("plan_search", ["?", "d", "Heparin."], "plan look_up gather answer", "mq s mr ma", [LONG.text],
        text="Heparin.", notes=["no_queries"], question=LONG),
    Row("debate[rounds=1]", [chosen("A"), ANSWER, chosen("B")], "convene speak speak speak convene answer", "ma ma ma",
        sees="speak"),
    Row("debate", [ANSWER] * 6, "convene speak speak speak convene speak speak speak convene answer",
        "ma ma ma ma ma ma", sees="speak"),
    Row("debate[rounds=1,agents=2]", ["x", "y"], "convene speak speak convene answer", "ma ma", text="x",
        notes=["no_majority"], sees="speak"),
    Row("debate[final=moderator,personas=true]", [chosen("A")] * 6 + [ANSWER],
        "convene speak speak speak convene speak speak speak convene answer", "ma ma ma ma ma ma ma",
        sees="speak answer"),
    Row("debate[agents=2,rounds=1]", ["a", "b", "Heparin."], "convene speak speak convene answer", "ma ma ma",
        text="Heparin.", question=LONG),
    Row("critique", [ANSWER, said(accept=True)], "write review answer", "ma ma", sees="write review"),
    Row("critique[rounds=2]",
        [chosen("A"), said(critique="No.", accept=False), chosen("C"), said(accept=False), ANSWER],
        "write review write review write answer", "ma ma ma ma ma", sees="write review"),
    Row("critique", ["Heparin.", "It is fine."], "write review answer", "ma ma", text="Heparin.", question=LONG,
        notes=["unreadable_critique"], sees=""),
    Row("medagents[question_experts=2,option_experts=1]",
        [said(experts=["a", "b"]), said(experts=["c"]), "x", "x", "y", "report", "Yes", "YES", "I think so", ANSWER],
        "gather gather_further analyse analyse weigh report consult answer", "ma ma ma ma ma ma ma ma ma ma",
        notes=["unclear_ballot"], sees=CONSULTED),
    Row("medagents[question_experts=1,option_experts=0]",
        [said(experts=["a"]), "x", "r", "NO", "advice", "r2", "yes", ANSWER],
        "gather gather_further analyse weigh report consult revise consult answer", "ma ma ma ma ma ma ma ma",
        sees=CONSULTED),
    Row("medagents[votes=1,question_experts=1]", ["?", "x", "r", "no", "advice", "r2", "Heparin."],
        "gather gather_further analyse weigh report consult revise answer", "ma ma ma ma ma ma ma", text="Heparin.",
        question=LONG, notes=["no_experts", "no_consensus"], sees=""),
    Row("medprompt[explain=false,votes=3]", [chosen("A"), chosen("A"), chosen("A")],
        "recall explain solve solve solve answer", "ma ma ma", text=counted("C 2, A 1", "C"), sees="solve"),
    Row("medprompt[examples=0,votes=2]", ["x", "A."], "recall explain solve solve answer", "ma ma",
        text=counted("none 1, C 1", "C"), notes=["no_examples"], sees="solve"),
    Row("medprompt[examples=5,explain=false,votes=1]", ["?"], "recall explain solve answer", "ma", text="?",
        notes=["no_majority"], sees="solve"),
    Row("medprompt", ["Heparin."], "recall explain solve answer", "ma", text="Heparin.", question=LONG,
        notes=["no_examples"], sees=""),
    Row("mdagents", ["low", ANSWER], "assess answer", "ma ma"),
    Row("mdagents", ["?", "Heparin."], "assess answer", "ma ma", text="Heparin.", notes=["no_complexity"],
        question=LONG),
    Row("mdagents[experts=2]",
        ["Moderate.", said(experts=["a", "b", "c"]), "x", "y", "report", said(to=[]), "-", ANSWER],
        "assess recruit opine summarise talk answer", "ma ma ma ma ma ma ma ma", sees=TALKED),
    Row("mdagents[rounds=1]", ["moderate", said(experts=["a", "b"]), "x", "y", "report", said(to=[1, 2], message="No."),
                               said(to=[]), said(to=[]), said(to=[7, 2, "1"], message="So?"), "x", "y", ANSWER],
        "assess recruit opine summarise talk talk opine answer", "ma ma ma ma ma ma ma ma ma ma ma ma", sees=TALKED),
    Row("mdagents[turns=1,rounds=2]", ["moderate", said(experts=["a", "b"]), "x", "y", "r", said(to=[2], message="No."),
                                       said(to=[1], message="Yes."), "x", "x", "r", "", "", "Heparin."],
        "assess recruit opine summarise talk opine summarise talk answer", "ma ma ma ma ma ma ma ma ma ma ma ma ma",
        text="Heparin.", question=LONG, sees=""),
    Row("mdagents[teams=2]", ["high", TEAMS, "ask", "found", "report", "ask", "found", "report", ANSWER],
        "assess assemble meet meet answer", "ma ma ma ma ma ma ma ma ma", sees="assemble meet answer"),
    Row("mdagents", ["high", "none", "ask", "report", ANSWER], "assess assemble meet answer", "ma ma ma ma ma",
        notes=["no_teams"], sees="assemble meet answer"),
]  # fmt: skip
MOST = {
    "ircot[steps=3,queries=published]": (4, 3), "ircot": (11, 10), "iter_retgen[rounds=4]": (4, 4),
    "self_ask[follow_ups=2]": (7, 2), "self_ask[reading=false]": (8, 5), "self_ask[retrieval=false]": (2, 0),
    "rationale_query": (3, 1), "self_rag[segments=2]": (12, 2), "self_rag[mode=tokens]": (7, 1),
    "chain_of_note": (2, 1), "crag": (5, 2), "sure[candidates=3]": (14, 1), "adaptive_rag[steps=3]": (5, 3),
    "plan_search[rounds=3]": (16, 12), "debate[rounds=3,final=moderator]": (10, 0), "debate": (7, 0),
    "critique": (7, 0), "medagents[votes=2,question_experts=1,option_experts=1]": (16, 0),
    "mdagents[experts=2,rounds=2,turns=2]": (19, 0), "medprompt[examples=3]": (8, 0),
    "flare": (13, 11), "flare[form=instruct,steps=3]": (5, 4),
}  # fmt: skip
"""Agent → the most model calls and searches that its limits allow."""
LOOKS = {
    "ircot": "One more.", "iter_retgen": "One more.", "self_ask": follow_up("$seed"), "chain_of_note": "x",
    "rationale_query": said(scores=[1] * 10), "self_rag": "It needs more. [Retrieval]",
    "crag": said(scores=[-1] * 10), "sure": said(candidates=["a", "b"]), "adaptive_rag": "C",
    "plan_search": said(queries=["q1", "q2"]), "debate": "x", "critique": said(accept=False, critique="No."),
    "medagents": said(experts=["a", "no", "b"]), "mdagents": said(experts=["a", "b"], to=[1, 2], message="moderate"),
    "medprompt": chosen("B"), "flare": "It needs [Search(q)]",
}  # fmt: skip
"""Graph → a reply that has it search and go on."""


def limited(graph):
    """The graph's first row of `MOST`: its agent with limits that a test can reach."""
    return next(agent for agent in MOST if agent.partition("[")[0] == graph)


def shelf(row):
    return Shelf([passage(number) for number in range(1, 21)], barren=row.barren)


def short(calls):
    """``model reading@judge`` as ``mr``, a search as ``s``."""
    parts = [call.partition("@")[0].split() for call in calls]
    return " ".join("s" if kind == "search" else kind[0] + role[0] for kind, role in parts)


def at_once(row):
    """Return whether votes are taken at the same time: the order of their calls is no part of the strategy."""
    return row.agent.startswith(("sure", "plan_search", "debate", "medprompt", "self_rag"))


@pytest.mark.parametrize(
    ("row", "language"),
    [*zip(ROWS, cycle(["zh", "en", "en"]))],
    ids=lambda value: (
        value if isinstance(value, str) else f"{value.agent}-{value.nodes.split()[-2]}-{len(value.script)}"
    ),
)
async def test_scripted_replies_give_this_sequence_of_nodes_calls_and_searches(row, language):
    """The second attempt, such as one after a kill, gets every call of the first one from the journal."""
    question = other(row.question, language=language)
    played = await play([row.agent, row.agent], row.script, question, shelf=shelf(row))
    for one in played.each:
        assert one.attempt.status == "completed", one.attempt.reason
        assert one.attempt.text == row.text
        assert " ".join(one.nodes) == row.nodes
        calls = short(one.calls)
        assert calls == row.calls if not at_once(row) else sorted(calls) == sorted(row.calls)
        assert one.notes == row.notes
        changes = str([event.changes for event in one.attempt.events if isinstance(event, Left)])
        assert "Text of passage" not in changes, "states hold ids"
    assert played.shelf.queries == row.queries
    assert played.reused == played.made
    options_shown = ["zq" in text_of(request) for request in played.model.requests]
    if not at_once(row):
        nodes = [call.partition("@")[2] for call in played.each[0].calls if call.startswith("model")]
        seeing = row.sees.split() if row.question.options else []
        assert options_shown == [node in seeing for node in nodes], nodes
    if row.sees == "answer":
        assert sum(options_shown) <= 1
    assert "zq" not in " ".join(played.shelf.queries)


@pytest.mark.parametrize("agent", [*MOST_OF_OTHERS, *MOST])
@given(
    replies=st.lists(REPLIES, min_size=1, max_size=6),
    question=st.sampled_from([CHOICE, LONG]),
    window=st.sampled_from([None, 300, 3000]),
    continues=st.sampled_from(["prefix", "turns"]),
    language=st.sampled_from(["en", "zh"]),
)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
async def test_whatever_the_model_says_an_attempt_ends_within_its_limits(
    agent, replies, question, window, continues, language
):
    texts = cycle(replies)
    asked = other(question, language=language)
    played = await play(agent, lambda request: next(texts), asked, window=window, continues=continues, gold=["d1"])
    within(played, agent)
    entered = steps(played.attempt.events)
    assert entered
    assert [step.node for step in entered if step.seconds is None] == [], "every step that was entered was left"


def within(played, agent, replies=""):
    assert played.attempt.status == "completed", (replies, played.attempt.reason)
    models, searches = {**MOST_OF_OTHERS, **MOST}[agent]
    kinds = [event.call.kind for event in played.attempt.events if isinstance(event, Called)]
    assert kinds.count("model") <= models, replies
    assert kinds.count("search") <= searches, replies


HOSTILE = [
    "", " \n", "<think>never closed", "{" * 50_000, "[" * 50_000,
    '{"scores": [1e999, null, true, "1", [[]]], "candidates": [1, null, [], ""], '
    '"queries": [1, null, {"a": 1}, "\\ud83d", ""]}',
    '{"queries": "a"}', "Follow up:\nIntermediate answer:" * 500, "x" * 200_000, ". " * 50_000,
    "$question ${documents} $$\x00\x1b[2J" + "zq" * 3, "A B C", "{" + ", ".join(PIECES),
]  # fmt: skip


class HostileScript:
    """Give each node every hostile reply once, at most one in an attempt, and otherwise a reply that goes on."""

    def __init__(self, look):
        self.look = look
        self.unsent = {}
        """Node → hostile replies that it has not had."""
        self.sent = {}
        """Question → node → its hostile reply in the attempt at this question."""

    def __call__(self, request):
        space = get_config()["metadata"]["langgraph_checkpoint_ns"]
        node = "/".join(part.partition(":")[0] for part in space.split("|"))
        sent = self.sent[get_runtime().context.seed.partition("#")[0]]
        shift = len(self.unsent)  # in one attempt the nodes get different replies
        unsent = self.unsent.setdefault(node, HOSTILE[shift:] + HOSTILE[:shift])
        if node in sent or not unsent:
            # A prompt that all questions share would be answered from the journal.
            return self.look.replace("$seed", get_runtime().context.seed)
        return sent.setdefault(node, unsent.pop())

    async def attempts(self, agent):
        """Yield attempts, and the hostile replies in each, until every node that was reached has had all of them."""
        count = len(HOSTILE)
        while count:
            texts = {f"q/{number}": f"{STEM} ({number})" for number in range(count)}
            self.sent = {id: {} for id in texts}
            # One run of many questions takes half as long as a run for each.
            played = await play(agent, self, questions=[other(CHOICE, id=id, text=text) for id, text in texts.items()])
            for attempt in played.each:
                replies = {node: reply[:20] for node, reply in self.sent[attempt.attempt.question_id].items()}
                yield attempt, f"{agent}: {replies}"
            count = max(map(len, self.unsent.values())) or int(any(self.sent.values()))


NODES = {
    "ircot": "reason answer", "iter_retgen": "write answer", "self_ask": "ask look_up answer",
    "chain_of_note": "take_notes answer", "rationale_query": "reason sift answer",
    "self_rag": "retrieve write answer", "crag": "judge rewrite refine answer",
    "sure": "propose summarise rank answer", "adaptive_rag": "assess reason answer",
    "plan_search": "plan look_up answer", "debate": "speak answer", "critique": "write review",
    "medagents": "gather gather_further analyse weigh report consult revise answer",
    "mdagents": "assess recruit opine summarise talk answer", "medprompt": "explain solve", "flare": "write answer",
}  # fmt: skip
"""Graph → its nodes that ask the model."""


@pytest.mark.parametrize(
    ("agent", "look", "nodes"),
    [
        *((agent, look, NODES[agent]) for agent, look in LOOKS.items()),
        ("mdagents", TEAMS, "assess assemble meet answer"),
    ],
    ids=[*LOOKS, "mdagents of teams"],
)
async def test_hostile_replies_at_every_node(agent, look, nodes):
    script = HostileScript(look)
    async for played, replies in script.attempts(limited(agent)):
        within(played, limited(agent), replies)
    assert script.unsent == {node: [] for node in nodes.split()}


@pytest.mark.parametrize("agent", LOOKS)
@pytest.mark.parametrize("question", [CHOICE, other(LONG, language="zh")], ids=lambda question: question.kind)
async def test_a_model_that_never_ends(agent, question):
    within(await play(limited(agent), lambda request: LOOKS[agent], question), limited(agent))


LONG_TEXTS = [passage(number, "A word or two. " * 150) for number in range(1, 6)]


@pytest.mark.parametrize("agent", ["ircot", "self_ask[reading=false]"])
async def test_a_window_that_only_the_server_knows_ends_the_reasoning(agent):
    def script(request):
        if len(text_of(request)) > 9000 and "zq" not in text_of(request):
            raise CallFailed("context_too_long", "too long")
        return LOOKS[agent.partition("[")[0]]

    played = await play(agent, script, shelf=Shelf(LONG_TEXTS))
    assert (played.attempt.status, "window_full" in played.notes) == ("completed", True), played.attempt.reason


@pytest.mark.parametrize("agent", LOOKS)
async def test_a_small_window(agent):
    played = await play(agent, lambda request: LOOKS[agent], shelf=Shelf(LONG_TEXTS), window=700)
    assert played.attempt.status == "completed", played.attempt.reason


@pytest.mark.parametrize("refusal", [CallFailed("bad_request", "400: no logprobs"), CannotTake("takes no logprobs")])
async def test_flare_tells_a_model_to_search_where_probabilities_are_refused(refusal):
    def script(request):
        if request.logprobs is not None:
            raise refusal
        return "Heparin is given."

    played = await play("flare", script, LONG)
    assert (played.attempt.status, played.attempt.text) == ("completed", "Heparin is given.")
    assert played.notes == ["no_logprobs"]


@pytest.mark.parametrize("queries", ["mask", "questions", "sentence"])
async def test_flare_searches_for_every_sentence_at_a_theta_above_1_even_without_tokens(queries):
    script = [Reply(text="Heparin.", logprobs=()), "Heparin.", ANSWER]
    played = await play(f"flare[queries={queries},theta=1.1]", script)
    assert (played.attempt.status, played.attempt.text) == ("completed", ANSWER)
    assert played.shelf.queries == [STEM, "Heparin."]


async def test_an_expert_of_mdagents_is_addressed_by_its_number_not_by_true():
    experts = ["moderate", said(experts=["a", "b"]), "x", "y", "report"]
    played = await play("mdagents[turns=1]", [*experts, "{}", said(to=[True, 3], message="No."), ANSWER])
    assert played.nodes == ["assess", "recruit", "opine", "summarise", "talk", "answer"], "nobody was addressed"


async def test_flare_does_not_hide_another_fault():
    played = await play("flare", [])
    assert (played.attempt.status, played.notes) == ("failed", [])


@pytest.mark.parametrize(("agent", "cap"), [*zip(LOOKS, cycle(["calls=1", "tokens=15", "cost=0.001"]))])
async def test_caps_end_an_attempt(agent, cap):
    played = await play(
        f"{agent}[limits.{cap}]", lambda request: Reply(text=LOOKS[agent], usage=Usage(input=10, output=5))
    )
    assert played.attempt.status == "capped"


async def pays_for_no_call_twice(agent, look):
    """Let the server die before each of the first four calls; an attempt made again gets the calls before it from the
    journal."""
    paid, deaths = [], []

    def script(request):
        if len(paid) < 4 and len(paid) not in deaths:
            deaths.append(len(paid))
            raise CallFailed("server", "gone")
        paid.append(request)
        return look

    played = await play([agent] * 5, script)
    whole = await play(agent, lambda request: look)
    statuses = [one.attempt.status for one in played.each]
    assert (statuses[0], statuses[-1]) == ("failed", "completed"), played.attempt.reason
    assert len(paid) == len(whole.model.requests), "nothing was paid twice"
    assert played.attempt.text == whole.attempt.text
    in_order = sorted if "samples=" in agent else list  # samples run at the same time
    assert in_order(played.nodes) == in_order(whole.nodes)


@pytest.mark.parametrize("agent", LOOKS)
async def test_an_attempt_that_was_killed_pays_for_no_call_twice(agent):
    await pays_for_no_call_twice(limited(agent), LOOKS[agent])


@each_row("name", LOOKS)
def test_pictures_prompts_and_words(name):
    graph = catalogue.build(name)
    assert diagram.tree(graph).startswith("start\n")
    assert "answer --> __end__" in diagram.mermaid(graph)
    about = catalogue.about(name)
    assert "Sees the options: " in about
    assert "Differs" in about or name == "plan_search"
    folder = PromptFolder()
    for prompt in catalogue.prompts_of(name):
        if prompt.startswith(f"{name}/"):
            assert folder.source(prompt, "zh") != folder.source(prompt, "en")


@pytest.mark.parametrize(
    "agent",
    [
        "ircot[queries=x]",
        "crag[upper=x]",
        "crag[lower=true]",
        "ircot[steps=0]",
        "flare[queries=x]",
        "flare[form=x]",
        "self_rag[mode=x]",
        "debate[final=x]",
        "search_r1[format=x]",
    ],
)
async def test_a_parameter_that_cannot_be_is_refused(agent):
    with pytest.raises(UserError, match=r"queries|number|steps|form|mode|final"):
        await play(agent, lambda request: LOOKS["crag"])


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_medprompt_maps_each_vote_back_and_shows_what_the_model_solved_rightly(language):
    """A model that knows drug names finds heparin in every order; of five examples it solves the two that have A."""

    def script(request):
        user = request.messages[-1].content
        return chosen(user[user.index("Heparin zqb") - 3] if "zqb" in user else "A")

    orders, letters = set(), set()
    for number in range(6):
        played = await play("medprompt", script, other(CHOICE, id=f"q/{number}", language=language))
        assert json.loads(played.attempt.text) == json.loads(counted("B 5", "B"))
        assert played.notes == ["wrong_example"] * 4
        votes = played.model.requests[5:]
        assert len(played.model.requests) == 10
        for request in votes:
            roles = [message.role for message in request.messages]
            assert roles == ["system", "user", "assistant", "user"]
            assert request.messages[2].content == chosen("A")
            shown = request.messages[-1].content
            orders.add(shown)
            letters.add(script(request))
            assert all(text in shown for text in CHOICE.options.values())
    assert len(orders) == 6, "all orders of three options"
    assert len(letters) == 3


async def test_medprompt_takes_the_nearest_of_the_users_own_examples_but_never_the_question_itself(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder / "medprompt").mkdir(parents=True)
    texts = ["Which drug is given first?", "Which drug is given last?", "What is a bone?", "Name a drug."]
    both = {"A": "x", "B": "y"}
    lines = [said(question=text, options=both, answer="B", reasoning=f"R{n}") for n, text in enumerate(texts)]
    (tmp_path / "a" / "medprompt" / "examples.md").write_text("\n".join(lines))
    (tmp_path / "b" / "medprompt" / "examples.md").write_text(said(question="Q", options=both, answer="C"))
    played = await play(f"medprompt[examples=2,votes=1,prompts={tmp_path}/a]", [ANSWER])
    shown = [message.content for message in played.model.requests[0].messages if message.role == "assistant"]
    assert [json.loads(text)["step_by_step_thinking"] for text in shown] == ["R1", "R3"]
    with pytest.raises(UserError, match=r"a JSON object a line.*letter of none"):
        await play(f"medprompt[votes=1,prompts={tmp_path}/b]", [ANSWER])


def test_sentences_end_where_a_reader_ends_them():
    first = "Given by Dr. Smith vs. X et al. at 5.5 mg, e.g. orally."
    assert sentences(f"{first} It helps.") == [first, "It helps."]
    assert sentences(" 甲是乙。丙") == ["甲是乙。", "丙"]
    assert sentences("no mark\nnext") == ["no mark", "next"]
    assert sentences('He said "yes." Then E. coli grew!') == ['He said "yes."', "Then E. coli grew!"]
    assert sentences("") == []


def test_objects_and_scores_are_read_leniently():
    assert read_object('Sure: ```json\n{"a": 1}\n```') == {"a": 1}
    assert read_object('{draft} {"a": 0}, or rather {"a": "1\n2"}') == {"a": "1\n2"}
    assert read_object("[1]") == {}
    assert read_scores('{"scores": [2, -3, 0.5, NaN, true, null]}') == [1.0, -1.0, 0.5, 0.0, 0.0, 0.0]
    assert read_scores('{"scores": 1}') == []
