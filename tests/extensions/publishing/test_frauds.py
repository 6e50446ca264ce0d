"""What finds which fraud: each is planted in a bundle, and docs/how-to/publish.md holds the table that comes of it.

`python -m tests.extensions.publishing.test_frauds` writes it there.
"""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragrounds.base.errors import UserError
from ragrounds.extensions.publishing.bundle import SUFFIX, Line, Statement
from ragrounds.extensions.publishing.verify import VerifiedBundle
from tests.extensions.publishing import planted
from tests.extensions.publishing.planted import attempts, check, forge, published_in
from tests.uneven import Uneven, write_uneven

PAGE = Path(__file__).parents[3] / "docs/how-to/publish.md"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def unchanged(statement: dict, records: list[dict]) -> None:
    """What was left out before anything was written leaves no trace in what was written."""


def older(statement: dict, records: list[dict]) -> None:
    """A scorer of another version, which gives the same scores."""
    for one in attempts(records):
        for score in one["scores"]:
            score["code"] = "f" * 64
    scorers = statement["predicate"]["ragrounds"]["scorers"]
    for name in scorers:
        scorers[name] = ["f" * 64]


def lenient(statement: dict, records: list[dict]) -> None:
    older(statement, records)
    planted.score_edited(statement, records)


def lowered_with_calls(statement: dict, records: list[dict]) -> None:
    planted.full_price_lowered(statement, records)
    for one in attempts(records):
        one["attempt"]["cost_paid"] = 0.0
        for event in one["attempt"]["events"]:
            event["call"]["cost_uncached"] = 0.0


def reply_edited(statement: dict, records: list[dict]) -> None:
    for one in records:
        if one["record"] == "judge":
            one["reply"]["text"] = '{"grade": "mismatch"}'


def rounded_page(page: str) -> str:
    """A figure of the page is 0.1 higher."""
    first = re.search(r'<td class="right">([\d.]+)<', page)
    return page.replace(first[0], first[0].replace(first[1], f"{float(first[1]) + 0.1:.2f}"), 1)


def names_swapped(page: str) -> str:
    """The two agents have each other's names wherever one is."""
    return page.replace("direct", "\0").replace("search_o1", "direct").replace("\0", "search_o1")


def negated(page: str) -> str:
    assert " no difference is significant" in page
    return page.replace(" no difference is significant", " every difference is significant", 1)


def rows_swapped(page: str) -> str:
    first, second, *_ = re.findall(r'<tr><th scope="row">.*?</tr>', page, re.DOTALL)
    return page.replace(first, "\0", 1).replace(second, first, 1).replace("\0", second, 1)


def row_invented(page: str) -> str:
    row = re.search(r'<tr><th scope="row">.*?</tr>', page, re.DOTALL)[0]
    return page.replace(row, row + row.replace("direct", "ours"), 1)


def picture_moved(page: str) -> str:
    at = re.search(r'<circle[^>]* cy="([\d.]+)"', page) or re.search(r"<(?:path|polyline)[^>]*?(\d+\.\d+)", page)
    return page[: at.start(1)] + "1.5" + page[at.end(1) :]


