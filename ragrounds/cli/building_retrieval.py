"""What the commands that build benchmarks of retrieval share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ragrounds.build.retrieval.committee import Committee
    from ragrounds.build.retrieval.corpus import Corpus as OpenCorpus

Corpus = Annotated[str, typer.Option("--corpus", help="What is searched: beir:FOLDER, an index by name, or sample.")]
Retriever = Annotated[
    list[str] | None,
    typer.Option("--retriever", help="A member of the committee, such as bm25 (repeatable). [default: bm25]"),
]
Sample = Annotated[int, typer.Option("--sample", min=0, help="Labels in the experts' sheet; 0: no sheet.")]
Experts = Annotated[int, typer.Option("--experts", min=1, help="Columns for experts in that sheet.")]
Sheet = Annotated[
    Path | None, typer.Option("--ratings", help="The sheet with the experts' decisions: how far they agree.")
]
License = Annotated[str, typer.Option("--license", help="The corpus's and the queries' licence, for the card.")]
Reranked = Annotated[
    int, typer.Option("--reranked", min=0, help="Documents a side in the reranking set, drawn by --seed; 0: all.")
]


def opened(corpus: str, retrievers: Sequence[str] | None, home: Path) -> tuple[OpenCorpus, Committee]:
    """The corpus, and the committee that searches it.

    Raises:
        UserError: an unknown corpus or retriever, or one named twice.
    """
    from ragrounds.build.retrieval.committee import open_committee
    from ragrounds.build.retrieval.corpus import Corpus as OneCorpus
    from ragrounds.cli.counting import counting

    with counting() as told:
        searched = OneCorpus(corpus, home, progress=told)
        return searched, open_committee(list(retrievers or ["bm25"]), corpus, home, progress=told)


def set_name(out: Path) -> str:
    """A dataset's name from the folder's, as `ragrounds data add` takes it."""
    return re.sub(r"[^\w.-]+", "-", out.resolve().name).lstrip(".-") or "built"


def distinct(option: str, models: Sequence[str]) -> tuple[str, ...]:
    """Models in their order.

    Raises:
        UserError: one is named twice: it would agree with itself.
    """
    from ragrounds.errors import UserError
    from ragrounds.specs import parse

    texts = [str(parse(model)) for model in models]
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise UserError(f"{option} {twice!r} is named twice: it would count twice.")
    return tuple(texts)
