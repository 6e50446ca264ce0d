"""The release gate: a policy's rules over stored runs, or over runs that continue until the rules are decided."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

from msgspec.structs import asdict, replace
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, check, takes
from ragrounds.api.event_loop import finish
from ragrounds.api.execution import Workspace
from ragrounds.api.results import Result
from ragrounds.api.run import RunResult, hold_runs
from ragrounds.api.run_request import Listener, RunArguments
from ragrounds.api.workspace import open_selected_runs
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.files import read_text
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.comparability import common_questions
from ragrounds.evals.compare.stopped_runs import ClaimVerdict
from ragrounds.extensions.gate.journal import read_journal
from ragrounds.extensions.gate.policy import GateStop, Policy, RuleVerdict, Verdict, read_policy
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.tables.claim_text import claimed_text, score_words
from ragrounds.ui.tables.text_tables import markdown
from ragrounds.ui.text import number_of, one_line

_GATE_ARGUMENTS = (
    "agents",
    "until",
    "max_questions",
    "only",
    "listener",
    "progress",
    "home",
    "settings",
    "seed",
    "confirmed",
)
"""Arguments of a run that the gate sets."""
_REASONS = {"GO": "every critical rule holds", "UNDECIDED": "a critical rule is not decided"}


class GateResult(Result, frozen=True, kw_only=True):
    """Verdict of a gate, with the decision on each rule."""

    policy: str
    verdict: Verdict
    questions: int
    """Number of questions counted when the verdict was made, or of all questions."""
    available: int
    """Number of questions that could be counted."""
    error: float
    number: int
    """Number of this test among those on the same answers, from 1."""
    level: float
    """Error at which each rule was shown to hold: the share of `error` that this test has."""
    seed: int
    scorer: str
    rules: tuple[RuleVerdict, ...]
    run: RunResult | None = None
    """Result of the policy's run; ``None`` if the runs are stored ones."""

    @property
    def reason(self) -> str:
        """Return the verdict in a sentence."""
        failed = [f"{rule.tier} {rule.name!r}" for rule in self.rules if self._fails(rule)]
        reason = _REASONS.get(self.verdict) or f"{', '.join(failed)} {'fails' if len(failed) == 1 else 'fail'}"
        return (
            f"{self.verdict} after {self.questions:,} of {number_of(self.available, 'question')}: {one_line(reason)}."
        )

    def _fails(self, rule: RuleVerdict) -> bool:
        """Return True if a rule that fails is part of a NO-GO."""
        return self.verdict == "NO-GO" and rule.claim.decision == "fails" and rule.tier != "advisory"

    def lines(self) -> Iterator[str]:
        """Yield the verdict, a line for each rule, and the number of questions that would decide it."""
        yield self.reason
        for rule in self.rules:
            dataset = f" ({rule.dataset})" if rule.dataset else ""
            yield f"  {rule.claim.decision:12}{rule.tier:11} {one_line(rule.name)}{dataset}: {_measured(rule.claim)}"
            if rule.needs is not None:
                yield f"{'':26}about {rule.needs:,} questions in all decide it, if the others are like these"
            elif rule.claim.decision == "undecided":
                yield f"{'':26}a hundred times as many questions would not decide it: it is at its limit"
        yield self.basis

    @property
    def basis(self) -> str:
        """Return the evidence of the verdict: its error rate, its scorer and what was counted."""
        when, counted = ", after any number of questions", f"questions in the order of seed {self.seed}"
        if self.run is None:
            when, counted = "", "all answers, tested once"
        return (
            f"A wrong GO or NO-GO has a chance of {100 * self.error:g} % at most{when}, however many policies are "
            f"tried: test {self.number:,} on these answers, at {100 * self.level:.2g} %. "
            f"{score_words(self.scorer).capitalize()}; {counted}."
        )

    def draw(self, console: Console) -> None:
        """Print the lines."""
        for line in self.lines():
            console.print(line, markup=False, soft_wrap=True, highlight=False)

    def facts(self) -> dict[str, object]:
        """Return the verdict as plain values."""
        return {name: value for name, value in asdict(self).items() if name != "run"}

    def markdown(self) -> str:
        """Return the verdict as GitHub's Markdown."""
        columns = (
            words("tier", lambda row: row.tier),
            words("rule", lambda row: row.name),
            words("result", lambda row: row.claim.decision),
            words("measured", lambda row: _measured(row.claim)),
            Column("questions that decide it", lambda row: row.needs),
        )
        return markdown([table_of("gate", self.rules, columns, title=self.reason)], [self.basis])

    def junit(self) -> str:
        """Return a JUnit file: a failure for each rule that causes a NO-GO, an error for each that leaves the verdict
        open.
        """
        suite = ElementTree.Element("testsuite", name=one_line(f"ragrounds gate {self.policy}"))
        counts = {"failure": 0, "error": 0, "skipped": 0}
        for rule in self.rules:
            case = ElementTree.SubElement(suite, "testcase", classname=f"gate.{rule.tier}", name=one_line(rule.name))
            kind = "failure" if self._fails(rule) else ""
            if not kind and rule.claim.decision != "holds":
                kind = "error" if rule.tier == "critical" and self.verdict == "UNDECIDED" else "skipped"
            if kind:
                counts[kind] += 1
                ElementTree.SubElement(
                    case, kind, message=one_line(f"{rule.claim.decision}: {_measured(rule.claim)}", 400)
                )
        suite.attrib.update({"tests": str(len(self.rules)), "failures": str(counts["failure"])})
        suite.attrib.update({"errors": str(counts["error"]), "skipped": str(counts["skipped"])})
        ElementTree.SubElement(suite, "system-out").text = f"{self.reason} {self.basis}"
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _measured(claim: ClaimVerdict) -> str:
    return "; ".join(
        (
            one_line(f"{part.measured} {part.claimed}: no question was counted")
            if part.value is None
            else f"{claimed_text(part.measured, part.claimed, part.value, part.low, part.high, 'interval')}, "
            f"n = {part.questions:,}"
        )
        + (f" ({part.reason})" if part.reason else "")
        for part in claim.conditions
    )


