"""All strategies on the same questions in one run: calls, calls shared, tokens, time, failures; their frontier.

    python perf/strategies.py DATA [--limit N] [--write]

MIRAGE's PubMedQA* questions (DATA/mirage/benchmark.json), searched for in DATA/beir/pubmedqa_1k, on a model on loopback
that follows every strategy's formats and knows nothing. It is right in 55 of 100 questions, and in 80 where a
sentence of the question's own abstract stands in its prompt, less up to 10 as the prompt grows to 64,000 characters.
So the frontier shows what strategies find and spend; no figure in it is a result of a model. --write makes
perf/strategies.md and docs/pictures/strategies.svg.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # and not this folder, whose coverage.py numba would take for the package
os.environ.setdefault("RAGROUNDS_CONFIG", os.devnull)

import ragrounds as rr  # noqa: E402
from ragrounds.api.agents import list_agents  # noqa: E402
from ragrounds.evals.analyses.analysis import AnalysisOptions, analyse  # noqa: E402
from ragrounds.evals.compare.figures import Figure  # noqa: E402
from ragrounds.evals.store.ledger import ledger  # noqa: E402
from ragrounds.evals.store.store import Store  # noqa: E402
from ragrounds.extensions.stand_in import replies as stand_in  # noqa: E402
from ragrounds.extensions.stand_in.server import serve_stand_in  # noqa: E402

PAGE, PICTURE = ROOT / "perf" / "strategies.md", ROOT / "docs" / "pictures" / "strategies.svg"
LEFT_OUT = {"native_search": "it needs a provider's own search", "query_generation": "it writes queries, no answers"}
MORE: tuple[str, ...] = ()
"""Agents beside those that ship under a name."""
KNOWN, FOUND, LESS, LONG = 0.55, 0.80, 0.10, 64_000
NAMES = {"A": "yes", "B": "no", "C": "maybe"}
"""The options of every question, in the file's order."""
WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
HEAD = [
    "# All strategies on the same questions",
    "",
    f"{datetime.now(UTC):%Y-%m-%d}. `python perf/strategies.py DATA --write`: MIRAGE's PubMedQA* questions, 1,000 "
    "abstracts, and a model on loopback that follows every strategy's formats by a rule. It is right in "
    f"{100 * KNOWN:.0f} of 100 questions, and in {100 * FOUND:.0f} where a sentence of the question's own abstract "
    f"stands in its prompt, less up to {100 * LESS:.0f} as the prompt grows to {LONG:,} characters. **No figure here "
    "is a result of a model**: it shows that all of them run, what they share, find and spend.",
    "",
]
WORDS = [
    "Model calls are those that strategies need; *shared* ones were answered from the journal, mostly as another "
    "strategy had sent the same prompt. Left out: "
    + "; ".join(f"`{name}` ({why})" for name, why in LEFT_OUT.items())
    + ".",
    "",
    "What they did (`ragrounds analyse trajectories`):",
]


