"""Who pays for a judge's calls: this process, an earlier one under the same mark, or somebody else."""

import pytest

from ragrounds.base.records import Message
from ragrounds.evals.judges.bill import PayingJournal, bill, paid_now
from ragrounds.evals.judges.verdict import ask
from ragrounds.evals.scorers.judged import VerdictForm
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.judges.doubles import Scripted

GRADE = VerdictForm(("grade",), ("good", "bad"))
MARK, OTHER = b"12345678", b"87654321"


async def asked(paying, judge, *questions):
    found = [await ask(judge, paying, [Message("user", question)], GRADE) for question in questions]
    return [call for judgement in found for call in judgement.calls]


@pytest.mark.parametrize(
    ("mark", "settled", "told"),
    [
        (MARK, False, (2, 2, 0.003, 0.002)),  # paid by a process that was broken off: once, on this bill
        (MARK, True, (2, 0, 0.001, 0.0)),  # it stands in a bill
        (OTHER, False, (2, 0, 0.001, 0.0)),  # somebody else's
    ],
)
async def test_calls_that_were_made_before(tmp_path, mark, settled, told):
    judge = Scripted(lambda prompt, occurrence: '{"grade": "good"}')  # a call: 0.001 dollars, 110 tokens
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        before = await asked(PayingJournal(journal, MARK), judge, "one", "two")
        paying = PayingJournal(journal, mark, [call.key for call in before] if settled else ())
        calls = await asked(paying, judge, "one", "two", "three")
        took = bill(calls, paying.earlier)
        assert (took.reused, took.earlier, took.cost_paid, took.cost_paid_earlier) == pytest.approx(told)
        assert paid_now(calls, paying.earlier) == pytest.approx((0.001, 110))
        again = await asked(paying, judge, "one", "three")  # paid for once
        assert bill(again, paying.earlier).cost_paid == 0
        journal.close()
    assert len(judge.requests) == 3
