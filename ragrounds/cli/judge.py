"""`ragrounds judge`: grade the long answers of stored runs by judges, and set judges against people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from shlex import join, quote
from typing import Annotated, Any, cast

import typer
from msgspec.structs import asdict, replace
from rich.console import Console
from rich.text import Text

from ragrounds.api.people import (
    AgreementArguments,
    LabelArguments,
    Labelling,
    SheetArguments,
    judge_agreement,
    labelling,
    needed_labels,
    write_label_sheet,
)
from ragrounds.api.score import JudgeArguments, JudgeResult
from ragrounds.api.score import judge as judge_runs
from ragrounds.base.errors import one_of
from ragrounds.cli import options
from ragrounds.cli.commands import Group
from ragrounds.cli.options import grouped
from ragrounds.cli.output import print_json, say
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.tables.judge_tables import bill_lines, unreadable_lines
from ragrounds.ui.tables.people_tables import print_agreement
from ragrounds.ui.tables.text_tables import results_console
from ragrounds.ui.text import number_of, safe


class _JudgeGroup(Group):
    """Group in which `ragrounds judge RUN` is `ragrounds judge run RUN`."""

    default = "run"
    any_word = True


app = typer.Typer()
judge = typer.Typer(
    name="judge",
    cls=_JudgeGroup,
    help="Grade the long answers of a stored run by judges; set judges against people.\n\n"
    "`ragrounds judge RUN …` is short for `ragrounds judge run RUN …`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(judge)


@judge.command("run")
@grouped
def judge_command(
    runs: options.Runs,
    arguments: JudgeArguments,
    display: Annotated[str | None, typer.Option("--display", help="Progress: plain or none.")] = None,
    yes: options.AskedNothing = False,
    full: options.Full = False,
    as_json: options.AsJson = False,
) -> None:
    """Grade stored runs' long answers by a judge or a panel of judges. Answers are never generated again.

    The same command resumes, and pays only for what is new. Several runs are judged question by question, so that all
    have verdicts on the same questions where a budget or Ctrl-C ends it. A judge without any verdict replaces no score;
    it is given up where none of its first 20 replies can be read. To --fail-after an unreadable judgement has failed.

    Examples:

      ragrounds judge direct_cot --kind equivalence --judge openai:gpt-4o-mini

      ragrounds judge direct_cot --kind statements --judge openai:gpt-4o --judge anthropic:claude-sonnet-4-5

      ragrounds judge direct_cot vanilla_rag --kind equivalence --judge openai:gpt-4o --max-cost 5

      ragrounds judge vanilla_rag --kind grounding --judge openai:gpt-4o
    """
    judges = len(arguments.judges)
    if judges and judges % 2 == 0:
        judge_count = "Two judges" if judges == 2 else f"{judges} judges"
        say(f"{judge_count} may have no majority when they differ: such scores are missing. Add one more --judge.")
    is_shown = None if display is None else one_of("--display", display, ("plain", "none")) == "plain"
    result = judge_runs(**asdict(replace(arguments, progress=is_shown)))
    judged_runs = result.judged.runs
    if as_json:
        graded = judged_runs[0] if len(judged_runs) == 1 else judged_runs
        print_json({"graded": graded, "comparison": result.comparison, "verifier": result.verifier})
    else:
        result.draw(results_console(), full=full)
        if result.verifier is not None:
            print_agreement(cast("Any", result.verifier), raters=1)  # an agreement with people without corrections
    _report_end(result, full=full)


def _report_end(result: JudgeResult, *, full: bool) -> None:
    """Print the costs and the reason of the end, and exit with the matching code."""
    outcome = result.judged
    for line in bill_lines(outcome, full=full):
        say(line)
    if outcome.mute:
        say(f"No verdict came from {safe(', '.join(outcome.mute))}: no score was written, earlier ones are unchanged.")
    for line in unreadable_lines(outcome) if full or outcome.mute else ():
        say(line)
    if outcome.interrupted:
        say("Interrupted. Finished work is saved; the same command resumes.")
        raise typer.Exit(130)
    if outcome.ended:
        several = len(outcome.runs) > 1 and not outcome.mute
        all_judged = "All runs have verdicts on the same questions; the" if several else "The"
        goes_on = f" {all_judged} same command resumes." if not outcome.silent else ""
        say(f"Ended early: {safe(outcome.ended)}.{goes_on}")
    failed = any(graded.failed for graded in outcome.runs)
    if failed:
        say("Some calls got no reply; the same command repeats them.")
    if failed or outcome.mute or any(graded.withheld for graded in outcome.runs):
        raise typer.Exit(3)


@judge.command("sheet")
@grouped
def sheet_command(runs: options.Runs, arguments: SheetArguments, as_json: options.AsJson = False) -> None:
    """Write judged answers to a CSV file for people to label, blind to the verdicts; `judge agreement` reads it back.
    An agent's text means its newest judged run.

    Items are sampled and ordered by the seed, a smaller sample is a part of a larger one. Each row holds a digest of
    its texts, by which its labels are known to be of this answer. No cell is a formula to a spreadsheet.

    Example: ragrounds judge sheet direct_cot --limit 50 --rater anna --rater ben --rater cleo
    """
    sheet = write_label_sheet(**asdict(arguments))
    if as_json:
        print_json({"file": str(arguments.out), "items": sheet.items, "of": sheet.of, "labels": sheet.labels,
                    "answers": dict(sheet.answers)})  # fmt: skip
    agreement_arguments = f"{join(runs)} --kind {quote(arguments.kind)} --human {quote(str(arguments.out))}"
    noun = "answers" if sheet.items == sum(sheet.answers.values()) else "statements"
    say(
        f"{arguments.out}: {sheet.items:,} of {sheet.of:,} judged {noun}, without the verdicts. Labels are "
        f"{', '.join(sheet.labels)}. Then: ragrounds judge agreement {agreement_arguments}"
        + (f" --epoch {arguments.epoch}" if arguments.epoch else "")
    )
    say(safe(needed_labels(sheet.answers)))
    if len(arguments.raters) == 2:
        say("Items on which the two raters differ have no majority and are left out; a third --rater decides them.")


@judge.command("label")
@grouped
def label_command(runs: options.Runs, arguments: LabelArguments) -> None:
    """Label judged answers in the terminal, blind to the verdicts, one on a screen and one key a label.

    Labels go into the sheet, each before the next answer is shown; the same command goes on where you stopped. A sheet
    that is not there is written first, as by `judge sheet`. Keys: a label's number, s (skip), b (back), q (stop).

    Example: ragrounds judge label direct_cot --rater anna --limit 50
    """
    opened = labelling(**asdict(arguments))
    say(safe(needed_labels(opened.answers)))
    count = label_rows(opened)
    left = sum(not row.get(opened.rater) for row in opened.rows) - count
    say(
        f"{number_of(count, 'label')} kept in {arguments.file}, {left:,} left for {safe(opened.rater)}. Then: "
        f"ragrounds judge agreement {join(runs)} --kind {quote(arguments.kind)} --human {quote(str(arguments.file))}"
    )


STOP = ("q", "\x03", "\x04", "\x1b", "")
"""Keys that end voting and labelling."""


def pressed_key() -> str:
    """Return a key of the keyboard; if standard input is no terminal, the first character of a line, empty at
    its end.
    """
    return typer.getchar() if sys.stdin.isatty() else sys.stdin.readline().strip()[:1]


def label_rows(opened: Labelling, *, key: Callable[[], str] = pressed_key, console: Console | None = None) -> int:
    """Show the rows without a label of this rater until they stop, and return the number of labels."""
    console = console or SafeConsole(stderr=True)
    rows = [row for row in opened.rows if not row.get(opened.rater)]
    given_labels, index = dict[int, str](), 0
    prompt = ", ".join(f"{number} {label}" for number, label in enumerate(opened.labels, 1))
    while index < len(rows):
        row = rows[index]
        console.rule(f"{index + 1:,} of {len(rows):,}")
        for heading, style in (("question", "bold"), ("beside", ""), ("answer", "")):
            title = "set against" if heading == "beside" else heading
            console.print(Text(f"{title}: "), Text(safe(row[heading]), style=style))
        console.print(Text(f"{prompt}, s skip, b back, q stop? "), end="")
        pressed = key().casefold()
        console.print(Text(pressed if pressed.isprintable() else ""))
        if pressed in STOP:
            break
        if pressed == "b" and index:
            index -= 1
            if given_labels.pop(index, ""):
                opened.keep(rows[index], "")
        elif pressed == "s":
            index += 1
        elif pressed.isdecimal() and 1 <= int(pressed) <= len(opened.labels):
            given_labels[index] = opened.labels[int(pressed) - 1]
            opened.keep(row, given_labels[index])
            index += 1
        else:
            console.print(Text(f"{pressed!r} is no key here."))
    return len(given_labels)


@judge.command("agreement")
@grouped
def agreement_command(runs: options.Runs, arguments: AgreementArguments, as_json: options.AsJson = False) -> None:
    """Set the verdicts in the store against people's: kappa, accuracy with its interval, confusion, by category; and
    correct the judged figures by people's labels. No model is asked. Of several runs all judged items are taken
    together; intervals go by question, and the corrected figures of all are set against the first's.

    For a panel, the majority's verdicts are shown, then each judge's, by its replies in the journal.

    A label whose answer has changed is left out and named. An item is a question's id; for statements `#1`, `#2`, …
    follow it, in the benchmark's order, must-have first.

    Corrected figures are cje-eval's: pip install 'ragrounds[people]'. They need 20 labelled answers of a run, sampled
    at random, as `judge sheet` and `judge label` sample them.

    Examples:

      ragrounds judge agreement direct_cot --human labels.csv

      ragrounds judge agreement direct_cot vanilla_rag --human labels.csv --width 0.1
    """
    result = judge_agreement(**asdict(arguments))
    if as_json:
        print_json(result.agreement)
    else:
        print_agreement(result.agreement, result.raters)
