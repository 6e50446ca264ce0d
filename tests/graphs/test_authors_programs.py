"""Published profiles beside the authors' own programs on scripted models: the same calls, each with the same earlier
replies in sight, the same decisions and the same answers.

`authors_programs.json` was recorded from these programs, run with a model that only returns what a script holds:

| profile | program | what was run |
|---|---|---|
| self_rag | AkariAsai/self-rag at 1fcdc42 | run_short_form.py, call_model_rerank_w_scores_batch with closed=True |
| medagents | gersteinlab/MedAgents at aaeff04 | utils.py, fully_decode |
| mdagents | mitmedialab/MDAgents at 3adbd76 | utils.py: all three levels |
| sure | bbuing9/ICLR24_SuRe at 6320590 | verification.py, postprocess_rank; get_preds.py, get_final_pred_sure |
| crag | HuskyInSalt/CRAG at de7c296 | utils.py, select_relevants; CRAG_Inference.py, process_flag |
| ircot | StonyBrookNLP/ircot at 3c1820f | ircot.py, para_to_text |

Left out are calls that carry no part of the method (MDAgents sends each voice its own instruction first).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from ragrounds.agents.profile import read_profile
from ragrounds.base.records import Reply, TokenLogprob
from ragrounds.prompts.loader import PromptFolder
from tests.graphs.playing import ANSWER, CHOICE, LONG, Shelf, passage, play
from tests.graphs.test_diagram import DOCUMENT
from tests.graphs.test_medagentsbench_protocol import asked

THEIRS = json.loads(Path(__file__).with_name("authors_programs.json").read_text(encoding="utf-8"))
CALL_MARK = re.compile(r"mk(\d+)x")


def numbered(name):
    return [pytest.param(case, id=f"{name}-{number}") for number, case in enumerate(THEIRS[name])]


def brief(graph, request, *names):
    """The name of the prompt, of some, that a request was made of, by its system's turn; "answer" for another."""
    system = request.messages[0].content
    for name in names:
        source = PromptFolder().source(f"{graph}/{name}").partition("[system]")[2].partition("[user]")[0]
        if all(part.strip() in system for part in re.split(r"\$\w+", source)):
            return name
    return "answer"


def reply_of(written, others=()):
    """A reply of these tokens, each beside the chances of all that are listed."""
    top = tuple((token, math.log(chance)) for token, chance in (*written, *others))
    tokens = tuple(TokenLogprob(token, math.log(chance), top=top) for token, chance in written)
    return Reply(text=" ".join(token for token, _ in written), logprobs=tokens)


@pytest.mark.parametrize("case", numbered("self_rag"))
async def test_self_rag_sums_the_scores_of_passages_that_give_one_option(case):
    calls = []

    def say(request):
        number = re.search(r"Text of passage (\d)\.", request.prefix)
        if number:
            calls.append("write")
            part = case["passages"][int(number[1]) - 1]
            return reply_of(part["written"], part["others"])
        if request.prefix:
            calls.append("write 0")
            return reply_of([case["direct"]])
        calls.append("decide")
        return reply_of(case["decide"][:1], case["decide"][1:])

    retrieval = {"always_retrieve": "always", "adaptive_retrieval": "adaptive"}[case["mode"]]
    played = await play(f"self_rag[profile=self_rag,retrieval={retrieval}]", say, CHOICE)
    assert played.attempt.status == "completed", played.attempt.reason
    assert calls == [name for call in case["calls"] for name in (["write"] * 5 if call == "write 5" else [call])]
    assert played.attempt.text == case["answer"]


async def test_self_rag_shows_the_options_once_everything_is_found():
    played = await play("self_rag[options=shown,retrieval=always,top_k=2]", ["B. Heparin [Utility:1]", "A [Utility:5]"])
    assert all("Heparin zqb" in request.messages[-1].content for request in played.model.requests)
    assert played.attempt.text == "A"
    script = ["A [Utility:4]", "B) x [Utility:4]", "B [Utility:4]"]
    played = await play("self_rag[options=shown,retrieval=always,top_k=3]", script)
    assert played.attempt.text == "B", "the letter's scores are summed, whatever follows it"
    played = await play("self_rag[options=shown,retrieval=always,top_k=1]", ["Heparin."], LONG)
    assert played.attempt.text == "Heparin."


async def by_calls(agent, script):
    """Play, and return each call with the earlier replies that its request shows."""
    calls = []

    def say(request):
        graph = agent.partition("[")[0]
        name, visible = asked(graph, request), "\n".join(message.content for message in request.messages)
        number = len(calls)
        calls.append([name, sorted({int(mark) for mark in CALL_MARK.findall(visible)})])
        said = script(name)
        return f"mk{number}x" if said is None else said

    played = await play(agent, say)
    assert played.attempt.status == "completed", played.attempt.reason
    return calls


@pytest.mark.parametrize("case", numbered("medagents"))
async def test_medagents_reads_ballots_and_shows_reports_as_its_program_does(case):
    ballots = {expert: list(replies) for expert, replies in case["ballots"].items()}

    def script(name):
        brief, _, expert = name.partition(" ")
        fixed = {
            name: json.dumps({"experts": list(team)}) for name, team in (("experts", "abcde"), ("option_experts", "fg"))
        }
        return ballots[expert].pop(0) if brief == "ballot" else ANSWER if brief == "decide" else fixed.get(brief)

    assert await by_calls("medagents[profile=medagents]", script) == case["calls"]


