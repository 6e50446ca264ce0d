"""What finds which fraud: each is planted in a bundle, and docs/how-to/publish.md holds the table that comes of it.

`UPDATE_FRAUDS=1 pytest tests/extensions/publishing/test_frauds.py` writes it there.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragrounds.base.errors import UserError
from ragrounds.extensions.publishing.bundle import SUFFIX, Line, Statement
from tests.extensions.publishing import planted
from tests.extensions.publishing.planted import attempts, check, forge, published_in
from tests.uneven import Uneven, expected

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


def rounded_page(bundle: Path) -> Path:
    """The published page, with a figure that is 0.1 higher."""
    page = bundle.with_name("index.html").read_text(encoding="utf-8")
    first = re.search(r'<td class="right">([\d.]+)<', page)
    made = bundle.parent / "rounded.html"
    made.write_text(page.replace(first[0], first[0].replace(first[1], f"{float(first[1]) + 0.1:.2f}"), 1))
    return made


FRAUDS: list[tuple[str, str, list[Callable]]] = [
    ("an answer is edited, its score is not", "shown", [planted.answer_edited]),
    ("a score is edited, its answer is not", "shown", [planted.score_edited]),
    ("a failed attempt is dropped", "shown", [planted.attempt_dropped]),
    ("a subset of the questions is chosen", "shown", [planted.subset_chosen]),
    ("the best of three runs is published", "best", [unchanged]),
    ("another version of a scorer, the same scores", "shown", [older]),
    ("another version of a scorer, other scores", "shown", [lenient]),
    ("another judge is named; its replies are edited", "judged", [planted.judge_replaced, reply_edited]),
    ("costs are lowered: of attempts; of their calls too", "shown",
     [planted.full_price_lowered, planted.paid_lowered, lowered_with_calls]),
    ("another revision of the benchmark", "shown", [planted.other_revision]),
    ("a figure is rounded up", "shown", [planted.rounded]),
    ("a figure is rounded up as it is printed", "shown", [planted.printed_rounded]),
    ("a figure is rounded up on the published page", "shown", [rounded_page]),
    ("answer, score and figures are invented together", "shown", [planted.invented]),
]  # fmt: skip
HEAD = "| fraud | signed, changed later | signed by who did it | schema | `verify` | `--benchmark` too |"
ROUNDED = (planted.rounded, planted.printed_rounded)


@pytest.fixture(scope="module")
def bundles(sites: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bundles to plant frauds in; tests/extensions/publishing/test_bundle.py has that the first one holds."""
    place = tmp_path_factory.mktemp("frauds")
    shutil.copytree(sites / "shown", place / "shown")
    (shown,) = (place / "shown").glob(f"*{SUFFIX}")
    judged = planted.judged(place / "judged-home", place / "judged")
    assert check(judged).differing == ()
    return {"shown": shown, "judged": judged}


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


def verdict(path: Path, benchmark: str | None, page: Path | None) -> str:
    found = check(path, benchmark=benchmark, page=page)
    if found.ended == "fails":
        return "yes"
    if any("attempts still to be made" in note for note in found.comparison.notes):
        return "shown as not made"
    return "its version is named" if any("another version" in note for note in found.notes) else "no"


def rows(bundles: dict[str, Path], benchmark_file: str) -> Iterator[list[str]]:
    for name, kind, changes in FRAUDS:
        seen = []
        for change in changes:
            whole, page = bundles[kind], None
            forged = (
                whole if change in (unchanged, rounded_page) else forge(whole, change, figures=change not in ROUNDED)
            )
            if change is rounded_page:
                page = rounded_page(whole)
            verdicts = [verdict(forged, None, page)]
            # The judged one is of no benchmark that can be loaded.
            verdicts.append(verdicts[0] if kind == "judged" else verdict(forged, benchmark_file, page))
            signed = [broken_signature(signer, forged) for signer in (whole, forged)]
            seen.append([*signed, broken_schema(forged), *verdicts])
        assert seen == [seen[0]] * len(changes), name
        yield [name, *seen[0]]


@pytest.mark.slow
def test_the_table_of_frauds_is_what_is_found(bundles: dict[str, Path], uneven: Uneven, tmp_path: Path) -> None:
    averages = {agent: expected(agent)["average"] for agent in uneven.runs}
    best = uneven.runs[max(averages, key=averages.__getitem__)].id
    bundles = bundles | {"best": published_in(tmp_path / "best", uneven.home, runs=[best], attempts="all")}
    found = rows(bundles, uneven.benchmark)
    lines = [HEAD, "|---|---|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in found)]
    made, page = "\n".join(lines), PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^\| fraud \|.*\n(?:\|.*\n)+", page, re.MULTILINE)
    if os.environ.get("UPDATE_FRAUDS"):
        PAGE.write_text(page.replace(shown, made + "\n"), encoding="utf-8")
    else:
        assert shown == made + "\n"


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("shown", planted.answer_edited, " answered 'A' is stated, the answer gives "),
        ("shown", planted.score_edited, " is stated, the answer gives 0.0 "),
        ("shown", planted.full_price_lowered, "cost_uncached: 0.0 is stated, its calls sum to"),
        ("shown", planted.paid_lowered, ", cost_paid: "),
        ("shown", lowered_with_calls, "its tokens cost"),
        ("shown", planted.other_revision, "questions: the runs are of the set"),
        ("shown", planted.rounded, ".overall.value: "),
        ("shown", planted.printed_rounded, "printed.paired differences"),
        ("judged", planted.judge_replaced, "no recorded reply of test:dearer"),
    ],
)
def test_a_fraud_is_named(bundles: dict[str, Path], kind: str, change: Callable, message: str) -> None:
    assert message in check(forge(bundles[kind], change)).differing[0]


def test_a_figure_that_is_rounded_up_on_the_published_page_is_named(bundles: dict[str, Path]) -> None:
    found = check(bundles["shown"], page=rounded_page(bundles["shown"]))
    assert re.search(r"^rounded.html, .*: other figures than .*, which the attempts give$", found.differing[0])
    assert check(bundles["shown"], page=bundles["shown"].with_name("index.html")).ended == "holds"
    other = check(bundles["judged"], page=bundles["shown"].with_name("index.html"))
    assert any("holds no ranking" in note for note in other.notes)
    with pytest.raises(UserError, match="none"):
        check(bundles["shown"], page="none.html")