# The model. It takes the stand-in's place where a letter is chosen or where a strategy's form is its own.
class Model:
    """A rule that answers, and every form that strategies ask for."""

    def __init__(self, data: Path) -> None:
        texts = {}
        for line in (data / "beir" / "pubmedqa_1k" / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
            document = json.loads(line)
            texts[document["_id"]] = document["text"]
        asked = json.loads((data / "mirage" / "benchmark.json").read_text(encoding="utf-8"))["pubmedqa"].values()
        self.gold = {one["question"]: (one["answer"], _sentences(texts[str(one["PMID"][0])])) for one in asked}
        self.times: Counter[str] = Counter()
        self.said_else, self.chosen_else = stand_in._reply_text, stand_in._best_letter

    def question(self, turns: stand_in.Turns) -> str:
        """The question that a conversation is about."""
        named = stand_in._question(turns)
        if named in self.gold:
            return named
        everything = "\n".join(text for _, text in turns)
        return max((one for one in self.gold if one in everything), key=len, default=named)

    def found(self, question: str, text: str) -> bool:
        """Whether a sentence of the question's own abstract stands in a text."""
        return any(sentence in text for sentence in self.gold.get(question, ("", ()))[1])

    def letter(self, turns: stand_in.Turns, model: str) -> str:
        """The letter that is answered. Whether it is right goes by the question in three of four prompts, and in the
        others by the prompt and by how often it came, so that votes are worth something."""
        question, everything = self.question(turns), "\n".join(text for _, text in turns)
        options = dict(stand_in._OPTION.findall(stand_in._section(turns[-1][1], "Options") or everything))
        if question not in self.gold or len(options) != len(NAMES):
            return self.chosen_else(turns, model)
        self.times[everything] += 1
        own = stand_in._hash_number(everything, str(self.times[everything]))
        drawn = (stand_in._hash_number(question) if own % 4 else stand_in._hash_number(str(own))) % 10_000 / 10_000
        chance = FOUND - LESS * min(1.0, len(everything) / LONG) if self.found(question, everything) else KNOWN
        right = NAMES[self.gold[question][0]]
        other = min(set(NAMES.values()) - {right}, key=lambda one: stand_in._hash_number(question, one))
        return {text.strip(): letter for letter, text in options.items()}[right if drawn < chance else other]

    def said(self, turns: stand_in.Turns, model: str) -> str:
        """The reply to a conversation."""
        everything = "\n\n".join(text for _, text in turns)
        for form, reply in FORMS.items():
            if re.search(form, everything):
                return reply(self, turns, everything)
        return self.said_else(turns, model)


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in re.split(r"(?<=[.!?])\s|\n", text) if len(one) >= 40)


def _fact(model: Model, turns: stand_in.Turns) -> str:
    """The sentence that was shown and shares most with the question, which is none itself."""
    question, shown = (
        model.question(turns),
        "\n".join(text for role, text in turns if role not in ("system", "assistant")),
    )
    sentences = [one for one in _sentences(shown) if question not in one]
    return max(sentences or [question], key=lambda one: stand_in._share(question, one))


