"""What every screen, page and export shows of one store: each figure with its name, whose it is, and its text."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragrounds.evals.store.store import Store
from ragrounds.ui.trace.app import TraceApp
from tests.conftest import Cli
from tests.hospital import AGENTS, Hospital
from tests.ui.report.figures import sheets
from tests.ui.trace.seeing import press, screen, settle

Shown = tuple[str, str, float | str]
"""What it is, whose, and its value: exact, or as a screen writes it."""
Rows = Mapping[str, Mapping[str, str]]
"""First cell of a line → heading → cell."""
CELL = re.compile(r"\S+(?: \S+)*")
WRITTEN = re.compile(r"(?:≥ |at least )?[▲▼]?([-+]?)\$?(\d[\d,]*(?:\.\d+)?)(?: (k|M|ms|s))?")
SCALES = {"k": 1e3, "M": 1e6, "ms": 1e-3}


def bounds(value: float | str) -> tuple[float, float] | None:
    """Between which ends all numbers are written so; ``None`` for words."""
    if not isinstance(value, str):
        return value, value
    if (written := WRITTEN.fullmatch(value)) is None:
        return None
    sign, digits, unit = written.groups()
    scale = SCALES.get(unit, 1.0)
    number, half = scale * float(sign + digits.replace(",", "")), scale * 0.5001 / 10 ** len(digits.partition(".")[2])
    return number - half, number + half


def agree(values: Collection[float | str]) -> bool:
    """Whether all are written of one number, each to its last digit, or are the same words."""
    ends = [bounds(value) for value in values]
    if None in ends:
        return len(set(values)) == 1
    written = {(round(low + high, 9), round(high - low, 9)) for low, high in ends if low < high}
    nearest = max(low for low, _ in ends) <= min(high for _, high in ends) + 1e-9
    return nearest and len(written) == len({width for _, width in written})


def unlike(heads: Sequence[str]) -> list[str]:
    """Headings that can be told apart: the second of two equal ones has a '."""
    stripped = list(map(str.strip, heads))
    return [head + "'" * stripped[:place].count(head) for place, head in enumerate(stripped)]


def rows_of(text: str, head: str = "agent", after: str = "") -> Rows:
    """The lines of the first printed table after a title: a cell begins or ends where its heading does."""
    lines = text[text.index(after) :].splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"{head}  "))
    found = list(CELL.finditer(lines[at]))
    heads = dict(zip(unlike([head[0] for head in found]), (head.span() for head in found), strict=True))
    rows = {}
    for line in itertools.takewhile(str.strip, lines[at + 1 :]):
        cells = {}
        for found in CELL.finditer(line):
            begin, end = found.span()
            apart = {name: (abs(span[0] - begin), abs(span[1] - end)) for name, span in heads.items()}
            cells[min(heads, key=lambda name: (min(apart[name]), apart[name][1]))] = found[0]
        rows[cells.get(head, "")] = cells
    return rows


def sheet_rows(page: str, caption: str) -> Rows:
    """The lines of the table of a page whose caption begins so."""
    (sheet,) = [sheet for sheet in sheets(page.replace("\xa0", " ")) if sheet.caption.startswith(caption)]
    return {row[0]: dict(zip(unlike(sheet.heads), row, strict=True)) for row in sheet.rows}


def both_ends(what: str, whom: str, cell: str) -> Iterator[Shown]:
    """The two ends of an interval, if it is one."""
    ends = cell.split(" to ") if " to " in cell else cell.split("-")
    if len(ends) == 2:
        yield from ((f"{what}, {end}", whom, value) for end, value in zip(("low", "high"), ends, strict=True))


def difference(second: str, first: str, cell: str, interval: str) -> Iterator[Shown]:
    """A difference of two agents and its interval, the same from both sides."""
    turned = second < first
    values = [cell.lstrip("▲▼"), *(value for *_, value in both_ends("", "", interval))]
    if turned:
        values = [str(value).translate(str.maketrans("+-", "-+")) for value in (values[0], *values[:0:-1])]
    whom = " - ".join(sorted((second, first), reverse=True))
    for what, value in zip(("difference", "difference, low", "difference, high"), values, strict=False):
        yield what, whom, value


TABLE_1 = {"robust": "score", "facts": "facts", "$/100": "$ of 100 questions", "tokens": "tokens", "time": "time"}
OUTCOMES = {
    **{name: name for name in ("refused", "unreadable", "blocked", "failed")},
    **{name: name for name in ("paid", "full price", "judging", "in", "out")},
    "time": "time of all", "model calls": "model calls", "searches": "searches", "no answer": "without an answer",
}  # fmt: skip


