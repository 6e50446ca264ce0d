"""The lenient reader at its edges: which statement wins, how far it looks, what it says where it reads nothing."""

import pytest

from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.mirage import first_letter, read_published, stated
from ragrounds.evals.scorers.mirage_pmc_llama import completion, read_completion
from ragrounds.evals.scorers.option_text import by_beginning, by_text
from ragrounds.evals.scorers.robust import read_robustly
from tests.rows import each_row
from tests.scorers.making import FOUR, question

ASKED = question()
NONE_READ = AnswerRead("unreadable", "", "no option can be read from the answer")


def read(text, options=None):
    return read_robustly(text, question(options))


@each_row(
    ("text", "expected"),
    [
        ("", AnswerRead("empty")),
        (" \n", AnswerRead("empty")),
        ("<think>B</think>", AnswerRead("unreadable", "", "reasoning without an answer")),
        ("<think>A</THINKING> B", AnswerRead("answered", "B")),
        ("<think>A</think>B</think>C", AnswerRead("answered", "C")),
        ("Connection error.", AnswerRead("unreadable", "", "an error was recorded in place of a reply")),
        ("Error 503: option B", AnswerRead("unreadable", "", "an error was recorded in place of a reply")),
        ('{"answer": "B cells"}', NONE_READ),
        ('Connection error. {"answer": "B"}', AnswerRead("answered", "B")),
        ('{"answer": "A or B"}', AnswerRead("unreadable", "", "names several options: A, B")),
        ('{"answer": "D, C and B"}', AnswerRead("unreadable", "", "names several options: B, C, D")),
        ('{"answer": "neither B nor C: unclear"}', AnswerRead("abstained", "", "no option was chosen")),
        ('{"answer": "E"}', NONE_READ),
        ('{"answer": ""}', AnswerRead("abstained", "", "the stated answer is empty")),
        ('{"answer": {"reason": "the gums"}}', AnswerRead("abstained", "", "the stated answer is empty")),
        ('{"answer": "Scurvy, or rickets"}', AnswerRead("unreadable", "", "names several options: A, B")),
        ("The gums bleed.", NONE_READ),
        ("The gums bleed.\nB", AnswerRead("answered", "B")),
        # What is stated outright counts, and no letter on the last line beside it.
        ('{"answer": "E"}\nB', NONE_READ),
        ("The answer is E.\nB", AnswerRead("answered", "B")),
        # The last field, box or tag wins, fields before boxes before tags.
        ('{"answer": "A"} {"answer": "B"}', AnswerRead("answered", "B")),
        (r'\boxed{A} {"answer": "B"} \boxed{C}', AnswerRead("answered", "B")),
        (r"<answer>A</answer> \boxed{B} <answer>C</answer>", AnswerRead("answered", "B")),
        (r"\boxed{A} and \boxed{B}", AnswerRead("unreadable", "", "names several options: A, B")),
        (r"\boxed{A} No, wait. \boxed{B}", AnswerRead("answered", "B")),
        (r"\boxed{A} and \boxed{B} No, wait. \boxed{C}", AnswerRead("answered", "C")),
        ("<answer>A</answer><answer>B", AnswerRead("answered", "B")),
        # Of statements in words the last that can be read wins.
        ("The answer is A. The answer is B.", AnswerRead("answered", "B")),
        ("The answer is A. The answer is what follows.", AnswerRead("answered", "A")),
        # One that says that none can be chosen ends the search.
        ("The answer is A. The answer is unclear.", AnswerRead("abstained", "", "no option was chosen")),
    ],
)
def test_which_statement_counts(text, expected):
    assert read(text) == expected


def test_a_stated_answer_counts_wherever_the_text_is_read_and_a_thought_at_its_ends():
    long = "The gums bleed after months at sea. " * 40
    assert read("The answer is\nB") == AnswerRead("answered", "B")
    assert read(f"{long}The answer is B. {long}").prediction == "B"
    assert read(f"{long}I think it is B. {long}").prediction == ""
    assert read(f"{long}I think it is B.").prediction == "B"
    assert read(f"B. {long}").prediction == "B"
    three = "I think it is scurvy. The gums bleed. He was at sea."
    assert read(three).prediction == "B"  # a first sentence with an option's text, of three at most
    assert read(f"{three} He eats well.").prediction == ""
    assert read(f"{long * 3}The answer is B. {long * 6}").prediction == ""  # neither in the head nor in the tail
    assert read(f"The answer is B. {long * 9}").prediction == "B"


@pytest.mark.parametrize(("length", "label"), [(700, "B"), (701, "")])
def test_of_more_than_700_characters_a_thought_at_the_beginning_is_no_answer(length, label):
    text = "I think it is B. " + "The gums bleed. " * 41
    assert read(f"{text}{'x' * (length - len(text) - 1)}.").prediction == label


