"""Which prompts a run sent is read off its recorded requests, not off the list of its graph."""

import asyncio
import shutil

import pytest

from ragrounds.contracts import Entry, Request
from ragrounds.evals.compare.rendered_prompts import rendered_prompts
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Call, Called, Entered, Left, Message, Reply
from tests.compare.making import add_run, questions

LISTED = ("choice/cot", "choice/direct", "choice/rag", "long/cot", "search_o1/no_more_searches")


def sent(store, *requests: tuple[Message, ...]):
    """The events of an attempt with these requests, which the journal holds."""
    made = []
    for number, messages in enumerate(requests):
        key = f"{number + 1:02x}" * 32
        entry = Entry(key=key, kind="model", actor="test:model", request=Request(messages=messages))

        async def keep(entry=entry):
            journal = StoreJournal(store)

            async def reply():
                return Reply(text="A", model="test")

            await journal.once(entry, reply, Reply)
            journal.close()

        asyncio.run(keep())
        call = Call(key=key, kind="model", role="answering", node="answer", actor="test:model", at=1.0, seconds=0.1)
        made.append(Called(step=0, call=call))
    return (Entered(step=0, node="answer", at=1.0), *made, Left(step=0, seconds=1.0))


def run_with(store, folder, events, agent="direct_cot"):
    identity = {"prompts": folder.digest(LISTED), "models": {"model": "test:model"}}
    return add_run(store, agent, questions(2), [1, 0], events={0: events}, identity=identity)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_those_of_the_list_that_were_sent(store, language):
    folder = PromptFolder()
    values = {"question": "Is 5 $ much?", "options": "A. yes\nB. no"}
    first = folder.render("choice/cot", language, **values)
    notice = Message("user", folder.text("search_o1/no_more_searches", language))
    run = run_with(store, folder, sent(store, first, (*first, notice)))
    found = rendered_prompts(store, run)
    assert list(found.used) == ["choice/cot", "search_o1/no_more_searches"]
    assert found.used["choice/cot"] == folder.digest(("choice/cot",))["choice/cot"]
    assert found.unknown == {}


def test_another_layout_and_left_out_options_are_the_same_prompt(store):
    folder = PromptFolder(layout="options+question")
    asked = folder.render("choice/cot", "en", question="Why?", options="")
    found = rendered_prompts(store, run_with(store, folder, sent(store, asked)))
    assert list(found.used) == ["choice/cot"]


def test_a_prompt_that_is_not_here_as_it_was_is_not_known(store, tmp_path):
    (tmp_path / "choice").mkdir()
    own = tmp_path / "choice/cot.md"
    own.write_text("[user]\nMine: $question\n", encoding="utf-8")
    folder = PromptFolder(str(tmp_path))
    run = run_with(
        store, folder, sent(store, folder.render("choice/cot", question="Why?")), f"direct_cot[prompts={tmp_path}]"
    )
    assert list(rendered_prompts(store, run).used) == ["choice/cot"]
    shutil.rmtree(tmp_path)
    found = rendered_prompts(store, run)
    assert (list(found.used), list(found.unknown)) == ([], ["choice/cot"])


def test_runs_without_prompts_or_calls_have_none(store):
    found = rendered_prompts(store, add_run(store, "imported", questions(2), [1, 0], origin="imported"))
    assert (found.used, found.unknown) == ({}, {})