def named(rows: Rows, agents: Collection[str], columns: Mapping[str, str]) -> Iterator[Shown]:
    """The cells of columns in the lines of agents; a lower bound is one on every screen."""
    for agent in agents:
        for head, what in columns.items():
            if cell := rows[agent].get(head):
                yield what, agent, cell
                if cell.startswith("≥") or what in ("paid", "full price", "$ of 100 questions"):
                    yield f"{what} is a lower bound", agent, str(cell.startswith("≥"))


def table_1(rows: Rows, agents: Collection[str]) -> Iterator[Shown]:
    yield from named(rows, agents, TABLE_1)
    best = next(iter(rows))
    for agent in agents:
        yield from both_ends("score", agent, rows[agent]["95 %"])
        if agent != best:
            yield from difference(agent, best, rows[agent]["diff."], rows[agent]["95 %'"])


def sentences(text: str, agents: Collection[str]) -> Iterator[Shown]:
    """What the sentences around Table 1 say in figures."""
    text = " ".join(text.replace("\xa0", " ").split())
    for count, agent, most, last in re.findall(r"Not answered[^:]*: (\d+) \((.+?)\) to (\d+) \((.+?)\)", text):
        yield "not answered", agent, count
        yield "not answered", last, most
    doubts = re.search(r"Not answered[^:]*: (?!\d)(.*?\d)\.(?= [A-Z4≥])", text)
    for part in doubts[1].split("; ") if doubts else ():
        agent = next(name for name in agents if part.startswith(name))
        for count in part.removeprefix(agent).strip().split(", "):
            yield (
                ("at best", agent, count.split()[-1])
                if "best" in count
                else (count.split()[1], agent, count.split()[0])
            )
    if bill := re.search(r"at least; ([\d,]+) requests? without", text):
        yield "without an answer", "all", bill[1]
    for agent, score in re.findall(r"([\w\[\]=]+) \((\d+\.\d\d)\) needs", text):
        yield "score", agent, score
    if best := re.search(r"reading\): (\S+) .*?: ([\d.]+) % for (at least \S+) per 100", text):
        yield "score", best[1], best[2]
        yield "$ of 100 questions", best[1], best[3]


def every_table(rows: Callable[[str], Rows], agents: Collection[str]) -> Iterator[Shown]:
    """The tables of `compare --full` and of a report's results."""
    scores, outcomes = rows("robust, percent"), rows("outcomes and cost")
    yield from named(scores, agents, {"sample": "score", "at best": "at best", "strict": "strict", "n": "questions"})
    yield from named(outcomes, agents, OUTCOMES)
    yield "without an answer", "all", sum(int(outcomes[agent]["no answer"]) for agent in agents)
    for agent in agents:
        yield "not answered", agent, sum(int(outcomes[agent][name]) for name in list(OUTCOMES)[:4])
        yield from both_ends("score", agent, scores[agent]["95 %"])
    for pair, cells in rows("paired differences under robust").items():
        if len(sides := pair.split(" - ")) == 2:
            yield from difference(*sides, cells["difference"], cells["95 %"])
    prices = rows("cost and accuracy under robust")
    yield from named(
        prices, agents, {"accuracy": "score", "cost": "$ of a question", "per correct": "$ of a right answer"}
    )


def exact(compared: Any, agents: Mapping[str, str]) -> Iterator[Shown]:
    """The figures of `compare --json`."""
    names = {run: agent for agent, run in agents.items()}
    tables = {table["scorer"]: table for table in compared["tables"]}
    for scorer, what in (("robust", "score"), ("facts", "facts"), ("strict", "strict")):
        for line in tables[scorer]["lines"] if scorer in tables else ():
            agent, overall = names[line["run"]], line["overall"]
            yield what, agent, 100 * overall["value"]
            if scorer == "robust":
                yield "score, low", agent, 100 * overall["low"]
                yield "score, high", agent, 100 * overall["high"]
                yield "at best", agent, 100 * overall["best"]
                yield "questions", agent, overall["n"]
                yield "$ of a question", agent, line["cost"]["dollars"]
                yield "$ of 100 questions", agent, 100 * line["cost"]["dollars"]
                yield "tokens", agent, line["cost"]["tokens"]
                yield "time", agent, line["cost"]["seconds"]
    for row in compared["rows"]:
        agent = names[row["run"]]
        yield "paid", agent, row["cost_paid"]
        yield "full price", agent, row["cost_uncached"]
        yield "paid with judging", agent, row["cost_paid"] + row["cost_judging"]
        yield "time of all", agent, row["seconds"]
        yield "made", agent, sum(row["statuses"].values())
        for status in ("blocked", "failed"):
            yield status, agent, row["statuses"].get(status, 0)