@pytest.mark.parametrize(("words_before", "label"), [(9_000, "B"), (11_000, "")])
def test_of_a_very_long_text_the_middle_is_skipped(words_before, label):
    """200,000 characters are read: the first 50,000 and the last 150,000."""
    text = f'{"word " * words_before}{{"answer": "B"}}{" word" * (52_000 - words_before)}'
    assert read(text).prediction == label


def test_a_list_of_the_options_is_no_choice():
    each = "\n".join(f"{label}. {text}: it is possible." for label, text in FOUR.items())
    assert read(each).prediction == ""
    assert read(f"{each}\nThe answer is C.").prediction == "C"
    assert read(f"{each}\nC").prediction == "C"
    two = "A: seen in children.\nB: seen at sea."
    assert read(two) == AnswerRead("unreadable", "", "names several options: A, B")
    assert read(f"{two}\nC: seen in the dark.") == NONE_READ  # a list has three


@each_row(
    ("candidate", "label"),
    [
        ("B", "B"), ("b", "B"), ("(b).", "B"), ("The final answer is B", "B"), ("the correct option: C.", "C"),
        ("**B**", "B"), ("B. Scurvy", "B"), ("B. Rickets", ""), ("B - Scurvy", "B"), ("B because of the gums", "B"),
        ("B cells", ""), ("B, or A", ""), ("B, also Option B", "B"), ("B, B.", "B"), ("B. scurvy and D.", ""),
        ("B) Scurvy, not C.", "B"), ("I say option B, B.", "B"),
        ("I take option B", "B"), ("Options B and C", ""), ("option B, option B", "B"), ("option B or option C", ""),
        ("Option B is not right", ""), ("Option B is right", "B"), ("Choice C", "C"), ("anti-B is found", ""),
        ("A patient", ""), ("E", ""), ("BB", ""), ("Some say that option B is right. I think it's C.", "C"),
        ("Option B was said to be right, and I think it's C", ""),
    ],
)  # fmt: skip
def test_labels(candidate, label):
    forms = (candidate, f'{{"answer": "{candidate}"}}', f"<answer>{candidate}</answer>")
    assert {form: read(form).prediction for form in forms} == dict.fromkeys(forms, label)


def test_a_label_before_an_options_own_text_counts_though_that_names_others():
    options = {"A": "Anti-B, C", "B": "A, or B.", "C": "none"}
    assert read("B. A, or B.", options).prediction == "B"
    assert read("B. a,  OR b", options).prediction == "B"


def test_a_text_with_another_options_label_names_both():
    for text in ("Rickets (option B)", "Rickets (B).", "Rickets, option B", "Rickets, which is option B."):
        assert read(text) == AnswerRead("unreadable", "", "names several options: A, B")
    assert read("Rickets. Scurvy can be treated.").prediction == "A"  # texts, each a sentence
    assert read("→B. Rickets") == AnswerRead("unreadable", "", "names several options: A, B")
    for text in ("Scurvy (option B)", "Scurvy (B).", "Scurvy, which is option B"):
        assert read(text).prediction == "B"


def test_letters_and_numbers_inside_other_names_are_no_option():
    for text in ("It is hepatitis B.", "I suspect vitamin C.", "She has group B."):
        assert read(text) == NONE_READ
    assert read("A most likely cause is scurvy.").prediction == "B"
    assert read("I think it is C because of hepatitis B.").prediction == "C"
    numbers = {"A": "5", "B": "7", "C": "9"}
    assert read("I think it is 7.", numbers).prediction == "B"
    assert read("I think it is 17.", numbers).prediction == ""


def test_labels_of_more_than_a_letter_are_taken_as_they_are():
    options = {"a1": "one", "a12": "two", "B": "three"}
    assert read("a12", options).prediction == "a12"
    assert read("a1.", options).prediction == "a1"
    assert read("A1", options).prediction == ""  # case counts where labels are words
    assert read("I think it is option a12.", options).prediction == "a12"
    small = {"a": "one", "b": "two"}
    assert read("b", small).prediction == "b"
    assert read("(a)", small).prediction == "a"
    roman = {"I": "one", "II": "two", "III": "three"}
    assert read("I think it is II.", roman).prediction == "II"
    assert read("I choose I.", roman).prediction == "I"
    numbers = {"1": "5 mg", "2": "10 mg", "3": "1 mg"}
    assert read("I think it is 2.", numbers).prediction == "2"
    assert read("The answer is 1 mg.", numbers).prediction == "3"


def test_a_letter_that_is_the_text_of_another_option_is_read_only_where_a_field_asks_for_it():
    groups = {"A": "O", "B": "A", "C": "AB", "D": "B"}
    assert read("A", groups) == AnswerRead("unreadable", "", "names several options: A, B")
    assert read("AB", groups).prediction == "C"
    assert read('{"answer_choice": "A"}', groups).prediction == "A"


