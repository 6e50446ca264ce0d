"""A bundle of a published ranking: its figures are derived again. tests/extensions/publishing/test_frauds.py plants
frauds in it."""

import contextlib
import hashlib
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.extensions.publishing.bundle import SUFFIX, merkle_root, read_bundle
from tests.extensions.publishing.planted import attempts, check, forge, lines_of, rounded
from tests.uneven import Uneven, expected, write_benchmark


def copied(site: Path, folder: Path) -> Path:
    """The bundle of a copy of a site."""
    shutil.copytree(site, folder)
    (bundle,) = folder.glob(f"*{SUFFIX}")
    return bundle


@pytest.fixture
def published(sites: Path, tmp_path: Path) -> Path:
    """The bundle of three runs on questions whose texts are withheld."""
    return copied(sites / "withheld", tmp_path / "site")


@pytest.fixture
def shown(sites: Path, tmp_path: Path) -> Path:
    """The bundle of the same runs with all texts."""
    return copied(sites / "shown", tmp_path / "site")


def test_no_two_figures_of_the_uneven_runs_are_equal(uneven: Uneven) -> None:
    """By hand and as `compare` has them."""
    figures = {agent: expected(agent) for agent in uneven.runs}
    every = [value for of_run in figures.values() for value in of_run.values()]
    assert len(every) == len(set(every)) == 27
    comparison = rr.compare([run.id for run in uneven.runs.values()], home=uneven.home).comparison
    (table,) = (table for table in comparison.tables if table.scorer == "robust")
    for line, row, of_run in zip(table.lines, comparison.rows, figures.values(), strict=True):
        shown = (
            line.overall.value,
            line.overall.pooled,
            row.cost_paid,
            row.cost_uncached,
            row.usage.input,
            row.seconds,
        )
        names = ("average", "pooled", "paid", "full price", "in", "time")
        assert shown == pytest.approx(tuple(of_run[name] for name in names))


def test_every_figure_is_derived_again(shown: Path) -> None:
    found = check(shown)
    assert (found.ended, found.differing, found.underived) == ("holds", (), {})
    assert found.derived == found.figures > 100
    assert found.attempts == 3 * 14
    printed = lines_of(shown)[0]["predicate"]["ragrounds"]["printed"]
    assert found.printed > len(printed) > 20  # those of the page, too


def test_a_predicate_as_the_proposal_has_it(shown: Path) -> None:
    statement = lines_of(shown)[0]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    predicate = statement["predicate"]
    needed = {"evaluator", "evaluatedAt", "suite", "claims", "sampleSize", "model", "dataset", "assuranceLevel"}
    assert needed <= predicate.keys()
    assert {(type(one["threshold"]), one["comparator"]) for one in predicate["claims"]} == {(str, ">=")}
    records = b"".join(shown.read_bytes().splitlines(keepends=True)[1:-1])
    assert statement["subject"][0]["digest"]["sha256"] == hashlib.sha256(records).hexdigest()


def test_the_tree_is_that_of_rfc_6962() -> None:
    def tree(leaves):  # as the paper says it
        if len(leaves) == 1:
            return leaves[0]
        split = 1
        while split * 2 < len(leaves):
            split *= 2
        return hashlib.sha256(b"\1" + tree(leaves[:split]) + tree(leaves[split:])).digest()

    for count in range(1, 40):
        leaves = [hashlib.sha256(b"\0%d" % n).digest() for n in range(count)]
        assert merkle_root(leaves) == tree(leaves)


def test_texts_under_licence_are_digests_and_come_from_the_benchmark(published: Path, uneven: Uneven) -> None:
    """So are the ids of questions, which the names of clusters hold."""
    records = published.read_bytes()
    questions = [line["question"] for line in lines_of(published) if line.get("record") == "question"]
    assert Counter(Counter(one["cluster"] for one in questions if one["cluster"]).values()) == {3: 1, 2: 2}
    assert [text for text in (b"Which of the two", b"mmlu-0", b"medqa-0") if text in records] == []
    blind = check(published)
    assert blind.ended == "undecided"
    assert blind.differing == ()
    assert 0 < blind.derived < blind.figures
    assert sum("--benchmark FILE" in why for why in blind.underived) >= 2
    for named in (uneven.benchmark, uneven.benchmark.partition(":")[2]):
        filled = check(published, benchmark=named)
        assert (filled.ended, filled.differing) == ("holds", ())
        assert filled.derived == filled.figures