def tidy(text: str) -> Iterator[Shown]:
    """The figures of `compare --csv`."""
    totals = {"cost_paid": "paid", "cost_uncached": "full price", "cost_judging": "judging",
              "seconds a question": "time of all",
              "model calls": "model calls", "input tokens": "in", "output tokens": "out"}  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(text)))
    names = {row["run"]: row["name"] for row in rows}
    for row in rows:
        if row["figure"] == "total" and row["measure"] in totals:
            yield totals[row["measure"]], row["name"], float(row["value"])
        elif (row["figure"], row["scorer"], row["part"]) == ("score", "robust", ""):
            ends = {"score": "value", "score, low": "low", "score, high": "high", "at best": "best"}
            yield from ((what, row["name"], 100 * float(row[column])) for what, column in ends.items())
        elif (row["figure"], row["scorer"], row["part"]) == ("difference", "robust", ""):
            cells = [f"{100 * float(row[column]):+.6f}" for column in ("value", "low", "high")]
            yield from difference(row["name"], names[row["against"]], cells[0], f"{cells[1]} to {cells[2]}")


def latex_rows(text: str) -> Rows:
    """The lines of a LaTeX table."""
    for written, plain in {
        r"$\geq$": "≥",
        "$-$": "-",
        r"$\downarrow$": "",
        r"$\uparrow$": "",
        "--": "-",
        r"{[}": "[",
        r"{]}": "]",
    }.items():
        text = text.replace(written, plain)
    lines = [line.strip().removesuffix(r"\\").replace("\\", "") for line in text.splitlines() if " & " in line]
    heads, *rows = [[cell.strip() for cell in line.split("&")] for line in lines]
    return {row[0]: dict(zip(unlike(heads), row, strict=True)) for row in rows}


def listed(text: str, agents: Collection[str]) -> Iterator[Shown]:
    """The lines of `runs ls`."""
    rows = {cells["agent"]: cells for cells in rows_of(text, "run").values()}
    columns = ("paid", "full price", "judging", "failed")
    yield from named(
        rows, agents, {"robust %": "score", "done": "made", "time": "time of all", **{name: name for name in columns}}
    )
    yield "runs", "all", len(rows)
    yield "attempts", "all", sum(int(cells["done"]) for cells in rows.values())


def one_run(text: str, agent: str) -> Iterator[Shown]:
    """The page of `runs show`."""
    text = " ".join(text.split())
    score = re.search(r"score \(robust\) ([\d.]+) % \(95 %: ([\d.]+) to ([\d.]+)\), (\d+) questions", text)
    yield from zip(("score", "score, low", "score, high", "questions"), (agent,) * 4, score.groups(), strict=True)
    counts = re.search(r"attempts ([\d\w, ]+?) calls ([\d,]+) model", text)
    yield "model calls", agent, counts[2]
    for count in counts[1].split(", "):
        yield count.split()[1], agent, count.split()[0]
    for what in ("paid", "full price"):
        cost = re.search(rf"{what} (≥ )?(\$[\d.]+)", text)
        yield what, agent, cost[2]
        yield f"{what} is a lower bound", agent, str(bool(cost[1]))
    unanswered = re.search(r"([\d,]+) requests? without an answer", text)
    yield "without an answer", agent, unanswered[1] if unanswered else "0"
    if judging := re.search(r"judging (\S+) paid", text):
        yield "judging", agent, judging[1]
    tokens, seconds = re.search(r"tokens (.+?) in, (.+?) out", text), re.search(r"time a question ([\d.]+ m?s)", text)
    yield from (("in", agent, tokens[1]), ("out", agent, tokens[2]), ("time of all", agent, seconds[1]))