@pytest.mark.parametrize(
    ("ballot", "objects"),
    [("I do not agree", True), ("NOT CONSISTENT", True), ("cannot agree", True), ("I don't", True), ("NO", True),
     ("I agree", False), ("I know it: YES", False), ("No objections", False), ("Hm", False)],
)  # fmt: skip
async def test_medagents_reads_words_of_consent_and_refusal_by_default(ballot, objects):
    def say(request):
        name = asked("medagents", request).partition(" ")[0]
        return ballot if name == "ballot" else json.dumps({"experts": ["a"]})

    played = await play("medagents[question_experts=1,option_experts=0,votes=1]", say)
    assert any(asked("medagents", request) == "advise a" for request in played.model.requests) == objects
    assert ("unclear_ballot" in played.notes) == (ballot == "Hm")


@pytest.mark.parametrize("case", numbered("mdagents"))
async def test_mdagents_sees_in_its_chats_what_its_program_sees(case):
    wants = {expert: list(lists) for expert, lists in case["wants"].items()}
    wanted = {}
    letters = iter("abcdefghi")
    teams = [{"purpose": goal, "members": [next(letters) for _ in range(3)]} for goal in case.get("teams", [])]

    def script(name):
        brief, _, expert = name.partition(" ")
        if brief == "participate":
            wanted[expert] = wants.get(expert, []).pop(0) if wants.get(expert) else None
            return "yes" if wanted[expert] else "no"
        return {
            "assess": case["level"],
            "recruit": json.dumps({"experts": list("abcde")}),
            "to_whom": ",".join(map(str, wanted.get(expert) or [])),
            "assemble": json.dumps({"teams": teams}),
            "answer": ANSWER,
        }.get(brief)

    assert await by_calls("mdagents[profile=mdagents]", script) == case["calls"]


@pytest.mark.parametrize("case", numbered("sure"))
async def test_sure_weighs_verdicts_and_choices_as_its_program_does(case):
    choices = list(case["choices"])

    def say(request):
        name = brief("sure", request, "candidates", "validate", "rank")
        if name == "validate":
            return case["verdicts"]["second" in request.messages[-1].content]
        listed = json.dumps({"candidates": ["first", "second"]})
        return {"candidates": listed, "rank": choices.pop(0) if name == "rank" else ""}.get(name, "A summary.")

    played = await play("sure[profile=sure]", say, LONG)
    assert played.attempt.text == case["answer"]


@pytest.mark.parametrize(
    ("verdict", "supports"),
    [("True", True), ("true.", True), ("False", False), ("not true at all", False), ("It is not really true", False),
     ("Not false", True), ("It does", False)],
)  # fmt: skip
async def test_sure_reads_a_verdict_by_its_first_word(verdict, supports):
    script = [json.dumps({"candidates": ["x", "y"]}), "A.", "False", "A.", verdict, "either", "either"]
    assert (await play("sure", script, LONG)).attempt.text == ("y" if supports else "x")


@pytest.mark.parametrize("case", numbered("crag"))
async def test_crag_acts_and_keeps_passages_as_its_scripts_do(case):
    texts = [" ".join(f"w{i}x{j}" for j in range(words)) for i, words in enumerate(case["words"])]
    shelf = Shelf([passage(number + 1, text) for number, text in enumerate(texts)])

    def say(request):
        name, text = brief("crag", request, "grade", "rewrite"), request.messages[-1].content
        if name != "grade":
            return "keywords" if name == "rewrite" else ANSWER
        visible = [number for number in range(10) if f"w{number}x0" in text]
        return json.dumps({"scores": [case["scores"][number] for number in visible]})

    played = await play("crag[profile=crag]", say, shelf=shelf)
    searched_again = "search_further" in played.nodes
    assert searched_again == (case["action"] != "correct")
    if case["action"] != "incorrect":
        shown = re.findall(r"w(\d)x0", played.model.requests[-1].messages[-1].content)
        assert list(map(int, shown)) == case["kept"]


@pytest.mark.parametrize("case", numbered("ircot"))
async def test_ircot_cuts_a_paragraph_at_350_words(case):
    text = " ".join(f"w{i}" + ("\n" if i % 7 == 0 else "") for i in range(case["words"]))
    shelf = Shelf([passage(1, text)])
    played = await play("ircot[profile=ircot]", ["So the answer is: heparin.", ANSWER], shelf=shelf)
    for request in played.model.requests:
        assert text[: case["characters"]] in request.messages[-1].content
        assert case["words"] <= 350 or "w350" not in request.messages[-1].content


def test_flare_says_when_a_masked_query_is_empty():
    assert "empty_query" in DOCUMENT.read_text(encoding="utf-8")


def test_the_documentation_counts_these_cases():
    text = DOCUMENT.read_text(encoding="utf-8").split("## Checked against the authors' programs")[1].split("\n## ")[0]
    for name, cases in THEIRS.items():
        program = read_profile(name).code.split(" at ")
        assert f"| `{name}` | {program[0]} at {program[1]} | {len(cases)} | {len(cases)} |" in text
