"""`ragrounds judge agreement FILE --fleiss`: any sheet of labels, wide or long, with missing labels."""

import csv
import json
import re

import numpy as np
import pytest
from statsmodels.stats import inter_rater

from ragrounds.evals.stats import fleiss_interval, fleiss_kappa, fleiss_with_missing


def sheet(path, heading, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([heading, *rows])
    return str(path)


def raters(count=60, seed=1):
    """Three raters who agree on two of three items, about."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 3, count)
    return [["abc"[t if draw.random() < 0.7 else draw.integers(0, 3)] for _ in range(3)] for t in truth]


@pytest.mark.data
def test_the_three_doctors_of_kqa(command, data):
    file = data / "kqa" / "dataset" / "NLI_medical_annotator.csv"
    doctors = [word for number in range(3) for word in ("--rater", f"label_{number}")]
    done = command("judge", "agreement", str(file), "--fleiss", *doctors)
    assert done.returncode == 0, done.stderr
    assert "399 items, 3 raters" in done.stdout
    assert "Fleiss' kappa: 0.719 (95 %: 0.6" in done.stdout
    found = json.loads(command("judge", "agreement", str(file), "--fleiss", *doctors, "--json").stdout)
    assert round(found["kappa"], 3) == 0.719
    assert 0.64 < found["low"] < 0.69 < 0.75 < found["high"] < 0.80
    wider = [*doctors, "--cluster", "Question", "--json"]
    grouped = json.loads(command("judge", "agreement", str(file), "--fleiss", *wider).stdout)
    assert grouped["clusters"] == 50
    assert grouped["kappa"] == found["kappa"]


def test_wide_long_and_json_lines_say_the_same(command, tmp_path):
    rows = raters()
    names = ("anna", "ben", "cleo")
    wide = sheet(tmp_path / "wide.csv", ("item", *names), [(f"q{n}", *row) for n, row in enumerate(rows)])
    long = sheet(
        tmp_path / "long.csv",
        ("item", "rater", "label"),
        [(f"q{n}", who, label) for n, row in enumerate(rows) for who, label in zip(names, row, strict=True)],
    )
    lines = tmp_path / "wide.jsonl"
    lines.write_text(
        "".join(json.dumps({"item": n, **dict(zip(names, row, strict=True))}) + "\n" for n, row in enumerate(rows)),
        encoding="utf-8",
    )
    found = [
        json.loads(command("judge", "agreement", str(file), "--fleiss", "--json").stdout)
        for file in (wide, long, lines)
    ]
    assert found[0] == found[1] == found[2]
    table, _ = inter_rater.aggregate_raters(np.array(rows))
    assert found[0]["kappa"] == pytest.approx(inter_rater.fleiss_kappa(table))
    assert found[0]["raters"] == list(names)
    assert found[0]["low"] < found[0]["kappa"] < found[0]["high"]


def test_missing_labels_by_hand(command, tmp_path):
    """Items aab, bb, ab and a: the last says nothing. Agreeing pairs: 1/3, 1, 0; shares of a: 2/3, 0, 1/2."""
    rows = [(1, "a", "a", "b"), (2, "b", "", "b"), (3, "a", "b", ""), (4, "A ", "", "")]
    file = sheet(tmp_path / "some.csv", ("item", "x", "y", "z"), rows)
    observed, share = 4 / 9, (2 / 3 + 1 / 2) / 3
    expected = share**2 + (1 - share) ** 2
    done = command("judge", "agreement", file, "--fleiss")
    assert f"Fleiss' kappa: {(observed - expected) / (1 - expected):.3f} (too few for an interval)" in done.stdout
    assert "2 labels are missing: each item counts by those it has. Of the 1 complete item: -0.500" in done.stdout
    assert "left out, fewer than two labels: 1" in done.stdout
    one_gap = command("judge", "agreement", sheet(tmp_path / "gap.csv", ("item", "x", "y", "z"), rows[:2]), "--fleiss")
    assert "1 label is missing: each item counts by those it has. Of the 1 complete item: " in one_gap.stdout


@pytest.mark.parametrize(
    ("heading", "rows", "more", "told"),
    [
        (("item", "x"), [(1, "a")], (), "two raters or more"),
        (("item", "x", "y"), [(1, "a", "b"), (1, "a", "b")], (), "stands twice"),
        (("item", "x", "y"), [(1, "a", "b")], ("--rater", "xx"), "no column 'xx'.*'x'"),
        (("item", "x", "y"), [(1, "a", ""), (2, "", "b")], (), "No item has labels of two raters"),
        (("rater", "label"), [("x", "a")], (), "no column says of which item"),
        (("item", "rater", "label"), [(1, "x", "a"), (1, "x", "b")], (), "labels the item '1' twice"),
        (("item", "x", "y"), [(1, "a", "b")], ("--human", "x.csv"), "takes one file"),
    ],
)
def test_what_cannot_be_read_is_told(command, tmp_path, heading, rows, more, told):
    done = command("judge", "agreement", sheet(tmp_path / "s.csv", heading, rows), "--fleiss", *more)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.search(told, " ".join(done.stderr.split())), done.stderr


def test_a_run_still_needs_peoples_labels(command, home):
    done = command("judge", "agreement", "direct")
    assert done.returncode == 2
    assert "--human names the sheet" in done.stderr


def test_the_interval_holds_the_kappa_of_many_more_items():
    """Of 40 sheets of 150 items by raters of one manner, 33 intervals or more hold the kappa of 60,000 such items."""
    truth = fleiss_kappa(raters(60_000, seed=999))
    held = 0
    for seed in range(40):
        low, high = fleiss_interval(raters(150, seed=seed), resamples=500, seed=seed)
        held += low <= truth <= high
    assert held >= 33


def test_without_missing_labels_it_is_fleiss_own():
    rows = raters()
    assert fleiss_with_missing(rows) == pytest.approx(fleiss_kappa(rows))
    assert fleiss_with_missing(["aa", "aa"]) is None
    with pytest.raises(ValueError, match="two labels"):
        fleiss_with_missing([["a", None]])
