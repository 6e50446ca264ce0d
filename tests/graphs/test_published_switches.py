"""Switches by which Search-o1, Search-R1 and MedRAG run as their authors' programs do; what they do by default is
tested beside each graph."""

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply
from ragrounds.graphs.documents import render_documents
from ragrounds.graphs.model_text import boxed_line, shortened_lines
from ragrounds.models.faults import CallFailed
from tests.graphs.playing import ANSWER, LONG, Shelf, passage, play

BEGIN, END = "<|begin_search_query|>", "<|end_search_query|>"
TOLD, END_TOLD = "<|begin_search_result|>", "<|end_search_result|>"
READ = "Seen.\n**Final Information**\nWarfarin\nworks.\n"


def searching(query):
    return f"I wonder.\n{BEGIN}{query}{END}"


class Down(Shelf):
    """A searcher that fails."""

    async def search(self, query, k):
        self.queries.append(query)
        raise CallFailed("server_error", "down")


def o1(*switches):
    return f"search_o1[{','.join(switches)}]"


async def test_at_the_limit_a_repeated_query_gets_the_notice_of_the_limit():
    script = [searching("q1"), searching("q1"), "\\boxed{yes}"]
    for agent, note in (
        (o1("search_limit=1"), "repeated_query"),
        (o1("search_limit=1,limit_first=true"), "search_limit"),
    ):
        played = await play(agent, list(script), LONG, reader=[READ])
        assert played.notes == [note]
        assert played.shelf.queries == ["q1"]


async def test_queries_are_the_same_only_letter_by_letter():
    script = [searching("q1"), searching("Q1"), "\\boxed{yes}"]
    assert (await play(o1("top_k=1"), list(script), LONG, reader=[READ])).shelf.queries == ["q1"]
    assert (await play(o1("same_query=exact"), list(script), LONG, reader=[READ, READ])).shelf.queries == ["q1", "Q1"]


async def test_queries_are_sent_as_they_are_and_no_tag_is_closed():
    played = await play(o1("queries=as_is"), [searching(" a\n b"), "\\boxed{yes}"], LONG, reader=[READ])
    assert played.shelf.queries == ["a\n b"]
    for agent, asked in ((o1("queries=as_is"), []), ("search_o1", ["a"])):
        script = [Reply(text=f"{BEGIN}a", finish="stop"), "\\boxed{yes}"]
        assert (await play(agent, script, LONG, reader=[READ])).shelf.queries == asked
    played = await play(o1("queries=as_is"), [f"{BEGIN} {END}", ANSWER], LONG)
    assert played.shelf.queries == [], "an empty query ends the reasoning"


async def test_the_last_turn_s_search_is_still_inserted():
    script = [searching("q1"), ANSWER]
    assert (await play(o1("turns=1"), list(script), LONG)).shelf.queries == []
    played = await play(o1("turns=1,last_turn=inserts"), list(script), LONG, reader=[READ])
    assert played.shelf.queries == ["q1"]
    assert played.nodes[-2:] == ["insert", "answer"]


async def test_notices_stand_on_lines_of_their_own():
    played = await play(o1("search_limit=0,notices=lines"), [searching("q1"), "\\boxed{yes}"], LONG)
    assert f"{END}\n{TOLD}\nThe number of searches" in played.model.requests[1].prefix
    assert played.model.requests[1].prefix.endswith(f"\n{END_TOLD}\n")


async def test_the_marker_of_information_stands_on_a_new_line_and_lines_are_joined():
    for text, kept in ((READ, "Warfarinworks."), ("Final information: x", "No helpful information found.")):
        played = await play(o1("information=strict"), [searching("q"), "\\boxed{yes}"], LONG, reader=[text])
        assert f"{TOLD}{kept}{END_TOLD}" in played.model.requests[1].prefix


