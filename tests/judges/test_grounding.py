"""The four measures by a judge: what is asked, what is embedded, and what is missing."""

import asyncio
import json

import numpy as np
import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Passage, Question
from ragrounds.evals.judges.grounding import GroundingJudge
from ragrounds.evals.judges.methods import JudgeResources, open_method
from ragrounds.evals.scorers.grounding import GROUNDING, RELEVANCY
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server
from ragrounds.models.faults import CallFailed
from ragrounds.tools.index.cards import NamedEmbedder
from ragrounds.tools.index.embedders import Encoding
from tests.judges.doubles import Scripted, judged

PASSAGES = [
    Passage(id=str(number), document=str(number), title="", text=text, corpus="c")
    for number, text in enumerate(("Dogs bark.", "Blue is given. Red follows.", "Cats sleep."))
]
LETTERS = "abcdeuoi"


class Letters:
    """Embeds a text by counting letters, and remembers it."""

    def __init__(self):
        self.texts = []

    def queries(self, texts):
        self.texts += texts
        return np.array([[text.count(letter) for letter in LETTERS] for text in texts], dtype=np.float32)


def judge(tmp_path, say, *, method=GROUNDING, text="Blue is given. Cats fly.", passages=PASSAGES, **gold):
    metadata = {"facts": "statements"} if "facts" in gold else {}
    question = Question(id="q/1", benchmark="q", text="Which drug?", kind="long", metadata=metadata)
    attempt = Attempt(run="r", question_id="q/1", epoch=0, status="completed", text=text)
    letters, model = Letters(), Scripted(say)
    embedder = NamedEmbedder("dense[model=letters]", Encoding(model="letters"), letters)
    by = GroundingJudge(method=method, passages=lambda attempt: passages, embedder=embedder)
    golds = {"q/1": Gold(question_id="q/1", **{"answer": "Blue is given. Green helps."} | gold)}
    with Store(tmp_path / "home") as store:
        (answer,) = asyncio.run(judged(by, [attempt], {"q/1": question}, golds, model, StoreJournal(store, "reuse")))
    return answer, {score.scorer: score for score in answer.scores}, model, letters


def say(prompt, occurrence):
    """Split at full stops; a claim is in a text that has its words; a passage with blue in it is useful."""
    shown = [part.partition("\n>>>")[0] for part in prompt.split("<<<\n")[1:]]
    heading = prompt.rstrip().rpartition("### ")[2]
    if heading == "Claims":
        return json.dumps({"claims": [claim.strip() for claim in shown[-1].split(".") if claim.strip()]})
    if heading == "Decisions":
        return json.dumps({f"c{number}": "entailment" if claim in shown[0] else "neutral"
                           for number, claim in enumerate(shown[1:], 1)})  # fmt: skip
    return json.dumps({"passage": "useful" if "Blue" in shown[-1] else "useless"})


def test_three_measures_by_verdicts_on_claims_and_passages(tmp_path):
    answer, scores, model, _ = judge(tmp_path, say)
    assert {name: score.value for name, score in scores.items()} == {
        "faithfulness-together": 0.5, "context-precision-ranked": 0.5, "context-recall-together": 0.5
    }  # fmt: skip
    assert scores["faithfulness-together"].reason == "in no passage: Cats fly"
    assert scores["context-recall-together"].reason == "in no passage: Green helps"
    record = json.loads(scores["context-precision-ranked"].prediction)
    assert record == {"useful": [False, True, False]}
    assert len(answer.calls) == len(model.requests) == 2 + 3 + 2, "a split and a verification each; each passage once"
    assert all(call.role == "judging" for call in answer.calls)
    assert [verdict.outcome for verdict in answer.verdicts] == ["0.5000"] * 3


def test_a_reference_of_statements_is_not_split(tmp_path):
    facts = (("Red follows",), ("Green helps",), ("Blue is given",))
    _, scores, model, _ = judge(tmp_path, say, answer="", facts=facts)
    assert scores["context-recall-together"].value == pytest.approx(2 / 3)
    asked = [request.messages[-1].content.rstrip() for request in model.requests]
    assert sum(prompt.endswith("### Claims") for prompt in asked) == 1, "the answer alone"


