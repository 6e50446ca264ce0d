"""How judges agree with people, what people's labels make of judged figures, and which judge is worth its price."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from ragrounds.evals.judges.corrected import (
    Corrected,
    CorrectedFigure,
    Corrections,
    PeopleAgreement,
)
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import Agreement
from ragrounds.evals.stats.intervals import Estimate
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.comparison_words import judge_phrase, kappa_ends
from ragrounds.ui.tables.text_tables import print_table, results_console
from ragrounds.ui.text import (
    TOO_FEW,
    UNKNOWN,
    difference_text,
    dollars,
    ends,
    figure_text,
    in_scale,
    number_of,
    percent,
    safe,
)


def print_agreement(found: PeopleAgreement, raters: int) -> None:
    """Print kappa, accuracy with its interval, what was left out, and the confusion."""
    console, confusion = results_console(), found.judge.confusion
    for line in _agreement_lines(found, raters):
        console.print(Text(line), soft_wrap=True)
    if len(found.judges) > 1:
        print_table(_each_judge(found), console)
    columns = [words("people", lambda row: row[0])]
    columns += [Column(safe(name), lambda row, name=name: row[1][name]) for name in confusion]  # type: ignore[misc]
    said = "the majority" if found.panel else "the judge"
    title = f"what people said (lines) and what {said} said (columns)"
    print_table(table_of("confusion", confusion.items(), columns, title=title), console)
    if found.categories:
        print_table(_by_category(found), console)
    for one in found.corrections:
        if any(figure.corrected for figure in one.figures):
            _print_corrections(one, console)
    # Of several scorers most is the same.
    for line in dict.fromkeys(line for one in found.corrections for line in _correction_lines(one)):
        console.print(Text(line), soft_wrap=True)
    if found.prices:
        print_table(_prices(found), console)


def _agreement_lines(found: PeopleAgreement, raters: int) -> Iterator[str]:
    judge, accuracy = found.judge, found.judge.accuracy
    chance = f"; chance taken off, Cohen's kappa {_number(judge.kappa)}" if judge.kappa is not None else ""
    who = "The majority of the judges" if found.panel else "The judge"
    who += f" ({judge_phrase(found.by).removeprefix('the majority of ')})" if found.by is not None else ""
    split = ""
    if found.undecided_judges:
        split = f" ({found.undecided_judges:,} more, on which the judges have no majority, are left out)"
    yield f"{who} says what people say of {percent(accuracy.value)} % of {number_of(judge.n, 'item')}{split}{chance}."
    yield f"items with both labels: {judge.n:,}"
    yield f"accuracy: {percent(accuracy.value)} % (95 %: {percent(accuracy.low)} to {percent(accuracy.high)})"
    interval = f" ({kappa_ends(judge)})" if judge.kappa is not None else ""
    yield f"Cohen's kappa: {_number(judge.kappa)}{interval}"
    for side, label in judge.constant.items():
        who = "the judge" if side == "judge" else "the people"
        yield f"{who} said {safe(label)!r} of every item: kappa is not defined, and nothing shows how far they agree"
    if raters > 1:
        yield (
            f"{raters} people among themselves: Fleiss' kappa {_number(found.human_kappa)}, "
            f"Krippendorff's alpha {_number(found.human_alpha)}"
        )
    left = {
        "the judges have no majority": found.undecided_judges,
        "the judge gave no verdict": judge.missing - found.undecided_judges,
        "not judged": found.unmatched,
        "people without a majority": found.undecided,
    }
    if found.changed:
        some = safe(", ".join(found.changed[:10])) + (", …" if len(found.changed) > 10 else "")
        yield f"left out, the answer is another than people labelled: {len(found.changed):,} ({some})"
    yield from (f"left out, {why}: {count:,}" for why, count in left.items() if count)


def _kappa(one: Agreement | None) -> str:
    """The interval of kappa."""
    if one is None:
        return UNKNOWN
    return TOO_FEW if one.kappa_low is None else f"{_number(one.kappa_low)} to {_number(one.kappa_high)}"


def _by_category(found: PeopleAgreement) -> TextTable:
    return table_of(
        "categories",
        found.categories,
        (
            words("of"),
            words("name", whole=True),
            Column("items", "agreement.n"),
            Column("same %", "agreement.accuracy", lambda one: percent(one.value, 1)),
            Column("95 %", "agreement.accuracy", lambda one: ends(one.low, one.high)),
            Column("kappa", "agreement.kappa", _number),
        ),
        title="the judge and people by category",
    )


def _print_corrections(found: Corrections, console: Console) -> None:
    """A scorer's figures by the judge alone and corrected, the differences from the first run, and what is lacking."""
    scorer, figures = found.figures[0].scorer, found.figures
    unit = described(scorer).unit

    def figure(one: Estimate | Corrected | None, write: Callable[..., str] = in_scale) -> str:
        """With its interval."""
        if one is None:
            return UNKNOWN
        between = ends(one.low, one.high, unit, signed=write is difference_text)
        return f"{write(one.value, unit)} ({between})"

    def more(one: CorrectedFigure) -> str:
        """How many more labels."""
        return "too few answers" if one.short else UNKNOWN if one.more is None else f"{one.more:,}"

    wanted = any(one.more is not None or one.short for one in figures)
    columns = (
        words("run", whole=True),
        Column("by the judge (95 %)", "judge", figure),
        Column("labelled"),
        Column("corrected (95 %)", "corrected", figure),
        Column("worth", "effective"),
        Column("still to label", lambda one: one, more) if wanted else None,
    )
    about = "worth: labels that alone would give this interval"
    title = f"{scorer}, corrected by people's labels" + (f" with {found.by}" if found.by else "")
    print_table(table_of("corrected", figures, columns, title=title, about=about), console)
    if found.differences:
        pair = (
            words("run", whole=True),
            Column("by the judge (95 %)", "judge", lambda one: figure(one, difference_text)),
            Column("corrected (95 %)", "corrected", lambda one: figure(one, difference_text)),
        )
        title = f"{scorer}, minus that of {figures[0].run}"
        print_table(table_of("corrected differences", found.differences, pair, title=title), console)


