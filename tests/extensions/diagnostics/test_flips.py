"""What a refinement turned."""

import pytest
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import Left
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse
from tests.compare.making import add_run, questions


def test_flips_with_the_interval_of_the_net_gain(store):
    """Each pair is the first and the last answer; A is right."""
    ways = [("B", "A")] * 12 + [("A", "B")] * 2 + [("A", "A")] * 9 + [("B", "C"), (None, "A")]
    lefts = {place: [Left(step=0, seconds=0.1, changes={"first": one})] for place, (one, _) in enumerate(ways) if one}
    asked = [replace(question, options={"A": "yes", "B": "no", "C": "perhaps"}) for question in questions(len(ways))]
    texts = {place: last for place, (_, last) in enumerate(ways)}
    run = add_run(store, "refining", asked, ["unscored"] * len(ways), texts=texts, events=lefts)
    made = analyse("flips", store, [run], AnalysisOptions(scorer="strict"))
    (record,) = made.record
    flips = record.flips
    assert (flips.wrong_right, flips.right_wrong, flips.right_right, flips.wrong_wrong) == (12, 2, 9, 1)
    assert (flips.changed, flips.without, flips.net) == (15, 1, 10)
    assert record.net == pytest.approx(10 / 24)
    assert 0 < record.low < record.net < record.high
    assert (record.gained.value, record.lost.value) == (pytest.approx(0.5), pytest.approx(2 / 24))
    assert made.table.rows[0][1:7] == (9, 2, 12, 1, 15, 1)
    assert [bar.value for bar in made.picture.marks] == [record.gained.value, record.lost.value]
    with pytest.raises(UserError, match="equivalent"):  # a judge would be needed
        analyse("flips", store, [run], AnalysisOptions(scorer="equivalent"))
