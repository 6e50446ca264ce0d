"""``trec``: a run of TREC's form, ``query Q0 document rank score tag``: retrieved documents without answers.

It is a retrieval, not a run of answers, so it is not imported. The message names the command that compares it with our
retrievals.
"""

from __future__ import annotations

import re
from shlex import quote

from ragrounds.base.errors import UserError
from ragrounds.extensions.exchange.importers.importer import Importer, ImportFile, Rows

_LINE = re.compile(rb"\S+\s+Q0\s+\S+\s+\d+\s+[-+.\deE]+\s+\S")


def _rows(file: ImportFile) -> Rows:
    raise UserError(
        f"{file.path} is a TREC run: what was searched, without answers. Score it next to retrievers of ours: "
        f"ragrounds retrieve --benchmark beir:FOLDER --run {quote(str(file.path))}"
    )


TREC = Importer(
    name="trec",
    summary="A TREC run: `ragrounds retrieve --run` scores it.",
    recognises=lambda file: _LINE.match(file.start.lstrip()) is not None,
    rows=_rows,
)