class GateArguments(Workspace, frozen=True):
    """Policy, and the limits of its runs."""

    policy: Annotated[str | Path, Arg("The policy, a TOML file.", option="-")]
    max_questions: Annotated[int | None, Arg("Count so many questions at most.", 1)] = None
    journal: Annotated[str, Arg("In place of the policy's: reuse, replay, fresh, or a journal file.")] = ""
    listener: Listener = None
    progress: arguments.Displayed = None


@takes(GateArguments)
def gate(gate_arguments: GateArguments) -> GateResult:
    """Decide a release by a policy: GO, NO-GO or UNDECIDED.

        rr.gate("policy.toml").verdict

    With ``[run]`` in the policy, its agents are run until the verdict is made; else its runs are stored ones, and all
    their answers are tested once. The same call resumes, and gives the same verdict. Further policies on the same
    answers are counted, and have smaller shares of the error.

    Raises:
        UserError: the policy cannot be read or decided; a run or dataset is unknown; as :func:`run`.
    """
    path = Path(gate_arguments.policy)
    policy, settings = read_policy(read_text(path), path.name), gate_arguments.used_settings
    if policy.run is None:
        if gate_arguments.max_questions is not None:
            raise UserError("--max-questions is for a policy with [run]. All answers of stored runs are tested.")
        with open_selected_runs(list(policy.runs.values()), settings) as (store, runs):
            stop = GateStop(
                policy,
                dict(zip(policy.runs, runs, strict=True)),
                common_questions(store, runs, False)[0],
            )
            stop.test(store)
            return _gate_result(path, stop, None)
    if gate_arguments.journal.endswith(".jsonl"):
        gate_arguments = replace(gate_arguments, journal=str(Path(gate_arguments.journal).absolute()))
    stops: list[GateStop] = []

    def watch(store: Any, runs: Any, questions: Any, *_: Any) -> GateStop:
        if len(runs) != len(policy.runs):
            raise UserError("One of [runs] cannot be replayed, or two are one agent: the gate has nothing to compare.")
        stop = GateStop(policy, dict(zip(policy.runs, runs, strict=True)), questions, gate_arguments.max_questions)
        stop.begin(store)
        stops.append(stop)
        return stop

    with contextlib.chdir(path.parent):
        run_arguments = _policy_arguments(policy, gate_arguments, settings)
        with hold_runs(run_arguments, watch=watch) as replay:
            return _gate_result(path, stops[0], replay.result(finish(replay.carry_out())))


def _policy_arguments(policy: Policy, gate_arguments: GateArguments, settings: Settings) -> RunArguments:
    """Return the arguments of the policy's run. A journal file is read into the store."""
    raw: Mapping[str, Any] = policy.run or {}
    allowed = [name for name in RunArguments.__struct_fields__ if name not in _GATE_ARGUMENTS]
    for name in raw:
        if name not in allowed:
            raise UserError(f"[run] has no key {name!r}.{nearest(name, allowed)} Expected those of `ragrounds run`.")
    journal = gate_arguments.journal or raw.get("journal", "reuse")
    file = str(journal).endswith(".jsonl")
    if file:
        read_journal(journal, settings=settings)
    run_arguments = RunArguments(
        **{
            **raw,
            "journal": "replay" if file else journal,
            "agents": list(policy.runs.values()),
            "scorers": raw.get("scorers", [policy.scorer] if policy.scorer else []),
            "seed": policy.seed,
            "confirmed": file or journal == "replay",
            "listener": gate_arguments.listener,
            "progress": gate_arguments.progress,
            "settings": settings,
            # The recording ended with the verdict: only questions that were in flight were asked after it.
            **({"concurrency": 1, "workers": 1} if file or journal == "replay" else {}),
        }
    )
    check(run_arguments)
    return run_arguments


def _gate_result(path: Path, stop: GateStop, run: RunResult | None) -> GateResult:
    return GateResult(
        policy=path.name,
        verdict=stop.gate.verdict,
        questions=stop.gate.questions,
        available=len(stop.applicable if run is None else stop.questions),
        error=stop.policy.error,
        number=stop.number,
        level=stop.gate.error,
        seed=stop.policy.seed,
        scorer=stop.scorer,
        rules=tuple(stop.gate.verdicts()),
        run=run,
    )
