"""A bundle of a published ranking: its figures are derived again, and frauds of every kind are planted in it.

`FOUND` in docs/how-to/publish.md is this file as a table: each row is a test.
"""

import asyncio
import contextlib
import hashlib
import json
import random
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.engine.plan import fingerprint
from ragrounds.evals.exchange import bundle as bundles
from ragrounds.evals.exchange.bundle import SUFFIX, merkle_root, read_bundle, seal_of
from ragrounds.evals.exchange.derivation import Derivation, derive
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.runs import judge_runs
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.models.prices import listed_price
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Call, Called, Gold, Question, Run, Usage
from tests.compare.making import add_run, questions
from tests.judges.doubles import Scripted

MODEL = "openai:gpt-4o-mini"
QUESTIONS = 40


def own_questions(path: Path, right: str = "A") -> Path:
    """A benchmark of one's own: its texts are nobody's to give on."""
    rows = [
        {"id": f"q{n}", "question": f"Which of the two is number {n}?",
         "options": {"A": f"left {n}", "B": f"right {n}"}, "answer": right if n % 2 else "A"}
        for n in range(QUESTIONS)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def weak(question) -> str:
    """Right twice of three times."""
    return f"The answer is {'B' if int(question.text.split()[-1][:-1]) % 3 == 0 else 'A'}."


@pytest.fixture
def published(home: Path, tmp_path: Path) -> Path:
    """The bundle of two runs on questions whose texts are withheld."""
    file = own_questions(tmp_path / "own.jsonl")
    rr.run(f"jsonl:{file}", ["direct", weak], model="baseline:extractive", progress=False, limit=30, seed=4)
    rr.publish(tmp_path / "site", bundle=True, progress=False)
    (found,) = (tmp_path / "site").glob(f"*{SUFFIX}")
    return found


@pytest.fixture
def shown(home: Path, tmp_path: Path) -> Path:
    """The bundle of two runs on questions whose texts stand in it."""
    rr.run("sample", ["direct", "vanilla_rag[top_k=4]"], model="baseline:extractive", progress=False, limit=30)
    rr.publish(tmp_path / "site", bundle=True, progress=False)
    (found,) = (tmp_path / "site").glob(f"*{SUFFIX}")
    return found


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def forge(path: Path, change, *, figures: bool = False) -> Path:
    """A bundle after a fraud, sealed again as its publisher could; with `figures` the statement's are made anew too."""
    statement, *records, _ = lines_of(path)
    change(statement, records)
    rows = [json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for one in records]
    seal = seal_of(rows)
    statement["subject"][0]["digest"]["sha256"] = seal.sha256
    statement["predicate"]["ragrounds"] |= {"merkleRoot": seal.root, "records": seal.records}
    made = msgspec.convert(statement, bundles.Statement)
    part, forged = path.with_suffix(".part"), path.with_name(f"forged{SUFFIX}")
    part.write_bytes(b"".join(rows))
    if figures:
        decoded = enumerate(map(msgspec.json.Decoder(bundles.Line).decode, rows))
        found = Derivation()
        derive(decoded, made.predicate.ragrounds, seal, found, None)
        made = replace(made, predicate=replace(found.statement.predicate, harness=made.predicate.harness))
    bundles.write_bundle(forged, made, part)
    return forged


def attempts(records):
    return [one for one in records if one["record"] == "attempt"]


def check(path: Path, **more):
    return rr.verify(path, progress=False, **more)


def test_every_figure_is_derived_again(shown: Path) -> None:
    found = check(shown)
    assert (found.ended, found.differing, found.underived) == ("holds", (), {})
    assert found.derived == found.figures > 100
    assert found.attempts == 60


def test_a_predicate_as_the_proposal_has_it(shown: Path) -> None:
    statement = lines_of(shown)[0]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    predicate = statement["predicate"]
    needed = {"evaluator", "evaluatedAt", "suite", "claims", "sampleSize", "model", "dataset", "assuranceLevel"}
    assert needed <= predicate.keys()
    assert all(isinstance(one["threshold"], str) and one["comparator"] in (">=", "<=") for one in predicate["claims"])
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


def test_texts_under_licence_are_digests_and_come_from_the_benchmark(published: Path, tmp_path: Path) -> None:
    assert b"Which of the two" not in published.read_bytes()
    assert b'"q3"' not in published.read_bytes()
    blind = check(published)
    assert blind.ended == "undecided"
    assert blind.differing == ()
    assert 0 < blind.derived < blind.figures
    assert sum("--benchmark FILE" in why for why in blind.underived) >= 2
    for named in (str(tmp_path / "own.jsonl"), f"jsonl:{tmp_path / 'own.jsonl'}"):
        filled = check(published, benchmark=named)
        assert (filled.ended, filled.differing) == ("holds", ())
        assert filled.derived == filled.figures


def test_folder_and_private_texts_are_left_out(published: Path, tmp_path: Path) -> None:
    held = published.read_bytes()
    assert str(tmp_path).encode() + b'"' not in held.replace(b"\\", b"")
    assert lines_of(published)[1]["run"]["asked"] is None


def answer_edited(statement, records):
    golds = {one["question"]["id"]: one["gold"] for one in records if one["record"] == "question"}
    wrong = next(one for one in attempts(records) if one["scores"][0]["value"] == 0 and one["scores"][0]["prediction"])
    wrong["attempt"]["text"] = f"The answer is ({golds[wrong['attempt']['question_id']]['answer']})."


def score_edited(statement, records):
    wrong = next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"]))
    for score in wrong["scores"]:
        score["value"] = 1.0


def attempt_dropped(statement, records):
    records.remove(next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"])))


def cost_lowered(statement, records):
    for one in attempts(records):
        one["attempt"]["cost_uncached"] = 0.0


def rounded(statement, records):
    figures = statement["predicate"]["ragrounds"]["figures"]
    place = next(name for name, value in figures.items() if name.endswith("overall.value") and value)
    figures[place] = round(figures[place] + 0.004, 2)


def other_revision(statement, records):
    asked = next(one for one in records if one["record"] == "question" and one["question"]["kind"] == "choice")
    asked["gold"]["answer"] = "B" if asked["gold"]["answer"] == "A" else "A"
    asked["gold_digest"] = bundles.gold_digest(msgspec.convert(asked["gold"], Gold))


def subset_chosen(statement, records):
    """Ten questions on which the first run is right, and no others: hash, identity and fingerprint made anew."""

    right = [one["attempt"]["question_id"] for one in attempts(records) if one["scores"][0]["value"] == 1][:10]
    kept = [one for one in records if one["record"] == "question" and one["question"]["id"] in right]
    asked = [msgspec.convert(one["question"], Question) for one in kept]
    golds = {one["question"]["id"]: msgspec.convert(one["gold"], Gold) for one in kept}
    for one in list(records):
        id = (one.get("question") or one.get("attempt") or {}).get("question_id", one.get("question", {}).get("id"))
        if one["record"] in ("question", "attempt") and id not in right:
            records.remove(one)
        if one["record"] == "run":
            run = one["run"]
            run |= {"questions": content_version(asked, golds), "count": len(kept)}
            run["identity"] |= {"questions": run["questions"]}
            run["identity"].pop("selection", None)
            run["fingerprint"] = fingerprint(run["identity"])


@pytest.mark.parametrize("fraud", [answer_edited, score_edited, attempt_dropped, rounded, other_revision])
def test_what_is_changed_after_it_was_published_is_found(shown: Path, fraud) -> None:
    found = check(forge(shown, fraud))
    assert found.ended == "fails"


@pytest.mark.parametrize("fraud", [score_edited, answer_edited, other_revision])
def test_figures_made_anew_for_a_score_or_an_answer_of_its_own_are_found(shown: Path, fraud) -> None:
    """The figures follow from the stated scores: these do not follow from the answers, or the questions' hash."""
    found = check(forge(shown, fraud, figures=True))
    assert found.ended == "fails"


def test_a_dropped_attempt_with_figures_made_anew_is_shown_as_not_made(shown: Path) -> None:
    found = check(forge(shown, attempt_dropped, figures=True))
    assert found.ended == "holds"  # every question still is the denominator
    assert any("attempts still to be made" in note for note in found.comparison.notes)


def test_a_chosen_subset_is_found_by_the_benchmark(shown: Path) -> None:
    forged = forge(shown, subset_chosen, figures=True)
    assert check(forged).ended == "holds"  # nothing in the file tells of the others
    found = check(forged, benchmark="sample")
    assert found.ended == "fails"
    assert "draws" in found.differing[0]


def test_another_revision_is_found_by_the_benchmark(published: Path, tmp_path: Path) -> None:
    other = own_questions(tmp_path / "other.jsonl", right="B")
    found = check(published, benchmark=str(other))
    assert found.ended == "fails"
    assert "what is right is another in the benchmark" in found.differing[0]


def test_a_scorer_of_another_version_is_named(shown: Path) -> None:
    def older(statement, records):
        for one in attempts(records):
            for score in one["scores"]:
                score["code"] = "f" * 64
        scorers = statement["predicate"]["ragrounds"]["scorers"]
        for name in scorers:
            scorers[name] = ["f" * 64]

    found = check(forge(shown, older))
    assert (found.ended, len(found.notes)) == ("holds", len(lines_of(shown)[0]["predicate"]["ragrounds"]["scorers"]))
    assert "another version" in found.notes[0]

    def lenient(statement, records):
        older(statement, records)
        score_edited(statement, records)

    assert check(forge(shown, lenient, figures=True)).ended == "fails"


def test_the_best_of_three_runs_is_found_by_nobody(shown: Path) -> None:
    """What was left out before anything was written leaves no trace in what was written."""
    assert check(shown).ended == "holds"


def priced(home: Path, tmp_path: Path) -> Path:
    """A bundle whose calls have a price by the list."""
    usage = Usage(1000, 100)
    price = listed_price("openai", "gpt-4o-mini", usage)
    call = Call(
        key="ab" * 32, kind="model", role="answering", node="n", actor=MODEL, at=1.0, seconds=0.1, usage=usage,
        cost_uncached=price,
    )  # fmt: skip
    with Store(home) as store:
        made = Called(step=0, call=call)
        more = {"cost_uncached": price, "usage": usage, "events": {place: [made] for place in range(8)}}
        for name in ("one", "two"):
            add_run(store, name, questions(8), [1] * 8, origin="imported", **more)
    rr.publish(tmp_path / "site", bundle=True, attempts="all", progress=False)
    (found,) = (tmp_path / "site").glob(f"*{SUFFIX}")
    return found


def test_a_lowered_cost_is_found(home: Path, tmp_path: Path) -> None:
    path = priced(home, tmp_path)
    assert check(path).ended == "holds"

    def of_calls(statement, records):
        cost_lowered(statement, records)
        for one in attempts(records):
            one["attempt"]["cost_paid"] = 0.0
            for event in one["attempt"]["events"]:
                event["call"]["cost_uncached"] = 0.0

    assert "calls sum to" in check(forge(path, cost_lowered, figures=True)).differing[0]
    assert "its tokens cost" in check(forge(path, of_calls, figures=True)).differing[0]


def test_a_replaced_judge_is_found(home: Path, tmp_path: Path) -> None:
    asked = [Question(id=f"og/{n}", benchmark="og", text=f"{n}?", kind="long") for n in range(6)]
    golds = {one.id: Gold(question_id=one.id, answer="methylene blue") for one in asked}
    identity = {"models": {"model": "openai:writer"}}
    run = Run(
        id="direct-1", agent="direct", benchmark="og", questions=content_version(asked, golds), count=6, epochs=1,
        fingerprint=fingerprint(identity), identity=identity, created=1.0,
    )  # fmt: skip
    made = (
        Attempt(run=run.id, question_id=one.id, epoch=0, status="completed", text=f"blue {one.id}") for one in asked
    )
    with Store(home) as store:
        store.add_run(run, asked, golds)
        store.add_attempts(run, made)
    judge = Scripted(lambda prompt, _: json.dumps({"grade": "equivalent"}), name="test:strict")
    with Store(home) as store:
        journal = StoreJournal(store)
        asyncio.run(judge_runs(store, [store.run("direct")], LabelJudge(EQUIVALENCE), [judge], journal, PromptFolder()))
        journal.close()
    rr.publish(tmp_path / "site", bundle=True, attempts="all", progress=False)
    (path,) = (tmp_path / "site").glob(f"*{SUFFIX}")
    assert check(path).differing == ()

    def renamed(statement, records):
        for one in records:
            if one["record"] == "judge":
                one["call"]["actor"] = "test:dearer"

    assert "no recorded reply of test:dearer" in check(forge(path, renamed, figures=True)).differing[0]

    def milder(statement, records):
        for one in records:
            if one["record"] == "judge":
                one["reply"]["text"] = json.dumps({"grade": "mismatch"})

    assert check(forge(path, milder)).ended == "fails"


@pytest.mark.parametrize("place", range(40))
def test_a_single_byte_that_is_changed_is_found(shown: Path, place: int) -> None:
    held = bytearray(shown.read_bytes())
    draw = random.Random(place)
    at = draw.randrange(len(held))
    held[at] ^= draw.randrange(1, 256)
    changed = shown.with_name(f"changed{SUFFIX}")
    changed.write_bytes(held)
    with contextlib.suppress(rr.UserError):
        assert not read_bundle(changed).whole


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


def test_published_again_the_bundles_of_before_are_removed(shown: Path) -> None:
    rr.publish(shown.parent, progress=False)
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
