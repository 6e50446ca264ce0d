"""Bundles of published rankings, and frauds that are planted in them."""

import asyncio
import json
from functools import partial, reduce
from operator import getitem
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
from ragrounds.extensions.publishing.consistency import Derivation
from ragrounds.extensions.publishing.derivation import derive
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
        basis = replace(found.statement.predicate.ragrounds, printed=printed_figures(found.ranking.comparison))
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


def keep_questions(records, kept_ids, selection):
    """Leave only some questions: hash, identity and fingerprint are made anew."""
    kept = [one for one in records if one["record"] == "question" and one["question"]["id"] in kept_ids]
    asked = [msgspec.convert(one["question"], Question) for one in kept]
    golds = {one["question"]["id"]: msgspec.convert(one["gold"], Gold) for one in kept}
    for one in list(records):
        id = (one.get("question") or one.get("attempt") or {}).get("question_id", one.get("question", {}).get("id"))
        if one["record"] in ("question", "attempt") and id not in kept_ids:
            records.remove(one)
        if one["record"] == "run":
            one["run"] |= {"questions": content_version(asked, golds), "count": len(kept)}
            identify(one["run"], questions=one["run"]["questions"], selection=selection)


def identify(run, **parts):
    """A run with other parts of its identity, and the fingerprint of these."""
    run["identity"] = {key: value for key, value in (run["identity"] | parts).items() if value is not None}
    run["fingerprint"] = fingerprint(run["identity"])


def right_in_first_run(records):
    first = [one for one in attempts(records) if one["attempt"]["run"] == records[0]["run"]["id"] and one["scores"]]
    return [one["attempt"]["question_id"] for one in first if one["scores"][0]["value"] == 1]


def subset_chosen(statement, records):
    """Those questions on which the first run is right, and no others."""
    keep_questions(records, right_in_first_run(records), None)


def subset_by_ids(statement, records):
    """The same questions, and the run's own rule names them."""
    ids = right_in_first_run(records)
    keep_questions(records, ids, {"seed": 0, "limit": None, "per_dataset": None, "of": 14, "ids": ids})


def runs_of(records):
    return [one for one in records if one["record"] == "run"]


def calls_in(records):
    return [(one["attempt"], event["call"]) for one in attempts(records) for event in one["attempt"]["events"]]


def tokens_without_calls(statement, records):
    for one in attempts(records):
        one["attempt"] |= {"events": [], "model_calls": 0, "usage": {"input": one["attempt"]["usage"]["input"] // 10}}


def tokens_lowered(statement, records):
    for one in attempts(records):
        one["attempt"]["usage"]["input"] //= 10


def calls_failed(statement, records):
    """Every call has an error and no token: an attempt that ended well has used nothing."""
    for attempt, call in calls_in(records):
        call |= {"error": "failed", "usage": None, "cost_uncached": None}
        attempt |= {"usage": {}, "cost_paid": 0.0, "cost_uncached": 0.0}


def unrecorded_calls(statement, records):
    tokens_lowered(statement, records)
    for one in attempts(records):
        one["attempt"]["unrecorded"] = 1


def model_renamed(statement, records):
    for one in runs_of(records):
        identify(one["run"], models={"model": "openai:gpt-5"})


def model_renamed_with_calls(statement, records):
    model_renamed(statement, records)
    for _, call in calls_in(records):
        if call["role"] != "embedding":
            call["actor"] = "openai:gpt-5"


def agent_renamed(statement, records, agent="gpt_rag"):
    run = records[0]["run"]
    run["agent"] = agent
    identify(run, agent=agent)


def agent_in_identity(statement, records):
    identify(records[0]["run"], agent="ircot")


def seconds_lowered(statement, records):
    for one in attempts(records):
        one["attempt"]["seconds"] /= 100


def clusters_split(statement, records):
    for one in records:
        if one["record"] == "question":
            one["question"]["cluster"] = ""


def clusters_merged(statement, records):
    asked = [one["question"] for one in records if one["record"] == "question"]
    for number, question in enumerate(asked):
        question["cluster"] = f"part {number % 3}" if not question["cluster"] else question["cluster"]


def calls_dropped(statement, records):
    """The first call of each attempt, with its tokens and its costs."""
    for one in attempts(records):
        attempt = one["attempt"]
        call = attempt["events"].pop(0)["call"]
        attempt["model_calls"] -= 1
        attempt["cost_uncached"] -= call["cost_uncached"]
        attempt["cost_paid"] -= 0.0 if call["cached"] else call["cost_uncached"]


def counts_lowered(statement, records):
    for one in attempts(records):
        one["attempt"]["model_calls"] = 1


def named_by_publisher(statement, records):
    records[0]["name"] = "GPT-5 with search"


def wrong_without_score(statement, records):
    wrong = next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"]))
    for score in wrong["scores"]:
        score["value"] = None


def score_left_out(statement, records):
    wrong = next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"]))
    wrong["scores"] = []


def wrong_failed(statement, records):
    """A wrong answer counts as a failure that is still open."""
    wrong = next(one for one in attempts(records) if any(score["value"] == 0 for score in one["scores"]))
    wrong["attempt"] |= {"status": "failed", "text": "", "reason": "no reply"}


def options_edited(statement, records):
    next(one for one in records if one["record"] == "question")["question"]["options"]["A"] = "none of them"


def rephrased(statement, records):
    """A question in other words; digest, hash, identity and fingerprint are made anew."""
    line = next(one for one in records if one["record"] == "question" and not one["question"]["cluster"])
    line["question"]["text"] = "Is it A?"
    line["digest"] = bundles.question_digest(msgspec.convert(line["question"], Question))
    keep_questions(records, {one["question"]["id"] for one in records if one["record"] == "question"}, None)


def benchmark_renamed(statement, records):
    for one in runs_of(records):
        one["run"]["benchmark"] = "medqa"


def scored_by(statement, records, name):
    for one in scored(records):
        one["scores"].append(one["scores"][0] | {"scorer": name, "value": 1.0})


def rule_of_fewer(statement, records):
    for one in runs_of(records):
        identify(one["run"], selection={"seed": 0, "limit": 5, "per_dataset": None, "of": 100})


def epochs_in_identity(statement, records):
    identify(records[0]["run"], epochs=3)


def fingerprint_kept(statement, records):
    records[0]["run"]["identity"]["question_only"] = True


def imported_by_name(statement, records):
    tokens_lowered(statement, records)
    for one in runs_of(records):
        one["run"]["origin"] = "imported"
    for attempt, call in calls_in(records):
        attempt["usage"] |= {"input": 0, "output": 0}
        call["usage"] = {"input": 0, "output": 0}


def set_stated(statement, records, path, value):
    """Another value in the statement."""
    *parents, last = path
    reduce(getitem, parents, statement["predicate"])[last] = value


agent_of_other_name = partial(agent_renamed, agent="ircot")
unknown_scorer = partial(scored_by, name="excellence")
reported_score = partial(scored_by, name="reported")
seed_chosen = partial(set_stated, path=("ragrounds", "seed"), value=17)
verdict_turned = partial(set_stated, path=("ragrounds", "figures", "findings.robust.kind"), value="ahead")
other_version = partial(set_stated, path=("harness", "version"), value="9.9")
claim_raised = partial(set_stated, path=("claims", 0, "threshold"), value="0.99")
dated_later = partial(set_stated, path=("evaluatedAt",), value="2036-01-01T00:00:00Z")


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
