"""What is kept of how a run was asked for, so that it can be resumed without its command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote

from ragrounds.api.agent_texts import asks_ours
from ragrounds.api.arguments import described
from ragrounds.api.run_request import RunArguments
from ragrounds.api.workspace import opened_runs
from ragrounds.base.errors import UserError
from ragrounds.base.records import Asked, Run
from ragrounds.base.redaction import redacted
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.catalogue import family_path
from ragrounds.evals.engine.plan import Recipe
from ragrounds.tools.corpora import corpora_of, is_source
from ragrounds.tools.retriever import code_in

_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_KEPT = tuple(name for name, (_, said) in described(RunArguments).items() if said.kept)
"""What is kept of a request with its runs: what a run is, and how its server is reached. Not what belongs to one
evening: budgets, displays, where workers are, when to stop."""


def kept_request(request: RunArguments, recipe: Recipe) -> Asked:
    """What is kept of a request, apart from its agents, as options of `ragrounds run`. Nothing that looks like a key
    is."""
    where = recipe.defaults
    urls = str(where["base_url"]).split(",") if where["base_url"] else []
    values = {name: getattr(request, name) for name in _KEPT}
    if any(asks_ours(agent) for agent in recipe.agents):
        values |= {"model": recipe.model, "base_url": urls, "alias": where["alias"]}
    else:
        values |= {"model": None, "base_url": None, "alias": None}
    values |= {"question": request.questions, "concurrency": request.concurrency, "scorer": request.scorers}
    options: list[str] = []
    for name, held in values.items():
        for value in held if isinstance(held, list | tuple) else [held]:
            if value is not None:
                options += [f"--{name.replace('_', '-')}", redacted(_LOGIN.sub("", str(value)))]
    return Asked(str(Path.cwd()), tuple(options))


def code_in_options(options: Sequence[str]) -> list[str]:
    """The files and the import paths of agents, benchmarks and scorers that options of `ragrounds run` name."""
    found = []
    for name, value in zip(options[::2], options[1::2], strict=False):
        if name == "--agent":
            spec = parse(value)
            found += [spec.name] if spec.name.endswith(".toml") else code_in(spec)
        elif name == "--benchmark" and (path := family_path(value)):
            found.append(path)
        elif name == "--scorer" and ":" in value:
            found.append(value)
    return found


def kept_options(
    reference: str, settings: Settings | None = None, *, named: Sequence[str] | None = None
) -> tuple[Run, Asked]:
    """A run, and the options of `ragrounds run` that ask for it again. `named`: the code that its user names himself;
    ``None``: there is no option for it.

    Raises:
        UserError: no such run; one that was imported; one that does not say how it was asked for, or whose options
            name code.
    """
    with opened_runs(reference, settings, newest=True) as (_, [run]):
        pass
    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nothing to resume.")
    if run.asked is None:
        raise UserError(
            f"The run {run.id} has no `ragrounds run` command: another command made it. Repeat that command to "
            "resume it."
        )
    if code := [one for one in code_in_options(run.asked.options) if one not in (named or ())]:
        resume = f"cd {quote(run.asked.folder)} && ragrounds run {join(run.asked.options)}"
        again = " ".join(f"--code {quote(one)}" for one in code)
        raise UserError(
            f"The run {run.id} was started with {', '.join(map(repr, code))}, which is code, and a store never "
            f"starts code. {f'Resume it with its own command: {resume}' if named is None else f'Add {again}'}"
        )
    return run, Asked(run.asked.folder, _same_corpus(run.asked.options, str(run.identity.get("corpus") or "")))


def _same_corpus(options: tuple[str, ...], searched: str) -> tuple[str, ...]:
    """Options that name the generation of an index that a run searched: the index may have another one by now."""
    versions = {corpus.rpartition("@")[0]: corpus for corpus in searched.split("+")}
    told = list(options)
    for place, option in enumerate(options[::2]):
        if option == "--corpus" and 2 * place + 1 < len(options):
            given = options[2 * place + 1]
            parts = [part if is_source(part) else versions.get(part, part) for part in corpora_of(given)]
            told[2 * place + 1] = "+".join(parts)
    return tuple(told)