def test_folder_and_private_texts_are_left_out(published: Path, uneven: Uneven) -> None:
    assert str(uneven.home.parent).encode() not in published.read_bytes().replace(b"\\", b"")
    assert lines_of(published)[1]["run"]["asked"] is None


def test_another_revision_is_found_by_the_benchmark(published: Path, tmp_path: Path) -> None:
    found = check(published, benchmark=write_benchmark(tmp_path / "other.json", right="A"))
    assert found.ended == "fails"
    assert "the right answer differs in the benchmark" in found.differing[0]


def test_a_single_byte_that_is_changed_is_found(shown: Path) -> None:
    changed = shown.with_name(f"changed{SUFFIX}")
    taken = []
    for place in range(40):
        held = bytearray(shown.read_bytes())
        draw = random.Random(place)
        at = draw.randrange(len(held))
        held[at] ^= draw.randrange(1, 256)
        changed.write_bytes(held)
        with contextlib.suppress(rr.UserError):
            if read_bundle(changed).is_intact:
                taken.append(at)
    assert taken == []


@pytest.mark.parametrize(
    "held",
    [b"", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"_type":"x"}\n', b"\0" * 5000, b'{"_type":1}\n{"record":"run"}\n'],
)
def test_what_is_no_bundle_is_refused(tmp_path: Path, held: bytes) -> None:
    (tmp_path / "b").write_bytes(held)
    with pytest.raises(rr.UserError, match="is no bundle"):
        check(tmp_path / "b")


def test_records_of_a_stranger_are_not_believed(shown: Path) -> None:
    def twice(statement, records):
        records.append(attempts(records)[0])

    def many(statement, records):
        records[0]["run"]["epochs"] = 10**12

    def hostile(statement, records):
        records[0]["run"]["id"] = "a\x1b[2J"

    for change in (twice, many, hostile, lambda _, records: records.clear()):
        with pytest.raises(rr.UserError):
            check(forge(shown, change))


def test_no_bundle_without_attempts(home: Path, tmp_path: Path) -> None:
    with pytest.raises(rr.UserError, match="made of attempts"):
        rr.publish(tmp_path / "site", bundle=True, attempts="never", progress=False)


def test_the_command_names_the_first_that_differs(shown: Path, command) -> None:
    forged = forge(shown, rounded)
    done = command("verify", str(forged))
    assert done.returncode == 1
    assert "Differs: " in done.stdout
    assert command("verify", str(shown)).returncode == 0


def test_published_again_the_bundles_of_before_are_removed(shown: Path, uneven: Uneven) -> None:
    rr.publish(shown.parent, runs="run-1", progress=False, home=uneven.home)
    assert not shown.exists()


STRANGE = [None, 0, -1, 1e308, 10**30, "", "x", [], {}, True, "\x1b", 0.5, [1], {"a": 1}]


def places(value, path=()):
    """Where the values of a record stand."""
    if not isinstance(value, dict | list) or not value:
        yield path
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield from places(one, (*path, key))


@pytest.mark.parametrize("seed", range(12))
def test_a_value_of_any_kind_anywhere_ends_in_words(shown: Path, seed: int) -> None:
    """Sealed again by who changed it: it is refused, found, or changes no figure; nothing breaks."""
    draw = random.Random(seed)

    def change(statement, records):
        within = draw.choice(records)
        *path, last = draw.choice(list(places(within)))
        for key in path:
            within = within[key]
        within[last] = draw.choice(STRANGE)

    with contextlib.suppress(rr.UserError):
        assert check(forge(shown, change)).ended in ("holds", "fails", "undecided")


def test_a_time_that_is_none_is_refused(shown: Path) -> None:
    def change(statement, records):
        attempts(records)[0]["attempt"]["at"] = 1e308

    with pytest.raises(rr.UserError, match="values that no run has"):
        check(forge(shown, change))
