"""The detail of each node: exactly what was sent and received, and what became of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import Request, Tool
from ragrounds.base.records import Noted, Reply, TokenLogprob
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.call_words import probability_of, terms_of
from ragrounds.ui.trace.details import answer_blocks, detail
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.replies import reply_blocks
from ragrounds.ui.trace.tree import walk


@pytest.fixture
def loaded(pages: Pages) -> LoadedAttempt:
    return LoadedAttempt(pages, pages.read([6])[0])


def at(loaded: LoadedAttempt, key: str) -> list[TextBlock]:
    return detail(loaded, next(node for node in walk(loaded.root) if node.key == key))


def text(pieces: list[TextBlock]) -> str:
    return "\n".join(block.text for block in pieces)


def test_an_attempt_shows_options_gold_reading_and_all_scores(pages: Pages) -> None:
    found = detail(one := LoadedAttempt(pages, pages.read([1])[0]), one.root)
    styles = {block.text: block.style for block in found}
    assert styles["★ A. Aspirin  ← gold · seeker[rounds=3]"] == "gold"
    assert styles["  B. Bed rest  ← chosen"] == "wrong"
    assert "read as 'B', gold 'A'" in text(found)
    assert "100 tokens in, 20 out | paid $0.01" in text(found)


@pytest.mark.parametrize(
    "written",
    ['{"why": "It thins\\nblood.", "answer": "A"}', '```json\n{"why": "It thins\\nblood.", "answer": "A"}\n```'],
)
def test_a_reply_in_json_is_read_by_its_names_and_stands_there_as_written(written: str) -> None:
    found = list(reply_blocks(written))
    assert [block.text for block in found if block.seen(raw=False)] == ["Why", "It thins\nblood.", "answer: A"]
    assert [block.text for block in found if block.seen(raw=True)] == [written]


@pytest.mark.parametrize("written", ['{"answer": "A"', "[1]", "{}", "[" * 100_000, '{"answer": "A"} I think.', "A"])
def test_what_is_no_object_stands_as_it_was_written(written: str) -> None:
    assert list(reply_blocks(written)) == [TextBlock(written, markdown=True)]


def test_scorers_that_agree_are_named_in_one_line(pages: Pages) -> None:
    one = LoadedAttempt(pages, pages.read([1])[0])
    first = replace(one.scores[0], scorer="first")
    one.scores = (first, replace(first, scorer="same"), replace(first, scorer="other", value=None))
    lines = [block.text.split(":")[0] for block in answer_blocks(one)]
    assert lines[1:4] == ["first", "other", "the same by same"]
    one.scores = (replace(first, scorer="a"), replace(first, scorer=one.summary.scorer))
    assert [block.text for block in answer_blocks(one)][2] == "the same by a"  # the score of the lists comes first


def test_the_exact_messages_and_the_reply(loaded: LoadedAttempt) -> None:
    found = at(loaded, "step 6")
    texts = [block.text for block in found]
    assert texts[texts.index("\n[system]") + 1] == "You are careful."
    assert texts[texts.index("\n[user]") + 1] == "Now **answer**."
    assert "The answer is **A**, by [this](http://x.example)." in texts
    assert any(block.text.startswith("The answer is") for block in found)


def test_retries_stand_with_the_call_and_the_error(loaded: LoadedAttempt, pages: Pages) -> None:
    assert "try 1 failed: rate_limit (HTTP 429): slow down; waited 2.0 s" in text(at(loaded, "step 6"))
    failed = LoadedAttempt(pages, pages.read([3])[0])
    found = text(at(failed, "step 0"))
    assert "try 1 failed: server (HTTP 500): no; waited 1.0 s" in found
    assert "error: gone" in found
    assert "the server went away" in text(detail(failed, failed.root))


def test_passages_by_rank_with_the_sentence_that_matched_and_what_became_of_them(loaded: LoadedAttempt) -> None:
    found = at(loaded, "step 2")
    texts = [block.text for block in found]
    assert texts[texts.index("\nquery of hop 2, 2 wanted from books@1") + 1] == "query 1"
    assert "by bm25 from books@1" in texts
    assert "\n2 passages: 2 new; gold at 1 (1 of 1 gold document); 1 seen, 1 not seen" in texts
    gold = next(block for block in found if block.text.startswith("★  1. Chapter 1"))
    assert gold.text == "★  1. Chapter 1   gold, new, seen by read"
    assert [(gold.text[begin:end], style) for begin, end, style in gold.spans] == [
        ("★  1. Chapter 1", "gold"), ("gold", "gold"), ("new", "new"), ("seen by read", "right"),
    ]  # fmt: skip
    assert "   2. Chapter 2   new, not seen" in texts


def test_a_passage_has_its_id_and_its_text_with_the_words_of_the_query(loaded: LoadedAttempt) -> None:
    found = at(loaded, "step 0")
    gold = next(number for number, block in enumerate(found) if block.text.startswith("★  1. Chapter 1"))
    assert [block.text for block in found[gold + 1 : gold + 3]] == [
        "doc1#0  score 8.000",
        "Passage 1 found in round 0: aspirin thins the blood.",
    ]


def test_a_step_shows_what_it_wrote(loaded: LoadedAttempt) -> None:
    assert '"answer": "A"' in text(at(loaded, "step 6"))


def test_what_a_tool_gave_is_no_failure(loaded: LoadedAttempt) -> None:
    notes = [Noted(step=6, what=what, text="said") for what in ("tool", "tool_failed")]
    node = next(node for node in walk(loaded.root) if node.key == "step 6")
    assert node.step is not None
    told = text(detail(loaded, replace(node, step=replace(node.step, notes=tuple(notes)))))
    assert "\ntool: said" in told
    assert "! tool_failed: said" in told


def test_a_call_that_the_journal_does_not_hold_says_so(pages: Pages) -> None:
    failed = LoadedAttempt(pages, pages.read([3])[0])
    assert "only calls that were answered are kept" in text(at(failed, "step 0"))


def test_what_was_asked_beside_the_messages_and_how_likely_the_reply_was() -> None:
    tool = Tool.taking("query", "What for.", name="search", description="Searches.")
    form = {"type": "json_schema", "json_schema": {"name": "Verdict", "schema": {}}}
    asked = Request(
        messages=(),
        max_tokens=50,
        tools=(tool,),
        tool_choice="search",
        parallel_tool_calls=False,
        temperature=0.0,
        seed=7,
        response_format=form,
        logprobs=2,
    )
    assert terms_of(asked) == (
        "at most 50 tokens; tools: search; tool choice: search; one tool at a time; temperature 0; seed 7; "
        "a reply of the form Verdict; log probabilities with the 2 likeliest tokens"
    )
    assert terms_of(Request(messages=(), response_format={"type": "json_object"})) == "a reply of the form json_object"
    assert terms_of(Request(messages=())) == ""
    tokens = (TokenLogprob("So", -0.25), TokenLogprob("A", -1.5, (("B", -0.5), ("A", -1.5))))
    likely = "log probability of its 2 tokens: -1.75; least likely 'A' -1.50 (next to 'B' -0.50)"
    assert probability_of(Reply(text="So A", logprobs=tokens)) == likely
    assert probability_of(Reply(text="So A")) == ""


def test_a_round_has_a_line_for_each_step(loaded: LoadedAttempt) -> None:
    assert [block.text for block in at(loaded, "round step 2")] == [
        "round 2  2.0 s, 120 tokens, $0.01",
        "search “query 1” → 2, gold at 1  500 ms, 0 tokens, $0.00",
        "read “Kept in round 1: aspirin.”  1.5 s, 120 tokens, $0.01",
    ]


def test_what_an_earlier_prompt_had_is_dimmed_and_folded(loaded: LoadedAttempt) -> None:
    found = at(loaded, "step 3")
    texts = [block.text for block in found]
    assert "passages in the prompt: hop 2: ★1 whole" in texts
    known, new = (
        texts.index("You are careful."),
        texts.index("Read: Passage 1 found in round 1: aspirin thins the blood."),
    )
    assert texts[known - 1] == "\n[system]"
    assert [(found[place].style, found[place].fold) for place in (known, new)] == [("dim", 1), ("plain", 12)]
    assert new < texts.index("\n[reply, finish: stop, tiny-1]")


def test_an_attempt_has_the_likely_cause_and_the_fate_of_gold(pages: Pages) -> None:
    wrong = LoadedAttempt(pages, pages.read([10])[0])
    texts = [block.text for block in detail(wrong, wrong.root)]
    assert any(text.startswith("likely ") and ": " in text for text in texts)
    assert "gold: Chapter 1, found at 1 by search 1, seen" in texts