async def viewer(home: Path, agents: Collection[str]) -> list[Shown]:
    """The home of the viewer; a filter's preview, and how many attempts the list then has."""
    shown: list[Shown] = []
    with Store(home) as store:
        app = TraceApp(store)
        async with app.run_test(size=(150, 45)) as pilot:
            await settle(pilot)
            text = screen(app)
            for agent in agents:
                row = re.search(
                    rf"│ +{re.escape(agent)} .*?(?:(\d+) failed)?"
                    r" +([\d.]+) +(\d+)-(\d+) +(?:≥ )?(\$\S+)",
                    text,
                )
                shown += zip(
                    ("failed", "score", "score, low", "score, high", "$ of 100 questions"),
                    (agent,) * 5,
                    (row[1] or "0", *row.groups()[1:]),
                    strict=True,
                )
            shown += sentences(re.sub(r" *│.*", "", text[text.index("Accuracy (") :]), agents)
            shown.append(("runs", "all", re.search(r"(\d+) runs", text)[1]))
            await press(pilot, "enter", "1", "f", *"failed")
            preview = re.search(r"(\d+) of (\d+) attempts", screen(app))
            await press(pilot, "enter")
            listing = re.search(r"of (\d+) \(all: (\d+)\)", screen(app).splitlines()[0])
            for found in (preview, listing):
                shown += [("failed", "all", found[1]), ("attempts", "all", found[2])]
    return shown


def of_model(hospital: Hospital, key: str, model: str) -> Iterator[Shown]:
    """What `judge` says of a judge."""
    printed = " ".join(" ".join(hospital.printed[key]).split())
    bill = re.search(
        r"([\d,]+) scores missing\. ([\d,]+) model calls: .*? paid (\$[\d.]+), full price (\$[\d.]+)\.", printed
    )
    yield from zip(("without a score", "calls", "paid", "full price"), (model,) * 4, bill.groups(), strict=True)


def arena_screen(text: str, *, full: bool = True) -> Iterator[Shown]:
    """The first axis of an arena, in `arena show`, with --full, and in a report. Each wording must be there."""
    text = " ".join(text.split())
    patterns = [
        ("matches without a verdict", r"No ranking: (\d+) match(?:es)? ha(?:s|ve) no verdict"),
        ("matches without a verdict", r"openai:judge\S*: (\d+) matches with a missing verdict:"),
    ]
    if full:
        patterns += [
            ("matches without a verdict", r"usefulness: \d+ matches, (\d+) without a verdict"),
            ("matches", r"usefulness: (\d+) matches,"),
        ]
    yield from ((what, "arena", re.search(pattern, text)[1]) for what, pattern in patterns)