async def test_a_search_that_fails_found_nothing_and_the_reader_is_asked_all_the_same():
    script = [searching("q"), "\\boxed{yes}"]
    assert (await play("search_o1", list(script), LONG, reader=[READ], shelf=Down())).attempt.status == "failed"
    switches = o1("failed_search=empty,nothing_found=read")
    played = await play(switches, list(script), LONG, reader=[READ], shelf=Down())
    assert (played.attempt.status, played.attempt.text) == ("completed", "yes")
    assert "(none found)" in played.reader.requests[0].messages[-1].content
    assert "search_failed" in played.notes


def test_steps_are_lines_and_the_empty_one_at_the_end_counts_among_the_last_four():
    assert shortened_lines("a\n\nb\nc", ()) == "Step 1: a\n\nStep 2: b\n\nStep 3: c"
    text = "one\ntwo\n<q> three\nfour\nfive\nsix\nseven"
    assert shortened_lines(text, ("<q>",)).split("\n\n") == [
        "Step 1: one", "...", "Step 3: <q> three", "...", "Step 5: five", "Step 6: six", "Step 7: seven",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "plain", "found"),
    [
        ("\\boxed{\\text{(C)}} so {x}", True, "C)}"),
        ("\\boxed{(C)}", True, "C"),
        ("\\boxed{(C)}", False, "(C)"),
        ("\\boxed{a} and \\boxed{b}", True, "a} and \\boxed{b"),
        ("\\boxed{a}\n\\boxed{b\n}", True, "a"),
        ("\\boxed{}", True, None),
        ("none", True, None),
    ],
)
def test_a_box_reaches_to_the_last_brace_of_its_line(text, plain, found):
    assert boxed_line(text, plain=plain) == found


async def test_search_r1_reads_documents_as_its_checkpoints_were_trained_on():
    played = await play("search_r1[profile=search_r1,top_k=2]", ["<search>q</search> more", "<answer>a</answer>"], LONG)
    found = "Doc 1(Title: Title 1) Text of passage 1.\nDoc 2(Title: Title 2) Text of passage 2."
    assert played.model.requests[1].prefix == f"<search>q</search>\n\n<information>{found}</information>"
    assert played.model.requests[0].stop == ()
    assert played.attempt.text == "a"


async def test_search_r1_cuts_after_the_first_search_wherever_it_stands_and_sends_empty_queries():
    script = [
        "<answer>no</answer> <search> a\n b </search> <search></search>",
        "<search></search>",
        "<answer>a</answer>",
    ]
    played = await play("search_r1[stops=false,query_text=raw]", list(script), LONG)
    assert played.attempt.text == "no", "the first action of what is left counts"
    assert played.model.requests[0].stop == ()
    played = await play("search_r1[stops=false,query_text=raw]", script[1:], LONG)
    assert played.shelf.queries == [""]
    played = await play("search_r1", script[1:], LONG)
    assert played.shelf.queries == []


async def test_an_observation_may_be_cut_with_its_tags():
    script = ["<search>q</search>", "<answer>a</answer>"]
    played = await play("search_r1[observation_tokens=4,observation_cut=all]", list(script), LONG)
    assert "</information>" not in played.model.requests[1].prefix
    played = await play("search_r1[observation_tokens=4]", list(script), LONG)
    assert "</information>" in played.model.requests[1].prefix


async def test_medrag_s_documents_are_lines_and_their_text_is_cut_on_the_right():
    agent = "vanilla_rag[document_format=medrag,top_k=3,context_tokens=12]"
    played = await play(agent, [ANSWER])
    assert "Document [0] (Title: Title 1) Text of passage 1.\nDocument [1] (Title:\n" in played.shown(0)
    assert played.notes == ["cut"]
    assert render_documents([passage(1)], "medrag") == "Document [0] (Title: Title 1) Text of passage 1."
    assert render_documents([], "medrag") == ""


def test_an_unknown_format_is_refused():
    with pytest.raises(UserError, match="Did you mean 'medrag'"):
        render_documents([], "medrg")


async def test_no_passages_are_searched_for_and_none_are_shown():
    played = await play("vanilla_rag[top_k=0]", [ANSWER])
    assert played.shelf.queries == []
    assert "(none found)" in played.shown(0)
