"""Numbers in answers are compared by value: a table of doses and laboratory values, and the forms of a number."""

from decimal import Decimal
from pathlib import Path

import pytest

from ragrounds.base.quantities import decimal_mark, mark_quantities, read_quantities
from ragrounds.evals.scorers import find_scorer, scorers_for
from ragrounds.evals.scorers.facts import AnswerText
from tests.rows import each_row
from tests.scorers.making import attempt, gold, question

LINES = (Path(__file__).parent / "doses.txt").read_text(encoding="utf-8").splitlines()
DOSES = [tuple(line.split("\t")) for line in LINES if not line.startswith("#")]
LONG = question({}, kind="long")


def test_the_table_has_two_hundred_rows():
    assert len(set(DOSES)) == len(DOSES) == 200


@each_row(("fact", "right", "wrong"), DOSES)
def test_a_dose_is_found_and_another_is_not(fact, right, wrong):
    assert AnswerText(right).contains((fact,))
    assert not AnswerText(wrong).contains((fact,))


@each_row(
    ("text", "fact", "is_contained"),
    [
        ("2 500 mg tablets", "500 mg", True),  # two tablets, no thousands
        ("On day 1 500 mg, then 250 mg.", "500 mg", True),
        ("1\u202f500 mg or 1'250 mg", "1500 mg", True),
        ("1,00,000 units", "100000 units", True),  # groups of India
        ("increase from 5 mg to 10 mg", "10 mg", True),
        ("the dose ranges from 5 to 10 mg", "10 mg", False),
        ("5 ± 2 mg", "2 mg", False),
        ("- 5 mg\n- 10 mg", "5 mg", True),
        ("-5 mg at first\n-10 mg later", "10 mg", True),  # a list without blanks
        ("<b>5 mg</b> -> 10 mg", "5 mg", True),
        ("<b>5 mg</b> -> 10 mg", "10 mg", True),
        ("2 × 500 mg", "500 mg", True),
        ("125 mg/5 mL", "25 mg/mL", True),
        ("12.05.2023", "12.05", False),
        ("factors 2,7,9,10", "9", True),
        ("the 5th day", "5", False),
        ("vitamin B12.5", "5", False),
        ("予0.5毫克口服", "5毫克", False),
        ("予5毫克口服", "5 mg", True),
        ("٥ mg", "5 mg", True),
        ("500 mg¹ daily", "500 mg", True),  # a footnote
        ("5 mM", "5 mm", False),
        ("for 7 days", "days", True),
        ("for one week or 7 days", "1 week", True),
        ("every 24 hours", "1 day", True),
        ("every 24 hours", "24 days", False),
        # LaTeX, HTML and markup in a quantity
        (r"\(5\,\text{mg}\)", "5 mg", True),
        (r"$5~\mathrm{mg}$", "5 mg", True),
        (r"1{,}500\ mg", "1500 mg", True),
        (r"\frac{1}{2} mg", "0.5 mg", True),
        (r"50\%", "50 %", True),
        ("5&nbsp;mg", "5 mg", True),
        ("&gt;5 mg", "5 mg", False),
        ("**5** mg and <b>7</b> mg", "7 mg", True),
        ("10**9", "109", False),
        # Signs and Greek letters of words
        ("The tumour is HER2+.", "HER2-", False),
        ("The tumour is HER2-negative.", "HER2-", True),
        ("type-2 diabetes", "type 2 diabetes", True),
        ("a β-blocker", "beta blocker", True),
        ("~~heparin~~ argatroban", "heparin", False),
    ],
)
def test_forms_of_numbers_in_facts(text, fact, is_contained):
    assert AnswerText(text).contains((fact,)) is is_contained


def test_the_language_decides_what_a_point_is():
    german = "Die Dosis beträgt 1.500 mg und wird mit Wasser genommen."
    assert (decimal_mark(german), decimal_mark("The dose of 1.500 mg is low."), decimal_mark("1.500 mg")) == (
        ",",
        ".",
        "",
    )
    assert AnswerText(german).contains(("1500 mg",))
    assert not AnswerText(german).contains(("1.5 mg",))
    assert decimal_mark("1.500 mg, later 2,5 mg") == decimal_mark("Доза 1.500 мг") == ","
    # An English fact keeps its reading in a German answer.
    english = question({}, kind="long", text="What is the dose of the drug?")
    facts = find_scorer("facts")
    assert facts.score(attempt(german), english, gold("", facts=(("1,500 mg",),))).value == 1.0


def test_a_quantity_by_its_parts():
    dose, count = read_quantities("at least 0,5 g/d, then 4.5 × 10⁹/L")
    assert (dose.value, dose.unit, dose.factor, dose.comparison) == (Decimal("0.5"), "mg/day", 1000, "≥~")
    assert (count.value, count.unit) == (Decimal("4.5e9"), "/ml")
    assert mark_quantities("⟦5⟧ and 10⁹⁹⁹⁹⁹⁹") == "[ ⟦5|5 ⟧ ] and  ⟦10|10 ⟧ ⁹⁹⁹⁹⁹⁹"
    assert mark_quantities("no number, HER2, 1e999").count("⟦") == 1


@each_row(
    ("text", "reference", "value"),
    [
        ("15 mg", "1.5 mg", 0.0),
        ("1500 mcg", "1.5 mg", 1.0),
        ("1,500 mg", "1,5 mg", 1.0),  # the reference shows what a comma is
        ("1,500 mg", "1.5 mg", 0.0),
        ("The answer is **1.5** mg.", "1.5 mg", 1.0),
        ("HER2+", "HER2-", 0.0),
        ("HER2 positive", "HER2+", 1.0),
        ("ER(−)", "ER-", 1.0),
        ("hepatitis A", "hepatitis", 0.0),
        ("10-20", "1020", 0.0),
        ("<5 mg", "5 mg", 0.0),
        ("高血压。", "高血压", 1.0),
        ("糖尿病肾病", "糖尿病", 0.0),
        ("Crohn’s disease", "Crohn's disease", 1.0),
        ("<answer>An ulcer</answer>", "the ulcer", 1.0),
        ("3 years", "3", 1.0),
        ("3", "3 years", 0.0),
        ("", "5 mg", 0.0),
    ],
)
def test_short_answers_as_a_careful_reader_compares_them(text, reference, value):
    assert find_scorer("robust-match").score(attempt(text), LONG, gold(reference)).value == value


def test_the_prediction_is_what_was_compared():
    made = find_scorer("robust-match").score(attempt("The answer is:  an  ulcer\n(gastric)"), LONG, gold("ulcer"))
    assert made.prediction == "an ulcer (gastric)"


def test_shared_words_are_those_of_the_script():
    def f1(text, reference):
        return find_scorer("robust-f1").score(attempt(text), LONG, gold(reference)).value

    assert f1("糖尿病肾病", "糖尿病") == pytest.approx(2 * 3 / (5 + 3))
    assert f1("0.5 g aspirin", "aspirin 500 mg") == 1.0
    assert f1("5 mg aspirin", "aspirin 50 mg") == 0.5
    assert find_scorer("robust-f1").score(attempt("x"), LONG, gold(" ")).value is None
    assert not {"robust-match", "robust-f1"} & {scorer.name for scorer in scorers_for(LONG)}
