"""What a comparison cannot show, in sentences: each follows from its data, none is said of every comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.limitations import Limitation
from ragrounds.ui.caution_words import no_model_sentence
from ragrounds.ui.comparison_verdict import listed
from ragrounds.ui.text import in_scale, number_of, one_line, percent


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
