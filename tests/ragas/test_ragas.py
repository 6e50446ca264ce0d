"""ragas' figures over real HTTP on loopback, with the project's judge, journal and ledger."""

import asyncio
import json
import math
import re

import numpy as np
import pytest

from ragrounds.base.contracts import Entry, SearchRequest, SearchResult
from ragrounds.base.records import Attempt, Call, Called, Entered, Gold, Passage, Question, Run
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.servers.ragas_server import ragas_server

pytest.importorskip("ragas", reason="needs ragrounds[ragas], whose pins clash with others'")

QUESTION = "Which drug corrects methaemoglobin?"
REFERENCE = "Methylene blue is given. Oxygen helps."
PASSAGES = (
    ("p1", "Dogs bark. Methylene blue is given"),
    ("p2", "Cats sleep"),
    ("p3", "Methylene blue corrects methaemoglobin"),
)
ANSWERS = {
    "q/0": "Methylene blue is given. Oxygen helps.",
    "q/1": "Cats sleep. Methylene blue is given. It is cheap.",
    "q/2": "I am not sure.",
    "q/3": None,
}
RAGAS = ("faithfulness", "answer_relevancy", "context_precision", "context_recall", "factual_correctness")


def cosine(one, other):
    a, b = (np.array([text.count(letter) + 0.01 for letter in "abcdeuoi"]) for text in (one, other))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


RELEVANCY = {id: cosine(QUESTION, f"{ANSWERS[id]}? 1") for id in ("q/0", "q/1")}
EXPECTED = {
    # Two of the three statements stand in the passages, and so on: the server goes by words.
    "ragas_faithfulness": {"q/0": 0.5, "q/1": 2 / 3, "q/2": 0.0, "q/3": None},
    "ragas_answer_relevancy": {**RELEVANCY, "q/2": 0.0, "q/3": 0.0},
    "ragas_context_precision": dict.fromkeys(ANSWERS, (1 / 1 + 2 / 3) / 2),
    "ragas_context_recall": dict.fromkeys(ANSWERS, 0.5),
    # q/1: one of three claims holds, and one of the reference's two.
    "ragas_factual_correctness": {"q/0": 1.0, "q/1": 0.4, "q/2": 0.0, "q/3": 0.0},
}


def stage(home, *, searched=True, reference=REFERENCE, answers=ANSWERS):
    questions = [Question(id=id, benchmark="q", text=QUESTION, kind="long") for id in answers]
    golds = {id: Gold(question_id=id, answer=reference) for id in answers}
    run = Run(
        id="rag-1",
        agent="rag",
        benchmark="q",
        questions="set",
        count=len(answers),
        epochs=1,
        fingerprint="rag",
        identity={"models": {"model": "openai:writer"}},
        created=1.0,
    )
    found = SearchResult(tuple(Passage(id=id, document=id, title="", text=text, corpus="c") for id, text in PASSAGES))
    request = SearchRequest(corpus="c", query=QUESTION, k=3)
    entry = Entry(key="ab" * 32, kind="search", actor="bm25", request=request)
    made = Call(key=entry.key, kind="search", role="querying", node="search", actor="bm25", at=1.0, seconds=0.1)
    # The same passages found twice are judged once.
    events = (Entered(step=0, node="search", at=1.0), Called(step=0, call=made), Called(step=0, call=made))
    attempts = [
        Attempt(
            run=run.id,
            question_id=id,
            epoch=0,
            status="failed" if text is None else "completed",
            text=text or "",
            reason="server: gone" if text is None else "",
            events=events if searched else (),
        )
        for id, text in answers.items()
    ]

    async def record():
        async def make():
            return found

        journal = StoreJournal(store)
        await journal.once(entry, make, SearchResult)
        journal.close()

    with Store(home) as store:
        asyncio.run(record())
        store.add_run(run, questions, golds)
        store.add_attempts(run, attempts)


def values(home, scorer):
    with Store(home) as store:
        return {score.question_id: score.value for score in store.scores(store.run("rag"), scorer)}


def reasons(home, scorer):
    with Store(home) as store:
        return {score.question_id: score.reason for score in store.scores(store.run("rag"), scorer)}


@pytest.fixture(scope="module")
def down(tmp_path_factory):
    return tmp_path_factory.mktemp("ragas") / "down"


@pytest.fixture(scope="module")
def server(down):
    with ragas_server("--down", str(down)) as running:
        yield running


@pytest.fixture
def judge(command, server, home):
    home.mkdir()
    (home / "prices.toml").write_text(
        '["openai:ragas"]\ninput = 1000\noutput = 2000\n["openai:letters"]\ninput = 500\noutput = 0\n'
    )
    embedder = f'dense[model="openai:letters",base_url="{server.url}"]'

    def run(kind, *arguments, model="ragas", embedder=embedder):
        given = ("--embedder", embedder) if embedder else ()
        return command(
            "judge", "rag", "--kind", kind, "--judge", f"openai:{model}", "--base-url", server.url, *given, *arguments
        )

    return run