def judging(
    hospital: Hospital, command: Cli, agents: Mapping[str, str], page: str
) -> Iterator[tuple[str, list[Shown]]]:
    """Screens of judges, the arena and the counterfactual, and the ledger of what they took."""
    first, second, third, _ = agents
    by_model = json.loads(command("ledger", "--by", "node,model", "--json").stdout)["lines"]
    lines = {(line["node"], line["model"].partition("[")[0]): line for line in by_model}
    fields = (("calls", "model_calls"), ("paid", "cost_paid"), ("full price", "cost_uncached"))
    nodes = (("judge", "openai:judge"), ("judge", "openai:nodder"), ("arena", "openai:judge"))
    yield (
        "ledger --by node,model",
        [
            (what, "arena" if node == "arena" else model, lines[node, model][field])
            for node, model in nodes
            for what, field in fields
        ],
    )
    yield "judge", [*of_model(hospital, "judge", "openai:judge"), *of_model(hospital, "nodder", "openai:nodder")]
    compared = json.loads(command("compare", first, second, "--scorer", "equivalent", "--json").stdout)
    missing = sum(line["overall"]["missing"] for line in compared["tables"][0]["lines"])
    withheld = " ".join(command("compare", third, "--scorer", "equivalent").stdout.split())
    hidden = re.findall(
        r"withheld, as the judge fails its probes; (\d+) questions|(\d+) without a score \(withheld\)", withheld
    )
    command("report", third, "--scorer", "equivalent", "--out", "withheld.html")
    (in_report,) = re.findall(
        r"(\d+) questions under equivalent are withheld", Path("withheld.html").read_text(encoding="utf-8")
    )
    yield (
        "compare --scorer equivalent",
        [
            ("without a score", "openai:judge", missing),
            *(("without a score", "openai:nodder", "".join(counts)) for counts in hidden),
        ],
    )
    yield "report --scorer equivalent", [("without a score", "openai:nodder", in_report)]

    shown, full = command("arena", "show").stdout, command("arena", "show", "--full").stdout
    wins = rows_of(shown, "#", "usefulness: won-tied-lost")
    first_wins = [cells for number, cells in wins.items() if number.isdecimal()]
    outcomes = [int(count) for cells in first_wins for count in re.findall(r"\d+", " ".join(list(cells.values())[2:]))]
    yield "arena show", [*arena_screen(shown, full=False), ("matches", "arena", sum(outcomes) / 2)]
    took = next(iter(rows_of(full, "judge", "what judging took").values()))
    decided = next(iter(rows_of(full, "judge", "usefulness: judges").values()))
    yield (
        "arena show --full",
        [
            *arena_screen(full),
            *named({"arena": took}, ["arena"], {"model calls": "calls", "paid": "paid", "full price": "full price"}),
        ],
    )
    yield (
        "arena show --full, judges",
        [("matches", "arena", decided["matches"]), ("matches without a verdict", "arena", decided["missing"])],
    )
    yield "report, arena", arena_screen(re.sub("<[^>]+>", " ", page.partition('<section id="arena">')[2]))
    live = re.search(
        r"(\d+) matches, (\d+) judge calls, (\S+), .*? (\d+) without a verdict", hospital.printed["arena"][1]
    )
    yield "arena play", [
        ("matches", "arena", int(live[1]) - int(live[4])), ("calls", "arena", live[2]), ("paid", "arena", live[3]),
        ("matches without a verdict", "arena", live[4]),
    ]  # fmt: skip

    printed, progress = hospital.printed["counterfactual"]
    counts = json.loads([line for line in progress.splitlines() if line.startswith("{")][-1])["runs"].values()
    by_run = json.loads(command("ledger", "--by", "run", "--json").stdout)["lines"]
    changed = [line for line in by_run if line["run"] not in agents.values() and not line["run"].startswith("arena")]
    yield "counterfactual, live", [
        ("attempts", "counterfactual", sum(count["done"] for count in counts)), ("counterfactuals", "all", len(counts)),
    ]  # fmt: skip
    yield "counterfactual, planned", [("attempts", "counterfactual", sum(count["total"] for count in counts))]
    yield (
        "ledger --by run",
        [
            ("counterfactuals", "all", len(changed)),
            ("calls", "counterfactual", sum(line["model_calls"] - line["reused"] for line in changed)),
        ],
    )
    yield (
        "counterfactual",
        [("calls", "counterfactual", re.search(r"Model calls: (\d+) new", " ".join(printed.split()))[1])],
    )
    for screen_name, rows in (
        ("counterfactual", rows_of(printed, "change")),
        ("report, behaviour", sheet_rows(page.partition('<section id="behaviour">')[2].partition("</section>")[0], "")),
    ):
        yield (
            screen_name,
            [
                ("effect", change, cells["points"])
                for change, cells in rows.items()
                if change in ("none", "drop[passage=gold]")
            ],
        )


