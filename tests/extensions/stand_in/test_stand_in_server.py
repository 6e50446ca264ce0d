"""The stand-in server: what it says is read by the same readers as a model's replies, and every strategy runs on it."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import ragrounds as rr
from ragrounds.base.records import Message
from ragrounds.evals.judges.verdict import read_verdict
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.extensions.arena.pairs import LABELS, show_pair
from ragrounds.extensions.construction.functions import BuildExecution, build
from ragrounds.extensions.construction.requests import CaseQuestions
from ragrounds.extensions.stand_in.functions import serve_stand_in
from ragrounds.extensions.stand_in.server import ALIAS, stand_in_server
from ragrounds.prompts.loader import PromptFolder

AXES = dict.fromkeys(("usefulness", "readability", "knowledge", "reasoning"), "what it means")
QUESTION = "Which drug is given first when severe hyperkalaemia broadens the complexes?"
RIGHT = "Calcium gluconate is given first when severe hyperkalaemia broadens the complexes; it steadies the membrane."
WRONG = (
    "Many things can be tried, and some rest is always good for everybody who feels unwell after a long day at work."
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stand_in_server() as base_url:
        yield base_url


def asked(url: str, path: str = "/chat/completions", **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(sent(url, path, body)[1])
    return answer


def sent(url: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    try:
        connection.request("POST", place.path + path, json.dumps({"model": "m", **body}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def said(url: str, messages: tuple[Message, ...], **body: Any) -> str:
    shown = [{"role": message.role, "content": message.content} for message in messages]
    text: str = asked(url, messages=shown, **body)["choices"][0]["message"]["content"]
    return text


def test_it_listens_on_this_machine_alone_and_ends_with_its_block() -> None:
    with stand_in_server() as url:
        assert url.startswith("http://127.0.0.1:")
        assert url.endswith("/v1")
        port = urlsplit(url).port
        assert asked(url, messages=[{"role": "user", "content": "Hello?"}])["choices"]
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port or 0), timeout=2):
        pass


@pytest.mark.parametrize(
    ("agent", "profile"),
    [
        ("i_medrag[rounds=1,queries=2,retriever=bm25]", "medrag"),
        ("search_o1", "search_o1"),
        ("search_r1[top_k=2]", None),
        ("cot_refine_rag[top_k=2]", None),
        ("vanilla_rag[query_generation=hyde,top_k=2]", None),
    ],
)
def test_strategies_run_to_their_end(url: str, tmp_path: Path, agent: str, profile: str | None) -> None:
    """The golden outputs have others."""
    where = {"model": "openai:any", "base_url": url, "alias": ALIAS, "home": tmp_path}
    attempts = rr.run("sample", agent, profile=profile, limit=2, **where).to_pandas("attempts")
    assert set(attempts["status"]) == {"completed"}
    assert all(text.strip() for text in attempts["text"])
    assert (attempts["searches"] > 0).all()


def test_retrieval_makes_a_difference_and_models_differ(url: str) -> None:
    options = {"A": "Calcium gluconate", "B": "Oral potassium", "C": "A beta blocker", "D": "Spironolactone"}
    prompts = PromptFolder()
    letters = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    shown = prompts.render("choice/rag", "en", question=QUESTION, options=letters, documents=RIGHT)
    assert {json.loads(said(url, shown, model=f"m{one}"))["answer_choice"] for one in range(6)} == {"A"}
    unseen = prompts.render("choice/cot", "en", question=QUESTION, options=letters)
    assert len({json.loads(said(url, unseen, model=f"m{one}"))["answer_choice"] for one in range(12)}) > 1


def test_a_judge_with_information(url: str) -> None:
    outcomes = set()
    for seed in range(6):
        for answers in ((RIGHT, WRONG), (WRONG, RIGHT)):
            pair = show_pair(PromptFolder(), QUESTION, answers, AXES, str(seed))
            read = read_verdict(said(url, pair.messages), pair.form)
            assert read.complete
            outcomes.add((pair.outcome(read.values["usefulness"]), answers[0] == RIGHT, pair.labels == LABELS))
    # The better answer wins in both places and under both letters.
    assert outcomes == {(("first" if right else "second"), right, plain) for right in (True, False)
                        for plain in (True, False)}  # fmt: skip


@pytest.mark.parametrize(("answer", "grade"), [(RIGHT, "equivalent"), (WRONG, "mismatch")])
def test_one_answer_against_a_reference(url: str, answer: str, grade: str) -> None:
    form = '{"grade": "equivalent" or "mismatch"}'
    texts = {"question": QUESTION, "reference": "calcium gluconate first", "answer": answer, "form": form}
    reply = said(url, PromptFolder().render("judge/equivalent", "en", **texts))
    assert json.loads(reply.splitlines()[-1]) == {"grade": grade}


def test_claims_of_a_text_and_what_entails_them(url: str) -> None:
    split = PromptFolder().render("judge/claims", "en", question=QUESTION, text=f"{RIGHT} {WRONG}")
    claims = json.loads(said(url, split))["claims"]
    assert claims == [RIGHT, WRONG]
    listed = "\n\n".join(f"c{number}:\n<<<\n{claim}\n>>>" for number, claim in enumerate(claims, 1))
    form = VerdictForm(("c1", "c2"), ("entailment", "neutral", "contradiction"))
    asked = PromptFolder().render("judge/supports", "en", text=RIGHT, claims=listed, form=form.example)
    assert read_verdict(said(url, asked), form).values == {"c1": "entailment", "c2": "neutral"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_prompts_that_build_benchmarks(url: str, language: str) -> None:
    """By the form that each demands, in both languages; what comes of it follows from the texts that are shown."""

    def built(name: str, **values: str) -> dict[str, Any]:
        shown = PromptFolder().render(f"build/{name}", language, **values)
        answer: dict[str, Any] = json.loads(said(url, shown).splitlines()[-1])
        return answer

    report = (
        "A man fell from his horse. His leg was cold and pale. A clot was drawn out of the artery. He walked again."
    )
    found = built("case_significance", report=report)
    assert found["kind"] in ("treatment", "test", "diagnosis")
    assert found["significance"] in report
    events = built("case_timeline", report=report)["timeline"]
    assert " ".join(events) == report
    numbered = "\n".join(f"{place}. {event}" for place, event in enumerate(events, 1))
    draft = built("case_question", significance=events[2], timeline=numbered)
    assert (draft["decision"], draft["answer"], draft["case"]) == (3, events[2], " ".join(events[:2]))
    rewritten = built("case_rewrite", question=QUESTION, answer=RIGHT)
    assert QUESTION in rewritten["question"]
    assert rewritten["distractors"][0] in rewritten["question"]
    form = '{"follows": "yes" or "no"}'
    for answer, verdict in ((events[2], "yes"), ("Nobody knows", "no")):
        given = {"significance": events[2], "question": QUESTION, "answer": answer, "form": form}
        assert built("case_follows", **given) == {"follows": verdict}
    assert built("open_question", question=QUESTION, choices="A. this", answer="this") == {"question": QUESTION}
    assert RIGHT in built("reasoning_path", question=QUESTION, answer=RIGHT)["reasoning"]
    grades = " or ".join(f'"{grade}"' for grade in range(11))
    form = f'{{"relevance": {grades}, "support": {grades}}}'
    given = {"question": QUESTION, "answer": RIGHT, "reasoning": RIGHT, "form": form}
    assert built("two_axes", document=RIGHT, **given) == {"relevance": "10", "support": "10"}
    assert built("two_axes", document="Rain falls on the roof.", **given) == {"relevance": "0", "support": "0"}
    labels = " or ".join(f'"{grade}"' for grade in "SABCD")
    form, passages = (
        f'{{"p1": {labels}, "p2": {labels}}}',
        "p1:\n<<<\nRain falls.\n>>>\n\np2:\n<<<\n" + QUESTION + "\n>>>",
    )
    assert built("relevance_labels", query=QUESTION, passages=passages, form=form) == {"p1": "D", "p2": "S"}


def test_a_benchmark_is_built_of_what_it_says(url: str, tmp_path: Path) -> None:
    execution = BuildExecution(
        out=tmp_path / "made", limit=3, model="openai:any", base_url=url, alias=ALIAS, home=tmp_path
    )
    made = build(CaseQuestions(reports="sample"), execution)
    assert made.card.benchmark.size == 3


def test_stop_strings_lengths_and_usage(url: str) -> None:
    prompt = [{"role": "user", "content": f"Write a passage.\n\n### Question\n{QUESTION}"}]
    whole = asked(url, messages=prompt)
    text = whole["choices"][0]["message"]["content"]
    assert whole["choices"][0]["finish_reason"] == "stop"
    assert whole["usage"]["total_tokens"] == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"] > 0
    half = text[: len(text) // 2]
    cut = asked(url, messages=prompt, stop=[text[len(half) : len(half) + 6]])["choices"][0]["message"]["content"]
    assert text.startswith(cut)
    assert len(cut) <= len(half)
    short = asked(url, messages=prompt, max_tokens=3)["choices"][0]
    assert (short["message"]["content"], short["finish_reason"]) == (text[:12], "length")
    assert asked(url, messages=prompt) == whole
    assert sent(url, "/chat/completions", {"messages": prompt, "n": 2})[0] == 400
    assert sent(url, "/chat/completions", {"messages": "?"})[0] == 400


def test_streams_and_json(url: str) -> None:
    prompt = [{"role": "user", "content": f"### Question\n{QUESTION}"}]
    text = asked(url, messages=prompt)["choices"][0]["message"]["content"]
    lines = sent(url, "/chat/completions", {"messages": prompt, "stream": True})[1].decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line and line != "data: [DONE]"]
    pieces = [choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]]
    assert "".join(pieces) == text
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    schema = {"type": "object", "properties": {"grade": {"enum": ["yes", "no"]}, "why": {"type": "string"},
                                               "parts": {"type": "array", "items": {"type": "integer"}}}}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "grade", "schema": schema}}
    value = json.loads(asked(url, messages=prompt, response_format=form)["choices"][0]["message"]["content"])
    assert value["grade"] in ("yes", "no")
    assert isinstance(value["why"], str)
    assert isinstance(value["parts"][0], int)


def test_its_vectors_hold_words(url: str) -> None:
    texts = ["calcium gluconate steadies the membrane", "the membrane steadies by calcium gluconate", "ice on the road"]
    said = json.loads(sent(url, "/embeddings", {"model": "any", "input": texts})[1])
    one, same, other = (entry["embedding"] for entry in said["data"])
    assert len(one) == 256
    assert sum(number**2 for number in one) == pytest.approx(1)
    assert one == same
    assert sum(a * b for a, b in zip(one, other, strict=True)) < 0.5
    assert said["usage"]["prompt_tokens"] > 0

    packed = json.loads(sent(url, "/embeddings", {"model": "any", "input": texts[0], "encoding_format": "base64"})[1])
    assert struct.unpack("<256f", base64.b64decode(packed["data"][0]["embedding"])) == pytest.approx(one)
    status, refused = sent(url, "/embeddings", {"model": "any", "input": "x", "dimensions": 0})
    assert status == 400
    assert b"dimensions" in refused


@pytest.mark.slow
def test_the_command_serves_until_it_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragrounds", "stand-in", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        try:
            url = process.stderr.readline().split("listens at ")[1].split(",")[0]
            assert (
                b'"choices"' in sent(url, "/chat/completions", {"messages": [{"role": "user", "content": "Which?"}]})[1]
            )
            assert sent(url, "/chat/completions", {"messages": []})[0] == 400
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(rr.UserError, match="another port"):
        serve_stand_in(taken.getsockname()[1])