def _scores(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """CRAG's grades: the passage with the abstract's sentences is relevant."""
    number = int(re.search(r"list of (\d+) numbers", everything)[1])  # type: ignore[index]
    passages = re.split(r"(?m)^Document \[\d+\]", stand_in._section(turns[-1][1], "Documents"))[1:]
    graded = [0.9 if model.found(model.question(turns), one) else -0.999 for one in passages]
    return json.dumps({"scores": [*graded, *[-0.999] * number][:number]})


def _sentence(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """IRCoT's next sentence."""
    question, before = model.question(turns), stand_in._section(turns[-1][1], "Reasoning so far")
    said = len(re.findall(r"[.?!](?:\s|$)", before))
    shown = [one for one in _sentences(stand_in._section(turns[-1][1], "Documents")) if one not in before]
    fact = max(shown or [question], key=lambda one: stand_in._share(question, one))
    return f"So the answer is: {fact}" if said > stand_in._hash_number(question) % 3 else fact


def _follow_up(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """Self-ask's next line."""
    question = model.question(turns)
    begun = everything.count("Follow up:") - 3  # the instruction's and the example's
    if begun > stand_in._hash_number(question) % 2 or "now." in turns[-1][1][-60:]:
        return f"So the final answer is: {_fact(model, turns)}"
    words = stand_in._query(question).split()
    return f"Yes.\nFollow up: What is known of {' '.join(words[begun * 3 : begun * 3 + 4]) or question}?\n"


def _query_tags(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """R1-Searcher's form."""
    if any(role == "assistant" for role, _ in turns):
        return f"<think>That was found.</think>\n<answer>{_fact(model, turns)}</answer>"
    query = stand_in._query(model.question(turns))
    return f"<think>The stand-in looks it up. <|begin_of_query|> {query} <|end_of_query|>"


def _number(everything: str, default: int = 3) -> int:
    """The last number that a prompt asks for."""
    found = re.findall(r"\b(\d+) (?:fields|medical experts|strings|teams)\b", everything)
    return int(found[-1]) if found else default


def _experts(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """Of MedAgents and MDAgents."""
    return json.dumps({"experts": FIELDS[: _number(everything)]})


def _teams(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """Of MDAgents."""
    teams = [{"purpose": f"review {at}", "members": FIELDS[at : at + 3]} for at in range(_number(everything))]
    return json.dumps({"teams": teams})


def _written_on(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """FLARE's answer, by instruction: a search, then a fact, then the end."""
    if not stand_in._section(turns[-1][1], "Answer so far").strip("() "):
        return f"It has to be looked up. [Search({stand_in._query(model.question(turns))})]"
    return f"{_fact(model, turns)} So the question is settled."


def _marked(model: Model, turns: stand_in.Turns, everything: str) -> str:
    """Self-RAG's part of an answer, with its marks."""
    shown, part = stand_in._section(turns[-1][1], "Documents"), _fact(model, turns)
    if model.found(model.question(turns), shown):
        return f"[Relevant] {part} [Fully supported] [Utility:5]"
    return f"[Irrelevant] {part} [No support / Contradictory] [Utility:2]"


FIELDS = ["cardiology", "epidemiology", "paediatrics", "surgery", "radiology", "neurology", "oncology", "pharmacology"]
Form = Callable[[Model, stand_in.Turns, str], str]
FORMS: dict[str, Form] = {
    r'one key, "scores"': _scores,
    r"letter A, B or C alone": lambda model, turns, _: "ABC"[stand_in._hash_number(model.question(turns)) % 3],
    r"The one sentence|the one sentence that comes next": _sentence,
    r"Are follow up questions needed here": _follow_up,
    r'one key, "candidates"': lambda *_: json.dumps({"candidates": ["yes", "no", "maybe"]}),
    r"Passage 1 or Passage 2 alone": lambda model, turns, everything: (
        f"Passage {1 + stand_in._hash_number(everything) % 2}"
    ),
    r"one word: True or False": lambda model, turns, everything: str(stand_in._hash_number(everything) % 3 > 0),
    r"<\|begin_of_query\|> keywords": _query_tags,
    r'"critique", a string': lambda model, turns, everything: json.dumps(
        {"critique": "A step does not follow.", "accept": stand_in._hash_number(everything) % 2 > 0}
    ),
    r'one key, "experts"': _experts,
    r'one key, "teams"': _teams,
    r"one word: YES or NO": lambda model, turns, everything: (
        "NO" if stand_in._hash_number(everything) % 4 == 0 else "YES"
    ),
    r"one word: low, moderate or high": lambda model, turns, _: ("low", "moderate", "high")[
        stand_in._hash_number(model.question(turns)) % 3
    ],
    r'"to", a list of': lambda model, turns, everything: json.dumps(
        {"to": [1] if stand_in._hash_number(everything) % 12 == 0 else [], "message": _fact(model, turns)}
    ),
    r"\[Search\(what you want": _written_on,
    r"Reply with \[Retrieval\] if": lambda model, turns, _: (
        "[No Retrieval]" if stand_in._hash_number(model.question(turns)) % 5 == 0 else "[Retrieval]"
    ),
    r"\[Relevant\] if the document helps": _marked,
    r'"confidence", a number': lambda model, turns, everything: json.dumps(
        {"confidence": 40 + stand_in._hash_number(everything) % 61}
    ),
    r'one key: "best"': lambda *_: json.dumps({"best": 1}),
}
"""What a prompt demands → how it is answered, where the stand-in does not know the form."""


@contextmanager
def served(data: Path, port: int):
    """The address of the model, in a process of its own."""
    command = [sys.executable, __file__, str(data), "--serve", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()  # type: ignore[union-attr]
        finally:
            process.terminate()


def serve(data: Path, port: int) -> None:
    """Be the model."""
    model = Model(data)
    stand_in._best_letter, stand_in._reply_text = model.letter, model.said
    serve_stand_in(port, lambda url: print(url, flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--agents", nargs="*", help="these alone")
    parser.add_argument("--home", type=Path, help="keep the store here; the page has all agents in it")
    parser.add_argument("--port", type=int, default=0, help="of the model; calls are known by its address")
    parser.add_argument("--again", action="store_true", help="make them anew in a kept store, with new calls")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.data, given.port)
    else:
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Run all, and print or write the page."""
    agents = given.agents or [*sorted(set(list_agents()) - set(LEFT_OUT)), *MORE]
    with tempfile.TemporaryDirectory(prefix="ragrounds-strategies-") as folder:
        home = given.home or Path(folder)
        os.environ["RAGROUNDS_HOME"] = str(home)
        began = time.monotonic()
        with served(given.data, given.port) as url:
            rr.run(
                f"mirage/pubmedqa:{given.data / 'mirage' / 'benchmark.json'}",
                agents,
                corpus=f"beir:{given.data / 'beir' / 'pubmedqa_1k'}",
                model="openai:loopback",
                base_url=[url],
                limit=given.limit,
                new=given.again,
                journal="fresh" if given.again else "reuse",
                confirmed=True,
                progress=False,
            )
        used = [resource.getrusage(who) for who in WHO]
        spent = [time.monotonic() - began, sum(one.ru_utime + one.ru_stime for one in used), 1]
        before = home / "spent.json"  # of commands that this one resumes
        if before.exists():
            spent = [one + other for one, other in zip(spent, json.loads(before.read_text()), strict=True)]
        before.write_text(json.dumps(spent))
        wall, processor, commands = spent
        with Store(home) as store:
            runs = list({run.agent: run for run in sorted(store.runs(), key=lambda run: run.created)}.values())
            total, done = ledger(store, runs, ("run",)).total, tables(store, runs)
        lines = [
            f"{len(runs)} strategies × {runs[0].count} questions: {total.model_calls:,} model calls needed, "
            f"{total.model_calls - total.reused:,} made, {total.reused:,} answered from the journal; "
            f"{total.searches:,} searches; {total.usage and total.usage.input + total.usage.output:,} tokens; "
            f"{total.failed:,} calls failed. {wall:,.0f} s, {processor:,.0f} s of processor time, the model's too"
            f"{f', over {commands} commands on one store' if commands > 1 else ''}; load "
            f"{os.getloadavg()[1]:.0f} on {os.cpu_count()} processors.",
            "",
            *done,
        ]
        text = "\n".join([*HEAD, *lines, ""])
        sys.stdout.write(text)
        if given.write:
            PAGE.write_text(text, encoding="utf-8")
            draw = [
                "compare",
                *(run.id for run in runs if run.agent != "oracle"),
                "--cost",
                "tokens",
                "--plot",
                str(PICTURE),
            ]
            command = [sys.executable, "-m", "ragrounds", *draw, "--picture", "frontier"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=ROOT)


def tables(store: Store, runs: list[rr.Run]) -> list[str]:
    """What each strategy took, and what it did."""
    runs = sorted(runs, key=lambda run: run.agent != "direct_cot")  # what answers are set against
    done = {one.run: one for one in analyse("trajectories", store, runs, AnalysisOptions(scorer="mirage")).record}
    cost = {line.run: line for line in ledger(store, runs, ("run",)).lines}
    runs = sorted(runs, key=lambda run: -(done[run.id].right.value or 0.0))
    first = [
        "| strategy | right, % | model calls | of them shared | searches | tokens a question | s an attempt | failed |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    second = [
        "| strategy | queries | documents | found gold | repeated | changed | × shortest | ended |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for run in runs:
        one, line, name = done[run.id], cost[run.id], run.agent.replace("|", "\\|")
        attempts = list(store.attempts(run))
        broken = sum(attempt.status != "completed" for attempt in attempts)
        seconds = fmean(attempt.seconds for attempt in attempts)
        tokens = sum(one.tokens.values()) if one.tokens is not None else math.nan
        first.append(
            f"| `{name}` | {100 * one.right.value:.1f} ({100 * one.right.low:.0f}–{100 * one.right.high:.0f}) | "
            f"{line.model_calls:,} | {line.reused:,} | {line.searches:,} | {tokens:,.0f} | {seconds:.2f} | {broken} |"
        )
        ended = Counter(one.ended).most_common()
        second.append(
            f"| `{name}` | {one.queries:.1f} | {'–' if one.documents is None else f'{one.documents:.1f}'} | "
            f"{share(one.gold)} | "
            f"{'–' if one.repeated is None else f'{100 * one.repeated:.1f} %'} | {share(one.changed)} | "
            # A strategy that answered no question right has none to compare its steps with.
            f"{'–' if one.over_shortest is None else f'{one.over_shortest:.1f}'} | "
            f"{', '.join(f'{count} {end}' for end, count in ended)} |"
        )
    return [*first, "", *WORDS, "", *second]


def share(figure: Figure | None) -> str:
    """A share as percent."""
    return "–" if figure is None or figure.value is None else f"{100 * figure.value:.1f} %"


if __name__ == "__main__":
    main()
