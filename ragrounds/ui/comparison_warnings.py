"""What a reader of a comparison must know, in words: what answered in place of a language model, how an average over
datasets misleads, and what the comparison cannot show. Each follows from its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.abstract import FEW, Limitation, small_datasets, smallest
from ragrounds.evals.compare.comparison import Comparison, NoModel, RunTotals, ScorerTable, kinds_of
from ragrounds.evals.compare.findings import is_average, reversals
from ragrounds.ui.comparison_words import listed
from ragrounds.ui.text import in_scale, number_of, one_line, percent, safe


def average_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    """The lines of every table that is shown; none where nothing misleads.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what a run is called, safe to show.
    """
    for table, _ in comparison.shown(scorers):
        yield from (f"{one_line(table.scorer)}: {line}" for line in _lines(table, names))


def _lines(table: ScorerTable, names: Mapping[str, str]) -> Iterator[str]:
    count = len(table.lines[0].datasets) if table.lines else 0
    if turned := reversals(table):
        first = turned[0]
        ahead, behind = first.ahead, first.behind
        average, pooled = (
            f"{in_scale(one, table.unit)} against {in_scale(other, table.unit)}"
            for one, other in (
                (ahead.overall.value, behind.overall.value),
                (ahead.overall.pooled, behind.overall.pooled),
            )
        )
        more = f" So it is with {number_of(len(turned) - 1, 'more pair')}." if len(turned) > 1 else ""
        yield (
            f"by the average of {count} datasets {names[ahead.run]} is ahead of {names[behind.run]}, {average}; over "
            f"all questions pooled it is behind, {pooled}.{more}"
        )
    if small := small_datasets(table):
        yield f"{small_words(small)}: in the average each of {count} datasets weighs alike."


def small_words(small: Mapping[str, int]) -> str:
    """Datasets of a few questions with their numbers."""
    listed = ", ".join(f"{safe(name.rpartition('/')[2])} {n:,}" for name, n in small.items())
    verb = "has" if len(small) == 1 else "have"
    return f"{number_of(len(small), 'dataset')} {verb} fewer than {FEW} questions ({listed})"


def drawn_words(counts: Mapping[str, int], limit: int) -> str:
    """That a limit leaves some datasets a few questions, and how to draw as many of each; empty: it does not.

    Args:
        counts: dataset → questions drawn.
        limit: of all together.
    """
    small = smallest(counts) if len(counts) > 1 else {}
    if not small:
        return ""
    return (
        f"With --limit {limit:,}, {small_words(small)}: in an average over datasets each of the {len(counts)} weighs "
        f"alike. --per-dataset {max(1, limit // len(counts)):,} draws as many of each."
    )


def average_heading(table: ScorerTable) -> str:
    """What the figures of a table are an average of; empty: of nothing."""
    return f"average of {len(table.lines[0].datasets)} datasets" if is_average(table) else ""


_WORDS: dict[NoModel, str] = {
    "extractive": (
        "come from a built-in extractive baseline, not from a language model: it picks what the passages support by "
        "word overlap. The figures show that the pipeline works and what retrieval brings to such a reader. They say "
        "nothing about any language model, nor about medicine."
    ),
    "stand-in": (
        "come from the stand-in for a model server, not from a language model: what it says follows from the words in "
        "the prompt. The figures show that the pipeline works. They say nothing about any language model, nor about "
        "medicine."
    ),
}


def no_model_sentences(rows: Sequence[RunTotals], names: Mapping[str, str]) -> Iterator[str]:
    """That answers come from no language model, and what their figures then say.

    Args:
        rows: of a comparison.
        names: run id → what a run is called, safe to show.
    """
    for kind, runs in kinds_of([(row.run, row.no_model) for row in rows]).items():
        yield no_model_sentence(kind, [] if len(runs) == len(rows) else [names[run] for run in runs])


def no_model_sentence(kind: NoModel, whose: Sequence[str]) -> str:
    """What figures of such answers say.

    Args:
        kind: what answered.
        whose: names of the systems whose answers these are; none: all.
    """
    return f"The answers{f' of {listed(whose)}' if whose else ''} {_WORDS[kind]}"


def warning_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    """All that stands before the figures of a page.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what a run is called, safe to show.
    """
    yield from no_model_sentences(comparison.rows, names)
    yield from average_lines(comparison, scorers, names)


def limitation_sentences(found: Sequence[Limitation], names: Mapping[str, str]) -> Iterator[str]:
    """A sentence or two for each.

    Args:
        found: of a comparison.
        names: run id → what the run is called, safe to show.
    """
    for one in found:
        yield _of_size(one, names) or _of_answers(one, names) or _of_runs(one, names)


def _of_size(one: Limitation, names: Mapping[str, str]) -> str:
    match one.kind:
        case "few":
            return f"Too few questions for an interval under {one_line(one.scorer)}: {_counted(one, names)}."
        case "size":
            low, high = percent(one.low, 1), percent(one.high, 1)
            span = low if low == high else f"{low} to {high}, depending on the pair"
            return (
                f"{number_of(one.of, 'question')} under {one_line(one.scorer)} show a true difference with 80 % power "
                f"only from so many points on: {span} (minimum detectable effect). Smaller ones may have been missed."
            )
        case "sample":
            return (
                f"The figures are of {one.counts[0]:,} questions drawn from {one.of:,}; they stand for the others as "
                "far as the draw does."
            )
        case "clusters":
            groups, questions = one.counts
            return (
                f"{questions:,} of the {one.of:,} questions stand in {number_of(groups, 'cluster')} of duplicates or "
                "of one source. Intervals and tests take each as one: there is less to learn from than the number "
                "of questions says."
            )
        case "same text":
            groups, questions = one.counts
            return (
                f"{questions:,} questions share their text and options with another ({number_of(groups, 'text')}), and "
                "the benchmark does not mark them as duplicates: intervals take them as independent."
            )
        case "once":
            return (
                "Each question was asked once: how much the answers of one system vary when it is asked again was not "
                "measured."
            )
        case "extractive" | "stand-in":
            return no_model_sentence(one.kind, [names[run] for run in one.runs])
        case "one model":
            return "All systems asked one model: what holds for it need not hold for another."
        case _:
            return ""


def _of_answers(one: Limitation, names: Mapping[str, str]) -> str:
    under = f"under {one_line(one.scorer)}"
    match one.kind:
        case "open":
            said = [
                f"{names[run]} {in_scale(low, 'percent')} to {in_scale(high, 'percent')} ({count:,})"
                for run, count, (low, high) in zip(one.runs, one.counts, one.bounds, strict=True)
            ]
            return (
                "Attempts that failed, were capped, wait for a person or are not made count as not correct. Had all of "
                f"them been right, figures {under} would be higher, in percent: {'; '.join(said)}."
            )
        case "unreadable":
            return (
                "From some answers no choice could be read; they count as not correct, so a figure is also one of "
                f"following the format: {_counted(one, names)} of {one.of:,} attempts each."
            )
        case "default":
            said = [
                f"{names[run]} {count:,}, and {default:,} of its {number_of(right, 'right answer')} "
                f"{'is' if default == 1 else 'are'} that {one_line(one.letter)}"
                for run, count, (default, right) in zip(one.runs, one.counts, one.rights, strict=True)
            ]
            letter = one_line(one.letter)
            return (
                f"From some answers {one_line(one.scorer)} can read no choice; it counts them as {letter}, which is "
                f"right wherever {letter} is. Of {one.of:,} attempts each: {'; '.join(said)}."
            )
        case "missing":
            return (
                f"Answers without a score {under} are in no mean, so figures are of the others alone: "
                f"{_counted(one, names)} of {one.of:,} questions each."
            )
        case "judged":
            return (
                f"Scores {under} are a model's verdicts. How far it agrees with people is known only where people's "
                "labels stand in the part on judges."
            )
        case _:
            return ""


def _of_runs(one: Limitation, names: Mapping[str, str]) -> str:
    who = listed([names[run] for run in one.runs])
    match one.kind:
        case "unpriced":
            return f"The cost of {who} is not known: a price or a count of tokens is missing."
        case "imported":
            return (
                f"The answers of {who} were made elsewhere: how they came about was not seen, and they cannot be "
                "replayed."
            )
        case "unrecorded":
            return (
                f"Some calls were seen and not recorded, so a replay cannot answer them: {_counted(one, names)} calls."
            )
        case "retried":
            return f"Some attempts were made again, and figures are of the newest: {_counted(one, names)}."
        case _:
            return ""


def _counted(one: Limitation, names: Mapping[str, str]) -> str:
    return "; ".join(f"{names[run]} {count:,}" for run, count in zip(one.runs, one.counts, strict=True))