def test_the_five_figures(judge, command, home, server):
    stage(home)
    before = server.stats()
    done = judge("ragas", "--json")
    assert done.returncode == 0, done.stderr
    for scorer, expected in EXPECTED.items():
        assert values(home, scorer) == {
            id: value if value is None else pytest.approx(value, abs=1e-6) for id, value in expected.items()
        }, scorer
    assert reasons(home, "ragas_faithfulness")["q/3"].startswith("server: gone")
    graded = json.loads(done.stdout)["graded"]
    assert graded["missing"] == 1
    tables = {table["scorer"]: table for table in json.loads(done.stdout)["comparison"]["tables"]}
    assert tables["ragas_faithfulness"]["lines"][0]["overall"]["n"] == 3
    assert tables["ragas_faithfulness"]["lines"][0]["overall"]["missing"] == 1
    assert tables["ragas_faithfulness"]["lines"][0]["overall"]["value"] == pytest.approx((0.5 + 2 / 3) / 3)
    made = {name: server.stats()[name] - before[name] for name in before}
    # Statements and verdicts; three questions; three passages; one recall; claims and verdicts both ways. The calls
    # about passages and reference alone are equal for all answers: made once. One claim of q/0 is the reference's own.
    assert graded["calls"] == made["asked"] + made["embedded"] + graded["reused"]
    assert graded["reused"] > 0
    shown = command("compare", "rag", "--full")
    heads = next(line for line in shown.stdout.splitlines() if line.startswith("agent"))
    assert "ragas_context_recall" in heads  # a column beside the headline
    named = command("compare", "rag", "--scorer", "ragas_context_recall", "--full")
    assert "ragas_context_recall, percent  share of reference's statements" in named.stdout
    assert not re.search(r"\bnan\b", (done.stdout + shown.stdout).lower())


def test_every_call_is_journaled_and_replayed(judge, home, server):
    stage(home)
    first = json.loads(judge("ragas", "--json").stdout)["graded"]
    before = server.stats()
    again = json.loads(judge("ragas", "--json").stdout)["graded"]
    replayed = json.loads(judge("ragas", "--journal", "replay", "--json").stdout)["graded"]
    assert server.stats() == before
    assert again["cost_paid"] == replayed["cost_paid"] == 0.0
    assert again["calls"] == again["reused"] == first["calls"]
    assert again["cost_uncached"] == first["cost_uncached"] >= first["cost_paid"] > 0
    assert again["verdicts"] == replayed["verdicts"] == first["verdicts"]


def test_malformed_replies_are_asked_for_again_by_us_alone(judge, home, server):
    stage(home, answers={"q/0": ANSWERS["q/0"]})
    before = server.stats()["asked"]
    late = json.loads(judge("ragas_faithfulness", "--json", model="ragas-late", embedder="").stdout)["graded"]
    assert (late["calls"], late["missing"]) == (4, 0)
    assert server.stats()["asked"] - before == 4
    assert values(home, "ragas_faithfulness") == {"q/0": 0.5}
    before = server.stats()["asked"]
    never = json.loads(judge("ragas", "--json", model="ragas-never").stdout)["graded"]
    assert never["missing"] == 5
    assert server.stats()["asked"] - before == never["calls"] == 15  # each metric gives up at its first prompt
    for scorer in EXPECTED:
        assert values(home, scorer) == {"q/0": None}
        assert reasons(home, scorer)["q/0"] == "ragas: no JSON object in the reply"


@pytest.mark.parametrize(
    ("model", "scorer", "reason"),
    [
        ("ragas-short", "ragas_faithfulness", "verdicts on 1 of 2 statements"),
        ("ragas-short", "ragas_factual_correctness", "verdicts on 1 of 2 statements"),
        ("ragas-two", "ragas_faithfulness", "verdict is 2: expected 0 or 1"),
        ("ragas-two", "ragas_context_precision", "verdict is 2: expected 0 or 1"),
        ("ragas-two", "ragas_context_recall", "attributed is 2: expected 0 or 1"),
        ("ragas-cut", "ragas_context_recall", "the reply was cut off before a verdict"),
        ("ragas-blank", "ragas_faithfulness", "nothing was found to judge"),
        ("ragas-blank", "ragas_context_recall", "nothing was found to judge"),
        ("ragas-blank", "ragas_answer_relevancy", "the question is empty"),
        ("ragas-blank", "ragas_factual_correctness", "no claims were found in the reference"),
    ],
)
def test_what_ragas_would_count_with_is_missing(judge, home, model, scorer, reason):
    stage(home, answers={"q/0": ANSWERS["q/0"]})
    done = judge(scorer, model=model)
    assert done.returncode == 0, done.stderr
    assert values(home, scorer) == {"q/0": None}
    assert reason in reasons(home, scorer)["q/0"]
    assert not re.search(r"\bnan\b", done.stdout.lower())


