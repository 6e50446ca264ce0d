import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.evals.scorers import find_scorer
from ragrounds.evals.scorers.facts import AnswerText
from ragrounds.models.extractive import ExtractiveBaseline
from tests.scorers.making import attempt, gold, question


def score(text, facts, status="completed"):
    return find_scorer("facts").score(attempt(text, status), question({}, kind="long"), gold("", facts=facts))


@pytest.mark.parametrize(
    ("text", "wording", "there"),
    [
        ("A Beta-Blocker.", "beta blocker", True),
        ("a beta\nblocker", "Beta‑blocker", True),
        ("hypothyroidism", "thyroid", False),
        ("rash (itchy)", "itchy", True),
        ("TSH > 4", "tsh", True),
        ("应给予硫胺素治疗", "硫胺素", True),
        ("IL-6 rises", "IL-6", True),
        ("IL-61", "IL-6", False),
        ("50 mg/d", "5", False),
    ],
)
def test_whole_words(text, wording, there):
    assert AnswerText(text).contains((wording,)) is there


async def test_the_baseline_without_passages_abstains():
    """It knows nothing by itself and says so: that is no answer."""
    asked = Request(messages=(Message("user", "Answer.\n\n### Question\nWhat treats beriberi?"),))
    said = (await ExtractiveBaseline().complete(asked, [])).text
    made = score(said, (("thiamine",),))
    assert (made.value, made.answer_status) == (0.0, "abstained")


@pytest.mark.parametrize(
    "text", ["No documents were provided.", "no relevant passage was found", "No sources available"]
)
def test_what_was_not_given_is_no_answer(text):
    reading = score(text, (("thiamine",),)).answer_status
    assert reading == ("abstained" if "avail" not in text else "answered")
    assert score(f"{text} Thiamine treats it.", (("thiamine",),)).answer_status == "answered"
