"""The frame of pipelines: reading model output, counting, provider refusals and failures, folders and cards."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks import Card, load
from ragrounds.evals.judges.bill import Bill
from ragrounds.extensions.construction.card import BuiltCard, Provenance, stage_count
from ragrounds.extensions.construction.case_questions import (
    IN_QUESTION,
    NOT_IN_TIMELINE,
    TELLS_LATER_EVENT,
    TOO_EARLY,
    question_fault,
    timeline_fault,
)
from ragrounds.extensions.construction.files import check_folder, qrels_lines, write_built
from ragrounds.extensions.construction.items import sample_ids
from ragrounds.extensions.construction.stages import read_object
from tests.conftest import Cli
from tests.extensions.construction.annotating import counted, read_lines
from tests.extensions.construction.casing import drawn as drawn_reports
from tests.extensions.construction.casing import script_of
from tests.extensions.construction.conftest import Builder


class Said(Struct):
    word: Literal["yes", "no"]
    number: int = 0


@pytest.mark.parametrize(
    "text",
    [
        '{"word": "yes", "number": 2}',
        'I thought of {"word": "no"} first.\n```json\n{"word": "yes", "number": 2}\n```',
        '<think>{"word": "no"}</think> {"word": "yes", "number": 2, "more": 1}',
        '{"word": "yes", "number": 2} and then {"other": 1}',
        '{"outer": 1} {"word": "maybe"} {"word": "yes", "number": 2} {"word": "perhaps"}',
    ],
)
def test_the_last_object_that_fits_counts(text: str) -> None:
    assert read_object(text, Said) == Said("yes", 2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty reply"),
        ("It is yes.", "no JSON object in the reply"),
        ('{"word": "yes"', "no JSON object in the reply"),
        ('["yes"]', "no JSON object in the reply"),
        ('{"word": "maybe"}', "Invalid enum value 'maybe'"),
        ('{"number": 2}', "missing required field `word`"),
        ('{"word": "yes", "number": "two"}', "Expected `int`, got `str`"),
        ('<think>{"word": "yes"}', "no JSON object in the reply"),
    ],
)
def test_malformed_output_says_how(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_object(text, Said)


def test_half_a_surrogate_pair_is_mended() -> None:
    class Free(Struct):
        text: str

    assert read_object(r'{"text": "a\ud83d b"}', Free).text == "a\ufffd b"


EVENTS = ["A man of 60 had chest pain.", "The ECG was normal.", "A balloon was inflated in the oesophagus.", "He left."]


@pytest.mark.parametrize(
    ("answer", "decision", "fault"),
    [
        ("balloon was inflated", 3, ""),
        ("Balloon was   INFLATED!", 3, ""),
        ("a balloon inflated", 3, NOT_IN_TIMELINE),
        ("balloon was inflate", 3, NOT_IN_TIMELINE),
        ("The ECG was normal", 3, TOO_EARLY),
        ("He left", 3, ""),
        ("...", 3, NOT_IN_TIMELINE),
    ],
)
def test_the_answer_is_verbatim(answer: str, decision: int, fault: str) -> None:
    assert timeline_fault(answer, EVENTS, decision) == fault


@pytest.mark.parametrize(
    ("question", "fault"),
    [
        ("A man of 60 had chest pain. What is done?", ""),
        ("A man had pain; a Balloon was inflated in the oesophagus?", IN_QUESTION),
        ("He blew into a balloon; a tyre was being inflated in the yard; his oesophagus hurt.", IN_QUESTION),
        ("He left. What was done before?", TELLS_LATER_EVENT),
    ],
)
def test_the_question_does_not_tell(question: str, fault: str) -> None:
    assert question_fault(question, "balloon was inflated in the oesophagus", EVENTS, 3) == fault


def test_chinese_is_compared_without_blanks() -> None:
    events = ["患者胸痛入院。", "行食管球囊压迫止血。"]
    assert timeline_fault("食管球囊压迫", events, 2) == ""
    assert question_fault("患者胸痛，曾行食管球囊压迫吗？", "食管球囊压迫", events, 2) == IN_QUESTION


def test_counts_add_up() -> None:
    line = stage_count("s", 10, ["b", "a", "a", "c"])
    assert (line.kept, list(line.dropped.items())) == (6, [("a", 2), ("b", 1), ("c", 1)])


def test_a_smaller_draw_is_a_part_of_a_larger_one() -> None:
    ids = [str(number) for number in range(100)]
    assert sample_ids(ids, 5, 3) < sample_ids(ids, 20, 3) < sample_ids(ids, None, 3) == frozenset(ids)


def test_refused_and_failed_items(command: Cli, builder: Builder, tmp_path: Path) -> None:
    """Six reports: one is refused by the provider in the fourth stage, one meets an error there once."""
    fates = ["kept", "refused follows", "broken follows", "none", "kept", "refused significance"]
    questions = drawn_reports("sample", len(fates), 0)
    server, out = builder(script_of(questions, fates)), tmp_path / "rare"
    ordered = ["build", "case-questions", "sample", "--out", str(out), "--model", "openai:one", "--limit", "6"]
    ordered += ["--base-url", server.url, "--display", "none", "--json"]
    first = command(*ordered)
    assert first.returncode == 3, first.stderr
    lines = counted(json.loads(first.stdout))
    assert lines["run"] == (6, 5, {"failed": 1})
    refused = {"refused by the provider": 1}
    assert lines["significance"] == (5, 3, {"no novel contribution": 1} | refused)
    assert lines["follows"] == (3, 2, refused)
    rejected = read_lines(out / "rejected.jsonl")
    assert [row["reason"] for row in rejected if row["stage"] == "run"] == ["failed"]
    assert "bad luck" in next(row["detail"] for row in rejected if row["stage"] == "run")
    asked = server.stats()["asked"]
    second = command(*ordered)
    assert second.returncode == 0, second.stderr
    assert server.stats()["asked"] == asked + 3, "the failed item goes on with the stage in which it failed"
    card = json.loads(second.stdout)
    assert counted(card)["run"] == (6, 6, {})
    assert card["benchmark"]["size"] == 3
    assert any("checked by the model that wrote them" in note for note in card["made"]["notes"])


@pytest.mark.slow
def test_fresh_asks_everything_anew_and_what_is_broken_off_only_once(
    command: Cli, builder: Builder, tmp_path: Path
) -> None:
    questions = drawn_reports("sample", 3, 0)
    fates = ("kept", "none", "broken follows")
    server = builder(script_of(questions, fates))
    ordered = ["build", "case-questions", "sample", "--out", str(tmp_path / "rare"), "--model", "openai:one"]
    ordered += ["--limit", "3", "--base-url", server.url, "--display", "none", "--json"]
    assert command(*ordered).returncode == 3, "one item meets an error"
    assert command(*ordered).returncode == 0
    whole = json.loads(command(*ordered).stdout)["made"]
    asked = server.stats()["asked"]
    part = command(*ordered, "--journal", "fresh", "--max-total-tokens", "1", "--concurrency", "1")
    assert "Ended early" in part.stderr
    assert asked < server.stats()["asked"] < asked + whole["bill"]["calls"]
    again = json.loads(command(*ordered, "--journal", "fresh").stdout)["made"]
    assert server.stats()["asked"] == asked + again["bill"]["calls"], (
        "what the first half was answered is not paid twice"
    )
    assert again["bill"]["calls"] == whole["bill"]["calls"]
    assert again["stages"] == whole["stages"]
    third = command(*ordered)
    assert "0 model calls made" in third.stderr
    assert server.stats()["asked"] == asked + again["bill"]["calls"], "the newest run is the one that is resumed"


def test_dollars_are_counted_by_model_and_end_it(command: Cli, builder: Builder, tmp_path: Path, home: Path) -> None:
    home.mkdir()
    (home / "prices.toml").write_text('["openai:writer"]\ninput = 1000\noutput = 1000\n')
    reports = drawn_reports("sample", 3, 0)
    server, out = builder(script_of(reports, ["kept"] * 3)), tmp_path / "rare"
    ordered = ["build", "case-questions", "sample", "--out", str(out), "--model", "openai:writer", "--limit", "3"]
    ordered += ["--base-url", server.url, "--display", "none", "--json", "--concurrency", "1"]
    ended = command(*ordered, "--max-cost", "0.01")
    assert "the budget of $0.01 is used up" in ended.stderr
    assert counted(json.loads(ended.stdout))["run"][1] == 1
    rows = read_lines(out / "rejected.jsonl")
    assert [row["reason"] for row in rows] == ["not run"] * 2
    assert all("the budget of $0.01 is used up" in row["detail"] for row in rows)
    said = json.loads(ended.stdout)["made"]["notes"]
    assert any("that were not sampled are only counted: rejected.jsonl does not list them" in note for note in said)
    card = json.loads(command(*ordered).stdout)
    offline = json.loads(command(*ordered, "--new", "--journal", "replay").stdout)
    bill = card["made"]["bill"]
    tokens = bill["usage"]["input"] + bill["usage"]["output"]
    assert bill["cost_uncached"] == pytest.approx(tokens * 1000 / 1e6)
    assert bill["calls"] == 18
    assert offline["made"]["bill"]["cost_paid"] == 0
    assert offline["made"]["bill"]["cost_uncached"] == pytest.approx(bill["cost_uncached"])
    assert offline["made"]["stages"] == card["made"]["stages"]
    assert offline["made"]["files"] == card["made"]["files"]


def test_an_unknown_word_names_the_nearest(command: Cli, tmp_path: Path) -> None:
    out = str(tmp_path / "rare")
    done = command("build", "case-questions", "sample", "--out", out)
    assert (done.returncode, "No model was given" in done.stderr) == (2, True)
    done = command("build", "case-questions", "beir:nowhere", "--out", out, "--model", "openai:x")
    assert (done.returncode, "nowhere" in done.stderr) == (2, True)
    done = command("build", "case-questions", "sample", "--out", out, "--model", "openai:x", "--journal", "resue")
    assert "Did you mean 'reuse'" in done.stderr
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is not a folder"):
        check_folder(tmp_path / "file", "case-questions")


def test_a_place_that_cannot_be_written_is_said_before_anything_is_asked(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    below = tmp_path / "file" / "deep" / "rare"
    asked = ["build", "case-questions", "sample", "--model", "openai:one", "--base-url", "http://127.0.0.1:9/v1"]
    for out in (below, Path("/proc/rare"), tmp_path / ("x" * 300)):
        done = command(*asked, "--out", str(out))
        assert done.returncode == 2, out
        assert "Cannot write" in done.stderr, out
        assert "Choose another --out" in done.stderr.replace("\n", " ")
    assert [each.name for each in tmp_path.iterdir() if each.name != "home"] == ["file"]


def test_looking_whether_a_place_can_be_written_leaves_nothing_there(tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    check_folder(tmp_path / "deep" / "deeper" / "rare", "p")
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "deep").mkdir()
    check_folder(tmp_path / "deep" / "rare", "p")
    check_folder(tmp_path / "deep", "p")
    assert list((tmp_path / "deep").iterdir()) == []
    built({"q.jsonl": [b"a\n"]}, tmp_path / "deep")
    there = names(tmp_path / "deep")
    check_folder(tmp_path / "deep", "p")
    assert names(tmp_path / "deep") == there
    assert [each.name for each in tmp_path.iterdir()] == ["deep"]


def test_judgements_cannot_carry_blanks() -> None:
    assert b"".join(qrels_lines({"q": {"d": 1}})) == b"query-id\tcorpus-id\tscore\nq\td\t1\n"
    for query, document in (("q 1", "d"), ("q", "d\t2"), ("", "d")):
        with pytest.raises(UserError, match="contain a space"):
            b"".join(qrels_lines({query: {document: 1}}))


def test_a_built_benchmark_brings_its_card(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    row = {
        "pmc_id": "PMC1",
        "question": "What next?",
        "answer": "A balloon.",
        "Title": "T",
        "Classification": "Surgery",
    }
    (folder / "ogcarebench.jsonl").write_text(json.dumps(row))
    assert load(f"ogcarebench:{folder}", tmp_path).card.title.startswith("OGCaReBench")
    card = {"name": "x", "title": "Mine", "task": "long", "source": "me", "license": "CC0"}
    (folder / "card.json").write_text(json.dumps({"benchmark": card, "made": {"pipeline": "case-questions"}}))
    loaded = load(f"ogcarebench/mine:{folder}", tmp_path)
    assert (loaded.card.title, loaded.card.license, loaded.card.name) == ("Mine", "CC0", "ogcarebench/mine")
    assert loaded.questions[0].id == "mine/1"
    (folder / "card.json").write_text('{"benchmark": {"name": 3}}')
    with pytest.raises(UserError, match="is not a benchmark card"):
        load(f"ogcarebench:{folder}", tmp_path)


def built(files: dict[str, list[bytes]], folder: Path) -> BuiltCard:
    card = Card(name="x", title="X", task="long", source="me", license="CC0")
    bill_ = Bill(calls=0, reused=0, failed=0, usage=None, cost_paid=None, cost_uncached=None)
    made = Provenance(
        **dict.fromkeys(("pipeline", "source", "ragrounds", "run", "fingerprint", "begun", "items"), "p"),
        **{key: {} for key in ("models", "prompts", "parameters", "by_model")},
        **dict.fromkeys(("retriever", "corpus", "limit"), None),
        items_version="",
        read=0,
        seed=0,
        stages=(),
        bill=bill_,
    )
    return write_built(folder, files, BuiltCard(benchmark=card, made=made))


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_folder_holds_one_benchmark(tmp_path: Path) -> None:
    folder, outside = tmp_path / "deep" / "mine", tmp_path / "outside.jsonl"
    outside.write_bytes(b"a\n")
    card = built(
        {"q.jsonl": [b"a\n"], "qrels/test.tsv": [b"b\n"], "sheet.csv": [b"c\n"], "kept.jsonl": [b"d\n"]}, folder
    )
    assert names(folder) == {"q.jsonl", "qrels/test.tsv", "sheet.csv", "kept.jsonl", "card.json"}
    assert list(folder.parent.iterdir()) == [folder], "nothing else is left there"
    # What another build of it no longer has goes, where nobody has touched it; no other file ever does.
    (folder / "kept.jsonl").write_bytes(b"mine\n")
    strange = json.loads((folder / "card.json").read_text())
    strange["made"]["files"]["../../outside.jsonl"] = card.made.files["q.jsonl"]
    (folder / "card.json").write_text(json.dumps(strange))
    built({"other.jsonl": [b"e\n"]}, folder)
    assert names(folder) == {"other.jsonl", "sheet.csv", "kept.jsonl", "card.json"}
    assert outside.exists()
    check_folder(folder, "p")


def test_a_file_that_cannot_be_made_leaves_no_new_folder(tmp_path: Path) -> None:
    def lines() -> Iterator[bytes]:
        yield b"a\n"
        raise UserError("no more")

    with pytest.raises(UserError, match="no more"):
        built({"first.jsonl": [b"x\n"], "second.jsonl": lines()}, tmp_path / "mine")
    assert list(tmp_path.iterdir()) == []
    built({"first.jsonl": [b"x\n"]}, tmp_path / "mine")
    with pytest.raises(UserError, match="no more"):
        built({"first.jsonl": lines()}, tmp_path / "mine")
    assert (tmp_path / "mine" / "first.jsonl").read_bytes() == b"x\n"
    assert names(tmp_path / "mine") == {"first.jsonl", "card.json"}


@pytest.mark.parametrize("name", ["case_questions", "consensus_labels", "false_negatives", "relevance_mining"])
def test_a_pipeline_describes_the_stages_that_it_has(name: str) -> None:
    module = importlib.import_module(f"ragrounds.extensions.construction.{name}")
    (line,) = (line for line in module.__doc__.splitlines() if line.count("→") > 1)
    described = line.partition(".")[0].removeprefix("START → ").removesuffix(" → END").split(" → ")
    assert tuple(described) == module.PIPELINE.stages == tuple(nodes_in_order(module.build(), described))


def nodes_in_order(graph: Any, order: list[str]) -> list[str]:
    """Return the graph's nodes in this order, those that are not in it last."""
    return sorted(graph.nodes, key=lambda node: order.index(node) if node in order else len(order))
