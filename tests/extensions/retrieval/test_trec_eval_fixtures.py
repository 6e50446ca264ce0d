"""trec_eval's own test files: our readers and its measures must give the values it ships, to its four digits.

Left out, because the measures' code is not in pytrec_eval: `out.test.aqZ` (z-scores), `out.test.prefs`,
`out.comment.test` and `out.test.qrels_prefs` (preferences), `out.test.qrels_jg` (several judges); of the other files
the measures named here.
"""

import pytest

from ragrounds.extensions.retrieval.measures import canonical, means, measure, ordered
from ragrounds.extensions.retrieval.trec import read_judgements, read_run

pytestmark = pytest.mark.data

NOT_THERE = ("runid", "num_q", "relstring", "rbp", "unj")
"""Not numbers, or newer than pytrec_eval's copy of trec_eval."""
NINE = ("iprec_at_recall", "11pt_avg")
"""At a recall level, trec_eval 10 rounds the number of documents; pytrec_eval has trec_eval 9, which adds 0.9."""
PARAMETERS = {"11pt_avg_.25,.5,.75", "ndcg_1=3,2=9,4=4.5", "utility_2,-1,0,0"}
"""Measures with several parameters at once, which pytrec_eval cannot be asked for."""


@pytest.mark.parametrize(
    ("expected", "judgements", "run", "least", "relevant", "cut"),
    [
        ("out.test", "qrels.test", "results.test", 17, 1, None),
        ("out.test.a", "qrels.test", "results.test", 80, 1, None),
        ("out.test.aq", "qrels.test", "results.test", 300, 1, None),
        ("out.test.aqc", "qrels.test", "results.trunc", 250, 1, None),
        ("out.test.aqcM", "qrels.test", "results.trunc", 250, 1, 100),
        ("out.test.aql", "qrels.rel_level", "results.test", 300, 2, None),
        ("out.test.meas_params", "qrels.test", "results.test", 40, 1, None),
    ],
)
def test_values_are_those_of_trec_eval(data, expected, judgements, run, least, relevant, cut):
    complete = run == "results.trunc"  # queries without results count there
    folder = data / "trec_eval_fixtures/test"
    judged, scores = read_judgements(folder / judgements), read_run(folder / run)
    if cut:
        scores = {query: dict(ordered(documents)[:cut]) for query, documents in scores.items()}
    if not complete:
        judged = {query: documents for query, documents in judged.items() if query in scores}
    rows = [line.split() for line in (folder / expected).read_text().splitlines()]
    rows = [row for row in rows if not row[0].startswith(NOT_THERE + NINE) and row[0] not in PARAMETERS]
    names = sorted({canonical(row[0]) for row in rows})
    values = measure(judged, scores, names, relevant=relevant)
    if complete:  # the number of relevant documents does not depend on what was found
        for query, documents in judged.items():
            if "num_rel" in values:
                values["num_rel"][query] = sum(grade >= relevant for grade in documents.values())
    whole = means(values)
    wrong = []
    for name, query, value in rows:
        found = whole[canonical(name)] if query == "all" else values[canonical(name)][query]
        shown = f"{found:.0f}" if name.startswith("num_") else f"{found:.4f}"
        if shown != value:
            wrong.append((name, query, value, shown))
    assert wrong == []
    assert len(rows) >= least