def test_questions_with_very_many_options_are_read_by_label_and_whole_text():
    many = {f"x{number}": f"thing {number}" for number in range(200)}
    assert read("x17", many).prediction == "x17"
    assert read("thing 18", many).prediction == "x18"
    for count, label in ((40, "x17"), (41, "")):
        assert read("I think it is x17.", dict(list(many.items())[:count])).prediction == label


@pytest.mark.parametrize(
    ("candidate", "label"),
    [
        ("Scurvy", "B"), ("  scurvy! ", "B"), ("SCURVY, as the gums show", "B"), ("scurvy: yes", "B"),
        ("ｓｃｕｒｖｙ", "B"),
        ("vitamin  a DEFICIENCY", "C"), ("it is scurvy", ""), ("", ""), ("...", ""), (". scurvy", "B"),
        ("rickets；坏血病", "A"),
    ],
)  # fmt: skip
def test_texts(candidate, label):
    assert by_text(candidate, ASKED) == label


@pytest.mark.parametrize(
    ("candidate", "label"),
    [("Gout attack", "A"), ("Flu attack", ""), ("Gout attack, no flu", ""), ("Gout attack, rickets", "")],
)
def test_a_brief_answer_begins_with_a_text_of_four_letters_or_more(candidate, label):
    assert by_beginning(candidate, question({"A": "Gout", "B": "Flu", "C": "Rickets"})) == label


def test_a_text_that_two_options_share_is_none():
    assert by_text("same", question({"A": "Same", "B": "same.", "C": "other"})) == ""
    assert by_text("Other", question({"A": "Same", "B": "same.", "C": "other"})) == "C"
    assert by_text("? what", question({"A": "", "B": "x"})) == ""
    assert by_text("a, b", question({"A": "a, b", "B": "a"})) == "A"  # the whole before its beginning


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ('{"answer": "B/C"}', "B, C"),
        ('{"answer": "A or B"}', "A, B"),
        ('{"answer": "B and A"}', "A, B"), ('{"answer": "A, B"}', "A, B"),
        ('{"answer": ["B", "C"]}', "B, C"), (r"\boxed{B} or \boxed{C}", "B, C"), ("I think it's B or C.", "B, C"),
        ('{"answer": "xB or _C or D1"}', ""),
    ],
)  # fmt: skip
def test_several_options_are_named(text, several):
    expected = AnswerRead("unreadable", "", f"names several options: {several}") if several else NONE_READ
    assert read(text) == expected


def test_the_published_reader_reads_after_the_last_mark():
    assert stated('{"answer_choice": "A"} {"answer_choice": " B "} ') == 'B "}'
    assert stated(" B ") == "B"
    assert read_published('{"answer_choice": "A"} {"answer_choice": "B"}', ASKED) == AnswerRead("answered", "B")
    spelled = AnswerRead("unreadable", "", "the option's text in place of its letter")
    assert read_published('{"answer_choice": "Scurvy"}', ASKED) == spelled
    assert read_published('{"answer_choice": "not Scurvy"}', ASKED) == NONE_READ
    assert read_published('{"answer_choice": "unclear', ASKED).status == "abstained"
    assert read_published("Connection error.", ASKED).status == "unreadable"


def test_published_templates_are_tried_in_their_order():
    assert first_letter("A, not option B", (r"[Oo]ption (X)", r"^\s*(X),")) == "B"
    assert first_letter("A, not option B", (r"^\s*(X),", r"[Oo]ption (X)")) == "A"
    assert first_letter("E", (r"^(X)$",)) == ""
    assert first_letter("E", (r"^(X)$",), ("A", "E")) == "E"
    assert first_letter("X", (r"^(X)$",), ("E", "F")) == ""
    assert first_letter("12", (r"^(X)$",), ("1", "12")) == ""  # letters alone
    assert first_letter("1", (r"^(X)$",), ("1",)) == ""
    assert first_letter("D", (r"^(X)$",), ("A", "B")) == "D"
    assert read_published("F", question({**FOUR, "E": "x", "F": "y"})) == AnswerRead("answered", "F")
    assert read_published("F", ASKED) == NONE_READ


def test_completions_are_read_after_the_last_answer():
    assert completion("Answer: A Answer: B ") == " B"
    assert completion("B") == "B"
    assert read_completion("option A Answer: option B", ASKED) == AnswerRead("answered", "B")
    assert read_completion("Answer: Scurvy", ASKED) == AnswerRead(
        "unreadable", "", "the option's text in place of its letter"
    )
    assert read_completion("Answer: B", ASKED) == NONE_READ
