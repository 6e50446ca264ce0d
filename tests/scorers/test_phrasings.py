"""What `robust` makes of the phrasings of :mod:`tests.scorers.phrasings`, and of texts that want to hold it up."""

import time
from collections import Counter

import pytest

from ragrounds.evals.scorers.robust import read_robustly
from tests.scorers.phrasings import NUTRITION, TRIAL, held_out, phrasings

FIFTEEN = (
    "I think it is C.", "(C) is correct", "C, because the findings fit.", "It's most likely C", "C) Pellagra",
    "My final answer: **C**", "I would go with C.", "I'd say it's C", "C seems most likely.", "The best choice is C.",
    "So I think that C is right.", "Definitely C!", "I am confident it's option C.", "C it is.", "It must be pellagra.",
)  # fmt: skip

TOGETHER = {
    "The answer is B. I think it is C.": "B",  # a statement of the answer outweighs a thought,
    "The answer is B. So I think it is C.": "",  # unless the thought concludes
    "The answer is B. C is correct.": "",
    "It could be A. I think it is C.": "C",
    "It could be A.": "A",
    "I think it is C. Actually, it is A.": "A",
    "The findings fit. C because of them. The rest do not.": "C",
    "C, but that is unlikely.": "",
    "C is correct, but I take that back.": "",
    "The answer is C. Wait, no. It should be A.": "A",
    "C. Actually, scratch that: D.": "D",
    "The answer is C. Let me correct that: A.": "A",
    "答案是C。等等，不对，应该选A。": "A",
    "The answer is C. Actually, no surgery is needed.": "C",
    "The answer is C. Do not forget that he is 60. There is no wait time.": "C",
    "The answer is C. Correct me if I am wrong.": "C",
    "The answer is B. Let me change my answer to C.": "C",
    "Pellagra. Scratch that, I do not know.": "",
    "答案是C。因为C更正确。": "C",
    "C is less likely.": "",
    "C is also correct.": "",  # so is another one, which is not named
    "The answer is either C.": "",
    "Antwort auf die Frage: C": "C",
    "The answer is C. Scurvy.": "",  # a label with another option's text
    "The answer is C. Pellagra.": "C",
    "C, which comes from the diet, is not the cause.": "",
    "Answer choice B: seen in sailors. Answer choice C is correct.": "C",
    "A\nB\nC\nD": "",
    "A\nB\nC\nD\nC": "C",
    "None of the options fits well. The answer is C.": "C",
    'You may ask, "is it C?" The gums bleed.': "",
    "I think it is C, but the gums bleed.": "C",
    "(c) as the gums bleed": "C",
}


@pytest.fixture(scope="module")
def counted():
    counts = {part: Counter() for part in (False, True, "late")}
    parts = [(held_out(one.template), one) for one in phrasings()] + [("late", one) for one in phrasings(late=True)]
    for part, one in parts:
        read = read_robustly(one.text, one.question).prediction
        kind = "right" if read == one.label and read else "wrong" if read else "missed" if one.label else "kept"
        counts[part][kind] += 1
    return counts


def test_what_people_write():
    assert {text: read_robustly(text, NUTRITION).prediction for text in FIFTEEN} == dict.fromkeys(FIFTEEN, "C")


def test_what_several_statements_say_together():
    assert {text: read_robustly(text, NUTRITION).prediction for text in TOGETHER} == TOGETHER
    assert read_robustly("I say no. It does not shorten a cold.", TRIAL).prediction == "B"


@pytest.mark.parametrize("part", [False, True, "late"])
def test_precision_and_recall_of_each_part(counted, part):
    found = counted[part]
    assert found.total() >= 1_000
    assert found["right"] / (found["right"] + found["wrong"]) > 0.99
    assert found["right"] / (found["right"] + found["missed"]) > 0.95
    assert found["kept"] > 300


@pytest.mark.parametrize(("part", "missed"), [(False, 13), (True, 0), ("late", 30)])
def test_no_phrasing_is_misread_and_none_more_is_missed(counted, part, missed):
    """A share that has room for thirty misreadings does not notice a rule that is gone."""
    assert counted[part]["wrong"] == 0
    assert counted[part]["missed"] <= missed


HOSTILE = (
    "A, ", "A or ", "the answer is A or ", "not the ", "((((", "\"'`*_", "\\boxed{", "<answer>", '{"answer": "',
    '{"answer": [', "Rickets, ", "maybe ", "answer choice option ", "most likely probably ", "A and B are ",
    "答案是A或",
    "\n", " ", "ﷺ", "based on the ", "A, which is not ", "rule out A and ", "\ue000", "'answer': '\\",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_holds_the_reader_up(piece):
    """Its time grows as the text does; where it grew with the square, the longer text would take 16 times as long."""

    def seconds(length):
        text = (piece * (length // len(piece)))[:length]
        begun = time.process_time()
        for question in (NUTRITION, TRIAL):
            for end in ("", "\nE"):
                read_robustly(text + end, question)
        return time.process_time() - begun

    assert seconds(100_000) < 8 * seconds(25_000) + 0.05