# Title, bundle, changes of its records or of a page, and what `verify` then says.
FRAUDS: list[tuple[str, str, list[Callable], str]] = [
    (
        "an answer is edited, its score is not",
        "shown",
        [planted.answer_edited],
        " answered 'A' is stated, the answer gives ",
    ),
    ("a score is edited, its answer is not", "shown", [planted.score_edited], " is stated, the answer gives 0.0 "),
    ("a failed attempt is dropped", "shown", [planted.attempt_dropped], "attempts still to be made"),
    (
        "a wrong answer has no score; none is there; it counts as failed",
        "shown",
        [planted.wrong_without_score, planted.score_left_out, planted.wrong_failed],
        "the answer gives|is not there|robust: ",
    ),
    ("a subset of the questions is chosen", "shown", [planted.subset_chosen], "questions are those of the benchmark"),
    ("a subset is chosen by ids", "shown", [planted.subset_by_ids], r"choice of questions by their ids \(\d of 14\)"),
    (
        "more questions than the rule draws",
        "shown",
        [planted.rule_of_fewer],
        "14 questions, and its rule draws 5 of 100",
    ),
    (
        "the best of three runs, or of three epochs, is published",
        "best",
        [unchanged],
        "no run, question, epoch or call was left",
    ),
    ("another version of a scorer, the same scores", "shown", [older], "another version of its code"),
    ("another version of a scorer, other scores", "shown", [lenient], "the answer gives"),
    (
        "an unknown scorer; a score as another tool reports it",
        "shown",
        [planted.unknown_scorer, planted.reported_score],
        "scores by (excellence|reported), which is not here",
    ),
    (
        "another judge is named; its replies are edited",
        "judged",
        [planted.judge_replaced, reply_edited],
        "no recorded reply of test:dearer|is stated, the answer gives",
    ),
    ("tokens are lowered: of attempts", "shown", [planted.tokens_lowered], ", tokens: .* is stated, its calls sum to"),
    (
        "tokens are lowered, calls removed; marked as failed; as not recorded",
        "shown",
        [planted.tokens_without_calls, planted.calls_failed, planted.unrecorded_calls],
        "whose calls are not all recorded",
    ),
    ("calls removed with their tokens and counts", "shown", [planted.calls_dropped], "epoch or call was left out"),
    ("counts of calls are lowered", "shown", [planted.counts_lowered], "1 calls of kind model are stated, and 5"),
    (
        "costs are lowered: of attempts; of their calls too",
        "shown",
        [planted.full_price_lowered, planted.paid_lowered, lowered_with_calls],
        "its calls sum to|its tokens cost",
    ),
    (
        "attempts are shorter than their calls",
        "shown",
        [planted.seconds_lowered],
        "s are stated, and its calls took 0.22 s",
    ),
    (
        "the run names another model than its calls; the calls too",
        "shown",
        [planted.model_renamed, planted.model_renamed_with_calls],
        "was called, and the run names|its tokens cost",
    ),
    (
        "an agent has another's name; in what made it alone",
        "shown",
        [planted.agent_of_other_name, planted.agent_in_identity],
        "its code is not that of|what made it names ircot",
    ),
    ("an agent has an unknown name", "shown", [planted.agent_renamed], "what gpt_rag is: its code is not in"),
    (
        "a run has a name of its publisher's",
        "shown",
        [planted.named_by_publisher],
        "'GPT-5 with search' is a fitting name",
    ),
    (
        "what made a run is edited; other epochs; another benchmark",
        "shown",
        [planted.fingerprint_kept, planted.epochs_in_identity, planted.benchmark_renamed],
        "its fingerprint is not|names other (epochs|benchmark)",
    ),
    ("runs are called imported", "shown", [planted.imported_by_name], "it was imported from a file"),
    ("clusters are split", "shown", [planted.clusters_split], "have one text, and are not in one cluster"),
    (
        "clusters are merged",
        "shown",
        [planted.clusters_merged],
        "clusters that the texts of their questions do not show",
    ),
    ("the seed of the intervals is hunted", "shown", [planted.seed_chosen], "seed of all intervals, 17"),
    (
        "another revision of the benchmark; edited options",
        "shown",
        [planted.other_revision, planted.options_edited],
        "questions: the runs are of the set|its digest differs",
    ),
    ("a question is rephrased", "shown", [planted.rephrased], "questions are those of the benchmark"),
    (
        "a figure is rounded up; a verdict, a claim, a date edited",
        "shown",
        [planted.rounded, planted.verdict_turned, planted.claim_raised, planted.dated_later],
        r"overall.value: |findings.robust.kind: ahead|claims.*0.99|evaluatedAt",
    ),
    ("a figure is rounded up as it is printed", "shown", [planted.printed_rounded], "printed.paired differences"),
    ("on the page: a figure is rounded up", "shown", [rounded_page], "is published, the attempts give"),
    ("on the page: the names of two agents are exchanged", "shown", [names_swapped], "is published, the attempts give"),
    (
        "on the page: the conclusion is negated",
        "shown",
        [negated],
        "every difference.* is published, the attempts give",
    ),
    (
        "on the page: rows are exchanged; one is invented",
        "shown",
        [rows_swapped, row_invented],
        "is published, the attempts give",
    ),
    ("on the page: a point of the picture is moved", "shown", [picture_moved], "is published, the attempts give"),
    (
        "another version is claimed, and the conclusion negated",
        "shown",
        [(planted.other_version, negated)],
        "conclusion on index.html: it states",
    ),
    (
        "another version is claimed, and the picture changed",
        "shown",
        [(planted.other_version, picture_moved)],
        "that the pictures, and the page of the comparison",
    ),
    ("answer, score and figures are invented together", "shown", [planted.invented], "written by hand"),
]
PAGE_FRAUDS = (rounded_page, names_swapped, negated, rows_swapped, row_invented, picture_moved)
TABLE = re.compile(r"^\| fraud \|.*\n(?:\|.*\n)+", re.MULTILINE)
HEAD = "| fraud | signed, changed later | signed by who did it | schema | `verify` | `--benchmark` too |"
STATED = (planted.rounded, planted.printed_rounded, planted.verdict_turned, planted.claim_raised, planted.dated_later)
"""Frauds in the statement, whose figures are not made anew."""


