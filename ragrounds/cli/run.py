"""`ragrounds run`: replay a benchmark through agents, score it, compare them.

`ragrounds run --display viewer`: the trace viewer in front, the run going on behind it.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from ragrounds.cli.common import one_of
from ragrounds.errors import UserError
from ragrounds.ui.progress import LineProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.contracts import FinishedAttempt
    from ragrounds.evals.benchmarks import Benchmark
    from ragrounds.evals.compare.comparison import Comparison
    from ragrounds.evals.engine.plan import PlannedRun
    from ragrounds.evals.engine.progress import ReplayProgress
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Question, Run


SAMPLE_AGENTS = ["direct", "vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"]
"""What `ragrounds run` compares where nothing is named."""


def run_command(
    benchmark: str = typer.Option("sample", help="A benchmark: sample, mirage/pubmedqa, mirage:benchmark.json, …"),
    agent: list[str] = typer.Option([], help="An agent, name[key=value,…] (repeatable). See `ragrounds agents`."),
    model: str | None = typer.Option(
        None, help="provider:model[temperature=0,…]: openai:gpt-4o-mini, anthropic:…; vllm:NAME starts a server for it."
    ),
    base_url: list[str] = typer.Option(
        [], help="An OpenAI-compatible server (vLLM, Ollama, llama.cpp, …); repeat it for several that share the calls."
    ),
    corpus: str | None = typer.Option(None, help="What agents search: beir:FOLDER, an index by name, or sample."),
    limit: int | None = typer.Option(None, min=1, help="Only so many questions, drawn by --seed."),
    per_dataset: int | None = typer.Option(
        None, min=1, help="Only so many questions of each dataset, drawn by --seed."
    ),
    seed: int = typer.Option(0, help="Seed of the sample."),
    epochs: int = typer.Option(1, min=1, help="How often each question is asked."),
    temperature: float | None = typer.Option(None, help="Sampling temperature (or inside --model)."),
    top_p: float | None = typer.Option(None, help="Nucleus sampling (or inside --model)."),
    answer_tokens: int | None = typer.Option(None, min=1, help="Longest answer in tokens (max_tokens inside --model)."),
    timeout: float | None = typer.Option(None, min=0.1, help="Seconds that one call may take. [default: 600]"),
    concurrency: int | None = typer.Option(None, min=1, help="Attempts in flight. [default: 16]"),
    rpm: float | None = typer.Option(None, help="Requests a minute to one server, at most (or inside --model)."),
    tpm: float | None = typer.Option(None, help="Tokens a minute, in and out, at most (or inside --model)."),
    workers: int | None = typer.Option(
        None, min=1, help="Processes that share the work and its limits. [default: 1; with --engine ray one a node]"
    ),
    engine: str = typer.Option("local", help="Where workers are: local (this machine), ray (a cluster)."),
    max_cost: float | None = typer.Option(
        None, min=0, help="Dollars to spend; the questions that are begun are finished."
    ),
    max_tokens: int | None = typer.Option(None, min=0, help="Tokens to use in this command, in and out."),
    max_time: float | None = typer.Option(None, min=0, help="Seconds that the run may take."),
    until: str | None = typer.Option(
        None, help="End when a claim is decided: 'separated(A, B) @ 95%'; questions come in an order drawn by --seed."
    ),
    max_questions: int | None = typer.Option(None, min=1, help="With --until: questions to ask at most."),
    order: str | None = typer.Option(
        None, help="given; or shared: questions that share a source follow each other, for a server's prefix cache."
    ),
    yes: bool = typer.Option(False, "--yes", help="Do not ask where the projection is above the settings' threshold."),
    new: bool = typer.Option(False, "--new", help="Start another run instead of going on with the same one."),
    journal: str = typer.Option("reuse", help="Recorded calls: reuse, replay (no network; a miss is an error), fresh."),
    display: str | None = typer.Option(
        None, help="Progress: full, plain, json, none; viewer opens the trace viewer. [default: by terminal]"
    ),
    as_json: bool = typer.Option(False, "--json", help="The comparison as JSON on stdout."),
    only_run: str | None = typer.Option(None, hidden=True, help="The run to go on with: `ragrounds runs resume`."),
) -> None:
    """Replay a benchmark through agents, score every answer, and compare the agents on accuracy and cost.

    Without options: the built-in baseline on the sample benchmark; no key, no network.

    The same command goes on where an interrupted run stopped. Recorded calls are never paid twice.

    Examples:

      ragrounds run

      ragrounds run --benchmark mirage:benchmark.json --agent direct_cot --agent 'vanilla_rag[top_k=8]'
      --corpus beir:FOLDER --model openai:gpt-4o-mini --limit 100

      ragrounds run --benchmark mirage/pubmedqa --agent direct_cot --model openai:llama --base-url http://127.0.0.1:8000/v1

      ragrounds run --agent direct --agent 'vanilla_rag[top_k=8]' --until 'separated(direct, vanilla_rag) @ 95%'
    """
    given = dict(locals())

    import asyncio
    from contextlib import ExitStack

    from msgspec.structs import asdict

    from ragrounds.api.run import Piloting, chosen_order, follow, in_order, replayer, settle
    from ragrounds.cli.common import open_store, print_json, say, settings
    from ragrounds.cli.runs import asked_again
    from ragrounds.errors import UserError
    from ragrounds.evals.benchmarks import load, select
    from ragrounds.evals.compare.comparison import compare
    from ragrounds.evals.engine.budget import Budget, BudgetStop
    from ragrounds.evals.engine.plan import Recipe, own_corpus, plan
    from ragrounds.evals.engine.progress import ReplayProgress
    from ragrounds.evals.scorers import scorers_for
    from ragrounds.evals.store.journal import StoreJournal
    from ragrounds.evals.store.leases import Lease
    from ragrounds.models.prices import read_prices
    from ragrounds.models.providers import BASELINE
    from ragrounds.ui.comparison_tables import print_comparison
    from ragrounds.ui.progress import open_progress, standing
    from ragrounds.ui.text import one_line

    chosen = settings()
    shown, mode, wanted = _display(display), _mode(journal), chosen_order(order, until)
    loaded = select(load(benchmark, chosen.home), limit=limit, seed=seed, per_dataset=per_dataset)
    url = ",".join(base_url) or chosen.base_url
    name = model or chosen.model or (BASELINE if _is_sample(loaded) and not url else None)
    defaults: dict[str, bool | int | float | str | None] = {
        "base_url": url,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": answer_tokens,
        "timeout": timeout,
        "rpm": rpm,
        "tpm": tpm,
    }
    agents = agent or (SAMPLE_AGENTS if _is_sample(loaded) else ["direct_cot"])
    with open_store(chosen) as store, ExitStack() as held:
        recipe = Recipe(
            agents=tuple(agents),
            model=name,
            corpus=corpus or own_corpus(loaded),
            prices=read_prices(chosen.home / "prices.toml"),
            defaults=defaults,
        )
        in_flight = concurrency or chosen.concurrency
        replay = replayer(engine, workers, in_flight, recipe, chosen, held)
        before = {run.id for run in store.runs()}
        planned_runs = plan(
            store,
            loaded,
            recipe,
            home=chosen.home,
            epochs=epochs,
            new=new,
            only=only_run,
            asked=asked_again({**given, "model": name, "base_url": url.split(",") if url else []}),
            progress=lambda what, count: (
                say(f"{corpus}: {what}, {count:,} passages") if count % 100_000 == 0 and count else None
            ),
        )
        for planned in planned_runs:
            say(f"{planned.run.id}: {planned.run.count:,} questions of {planned.run.benchmark}, {_models(planned)}")
        runs = [planned.run for planned in planned_runs]
        lease = held.enter_context(Lease(store.engine, [run.id for run in runs], say))
        try:
            watched = follow(store, runs, loaded.questions, until, seed, max_questions)
        except UserError:
            for run in runs:
                if run.id not in before:
                    store.remove(run)
            raise
        asked, together = in_order(wanted, loaded, planned_runs)
        tally, recorded = ReplayProgress(store, planned_runs), StoreJournal(store, mode)
        if watched:
            tally.live_claim = lambda: standing(watched.state)

        questions = watched.questions if watched else asked
        budget = Budget(cost=max_cost, tokens=max_tokens, seconds=max_time)
        piloting = Piloting(
            store,
            planned_runs,
            questions,
            chosen,
            budget=budget,
            in_flight=in_flight,
            seed=None if watched else seed,
            sure=yes or mode == "replay",
        )
        stops = [BudgetStop(budget), lease, *([watched] if watched else together)]

        async def play(part: Sequence[Question], display: Any) -> str:
            with ViewerProgress(tally) if display == "viewer" else open_progress(display, tally) as progress:

                def hear(finished: FinishedAttempt) -> None:
                    progress.hear(finished)
                    piloting.hear(finished)

                return await replay(
                    store,
                    recorded,
                    planned_runs,
                    part,
                    loaded.golds,
                    scorers_for,
                    concurrency=in_flight,
                    stops=stops,
                    listener=hear,
                )

        async def go() -> str:
            try:
                if piloting.asks:
                    shown_first = "plain" if shown == "viewer" else shown
                    if piloting.first and (early := await play(piloting.first, shown_first)):
                        return early
                    piloting.settle()
                return await play(questions, shown)
            finally:
                for opened in {id(m): m for planned in planned_runs for m in planned.models.values()}.values():
                    await opened.close()
                recorded.close()

        ended = asyncio.run(go())
        if ended and not (watched and watched.reached()):
            say(f"Ended early: {ended}. All agents have answered the same questions; the same command goes on.")
        stopping = settle(store, watched, ended) if watched else None
        comparison = compare(store, runs, common=bool(ended or watched))
        failed = _failures(store, runs) if any(row.statuses.get("failed") for row in comparison.rows) else []
    say(f"{recorded.made:,} calls made, {recorded.reused:,} answered from the journal.")
    if as_json:
        print_json({**asdict(comparison), "until": stopping} if stopping else comparison)
    else:
        print_comparison(comparison)
        _after(loaded, comparison)
    for reason, count in failed:
        say(f"{count:,} failed: {one_line(reason, 200)}")
    if failed:
        raise typer.Exit(3)


def _failures(store: Store, runs: Sequence[Run]) -> list[tuple[str, int]]:
    """Why attempts failed, most frequent first: the first three reasons, and how many others there are."""
    reasons = Counter(one.reason for run in runs for one in store.summaries(run) if one.status == "failed")
    rest = sum(reasons.values()) - sum(count for _, count in reasons.most_common(3))
    return [*reasons.most_common(3), *([("for other reasons", rest)] if rest else [])]


def _models(planned: PlannedRun) -> str:
    return ", ".join(sorted({model.spec for model in planned.models.values()}))


def _is_sample(loaded: Benchmark) -> bool:
    return loaded.name.partition("/")[0] == "sample"


def _display(text: str | None) -> Any:
    return one_of("--display", text, ("full", "plain", "json", "none", "viewer")) if text else None


def _mode(text: str) -> Any:
    return one_of("--journal", text, ("reuse", "replay", "fresh"))


def _after(loaded: Benchmark, comparison: Comparison) -> None:
    """What the figures mean and what to try next, on stderr."""
    from ragrounds.cli.common import say

    first, last = comparison.rows[0].run, comparison.rows[-1].run
    if any(model.startswith("baseline:") for row in comparison.rows for model in row.models.values()):
        say(
            "\nThe answers come from a built-in extractive baseline, not from a language model: it picks what the\n"
            "passages support by word overlap. The figures show that the pipeline works and what retrieval brings to\n"
            "such a reader. They say nothing about any language model, nor about medicine."
        )
    say("\nNext:")
    say(f"  ragrounds show {last} {loaded.questions[0].id}      # every step of one answer")
    if first != last:
        say(f"  ragrounds compare {first} {last}")
    if _is_sample(loaded):
        say("  ragrounds run --model openai:gpt-4o-mini               # a language model (needs OPENAI_API_KEY)")
        say("  ragrounds run --model openai:NAME --base-url http://127.0.0.1:8000/v1   # a server of your own")
        say("  ragrounds run --benchmark mirage:benchmark.json --agent direct_cot --model …   # a real benchmark")


class ViewerProgress(LineProgress):
    """Opens `ragrounds trace` on the runs in a process of its own, which has the terminal until the user closes it.
    Closed before the run's end, plain lines follow; still open at the run's end, the results wait for it."""

    def __init__(self, tally: ReplayProgress) -> None:
        super().__init__(tally, sys.stderr, as_json=False)
        if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
            raise UserError("--display viewer needs a terminal. Use --display plain, json or none.")
        self._runs = list(tally.runs)
        self._viewer: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ViewerProgress:
        command = [sys.executable, "-m", "ragrounds", "trace", *self._runs]
        self._viewer = subprocess.Popen(command)  # noqa: S603 - our own program, and ids of our own making
        return self

    def hear(self, finished: FinishedAttempt) -> None:
        if self._viewer is not None and self._viewer.poll() is None:
            self._tally.observe(finished)  # the terminal is the viewer's: nothing is written
        else:
            super().hear(finished)

    def __exit__(self, *_: object) -> None:
        if self._viewer is not None:
            self._viewer.wait()
        super().__exit__()
