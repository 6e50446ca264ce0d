"""The agreement of judges with people, figures corrected by people's labels, and the value of each judge for its
price.
"""

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


def print_agreement(agreement: PeopleAgreement, raters: int) -> None:
    """Print kappa, accuracy with its interval, what was left out, and the confusion table."""
    console, confusion = results_console(), agreement.judge.confusion
    for line in _agreement_lines(agreement, raters):
        console.print(Text(line), soft_wrap=True)
    if len(agreement.judges) > 1:
        print_table(_judge_table(agreement), console)
    columns = [words("people", lambda row: row[0])]
    columns += [Column(safe(name), lambda row, name=name: row[1][name]) for name in confusion]  # type: ignore[misc]
    judged_by = "the majority" if agreement.panel else "the judge"
    title = f"what people said (lines) and what {judged_by} said (columns)"
    print_table(table_of("confusion", confusion.items(), columns, title=title), console)
    if agreement.categories:
        print_table(_category_table(agreement), console)
    for corrections in agreement.corrections:
        if any(figure.corrected for figure in corrections.figures):
            _print_corrections(corrections, console)
    # The lines of several scorers are mostly the same.
    for line in dict.fromkeys(line for corrections in agreement.corrections for line in _correction_lines(corrections)):
        console.print(Text(line), soft_wrap=True)
    if agreement.prices:
        print_table(_price_table(agreement), console)


def _agreement_lines(agreement: PeopleAgreement, raters: int) -> Iterator[str]:
    judge, accuracy = agreement.judge, agreement.judge.accuracy
    chance = f"; chance taken off, Cohen's kappa {_number_text(judge.kappa)}" if judge.kappa is not None else ""
    rater = "The majority of the judges" if agreement.panel else "The judge"
    rater += f" ({judge_phrase(agreement.by).removeprefix('the majority of ')})" if agreement.by is not None else ""
    split = ""
    if agreement.undecided_judges:
        split = f" ({agreement.undecided_judges:,} more, on which the judges have no majority, are left out)"
    yield f"{rater} says what people say of {percent(accuracy.value)} % of {number_of(judge.n, 'item')}{split}{chance}."
    yield f"items with both labels: {judge.n:,}"
    yield f"accuracy: {percent(accuracy.value)} % (95 %: {percent(accuracy.low)} to {percent(accuracy.high)})"
    interval = f" ({kappa_ends(judge)})" if judge.kappa is not None else ""
    yield f"Cohen's kappa: {_number_text(judge.kappa)}{interval}"
    for side, label in judge.constant.items():
        rater = "the judge" if side == "judge" else "the people"
        yield f"{rater} said {safe(label)!r} of every item: kappa is not defined, and nothing shows how far they agree"
    if raters > 1:
        yield (
            f"{raters} people among themselves: Fleiss' kappa {_number_text(agreement.human_kappa)}, "
            f"Krippendorff's alpha {_number_text(agreement.human_alpha)}"
        )
    left_out = {
        "the judges have no majority": agreement.undecided_judges,
        "the judge gave no verdict": judge.missing - agreement.undecided_judges,
        "not judged": agreement.unmatched,
        "people without a majority": agreement.undecided,
    }
    if agreement.changed:
        changed_items = safe(", ".join(agreement.changed[:10])) + (", …" if len(agreement.changed) > 10 else "")
        yield f"left out, the answer differs from the labelled one: {len(agreement.changed):,} ({changed_items})"
    yield from (f"left out, {reason}: {count:,}" for reason, count in left_out.items() if count)


def _kappa_interval(agreement: Agreement | None) -> str:
    """Return the interval of kappa."""
    if agreement is None:
        return UNKNOWN
    return (
        TOO_FEW
        if agreement.kappa_low is None
        else f"{_number_text(agreement.kappa_low)} to {_number_text(agreement.kappa_high)}"
    )


def _category_table(agreement: PeopleAgreement) -> TextTable:
    return table_of(
        "categories",
        agreement.categories,
        (
            words("of"),
            words("name", unfolded=True),
            Column("items", "agreement.n"),
            Column("same %", "agreement.accuracy", lambda accuracy: percent(accuracy.value, 1)),
            Column("95 %", "agreement.accuracy", lambda accuracy: ends(accuracy.low, accuracy.high)),
            Column("kappa", "agreement.kappa", _number_text),
        ),
        title="the judge and people by category",
    )


