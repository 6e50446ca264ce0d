"""Recorded calls as a text file: the same bytes for the same calls, no key, and nothing believed that is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.extensions.gate.journal import read_journal, write_journal

AGENTS = ["direct", "vanilla_rag[top_k=3]", "vanilla_rag[top_k=2]"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[rr.RunResult, Path]:
    """Runs, and the file of their calls."""
    folder = tmp_path_factory.mktemp("recorded")
    result = rr.run("sample", AGENTS, limit=6, home=folder / "home")
    write_journal(result, folder / "calls.jsonl", home=folder / "home")
    return result, folder / "calls.jsonl"


@pytest.mark.slow
def test_a_replay_from_the_file_gives_the_same_runs_and_the_same_file(
    recorded: tuple[rr.RunResult, Path], tmp_path: Path
) -> None:
    first, file = recorded
    assert read_journal(file, home=tmp_path).calls == 30
    again = rr.run("sample", AGENTS, limit=6, home=tmp_path, journal="replay")
    assert (first.made, again.made, again.reused) == (18, 0, 18)
    assert again.ids == first.ids
    columns = ["question_id", "status", "text", "model_calls", "searches"]
    frames = [one.to_pandas("attempts")[columns] for one in (first, again)]
    assert frames[0].equals(frames[1])
    # What was asked is written again, though the file does not hold it.
    question = first.benchmark.questions[0].id
    traces = [rr.load(one.ids[1], settings=one.settings).attempt(question) for one in (first, again)]
    asked = [[call.asked or call.searched for step in trace.steps for call in step.calls] for trace in traces]
    assert asked[0] == asked[1]
    assert None not in asked[0]
    written = write_journal(again, tmp_path / "again.jsonl", home=tmp_path)
    assert written.path.read_bytes() == file.read_bytes()
    assert not write_journal(again, tmp_path / "again.jsonl", home=tmp_path).changed


def test_lines_are_sorted_and_a_passage_stands_once(recorded: tuple[rr.RunResult, Path]) -> None:
    lines = [json.loads(line) for line in recorded[1].read_text().splitlines()]
    assert lines[0] == {"ragrounds_journal": 1, "servers": []}
    calls = [line for line in lines if "key" in line]
    places = [(line["kind"], line["actor"], line["key"]) for line in calls]
    assert places == sorted(places)
    assert {line["kind"] for line in calls} == {"model", "search"}
    passages = [line for line in lines if "hash" in line]
    assert len({line["text"] for line in passages}) == len(passages) > 0
    named = [one["text_hash"] for line in calls for one in line["response"].get("passages", ()) if "text_hash" in one]
    assert set(named) == {line["hash"] for line in passages}
    assert len(named) > len(passages)  # some were found by several searches


def test_files_are_joined_and_what_is_not_used_is_kept_only_if_asked(
    recorded: tuple[rr.RunResult, Path], tmp_path: Path
) -> None:
    result, file = recorded
    part = tmp_path / "part.jsonl"
    assert write_journal(result.ids[0], part, settings=result.settings).calls == 6
    assert write_journal(result.ids[1], part, keep=True, settings=result.settings).calls == 18
    assert write_journal(result.ids[2], part, keep=True, settings=result.settings).calls == 30
    assert part.read_bytes() == file.read_bytes()
    assert write_journal(result.ids[0], part, settings=result.settings).calls == 6


def at(lines: list[str], mark: str) -> int:
    """Place of the first line with this mark."""
    return next(place for place, line in enumerate(lines) if mark in line)


def edited(lines: list[str], mark: str, **values: object) -> list[str]:
    """The lines, with other values in the first one that has this mark."""
    place = at(lines, mark)
    return [*lines[:place], json.dumps({**json.loads(lines[place]), **values}), *lines[place + 1 :]]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: [], "the file is empty"),
        (lambda lines: ['{"ragrounds_journal": 7}', *lines[1:]], "it has the format 7, and 1 is read here"),
        (lambda lines: lines[1:], "line 1: "),
        (lambda lines: [lines[0], "<<<<<<< ours", *lines[1:]], "line 2: this is not JSON"),
        (lambda lines: [*lines[:4], lines[4][:40]], "cut off"),
        (lambda lines: edited(lines, '"key"', key="../../x"), "'../../x' is no key of a recorded call"),
        (lambda lines: [*lines, lines[at(lines, '"key"')]], "is in it twice"),
        (lambda lines: edited(lines, '"hash"', text="Another text."), "a passage is not what its hash says"),
        (lambda lines: lines[: at(lines, '"hash"')], "is missing in it"),
        (lambda lines: edited(lines, '"key"', response=["no object"]), "line 2: "),
        (
            lambda lines: [line.replace('"seconds": ', '"seconds": NaN, "were": ') for line in lines],
            "not a JSON number",
        ),
    ],
)
def test_a_file_that_was_changed_by_hand_is_refused(
    recorded: tuple[rr.RunResult, Path], tmp_path: Path, edit: Callable[[list[str]], list[str]], says: str
) -> None:
    file = tmp_path / "changed.jsonl"
    file.write_text("\n".join(edit(recorded[1].read_text().splitlines())))
    with pytest.raises(UserError) as refused:
        read_journal(file, home=tmp_path / "home")
    assert says in str(refused.value)
    assert str(file) in str(refused.value)


def test_no_key_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of an earlier version may hold what was not taken out then."""
    from ragrounds.api.workspace import chosen_settings, open_store
    from ragrounds.base.records import Reply
    from ragrounds.evals.store import schema
    from ragrounds.evals.store.codec import pack
    from ragrounds.evals.store.row_sums import summed
    from ragrounds.extensions.gate.journal_file import recorded_text

    planted = "planted-3f8Qz71Lk0"
    monkeypatch.setenv("OUR_API_KEY", planted)
    response, _ = pack(Reply(text=f"Your key is {planted}, and Bearer abcdEFGH0123456789xyz."))
    request, _ = pack(Reply(text=f"asked with {planted}"))
    row = {"key": b"k" * 32, "kind": "model", "actor": f"openai:x[base_url=http://me:{planted}@host/v1]", "at": 1.0}
    with open_store(chosen_settings(None, tmp_path)) as store:
        with store.engine.begin() as connection:
            row |= {"seconds": 0.1, "request": request, "response": response, "payer": None}
            connection.execute(schema.calls.insert(), summed(schema.calls, row))
        text = bytes(recorded_text(store, [], every=True)).decode()
    assert planted not in text
    assert "abcdEFGH" not in text
    assert text.count("[key]") == 4


@pytest.mark.slow
def test_the_command_writes_and_reads(command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert command("run", "--agent", "direct", "--limit", "3", "--display", "none").returncode == 0
    done = command("journal", "write", "direct", "--out", "calls.jsonl")
    assert (done.returncode, done.stderr.startswith("calls.jsonl: 3 calls, ")) == (0, True)
    other = {"RAGROUNDS_HOME": str(tmp_path / "other")}
    run = ("run", "--agent", "direct", "--limit", "3", "--display", "none", "--journal", "replay")
    missing = command(*run, **other)
    assert (missing.returncode, "this call is not in the journal" in missing.stderr) == (2, True)
    read = command("journal", "read", "calls.jsonl", "--json", **other)
    assert json.loads(read.stdout)["files"][0]["calls"] == 3
    again = command(*run, **other)
    assert again.returncode == 0
    assert "0 model calls made, 3 answered from the journal" in again.stderr
