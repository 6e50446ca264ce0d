"""The words of a query in a passage, and what is new in a prompt that grows."""

from __future__ import annotations

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.ui.trace.layout import TextBlock, TextLayout
from ragrounds.ui.trace.matching import matching_spans, query_terms
from ragrounds.ui.trace.model_details import prompt_turns


@pytest.mark.parametrize(
    ("text", "query", "words"),
    [
        ("Rare. Edema of the limbs follows. Rest.", "limb edema", ["Edema", "limbs"]),
        ("Erste Zeile.\nÖdeme der Arme treten auf.", "ödeme arme", ["Ödeme", "Arme"]),
        ("Une phrase. L'oedème aigu du poumon.", "aïgu", ["aigu"]),
        ("患者发热三天。上肢水肿明显。无皮疹。", "上肢水肿", ["上肢", "肢水", "水肿"]),
        ("Nothing here says it. Nor here.", "edema", []),
        ("", "edema", []),
    ],
)
def test_words_of_the_query_are_marked(text: str, query: str, words: list[str]) -> None:
    assert [text[begin:end] for begin, end in matching_spans(text, query_terms(query))] == words


def asked(*turns: tuple[str, str], prefix: str = "") -> Request:
    return Request(messages=tuple(Message(role, text) for role, text in turns), prefix=prefix)  # type: ignore[arg-type]


def new_texts(earlier: list[Request], request: Request) -> list[str]:
    return [part.text for _, parts in prompt_turns(request, earlier) for part in parts if part.new]


def test_what_is_new_in_a_prompt_that_grows_at_its_end() -> None:
    first = asked(("system", "Be brief."), ("user", "Why?"), prefix="I search.")
    second = asked(("system", "Be brief."), ("user", "Why?"), prefix="I search. Found: edema.")
    assert new_texts([first], second) == [" Found: edema."]


def test_what_is_new_in_the_middle_of_a_template() -> None:
    first = asked(("user", "Read this:\nold passage\nThen answer."))
    second = asked(("user", "Read this:\nold passage\nnew passage\nThen answer."))
    assert new_texts([first], second) == ["new passage\n"]


def test_a_new_turn_is_new_and_the_same_prompt_holds_nothing_new() -> None:
    first = asked(("system", "Be brief."), ("user", "Why?"))
    assert new_texts([first], asked(("system", "Be brief."), ("user", "Why?"), ("tool", "42"))) == ["42"]
    assert new_texts([first], first) == []


def test_spans_stay_on_their_words_where_lines_are_cut_and_letters_written_out() -> None:
    text = "a\u202eb word one, word two"
    begin = text.index("word two")
    block = TextBlock(text, indent=2, spans=((begin, begin + 8, "term"),))
    lines = TextLayout([block], 16).lines
    found = [line.text[first:last] for line in lines for first, last, _ in line.spans]
    assert "".join(found).replace(" ", "") == "wordtwo"
