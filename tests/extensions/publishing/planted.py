"""Bundles of published rankings, and frauds that are planted in them."""

import asyncio
import json
from pathlib import Path

import msgspec
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.base.records import Attempt, Gold, Question, Run
from ragrounds.evals.benchmarks.benchmark import content_version
from ragrounds.evals.engine.plan import fingerprint
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.runs import judge_runs
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.extensions.publishing import bundle as bundles
from ragrounds.extensions.publishing.bundle import SUFFIX, seal_of
from ragrounds.extensions.publishing.derivation import Derivation, derive
from ragrounds.prompts.loader import PromptFolder
from ragrounds.ui.tables.comparison_tables import printed_figures
from tests.judges.doubles import Scripted


def published_in(site: Path, home: Path, **more) -> Path:
    rr.publish(site, bundle=True, progress=False, home=home, **more)
    (found,) = site.glob(f"*{SUFFIX}")
    return found


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def forge(path: Path, change, *, figures: bool = False) -> Path:
    """A bundle after a fraud, sealed again as its publisher could; with `figures` the statement's are made anew too."""
    folder = path.parent / "forged"
    folder.mkdir(exist_ok=True)
    statement, *records, _ = lines_of(path)
    change(statement, records)
    rows = [json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for one in records]
    seal = seal_of(rows)
    statement["subject"][0]["digest"]["sha256"] = seal.sha256
    statement["predicate"]["ragrounds"] |= {"merkleRoot": seal.root, "records": seal.records}
    made = msgspec.convert(statement, bundles.Statement)
    part, forged = folder / "part", folder / path.name
    part.write_bytes(b"".join(rows))
    if figures:
        decoded = enumerate(map(msgspec.json.Decoder(bundles.Line).decode, rows))
        found = Derivation()
        derive(decoded, made.predicate.ragrounds, seal, found, None)
        basis = replace(found.statement.predicate.ragrounds, printed=printed_figures(found.comparison))
        predicate = replace(found.statement.predicate, harness=made.predicate.harness, ragrounds=basis)
        made = replace(made, predicate=predicate)
    bundles.write_bundle(forged, made, part)
    return forged


def attempts(records):
    return [one for one in records if one["record"] == "attempt"]


def scored(records):
    return [one for one in attempts(records) if one["scores"]]


def check(path: Path, **more):
    return rr.verify(path, progress=False, **more)


def answer_edited(statement, records):
    golds = {one["question"]["id"]: one["gold"] for one in records if one["record"] == "question"}
    wrong = next(one for one in scored(records) if one["scores"][0]["value"] == 0 and one["scores"][0]["prediction"])
    wrong["attempt"]["text"] = f"The answer is ({golds[wrong['attempt']['question_id']]['answer']})."


def score_edited(statement, records):
    wrong = next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"]))
    for score in wrong["scores"]:
        score["value"] = 1.0


def attempt_dropped(statement, records):
    records.remove(next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"])))


def full_price_lowered(statement, records):
    for one in attempts(records):
        one["attempt"]["cost_uncached"] = 0.0


def paid_lowered(statement, records):
    """What was paid, of one attempt; its full price is as it was."""
    one = next(one for one in attempts(records) if one["attempt"]["cost_paid"])
    one["attempt"]["cost_paid"] /= 2


def rounded(statement, records):
    figures = statement["predicate"]["ragrounds"]["figures"]
    place = next(name for name, value in figures.items() if name.endswith("overall.value") and value)
    figures[place] = round(figures[place] + 0.004, 2)


def printed_rounded(statement, records):
    """The figures are right; the last digit of one in the table is rounded up."""
    printed = statement["predicate"]["ragrounds"]["printed"]
    place = next(name for name, cell in printed.items() if name.endswith("95 %") and "to" in cell)
    printed[place] = rounded_up(printed[place])


def rounded_up(cell: str) -> str:
    """A cell whose first figure is 0.1 higher."""
    first, _, more = cell.partition(" ")
    return f"{float(first) + 0.1:.{len(first.partition('.')[2])}f} {more}"


def other_revision(statement, records):
    asked = next(one for one in records if one["record"] == "question" and one["question"]["kind"] == "choice")
    asked["gold"]["answer"] = "B" if asked["gold"]["answer"] == "A" else "A"
    asked["gold_digest"] = bundles.gold_digest(msgspec.convert(asked["gold"], Gold))


def subset_chosen(statement, records):
    """Those questions on which the first run is right, and no others: hash, identity and fingerprint made anew."""
    first = [one for one in attempts(records) if one["attempt"]["run"] == records[0]["run"]["id"] and one["scores"]]
    right = [one["attempt"]["question_id"] for one in first if one["scores"][0]["value"] == 1]
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


def judged(home: Path, site: Path) -> Path:
    """The bundle of a run whose answers a judge read."""
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
    return published_in(site, home, attempts="all")


def judge_replaced(statement, records):
    for one in records:
        if one["record"] == "judge":
            one["call"]["actor"] = "test:dearer"


def invented(statement, records):
    """An answer with the score and the prediction that it has; the figures follow."""
    golds = {one["question"]["id"]: one["gold"] for one in records if one["record"] == "question"}
    wrong = next(one for one in scored(records) if one["scores"][0]["value"] == 0 and one["scores"][0]["prediction"])
    letter = golds[wrong["attempt"]["question_id"]]["answer"]
    wrong["attempt"]["text"] = json.dumps({"step_by_step_thinking": "", "answer_choice": letter})
    for score in wrong["scores"]:
        score |= {"value": 1.0, "prediction": letter, "answer_status": "answered"}
