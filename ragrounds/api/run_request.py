"""The arguments of a run, for :func:`ragrounds.run` and ``ragrounds run``, and which of them are stored to
resume it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from ragrounds.api import arguments
from ragrounds.api.arguments import HOW, MODEL, OWN, WHAT, Arg
from ragrounds.api.execution import ServedExecution
from ragrounds.api.progress import RunListener
from ragrounds.base.errors import UserError
from ragrounds.evals.engine.circuit_breaker import failure_limit

Listener = Annotated[
    RunListener | None,
    Arg("Gets all events; none: a display in a terminal or a notebook, nothing elsewhere.", option="-"),
]


class RunArguments(ServedExecution, frozen=True):
    """Arguments of a run: what is run, and how. What is run changes the results, or the servers that give them."""

    benchmark: Annotated[
        str,
        Arg(
            "A benchmark: sample, mirage:FILE, mirage/pubmedqa:FILE, … See `ragrounds data ls`.",
            short="-b",
            group=WHAT,
            stored=True,
        ),
    ] = "sample"
    agents: Annotated[
        Any,
        Arg(
            "Agents, name[key=value,…] (repeatable; see `ragrounds list agents`), each perhaps with its name in "
            "tables: direct as \"No search\". In Python also objects: a graph, a chain, a function.",
            option="--agent", short="-a", group=WHAT, many=True,
        ),
    ] = ()  # fmt: skip
    model: Annotated[
        str | None,
        Arg(
            "openai:gpt-4o-mini, anthropic:NAME[temperature=0,…], …; vllm:NAME and local:FILE.gguf start a server.",
            short="-m", group=MODEL, stored=True,
        ),
    ] = None  # fmt: skip
    base_url: Annotated[
        str | Sequence[str],
        Arg(
            "An OpenAI-compatible server (vLLM, Ollama, llama.cpp, …); repeat it for several that share the calls.",
            group=MODEL, many=True, stored=True,
        ),
    ] = ()  # fmt: skip
    alias: arguments.Alias = None
    corpus: arguments.Corpus = None
    limit: arguments.Limit = None
    questions: Annotated[
        str | Sequence[str],
        Arg(
            "Only this question, by its id or its end: c01 (repeatable). See `ragrounds data show`.",
            option="--question", group=WHAT, many=True,
        ),
    ] = ()  # fmt: skip
    per_dataset: Annotated[
        int | None, Arg("Only this many questions of each dataset, sampled by `seed`.", 1, group=WHAT, stored=True)
    ] = None
    profile: Annotated[
        str | None,
        Arg("Agents and sampling as a paper's authors ran them: medrag, … See `ragrounds list profiles`.", group=WHAT),
    ] = None
    retriever: Annotated[
        str | None,
        Arg("Retriever of agents that set none: bm25, rrf4, … See `ragrounds list retrievers`.", group=WHAT),
    ] = None
    seed: arguments.Seed = 0
    epochs: Annotated[int, Arg("Times each question is asked.", 1, group=WHAT, stored=True)] = 1
    temperature: Annotated[float | None, Arg("Sampling temperature (or inside `model`).", group=MODEL, stored=True)] = (
        None
    )
    top_p: Annotated[float | None, Arg("Nucleus sampling (or inside `model`).", group=MODEL, stored=True)] = None
    max_answer_tokens: Annotated[
        int | None, Arg("Longest answer in tokens (max_tokens inside `model`).", 1, group=MODEL, stored=True)
    ] = None
    timeout: Annotated[
        float | None,
        Arg(
            "Time limit of one call: 90s, 10m. [default: 10m]", 0.1,
            group=MODEL, metavar="DURATION", duration=True, stored=True,
        ),
    ] = None  # fmt: skip
    rpm: Annotated[float | None, Arg("Requests a minute to one server, at most (or inside `model`).", group=MODEL)] = (
        None
    )
    tpm: Annotated[float | None, Arg("Tokens a minute, in and out, at most (or inside `model`).", group=MODEL)] = None
    workers: arguments.Workers = "auto"
    engine: Annotated[
        Literal["local", "ray"], Arg("Where workers are: local (this machine), ray (a cluster).", group=HOW)
    ] = "local"
    until: Annotated[
        str | None,
        Arg(
            "Stop when a claim is decided: 'separated(A, B) @ 95%'; `seed` sets the order of questions. Exit "
            "code 1 where it fails, 4 where it is undecided.", group=HOW,
        ),
    ] = None  # fmt: skip
    max_questions: Annotated[int | None, Arg("With `until`: questions to ask at most.", 1, group=HOW)] = None
    repeat: Annotated[
        int | None,
        Arg(
            "At the end, make the last call of this many questions again, to measure how much the server's answers "
            "vary. [default: 9 to 20 in runs of 300 calls and more on a server of this machine without a price]",
            0, group=HOW,
        ),
    ] = None  # fmt: skip
    order: Annotated[
        Literal["given", "shared"] | None,
        Arg(
            "given; or shared: questions that share a source follow each other, for a server's prefix cache.",
            group=HOW,
        ),
    ] = None  # fmt: skip
    scorers: Annotated[
        str | Sequence[str],
        Arg(
            "Score by this too, and show its table; or package.module:NAME, file.py:NAME (repeatable).",
            option="--scorer", group=HOW, many=True,
        ),
    ] = ()  # fmt: skip
    confirmed: arguments.Confirmed = False
    new: arguments.New = False
    only: Annotated[
        str | None, Arg("The id of the one run that is to be resumed.", option="--only-run", hidden=True)
    ] = None
    config: Annotated[
        Any,
        Arg(
            "LangGraph's configurable: KEY=VALUE (repeatable); in Python also a mapping.",
            group=OWN, many=True,
        ),
    ] = ()  # fmt: skip
    context: Annotated[Any, Arg("Its runtime context: KEY=VALUE (repeatable); as `config`.", group=OWN, many=True)] = ()
    python: Annotated[
        str | None,
        Arg("The Python interpreter of its process, with the packages that it needs. [default: ours]", group=OWN,
            metavar="PATH"),
    ] = None  # fmt: skip
    in_process: Annotated[
        bool, Arg("It runs in our process, not in its own: for breakpoints and coverage.", group=OWN)
    ] = False
    share_process: Annotated[
        bool, Arg("Agents of one folder share a process, to save memory: one can slow or fail another.", group=OWN)
    ] = False
    listener: Listener = None
    progress: arguments.Displayed = None

    @property
    def alone(self) -> bool:
        """True if one process starts the work; others may join it."""
        return self.engine == "local" and self.workers in ("auto", 1)


def check_together(arguments: RunArguments) -> None:
    """Check combinations of arguments, before anything is read.

    Raises:
        UserError: two arguments exclude each other, or `fail_after` is no share, number or ``never``.
    """
    failure_limit(arguments.fail_after)
    if arguments.order is not None and arguments.until is not None:
        raise UserError("--order cannot be set with --until, which asks in a random order set by --seed.")