def broken_signature(signed: Path, given: Path) -> str:
    with contextlib.suppress(InvalidSignature):
        KEY.public_key().verify(KEY.sign(signed.read_bytes()), given.read_bytes())
        return "no"
    return "yes"


def broken_schema(path: Path) -> str:
    head, *lines, last = path.read_bytes().splitlines()
    msgspec.json.decode(head, type=Statement)
    msgspec.json.decode(last, type=dict[str, str])
    for line in lines:
        msgspec.json.decode(line, type=Line)
    return "no"


def verdict(found: VerifiedBundle, pattern: str) -> str:
    """What `verify` does about a fraud: it fails; it says what is not derived; it names what the bundle cannot show."""
    if found.ended == "fails":
        return "yes"
    verdicts = verdicts_with(found, pattern)
    return verdicts[0] if verdicts else "no"


def verdicts_with(found: VerifiedBundle, pattern: str) -> list[str]:
    """Return the verdicts whose list has a text with this pattern."""
    lists = {
        "yes": found.differing,
        "not derived": found.underived,
        "named": (*found.unshown, *found.notes, *found.comparison.notes),
    }
    return [name for name, texts in lists.items() if any(re.search(pattern, text) for text in texts)]


def planted_in(whole: Path, change: Callable | tuple[Callable, Callable], *, figures: bool) -> Path:
    """The bundle after a fraud, next to its pages."""
    changes = change if isinstance(change, tuple) else (change,)
    records = next((fraud for fraud in changes if fraud not in PAGE_FRAUDS), unchanged)
    if records is unchanged:
        forged = whole.parent / "forged" / whole.name
        forged.parent.mkdir(exist_ok=True)
        shutil.copy(whole, forged)
    else:
        forged = forge(whole, records, figures=figures and records not in STATED)
    for page in whole.parent.glob("*.html"):
        shutil.copy(page, forged.parent)
    index = forged.with_name("index.html")
    for fraud in changes:
        if fraud in PAGE_FRAUDS:
            index.write_text(fraud(index.read_text(encoding="utf-8")), encoding="utf-8")
        elif figures and fraud is not unchanged:
            index.unlink()  # its publisher makes the pages anew, too
    return forged