def _print_corrections(corrections: Corrections, console: Console) -> None:
    """Print a scorer's figures by the judge alone and corrected, the differences from the first run, and the labels
    that are missing.
    """
    scorer, figures = corrections.figures[0].scorer, corrections.figures
    unit = described(scorer).unit

    def figure(estimate: Estimate | Corrected | None, write: Callable[..., str] = in_scale) -> str:
        """Return an estimate with its interval."""
        if estimate is None:
            return UNKNOWN
        between = ends(estimate.low, estimate.high, unit, signed=write is difference_text)
        return f"{write(estimate.value, unit)} ({between})"

    def more(run_figure: CorrectedFigure) -> str:
        """Return how many more labels are needed."""
        return "too few answers" if run_figure.short else UNKNOWN if run_figure.more is None else f"{run_figure.more:,}"

    needs_labels = any(run_figure.more is not None or run_figure.short for run_figure in figures)
    columns = (
        words("run", unfolded=True),
        Column("by the judge (95 %)", "judge", figure),
        Column("sampled") if any(run_figure.sampled for run_figure in figures) else None,
        Column("labelled"),
        Column("corrected (95 %)", "corrected", figure),
        Column("worth", "effective"),
        Column("still to label", lambda run_figure: run_figure, more) if needs_labels else None,
    )
    about = "worth: equivalent number of labels"
    title = f"{scorer}, corrected by people's labels" + (f" with {corrections.by}" if corrections.by else "")
    print_table(table_of("corrected", figures, columns, title=title, about=about), console)
    if corrections.differences:
        pair = (
            words("run", unfolded=True),
            Column("by the judge (95 %)", "judge", lambda estimate: figure(estimate, difference_text)),
            Column("corrected (95 %)", "corrected", lambda estimate: figure(estimate, difference_text)),
        )
        title = f"{scorer}, minus that of {figures[0].run}"
        print_table(table_of("corrected differences", corrections.differences, pair, title=title), console)


def _correction_lines(corrections: Corrections) -> Iterator[str]:
    """Yield why some figures are missing, and on which assumptions the others depend."""
    lacks: dict[str, list[str]] = {}
    for figure in corrections.figures:
        if figure.blank and figure.sampled:
            yield (
                f"{safe(figure.run)}: {figure.sampled - figure.blank:,} of {figure.sampled:,} sampled answers are "
                f"labelled; {figure.blank:,} left blank. If people left out the hard ones, the labelled answers are no "
                "random sample, and the corrected figure and its interval do not hold: label these, too."
            )
        lacks.setdefault(figure.why, []).append(figure.run)
    for pair in corrections.differences:
        if not any(figure.why for figure in corrections.figures if figure.run in (pair.run, pair.first)):
            lacks.setdefault(pair.why, []).append(f"{pair.run} minus {pair.first}")
    for reason, names in lacks.items():
        if reason:
            yield f"No corrected figure of {safe(', '.join(names))}: {safe(reason)}."
    for note in corrections.notes:
        yield f"Not to be relied on: {safe(note)}."
    if not corrections.drawn and any(figure.corrected for figure in corrections.figures):
        yield "The labels say nothing of how their answers were chosen: corrected figures hold if chance drew them."


def _price_table(agreement: PeopleAgreement) -> TextTable:
    unit = described(agreement.corrections[0].figures[0].scorer).unit
    first = agreement.corrections[0].figures[0]
    return table_of(
        "judges to buy",
        agreement.prices,
        (
            words("judge"),
            Column("full price", "cost", dollars),
            Column("width", "width", lambda value: in_scale(value, unit, 1) if value is not None else UNKNOWN),
            Column("worth", "effective"),
        ),
        title=f"which judge to buy: its price, and the width of {first.run}'s corrected {first.scorer} by its verdicts",
        about="worth: equivalent number of labels",
    )


def _judge_table(agreement: PeopleAgreement) -> TextTable:
    return table_of(
        "each judge",
        agreement.judges,
        (
            words("judge"),
            Column("items", lambda judge: judge.agreement.n if judge.agreement else 0),
            Column("same %", "agreement.accuracy.value", lambda value: percent(value, 1)),
            Column("kappa", "agreement.kappa", _number_text),
            Column("95 %", "agreement", _kappa_interval),
        ),
        title="each judge by itself, on all items that it gave a verdict on",
        about="Cohen's kappa with people: 1 perfect, 0 as by chance",
    )


def _number_text(value: float | None) -> str:
    return "-" if value is None else figure_text(value, ".3f")
