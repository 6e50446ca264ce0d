"""Analysis ``answer_length``: how many words the answers of a run have."""

from statistics import fmean

from msgspec import Struct

from ragrounds.extend import Analysis, AnalysisTable, Mark, Picture


class AnswerLength(Struct, frozen=True):
    run: str
    words: float
    short: float


def measure(store, runs, options):
    lengths = {run.id: [len(attempt.text.split()) for attempt in store.attempts(run)] for run in runs}
    return tuple(
        AnswerLength(run, fmean(found), fmean(length <= 20 for length in found)) for run, found in lengths.items()
    )


def table(made, options):
    rows = tuple((one.run, round(one.words, 1), round(one.short, 2)) for one in made)
    return AnalysisTable(title="Length of answers", columns=("run", "words", "share of up to 20 words"), rows=rows)


def picture(made, options):
    marks = tuple(Mark(name=one.run, value=one.short) for one in made)
    return Picture(title="Answers of up to 20 words", marks=marks, bars=True)


ANSWER_LENGTH = Analysis(
    name="answer_length",
    summary="how many words answers have",
    needs="attempts",
    measure=measure,
    table=table,
    picture=picture,
    scored=False,
)
