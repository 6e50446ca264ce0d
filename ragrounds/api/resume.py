"""The stored request of a run, so that it can be resumed without its command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from shlex import join, quote

from msgspec.structs import fields, replace

from ragrounds.api.arguments import described
from ragrounds.api.run_request import RunArguments
from ragrounds.api.workspace import open_selected_runs
from ragrounds.base.errors import UserError
from ragrounds.base.records import Asked, Run
from ragrounds.base.settings import Settings
from ragrounds.base.specs import parse
from ragrounds.evals.benchmarks.catalogue import family_path
from ragrounds.evals.engine.plan import Recipe
from ragrounds.recorder.redaction import redacted
from ragrounds.tools.corpora import corpora_of, is_source
from ragrounds.tools.retriever import code_in

_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_STORED_ARGUMENTS = tuple(name for name, (_, argument) in described(RunArguments).items() if argument.stored)
"""Arguments that are stored with runs: those that define a run, and how its server is reached.

Budgets, displays, places of workers and stopping rules are not stored: they belong to one call.
"""


def kept_request(request: RunArguments, recipe: Recipe) -> Asked:
    """Return a request without its agents, as options of `ragrounds run`. Texts that look like keys are removed.

    The planning of each run leaves out those that have no effect on its agent.
    """
    server = recipe.defaults
    urls = str(server["base_url"]).split(",") if server["base_url"] else []
    values = {name: getattr(request, name) for name in _STORED_ARGUMENTS}
    values |= {"model": recipe.model, "base_url": urls, "alias": server["alias"]}
    values |= {"question": request.questions, "concurrency": request.in_flight, "scorer": request.scorers}
    options: list[str] = []
    for name, argument in values.items():
        for value in argument if isinstance(argument, list | tuple) else [argument]:
            if value is not None:
                options += [f"--{name.replace('_', '-')}", redacted(_LOGIN.sub("", str(value)))]
    return Asked(str(Path.cwd()), tuple(options))


def without_defaults(run: Run, settings: Settings) -> Run:
    """Return a run without those of its stored options whose value is the default."""
    if run.asked is None:
        return run
    options = run.asked.options
    defaults = {f"--{field.name.replace('_', '-')}": str(field.default) for field in fields(RunArguments)}
    defaults["--concurrency"] = str(settings.concurrency)
    pairs = zip(options[::2], options[1::2], strict=True)
    kept = tuple(word for pair in pairs if defaults.get(pair[0]) != pair[1] for word in pair)
    return replace(run, asked=replace(run.asked, options=kept))


def code_in_options(options: Sequence[str]) -> list[str]:
    """Return the files and the import paths of agents, benchmarks and scorers that options of `ragrounds run` name."""
    code_references = []
    for name, value in zip(options[::2], options[1::2], strict=False):
        if name == "--agent":
            spec = parse(value)
            code_references += [spec.name] if spec.name.endswith(".toml") else code_in(spec)
        elif name == "--benchmark" and (path := family_path(value)):
            code_references.append(path)
        elif name == "--scorer" and ":" in value:
            code_references.append(value)
    return code_references


def kept_options(
    reference: str, settings: Settings | None = None, *, argument_names: Sequence[str] | None = None
) -> tuple[Run, Asked]:
    """Return a run, and the options of `ragrounds run` that request it again.

    `argument_names` is the code that the user names himself; ``None`` if the caller has no option for it.

    Raises:
        UserError: the run is unknown or imported, has no stored request, or its options name code.
    """
    with open_selected_runs(reference, settings, newest=True) as (_, [run]):
        pass
    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nothing to resume.")
    if run.asked is None:
        raise UserError(
            f"The run {run.id} has no `ragrounds run` command: another command made it. Repeat that command to "
            "resume it."
        )
    if code := [
        reference_to_code
        for reference_to_code in code_in_options(run.asked.options)
        if reference_to_code not in (argument_names or ())
    ]:
        resume = f"cd {quote(run.asked.folder)} && ragrounds run {join(run.asked.options)}"
        code_options = " ".join(f"--code {quote(reference_to_code)}" for reference_to_code in code)
        raise UserError(
            f"The run {run.id} was started with {', '.join(map(repr, code))}, which is code, and a store never "
            "starts code. "
            + (
                "Resume it with its own command; add its --until, --max-questions, budgets and other agents, which are "
                f"not stored: {resume}"
                if argument_names is None
                else f"Add {code_options}"
            )
        )
    return run, Asked(run.asked.folder, _pin_corpus(run.asked.options, str(run.identity.get("corpus") or "")))


def _pin_corpus(options: tuple[str, ...], searched: str) -> tuple[str, ...]:
    """Return options that name the searched version of an index, since the index may have a new one by now."""
    versions = {corpus.rpartition("@")[0]: corpus for corpus in searched.split("+")}
    resolved = list(options)
    for index, option in enumerate(options[::2]):
        if option == "--corpus" and 2 * index + 1 < len(options):
            corpus_names = options[2 * index + 1]
            parts = [part if is_source(part) else versions.get(part, part) for part in corpora_of(corpus_names)]
            resolved[2 * index + 1] = "+".join(parts)
    return tuple(resolved)
