"""Judged figures corrected by people's labels: what reaches the library, and what is said where nothing can be."""

import json
import math
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pytest
from msgspec.structs import replace

from ragrounds.api.people import judge_agreement
from ragrounds.base.records import Gold, Question, Score
from ragrounds.base.settings import Settings
from ragrounds.evals.judges import corrected
from ragrounds.evals.judges.corrected import JudgedRow, correct, judged_rows
from ragrounds.evals.judges.labels import item_code
from ragrounds.evals.judges.methods import label_method
from ragrounds.evals.store.store import Store
from tests.cli_grading.test_judge_command import ANSWERS, STATEMENTS, filled, stage
from tests.cli_grading.test_judge_command import rows as sheet_rows
from tests.cli_grading.test_judge_sheet import graded, judged_run
from tests.conftest import ROOT, succeeded
from tests.judges.doubles import keep_run

GLIDE = pytest.mark.skipif(
    not corrected._installed("glide-py"), reason="glide-py is not installed: it needs Python 3.12"
)


def row(number, judge, person, chance=1.0):
    """An answer to a question of its own; `person` is ``None`` if nobody labelled it."""
    label = None if person is None else float(person)
    return JudgedRow(question=str(number), cluster=str(number), judge=float(judge), person=label, chance=chance)


def rows(seed, size=200, labelled=60, chances=False):
    """A lenient judge, and people's labels of some answers."""
    rng = np.random.default_rng(seed)
    person = (rng.random(size) < 0.6) * 1.0
    judge = np.where(person == 1, rng.random(size) < 0.95, rng.random(size) < 0.5) * 1.0
    lot = rng.permutation(size)
    chance = [(labelled / size) * (1.2 if chances and value else 1.0) for value in judge]
    return [row(n, judge[n], person[n] if lot[n] < labelled else None, chance[n]) for n in range(size)]


def arrays(of):
    return (
        np.array([np.nan if row.person is None else row.person for row in of]),
        np.array([row.judge for row in of]),
        np.array([row.chance for row in of]),
    )


@GLIDE
def test_figures_and_differences_are_glides_own():
    """Our rows, another order and their own arrays: the same numbers."""
    from glide.estimators import ASIMeanEstimator, PPIMeanEstimator

    one, two = rows(1), rows(2)
    two = [replace(b, person=None if a.person is None else 1 - a.person) for a, b in zip(one, two, strict=True)]
    found = correct("s", {"a": one, "b": two[::-1]}, library_name="glide-py")
    for figure, of in zip(found.figures, (one, two), strict=True):
        people, judge, _ = arrays(of)
        theirs = PPIMeanEstimator().estimate(people, judge)
        ends = theirs.confidence_interval
        assert figure.corrected.value == pytest.approx(theirs.mean, abs=1e-9)
        assert figure.corrected.low == pytest.approx(ends.lower_bound, abs=1e-9)
        assert figure.corrected.high == pytest.approx(ends.upper_bound, abs=1e-9)
        assert figure.effective == theirs.effective_sample_size
    (a, ja, _), (b, jb, _) = arrays(one), arrays(two)
    theirs = PPIMeanEstimator().estimate(b - a, jb - ja)
    assert found.differences[0].corrected.value == pytest.approx(theirs.mean, abs=1e-9)
    assert found.differences[0].corrected.high == pytest.approx(theirs.confidence_interval.upper_bound, abs=1e-9)
    uneven = rows(3, chances=True)
    theirs = ASIMeanEstimator().estimate(*arrays(uneven))
    (figure,) = correct("s", {"a": uneven}, library_name="glide-py").figures
    assert figure.corrected.value == pytest.approx(theirs.mean, abs=1e-9)
    assert figure.corrected.error == pytest.approx(theirs.std, abs=1e-9)