def test_relevancy_by_the_vectors_of_three_questions_that_do_not_show_the_users(tmp_path):
    flags = [True, False, True]

    def ask_back(prompt, occurrence):
        return json.dumps({"question": f"bead {occurrence}", "noncommittal": flags[occurrence]})

    answer, scores, model, letters = judge(tmp_path, ask_back, method=RELEVANCY)
    assert letters.texts == ["Which drug?", "bead 0", "bead 1", "bead 2"]
    assert not any("Which drug?" in request.messages[-1].content for request in model.requests)
    # "Which drug?" has one c, d, u and i, "bead" one a, b, d and e: they share d.
    assert scores["answer-relevancy"].value == pytest.approx(1 / 4)
    assert len(answer.calls) == 4

    flags[:] = [True] * 3
    _, scores, _, letters = judge(tmp_path / "evasive", ask_back, method=RELEVANCY)
    assert (scores["answer-relevancy"].value, letters.texts) == (0.0, [])
    _, scores, model, _ = judge(tmp_path / "silent", ask_back, method=RELEVANCY, text="")
    assert (scores["answer-relevancy"].value, model.requests) == (0.0, [])


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        ("who knows", ["no list of claims in the reply", "no verdict on 3 of 3 passages"]),
        ('{"claims": []}', ["nothing was found to judge", "no verdict on 3 of 3 passages"]),
        (CallFailed, ["the call failed", "the call failed"]),
    ],
)
def test_what_cannot_be_read_is_missing_and_never_zero(tmp_path, reply, reasons):
    answer, *_ = judge(tmp_path, lambda *_: reply)
    assert {score.value for score in answer.scores} == {None}
    faithfulness, precision, recall = (score.reason.removeprefix("judge: ") for score in answer.scores)
    assert [faithfulness, precision] == reasons
    assert recall == faithfulness
    assert answer.failed == (reply is CallFailed)
    _, scores, *_ = judge(tmp_path / "relevancy", lambda *_: reply, method=RELEVANCY)
    assert scores["answer-relevancy"].value is None


def test_measures_without_their_inputs_ask_nothing(tmp_path):
    _, scores, model, _ = judge(tmp_path, say, passages=[], answer="")
    assert {score.value for score in scores.values()} == {None}
    assert "retrieved no passages" in scores["faithfulness-together"].reason
    assert scores["context-recall-together"].reason == "the question has no reference answer"
    assert model.requests == []
    with Store(tmp_path / "empty") as store, pytest.raises(UserError, match="name an embedder"):
        open_method(RELEVANCY, JudgeResources(store=store))


@pytest.mark.slow
def test_the_four_measures_by_the_command(command, tmp_path):
    with stand_in_server() as url:
        server = ("--base-url", url)
        run = command("run", "--agent", "vanilla_rag[top_k=3]", "--limit", "2", "--model", f"openai:{ALIAS}", *server)
        assert run.returncode == 0, run.stderr
        grounding = command("judge", "vanilla_rag", "--kind", "grounding", "--judge", f"openai:{ALIAS}", *server)
        assert grounding.returncode == 0, grounding.stderr
        embedder = f'dense[model="openai:vectors",base_url="{url}"]'
        relevancy = command(
            "judge", "vanilla_rag", "--kind", "answer-relevancy", "--judge", f"openai:{ALIAS}", *server,
            "--embedder", embedder, "--json",
        )  # fmt: skip
    assert relevancy.returncode == 0, relevancy.stderr
    for scorer in GROUNDING.scorers:
        assert scorer.name in grounding.stdout
    graded = json.loads(relevancy.stdout)["graded"]
    assert (graded["missing"], graded["calls"]) == (0, 4), "three questions of the one long answer, and their vectors"
