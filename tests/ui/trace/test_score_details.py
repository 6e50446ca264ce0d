"""In the hunt's store: gold documents and judges' replies in a detail, cut passages, answers in words."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from msgspec.structs import replace

from ragrounds.base.records import Score
from ragrounds.evals.judges.recorded import judge_replies, with_replies
from ragrounds.evals.trace.causes import CAUSES, Cause
from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import trace
from ragrounds.ui.trace import details
from ragrounds.ui.trace.details import _score_line, detail, hop_blocks
from ragrounds.ui.trace.hop_lines import hop_line
from ragrounds.ui.trace.loaded import LoadedAttempt

Hunted = tuple[Path, dict[tuple[str, str], str]]
GRADE = '{"grade": "mismatch"}'


def planted(pages: Pages, hunted: Hunted, cause: str, growing: bool = False) -> LoadedAttempt:
    agents = [run.agent for run in pages.runs]
    agent, question = next(
        place for place, one in sorted(hunted[1].items()) if one == cause and (place[0] == "search_o1") == growing
    )
    row = pages.row_of(agents.index(agent), question)
    assert row is not None
    return LoadedAttempt(pages, pages.read([row])[0])


def texts(loaded: LoadedAttempt) -> list[str]:
    return [block.text for block in detail(loaded, loaded.root)]


def test_gold_that_was_never_found_stands_by_its_id(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "never retrieved")
    (name,) = loaded.summary.gold.documents
    assert f"gold: {name}, not found" in texts(loaded)


def test_gold_that_was_found_stands_by_its_title_with_what_became_of_it(hunt_pages: Pages, hunted: Hunted) -> None:
    for cause, fate in (("ignored", "seen"), ("cut away", "cut")):
        loaded = planted(hunt_pages, hunted, cause)
        hop, one = next((hop, one) for hop in loaded.hops for one in hop.found if one.gold)
        assert f"gold: {one.passage.title}, found at {one.rank} by search {hop.number}, {fate}" in texts(loaded)


def test_a_figure_that_is_better_low_is_neither_right_nor_wrong(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "ignored")
    shown = [
        _score_line(loaded, Score(question_id="q", epoch=0, scorer=name, value=value, answer_status="answered"))
        for name, value in (("hallucinated-claims", 0.0), ("fabricated-citations", 3.0), ("faithfulness", 0.0))
    ]
    assert [(line.text.partition("  answered")[0], line.style) for line in shown] == [
        ("hallucinated-claims:  0.0", "dim"),
        ("fabricated-citations:  3", "dim"),
        ("faithfulness: wrong  0.0", "wrong"),
    ]


def test_a_judges_reply_stands_below_its_score(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "judge's error")
    shown = texts(loaded)
    score = next(place for place, text in enumerate(shown) if text.startswith("equivalent: wrong"))
    assert shown[score + 1] == "judged by openai:ward-judge[temperature=0], answered by ward-judge-1; it replied:"
    assert shown[score + 2].endswith(GRADE)
    one = loaded.summary
    read = with_replies(hunt_pages.store, trace(hunt_pages.store, one.run, one.question.id))
    assert texts(LoadedAttempt.of_trace(read))[score : score + 3] == shown[score : score + 3]
    assert GRADE in read.judged[0].text


def test_where_the_reply_cannot_be_told_the_judge_stands_alone(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "judge's error")
    assert loaded.attempt is not None
    one, other = loaded.summary, replace(loaded.attempt, text="Another answer, which no judge has read.")
    said = judge_replies(hunt_pages.store, one.run, other, one.question, one.gold, loaded.scores)
    assert [(each.judge, each.told) for each in said] == [("openai:ward-judge[temperature=0]", False)]
    loaded.judge_replies = said
    assert "judged by openai:ward-judge[temperature=0]; which of the replies is its own is not known" in texts(loaded)
    empty = replace(other, text="")
    assert judge_replies(hunt_pages.store, one.run, empty, one.question, one.gold, loaded.scores) == ()


def test_one_wording_of_a_cause_on_every_screen(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "judge's error")
    (read,) = HopReader(hunt_pages).read([loaded.summary])
    assert read.cause is not None
    assert read.cause.description.startswith("likely misjudged: equivalent gives 0, and the answer holds ")
    assert read.cause.description in texts(loaded)
    assert read.cause.description in [block.text for block in hop_blocks(loaded, 0)]
    assert all(f"{word}: why" in Cause(word=word, text="why").description for word in CAUSES)


def test_a_line_of_hops_has_the_answers_words_and_not_the_verdict(hunt_pages: Pages, hunted: Hunted) -> None:
    loaded = planted(hunt_pages, hunted, "judge's error")
    (read,) = HopReader(hunt_pages).read([loaded.summary])
    assert loaded.attempt is not None
    assert hop_line(read).answer == loaded.attempt.text[:80]
    assert "read as mismatch" not in hop_line(read).answer
    assert "mismatch by equivalent" in hop_blocks(loaded, 0)[0].text


def test_what_of_a_reply_was_not_read_is_shown(monkeypatch) -> None:
    monkeypatch.setattr(details, "_score_lines", lambda loaded: [])
    question = SimpleNamespace(text="Which?")
    for text, remark in (("<think>A?</think>C", "not read: thought (2 characters)"), ("C", "")):
        loaded = SimpleNamespace(attempt=SimpleNamespace(text=text), summary=SimpleNamespace(question=question))
        texts = [block.text for block in details.answer_blocks(loaded)]
        assert [text for text in texts if text.startswith("not read")] == ([remark] if remark else [])
        assert texts[-1] == text