def _correction_lines(found: Corrections) -> Iterator[str]:
    """Why something is not there, and what it rests on."""
    lacks: dict[str, list[str]] = {}
    for one in found.figures:
        lacks.setdefault(one.why, []).append(one.run)
    for pair in found.differences:
        if not any(one.why for one in found.figures if one.run in (pair.run, pair.first)):
            lacks.setdefault(pair.why, []).append(f"{pair.run} minus {pair.first}")
    for why, names in lacks.items():
        if why:
            yield f"No corrected figure of {safe(', '.join(names))}: {safe(why)}."
    for note in found.notes:
        yield f"Not to be relied on: {safe(note)}."
    if not found.drawn and any(one.corrected for one in found.figures):
        yield "The labels say nothing of how their answers were chosen: corrected figures hold if chance drew them."


def _prices(found: PeopleAgreement) -> TextTable:
    unit = described(found.corrections[0].figures[0].scorer).unit
    first = found.corrections[0].figures[0]
    return table_of(
        "judges to buy",
        found.prices,
        (
            words("judge"),
            Column("full price", "cost", dollars),
            Column("width", "width", lambda value: in_scale(value, unit, 1) if value is not None else UNKNOWN),
            Column("worth", "effective"),
        ),
        title=f"which judge to buy: its price, and the width of {first.run}'s corrected {first.scorer} by its verdicts",
        about="worth: labels that alone would give this width",
    )


def _each_judge(found: PeopleAgreement) -> TextTable:
    return table_of(
        "each judge",
        found.judges,
        (
            words("judge"),
            Column("items", lambda one: one.agreement.n if one.agreement else 0),
            Column("same %", "agreement.accuracy.value", lambda value: percent(value, 1)),
            Column("kappa", "agreement.kappa", _number),
            Column("95 %", "agreement", _kappa),
        ),
        title="each judge by itself, on all items that it gave a verdict on",
        about="Cohen's kappa with people: 1 perfect, 0 as by chance",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else figure_text(value, ".3f")