def row_of(fraud: tuple[str, str, list[Callable], str], bundles: dict[str, Path], benchmark_file: str) -> str:
    """The line of the page's table on a fraud, whose changes are all found alike."""
    name, kind, changes, pattern = fraud
    seen = []
    for change in changes:
        whole, is_of_page = bundles[kind], change in PAGE_FRAUDS or isinstance(change, tuple)
        forged = whole if change is unchanged else planted_in(whole, change, figures=not is_of_page)
        alone = with_benchmark = verdict(check(forged), pattern)
        if alone != "yes" and kind != "judged":  # the judged one is of no benchmark that can be loaded
            with_benchmark = verdict(check(forged, benchmark=benchmark_file), pattern)
        signed = [broken_signature(signer, forged) for signer in (whole, forged)]
        seen.append([*signed, broken_schema(forged), alone, with_benchmark])
    assert seen == [seen[0]] * len(changes), (name, seen)
    return f"| {' | '.join([name, *seen[0]])} |"


def bundles_in(place: Path, sites: Path, uneven: Uneven) -> dict[str, Path]:
    """Bundles to plant frauds in; tests/extensions/publishing/test_bundle.py has that the first one holds."""
    shutil.copytree(sites / "shown", place / "shown")
    (shown,) = (place / "shown").glob(f"*{SUFFIX}")
    judged = planted.judged(place / "judged-home", place / "judged")
    assert check(judged).differing == ()
    return {"shown": shown, "judged": judged, "best": shown}


@pytest.fixture(scope="module")
def bundles(sites: Path, uneven: Uneven, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return bundles_in(tmp_path_factory.mktemp("frauds"), sites, uneven)


def page_rows() -> dict[str, list[str]]:
    """Return the page's other columns by fraud."""
    (table,) = TABLE.findall(PAGE.read_text(encoding="utf-8"))
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {name: columns for name, *columns in rows}


DAILY = (
    "the best of three runs, or of three epochs, is published",
    "another judge is named; its replies are edited",
    "a question is rephrased",
    "another version is claimed, and the conclusion negated",
)
"""Frauds whose rows have what no test of their words has: no trace, a judge, the benchmark, a page and its bundle."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fraud",
    [pytest.param(fraud, id=fraud[0], marks=() if fraud[0] in DAILY else pytest.mark.weekly) for fraud in FRAUDS],
)
def test_the_table_of_frauds_is_what_is_found(bundles: dict[str, Path], uneven: Uneven, fraud) -> None:
    assert row_of(fraud, bundles, uneven.benchmark) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_has_every_fraud() -> None:
    assert list(page_rows()) == [fraud[0] for fraud in FRAUDS]


@pytest.mark.parametrize(
    ("name", "kind", "change", "pattern"),
    [
        (name, kind, change, pattern)
        for name, kind, changes, pattern in FRAUDS
        for change in changes
        if change is not unchanged
    ],
)
def test_a_fraud_is_named(bundles: dict[str, Path], name: str, kind: str, change: Callable, pattern: str) -> None:
    """The figures are those of before: what a fraud changes besides them is said, where the page has it."""
    found = check(planted_in(bundles[kind], change, figures=False))
    assert page_rows()[name][3] in verdicts_with(found, pattern)


def test_pages_that_are_not_of_the_bundle(bundles: dict[str, Path]) -> None:
    index = bundles["shown"].with_name("index.html")
    assert check(bundles["shown"], page=index).ended == "holds"
    other = check(bundles["judged"], page=index)
    assert any("holds no ranking" in note for note in other.notes)
    with pytest.raises(UserError, match="none"):
        check(bundles["shown"], page="none.html")


def write_table() -> None:
    """Write the table into the page, with its date."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        uneven = write_uneven(place)
        runs = [run.id for run in uneven.runs.values()]
        published_in(place / "sites" / "shown", uneven.home, runs=runs, attempts="all")
        bundles = bundles_in(place, place / "sites", uneven)
        rows = [row_of(fraud, bundles, uneven.benchmark) for fraud in FRAUDS]
    page = PAGE.read_text(encoding="utf-8")
    page = TABLE.sub(lambda _: "\n".join([HEAD, "|---|---|---|---|---|---|", *rows]) + "\n", page)
    PAGE.write_text(re.sub(r"Made on \S+:", f"Made on {datetime.now(UTC):%Y-%m-%d}:", page), encoding="utf-8")


if __name__ == "__main__":
    write_table()