@GLIDE
def test_glide_is_not_given_what_it_would_take_as_independent():
    alike = [replace(one, cluster=str(n // 2)) for n, one in enumerate(rows(1))]
    (figure,) = correct("s", {"a": alike}, library_name="glide-py").figures
    assert figure.corrected is None
    assert "some share a cluster" in figure.why


@GLIDE
def test_where_all_is_labelled_both_libraries_give_the_mean_of_the_labels():
    from glide.estimators import ClassicalMeanEstimator

    whole = rows(4, size=100, labelled=100)
    (figure,) = correct("s", {"a": whole}, library_name="cje-eval").figures
    theirs = ClassicalMeanEstimator().estimate(arrays(whole)[0])
    assert figure.corrected.value == pytest.approx(theirs.mean, abs=1e-9)
    assert figure.corrected.error == pytest.approx(theirs.std, abs=1e-9)


def test_a_lenient_judge_is_corrected_and_the_order_of_agents_with_it():
    right, wrong = rows(5, size=400, labelled=150), rows(6, size=400, labelled=150)
    flipped = [row(n, 1.0, None if one.person is None else one.person * (n % 2)) for n, one in enumerate(wrong)]
    found = correct("s", {"a": right, "b": flipped}, width=0.05)
    first, second = found.figures
    assert first.judge.value > 0.7 > first.corrected.value
    assert first.corrected.low < 0.6 < first.corrected.high
    (pair,) = found.differences
    assert pair.judge.value > 0 > pair.corrected.high
    assert first.effective > first.labelled
    assert first.short
    assert second.corrected.high - second.corrected.low > 0.05
    assert found.by == f"cje-eval {version('cje-eval')}"


def test_answers_to_a_question_and_its_duplicate_are_not_independent():
    """The same answers twice tell no more than once, if both are in one cluster."""

    def doubled(seed, clustered):
        return [
            replace(
                row, question=f"{row.question}{part}", cluster=row.question if clustered else f"{row.question}{part}"
            )
            for row in rows(seed, size=60, labelled=60)
            for part in "ab"
        ]

    apart, together = (correct("s", {"a": doubled(1, one), "b": doubled(2, one)}) for one in (False, True))
    widths = [
        [
            estimate.high - estimate.low
            for estimate in (found.figures[0].judge, found.figures[0].corrected, found.differences[0].judge)
        ]
        for found in (apart, together)
    ]
    # Twice the variance is 1.41 times the width.
    assert [wide / narrow > 1.2 for narrow, wide in zip(*widths, strict=True)] == [True] * 3


def test_how_many_more_labels_make_the_interval_as_narrow():
    """Of a large run, 4 times the labels halve the interval but for what is certain."""
    (figure,) = correct("s", {"a": rows(7, size=4_000, labelled=50)}, width=0.14).figures
    wide = figure.corrected.high - figure.corrected.low
    assert figure.more + 50 == pytest.approx(50 * (wide / 0.14) ** 2, rel=0.15)
    few = rows(7, size=90, labelled=20)
    (figure,) = correct("s", {"a": few}).figures  # 20 labels are enough
    wide = figure.corrected.high - figure.corrected.low
    for width, more in ((wide, 0), (math.nextafter(wide, 0), 1)):
        assert correct("s", {"a": few}, width=width).figures[0].more == more


def test_unequal_chances_are_known_to_the_library():
    """Answers that the judge takes are labelled nine times as often: alone they would move the figure."""
    rng = np.random.default_rng(8)
    made = []
    for n in range(3_000):
        judge = float(rng.random() < 0.5)
        person, chance = float(rng.random() < (0.6 if judge else 0.4) * (1 if n % 2 else 0.5)), 0.45 if judge else 0.05
        labelled = rng.random() < chance
        made.append(row(n, judge, person if labelled else None, chance))
    (figure,) = correct("s", {"a": made}).figures
    assert figure.corrected.low < 0.375 < figure.corrected.high


@pytest.mark.parametrize(
    ("people", "said"),
    [
        ([1.0, 0.0] * 9 + [1.0], "19 answers of this agent have labels; 20 are needed"),
        ([1.0] * 30, "scored all 30 labelled answers alike"),
    ],
)
def test_what_cannot_be_corrected(people, said):
    few = [row(n, n % 3 == 0, people[n] if n < len(people) else None) for n in range(90)]
    found = correct("s", {"a": rows(9), "b": few})
    assert found.figures[0].corrected is not None
    assert found.figures[1].corrected is None
    assert said in found.figures[1].why
    assert said in found.differences[0].why
    assert found.figures[1].judge.value == pytest.approx(1 / 3)
    assert correct("s", {"a": []}).figures[0].judge is None


def test_without_a_library_nothing_is_corrected_and_it_says_what_to_install(monkeypatch):
    def nowhere(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(corrected, "version", nowhere)
    (figure,) = correct("s", {"a": rows(10)}).figures
    assert figure.corrected is None
    assert figure.why == "cje-eval is not installed: pip install 'ragrounds[people]'"


def test_an_answer_counts_where_people_labelled_all_its_statements(home):
    stage(home, "direct", ["An answer."] * 4 + ["", ""], facts=STATEMENTS)
    with Store(home) as store:
        run = store.run("direct")
        said = {f"og/{n}#{part}": "entailment" if part == 1 else "neutral" for n in range(4) for part in (1, 2, 3)}
        items = {f"og/0#{n}": "entailment" for n in (1, 2, 3)} | {"og/1#1": "neutral"}
        found = judged_rows(store, run, label_method("statements"), said, items, {})["comprehensiveness"]
    by = {row.question: row for row in found}
    assert (by["og/0"].judge, by["og/0"].person) == (0.5, 1.0)
    assert by["og/1"].person is None
    # Two answers without a text are 0 whoever looks; a quarter of the others is labelled.
    assert [by[f"og/{n}"].judge for n in (4, 5)] == [0.0, 0.0]
    assert sum(by[f"og/{n}"].person is not None for n in (4, 5)) == round(2 / 4)


def keys(monkeypatch, pressed):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{one}\n" for one in pressed)))


def test_labels_from_the_terminal(command, home, tmp_path, monkeypatch):
    """Blind, one key a label, one back, and gone on with; another's labels stay."""
    judged_run(home, "direct", ["[bold]blue[/bold]", *ANSWERS[1:]])
    keys(monkeypatch, "12b1x2q")
    done = succeeded(command("judge", "label", "direct", "--rater", "anna"))
    assert "3 labels kept in labels.csv, 3 left for anna" in done.stderr
    needed = done.stderr.index("A corrected figure needs 20 labelled answers of each agent")
    assert needed < done.stderr.index("1 of 6"), "it is said before the first answer is shown"
    assert done.stderr.count("is no key here") == 1
    assert "'x' is no key here" in done.stderr
    assert "equivalent | mismatch" not in done.stderr
    labels = [row["anna"] for row in sheet_rows(tmp_path / "labels.csv")]
    assert labels == ["equivalent", "equivalent", "mismatch", "", "", ""]
    keys(monkeypatch, "s12")
    done = command("judge", "label", "direct", "--rater", "anna")
    assert "2 labels kept in labels.csv, 1 left" in done.stderr
    keys(monkeypatch, "222222")
    assert "6 labels kept" in command("judge", "label", "direct", "--rater", "ben").stderr
    both = [(row["anna"], row["ben"]) for row in sheet_rows(tmp_path / "labels.csv")]
    assert both[0] == ("equivalent", "mismatch")
    found = json.loads(command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout)
    assert found["corrections"][0]["drawn"]
    assert "20 are needed" in found["corrections"][0]["figures"][0]["why"]


def test_what_cannot_be_labelled(command, home, tmp_path):
    judged_run(home, "direct")
    judged_run(home, "other")
    assert command("judge", "sheet", "direct").returncode == 0
    for words, said in (
        (("other",), "holds nothing to label of other-1"),
        (("direct", "--rater", "chance"), "is empty, or a column of the sheet's own"),
        (("direct", "--labels", "nowhere/labels.csv"), "Cannot write nowhere"),
    ):
        done = command("judge", "label", *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr
    text = (tmp_path / "labels.csv").read_text()
    (tmp_path / "labels.csv").write_text(text.replace(",1,\n", ",0,\n"))
    assert (
        "the chance '0' is not a number above 0"
        in command("judge", "agreement", "direct", "--human", "labels.csv").stderr
    )


def test_runs_share_their_questions_and_each_part_has_its_agreement(command, home, tmp_path):
    judged_run(home, "direct")
    judged_run(home, "other", [f"{text} or so" for text in ANSWERS])
    command("judge", "sheet", "direct", "other", "--limit", "6")
    rows = sheet_rows(tmp_path / "labels.csv")
    assert [row["item"] for row in rows[::2]] == [row["item"] for row in rows[1::2]]
    assert {row["chance"] for row in rows} == {"0.5"}
    of_direct = {item_code("direct-1", row["item"]) for row in rows}
    filled(tmp_path / "labels.csv", lambda row: "equivalent" if row["code"] in of_direct else "mismatch")
    done = command("judge", "agreement", "direct", "other", "--human", "labels.csv")
    assert "of other-1: 3 answers of this agent have labels; 20 are needed." in done.stdout
    found = json.loads(command("judge", "agreement", "direct", "other", "--human", "labels.csv", "--json").stdout)
    shares = {one["name"]: one["agreement"]["accuracy"]["value"] for one in found["categories"]}
    assert shares == {"direct-1": 1.0, "other-1": 0.0}


def test_answers_left_blank_are_named_next_to_the_corrected_figure(command, home, tmp_path):
    """Of 60 sampled answers 13 are left blank, all of them mismatches: the same figure, and what it depends on."""
    answers = [f"answer {n}" for n in range(60)]
    stage(home, "direct", answers, asked="same")
    graded(home, [float(n % 3 > 0) for n in range(60)])
    written = command("judge", "sheet", "direct")
    assert "needs 20 labelled answers of each agent; the sheet has 60 of direct-1." in " ".join(written.stderr.split())
    label_by_id = {f"og/{n}": "equivalent" if n % 3 else "mismatch" for n in range(60)}
    rows = sheet_rows(tmp_path / "labels.csv")
    mismatches = [row["item"] for row in rows if label_by_id[row["item"]] == "mismatch"]
    for blank in (mismatches[:13], []):
        left = {**label_by_id, **dict.fromkeys(blank, "")}
        filled(tmp_path / "labels.csv", lambda row, left=left: left[row["item"]])
        shown = " ".join(command("judge", "agreement", "direct", "--human", "labels.csv").stdout.split())
        said = "direct-1: 47 of 60 sampled answers are labelled; 13 left blank. If people left out the hard ones"
        assert (said in shown) == bool(blank)
        figures = command("judge", "agreement", "direct", "--human", "labels.csv", "--json").stdout
        (figure,) = json.loads(figures)["corrections"][0]["figures"]
        assert (figure["sampled"], figure["blank"], figure["labelled"]) == (60, len(blank), 60 - len(blank))


@pytest.mark.parametrize(("disagreeing", "trusted"), [(0, True), (1, False)])
def test_people_count_more_than_the_probes_of_a_judge(command, home, tmp_path, disagreeing, trusted):
    # Of 24 labels, 24 that agree leave a lower end of .86, 23 of .78.
    answers = [f"answer {n}" for n in range(24)]
    stage(home, "direct", answers, asked="same")
    given = {"scorer": "equivalent", "prediction": "equivalent", "answer_status": "answered"}
    with Store(home) as store:
        scores = [
            Score(question_id=f"og/{n}", epoch=0, value=None, reason="withheld: it fails its probes", **given)
            for n in range(24)
        ]
        store.add_scores(store.run("direct"), scores)
    labels = ["mismatch" if n < disagreeing else "equivalent" for n in range(24)]
    rows = [f"og/{n},{text},{label}" for n, (text, label) in enumerate(zip(answers, labels, strict=True))]
    (tmp_path / "labels.csv").write_text("\n".join(["item,answer,anna", *rows]) + "\n")
    shown = " ".join(command("judge", "agreement", "direct", "--human", "labels.csv").stdout.split())
    assert ("people's labels agree with the judge, and count more than its probes" in shown) == trusted
    assert ("by the judge, direct-1: withheld: it fails its probes" in shown) == (not trusted)


@pytest.mark.data
def test_physicians_move_the_figure_of_a_judge_of_words(data):
    """K-QA: 150 of the physicians' labels bring a judge's figure to where all of them are."""
    sys.path.insert(0, str(ROOT / "perf"))
    from corrected_judging import kqa, labelled_rows

    places, person, judges = kqa(data)
    chosen = np.random.default_rng(1).choice(len(person), 150, replace=False)
    judge = judges["a quarter of its words are in the answer"]
    rows = labelled_rows([place for place, _ in places], person, judge, chosen)
    (figure,) = correct("entailed", {"k": rows}).figures
    assert figure.judge.low > person.mean() + 0.2
    assert figure.corrected.low < person.mean() < figure.corrected.high


def test_questions_whose_ids_look_like_items_have_their_categories(home, tmp_path):
    home.mkdir(exist_ok=True)
    questions = [
        Question(id=f"case#{n}", benchmark="og", text=f"{n}?", kind="long", group=f"subject {n % 2}") for n in range(6)
    ]
    given = {"scorer": "equivalent", "value": 1.0, "prediction": "equivalent", "answer_status": "answered"}
    with Store(home) as store:
        golds = {one.id: Gold(question_id=one.id, answer="rest") for one in questions}
        run = keep_run(store, questions, golds, ["rest"] * 6)
        store.add_scores(run, [Score(question_id=one.id, epoch=0, **given) for one in questions])
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["item,answer,anna", *(f"case#{n},rest,equivalent" for n in range(6))]) + "\n")
    found = judge_agreement("direct", labels, settings=Settings(home=home)).agreement
    assert {(one.of, one.name, one.agreement.n) for one in found.categories} == {
        ("subject", "subject 0", 3),
        ("subject", "subject 1", 3),
    }