def screens(hospital: Hospital, command: Cli) -> Iterator[tuple[str, Iterable[Shown]]]:
    """Every screen, page and export with the figures that it shows."""
    overviews = json.loads(command("runs", "ls", "--json").stdout)["runs"]
    agents = {entry["name"] or entry["run"]["agent"]: entry["run"]["id"] for entry in overviews}
    agents = {agent: agents[agent] for agent in AGENTS}
    yield (
        "runs ls --json",
        [
            ("score", agent, 100 * entry["score"])
            for entry in overviews
            for agent, run in agents.items()
            if run == entry["run"]["id"]
        ],
    )
    runs = list(agents.values())
    printed = {
        name: command("compare", *runs, *option).stdout
        for name, option in (("compare", []), ("compare --full", ["--full"]))
    }
    compared = json.loads(command("compare", *runs, "--json").stdout)
    yield "compare --json", exact(compared, agents)
    yield "compare --csv", tidy(command("compare", *runs, "--csv").stdout)
    for name, text in (("run", hospital.printed["run"][0]), ("compare", printed["compare"])):
        yield name, table_1(rows_of(text), agents)
        yield f"{name}, sentences", sentences(text, agents)
    yield (
        "compare --full",
        every_table(
            lambda title: rows_of(
                printed["compare --full"], "2nd - 1st" if title.startswith("paired") else "agent", title
            ),
            agents,
        ),
    )
    latex = latex_rows(command("compare", *runs, "--latex").stdout)
    yield "compare --latex", [*table_1(latex, agents), *named(latex, agents, {"$/right": "$ of a right answer"})]
    command("report", *runs, "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8").replace("\xa0", " ")
    yield "report, abstract", table_1(sheet_rows(page, "sample · "), agents)
    yield (
        "report, sentences",
        sentences(
            re.sub("<[^>]+>", " ", page.partition('<section id="abstract">')[2].partition("</section>")[0]), agents
        ),
    )
    yield "report, results", every_table(lambda title: sheet_rows(page, title), agents)
    yield "report, incomplete", incomplete(page, agents)
    command("publish", "site", *runs)
    board = Path("site/index.html").read_text(encoding="utf-8").replace("\xa0", " ")
    ranking = sheet_rows(board, "4 runs")
    yield (
        "leaderboard",
        named(
            ranking,
            agents,
            {
                "robust, %": "score",
                "strict, %": "strict",
                "paid": "paid",
                "full price": "full price",
                "judging": "judging",
            },
        ),
    )
    yield (
        "leaderboard, intervals",
        [value for agent in agents for value in both_ends("score", agent, ranking[agent]["95 %"])],
    )
    yield "leaderboard, incomplete", incomplete(board, agents)
    yield "runs ls", listed(command("runs", "ls").stdout, agents)
    for agent, run in agents.items():
        yield "runs show", one_run(command("runs", "show", run).stdout, agent)
    yield "viewer", asyncio.run(viewer(hospital.home, agents))
    attempts = json.loads(command("trace", *runs, "--format", "json").stdout)["attempts"]
    outcomes = Counter((attempt["outcome"], attempt["run"]) for attempt in attempts)
    yield "trace", [
        ("attempts", "all", len(attempts)),
        *((status, agent, outcomes[status, run]) for agent, run in agents.items() for status in list(OUTCOMES)[:4]),
    ]  # fmt: skip
    yield (
        "trace --where failed",
        [
            (
                "failed",
                "all",
                len(json.loads(command("trace", *runs, "--where", "failed", "--format", "json").stdout)["attempts"]),
            )
        ],
    )
    costs = rows_of(command("ledger", "--by", "run").stdout, "run")
    yield "ledger --by run, text", [("paid with judging", agent, costs[run]["paid"]) for agent, run in agents.items()]
    whole = [
        rows_of(command("ledger", *by).stdout, by[1].partition(",")[0])
        for by in (("--by", "run"), ("--by", "role"), ("--by", "model"))
    ]
    for number, rows in enumerate(whole):
        yield (
            f"ledger, by another key {number}",
            named(
                rows,
                ["all"],
                {
                    "model calls": "model calls",
                    "paid": "paid of all",
                    "full price": "full price of all",
                    "in": "in",
                    "out": "out",
                },
            ),
        )
    store = json.loads(command("doctor", "--json").stdout)["store"]
    diagnosed = re.search(r"(\d+) runs(?: and (\d+) of their counterfactuals)?", store)
    yield (
        "doctor",
        [("runs", "all", diagnosed[1]), *([("counterfactuals", "all", diagnosed[2])] if diagnosed[2] else [])],
    )
    best, last = max(overviews, key=lambda entry: entry["score"])["run"]["id"], agents["Hospital app"]
    Path("policy.toml").write_text(
        f'[runs]\nbest = "{best}"\nlast = "{last}"\n[critical]\ngood = "accuracy(best) > 0.01"\n'
        'better = "accuracy(best) - accuracy(last) > -0.99"\n'
    )
    rules = json.loads(command("gate", "policy.toml", "--json").stdout)["rules"]
    values = {rule["name"]: 100 * rule["claim"]["conditions"][0]["value"] for rule in rules}
    names = {run: agent for agent, run in agents.items()}
    apart = difference(names[best], "Hospital app", f"{values['better']:+.6f}", "")
    yield "gate", [("score", names[best], values["good"]), *apart]
    if "judge" in hospital.printed:
        yield from judging(hospital, command, agents, page)


def incomplete(page: str, agents: Collection[str]) -> Iterator[Shown]:
    """What the box at the top of a page says is missing."""
    text = " ".join(re.sub("<[^>]+>", " ", page).split())
    total, by_agent = re.search(r"(\d+) attempts? failed; they count as not correct \((.*?)\)\.", text).groups()
    yield "failed", "all", total
    for part in by_agent.split("; "):
        agent, count = re.fullmatch(r"(.*): (\d+) of \d+", part).groups()
        yield "failed", agent, count
