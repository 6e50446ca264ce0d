"""Export ``answer_sheet``: a heading a question, and what was answered, in Markdown."""

from typing import Annotated

from msgspec import Meta, Struct

from ragrounds.extend import ExportFormat, Redactor, lines_file


class Options(Struct, frozen=True):
    level: Annotated[int, Meta(description="The level of the headings.")] = 2


def parts(export):
    def lines():
        hide = Redactor()  # keys never go into a file
        for run in export.runs:
            for attempt in export.store.attempts(run):
                heading = f"{'#' * export.options.level} {run.agent}: {attempt.question_id}"
                yield hide(f"{heading}\n\n{attempt.text}\n\n").encode()

    yield lines_file(lines)


ANSWER_SHEET = ExportFormat(
    name="answer_sheet",
    summary="Markdown: a heading a question, and what was answered.",
    writes="file",
    options=Options,
    parts=parts,
)
