import pytest

from ragrounds.base.records import Message, Reply, Usage
from ragrounds.evals.judges.verdict import EMPTY, FAILED, NOTHING, REFUSED, ask
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.models.faults import CallFailed
from tests.judges.doubles import Scripted

TWO = VerdictForm(("usefulness", "reasoning"), ("A", "B", "tie"))
GOOD = '{"usefulness": "A", "reasoning": "B"}'
ASKED = (Message("user", "Which?"),)


async def test_a_good_verdict_takes_one_call(journal):
    judge = Scripted(lambda prompt, occurrence: GOOD)
    found = await ask(judge, journal, ASKED, TWO)
    assert found.values == {"usefulness": "A", "reasoning": "B"}
    assert not found.reasons
    assert [call.role for call in found.calls] == ["judging"]
    assert found.spent.usage == Usage(100, 10)
    assert found.spent.cost_uncached == found.spent.cost_paid == 0.001


async def test_an_unparsable_verdict_is_asked_for_again_as_a_new_occurrence(journal):
    judge = Scripted(lambda prompt, occurrence: GOOD if occurrence == 2 else ["", "I cannot say."][occurrence])
    found = await ask(judge, journal, ASKED, TWO)
    assert found.values == {"usefulness": "A", "reasoning": "B"}
    assert [request.occurrence for request in judge.requests] == [0, 1, 2]
    assert len({call.key for call in found.calls}) == 3
    assert found.spent.cost_uncached == pytest.approx(0.003)


@pytest.mark.parametrize(("follows", "formats"), [(False, [None]), (True, [None, TWO.schema])])
async def test_at_temperature_0_no_request_is_repeated_and_a_schema_is_demanded(journal, follows, formats):
    judge = Scripted(lambda prompt, occurrence: "")
    judge.is_greedy, judge.follows_schemas = True, follows
    await ask(judge, journal, ASKED, TWO)
    assert [request.response_format for request in judge.requests] == formats


async def test_after_all_tries_the_verdict_is_missing(journal):
    found = await ask(Scripted(lambda prompt, occurrence: ""), journal, ASKED, TWO, tries=2)
    assert found.values == {}
    assert found.reasons == {"usefulness": EMPTY, "reasoning": EMPTY}
    assert not found.failed
    assert len(found.calls) == 2


async def test_the_reply_with_most_axes_counts(journal):
    replies = ["nothing", '{"reasoning": "tie"}', "nothing again"]
    found = await ask(Scripted(lambda prompt, occurrence: replies[occurrence]), journal, ASKED, TWO)
    assert found.values == {"reasoning": "tie"}
    assert found.reasons == {"usefulness": NOTHING}


async def test_asked_again_later_nothing_is_paid(journal):
    judge = Scripted(lambda prompt, occurrence: GOOD if occurrence else "")
    await ask(judge, journal, ASKED, TWO)
    again = await ask(judge, journal, ASKED, TWO)
    assert len(judge.requests) == 2
    assert again.values == {"usefulness": "A", "reasoning": "B"}
    assert again.spent.cost_paid == 0.0
    assert again.spent.cost_uncached == pytest.approx(0.002)


async def test_a_failed_call_is_missing_and_not_recorded(journal):
    working = False
    judge = Scripted(lambda prompt, occurrence: GOOD if working else CallFailed)
    found = await ask(judge, journal, ASKED, TWO)
    assert found.failed
    assert found.reasons == {"usefulness": FAILED, "reasoning": FAILED}
    assert "gone" in found.calls[0].error
    working = True
    assert (await ask(judge, journal, ASKED, TWO)).values == {"usefulness": "A", "reasoning": "B"}


async def test_a_refusal_is_missing_with_its_reason(journal):
    reply = Reply(text="", finish="content_filter", usage=Usage(9, 0))
    found = await ask(Scripted(lambda prompt, occurrence: reply), journal, ASKED, TWO, tries=1)
    assert set(found.reasons.values()) == {REFUSED}


async def test_an_unknown_price_stays_unknown(journal):
    found = await ask(Scripted(lambda prompt, occurrence: GOOD, price=None), journal, ASKED, TWO)
    assert found.spent.cost_uncached is None
    assert found.spent.cost_paid is None