def test_failed_calls_are_missing_and_made_by_the_same_command(judge, home, down):
    stage(home)
    down.touch()
    try:
        done = judge("ragas", model="ragas-down")
    finally:
        down.unlink()
    assert done.returncode == 3, done.stderr
    assert reasons(home, "ragas_context_recall")["q/0"] == "the call failed"
    assert set(values(home, "ragas_context_recall").values()) == {None}
    done = judge("ragas", model="ragas-down")
    assert done.returncode == 0, done.stderr
    assert values(home, "ragas_context_recall") == pytest.approx(EXPECTED["ragas_context_recall"])


def test_an_embedder_that_fails_leaves_a_missing_value(judge, home, server):
    stage(home)
    done = judge("ragas_answer_relevancy", embedder=f'dense[model="openai:embed-down",base_url="{server.url}"]')
    assert done.returncode == 3, done.stderr
    assert values(home, "ragas_answer_relevancy") == {"q/0": None, "q/1": None, "q/2": None, "q/3": 0.0}


def test_an_embedder_in_this_process_costs_nothing(judge, home, monkeypatch, tmp_path):
    (tmp_path / "own_letters.py").write_text(
        "from langchain_core.embeddings import Embeddings\n"
        "class Letters(Embeddings):\n"
        "    def embed_query(self, text): return [text.count(letter) + 0.01 for letter in 'abcdeuoi']\n"
        "    def embed_documents(self, texts): return [self.embed_query(text) for text in texts]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    stage(home)
    done = judge("ragas_answer_relevancy", "--json", embedder='dense[model="import:own_letters:Letters"]')
    assert done.returncode == 0, done.stderr
    assert values(home, "ragas_answer_relevancy")["q/1"] == pytest.approx(RELEVANCY["q/1"], abs=1e-6)
    assert json.loads(done.stdout)["graded"]["cost_uncached"] > 0  # the judge's own


def test_what_a_metric_cannot_be_computed_without(judge, home):
    stage(home, searched=False, reference="")
    done = judge("ragas")
    assert done.returncode == 0, done.stderr
    for scorer in ("ragas_context_precision", "ragas_context_recall", "ragas_factual_correctness"):
        assert set(reasons(home, scorer).values()) == {"the question has no reference answer"}
    assert "retrieved no passages" in reasons(home, "ragas_faithfulness")["q/0"]
    assert not any(map(math.isnan, (value for value in values(home, "ragas_answer_relevancy").values())))


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        ("ragas", {"embedder": ""}, "name an embedder"),
        ("ragas_answer_relevancy", {"embedder": "bm25"}, "has no vectors"),
        ("ragas_faithfulnes", {}, "Did you mean 'ragas_faithfulness'"),
    ],
)
def test_bad_input_is_one_line(judge, home, kind, arguments, said):
    stage(home)
    done = judge(kind, **arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_numbers_have_no_majority_and_no_labels(judge, command, home, tmp_path):
    stage(home)
    done = judge("ragas_faithfulness", "--judge", "openai:ragas-late")
    assert done.returncode == 2
    assert "numbers have no majority" in done.stderr
    (tmp_path / "labels.csv").write_text("item,a\nq/0,yes\n")
    done = command("judge", "agreement", "rag", "--kind", "ragas", "--human", "labels.csv")
    assert done.returncode == 2
    assert "gives numbers" in done.stderr


def test_nothing_is_sent_elsewhere(cli, home, server, tmp_path):
    """In a process of its own: every connection but to loopback is refused and written down."""
    home.mkdir()
    stage(home, answers={"q/0": ANSWERS["q/0"]})
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "real = socket.socket.connect\n"
        "def connect(self, address):\n"
        "    if isinstance(address, tuple) and not address[0].startswith('127.'):\n"
        f"        open({str(tmp_path / 'calls')!r}, 'a').write(f'{{address}}\\n')\n"
        "        raise OSError('refused by the test')\n"
        "    return real(self, address)\n"
        "socket.socket.connect = connect\n"
        "look = socket.getaddrinfo\n"
        "def getaddrinfo(host, *more, **named):\n"
        "    if host not in ('127.0.0.1', 'localhost', None):\n"
        f"        open({str(tmp_path / 'calls')!r}, 'a').write(f'{{host}}\\n')\n"
        "        raise socket.gaierror('refused by the test')\n"
        "    return look(host, *more, **named)\n"
        "socket.getaddrinfo = getaddrinfo\n"
    )
    done = cli(
        "judge", "rag", "--kind", "ragas", "--judge", "openai:ragas", "--base-url", server.url,
        "--embedder", f'dense[model="openai:letters",base_url="{server.url}"]',
        PYTHONPATH=str(tmp_path), HOME=str(tmp_path / "me"), XDG_DATA_HOME=str(tmp_path / "me"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "calls").exists()
    assert not list((tmp_path / "me").rglob("uuid.json"))  # ragas' id of a user, made at its first event
