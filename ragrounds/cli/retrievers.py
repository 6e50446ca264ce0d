"""`ragrounds retrievers`: what can be searched with."""

from __future__ import annotations

from typing import Annotated

import typer

_BUILT_IN = (
    ("bm25", "BM25: analyser, k1, b; query_weighted=true is R2MED's and BRIGHT's"),
    ("rrf", "reciprocal rank fusion: rrf[a=bm25,b=medcpt,constant=60,depth=100]"),
    ("rrf2, rrf4", "MedRAG's fusions: constant 100, max(2k, 100) of each"),
    ("weighted", "weighted sum of scaled scores: weighted[a=bm25,b=medcpt,a_weight=0.3]"),
    ("maxp", "long queries over chunks: maxp[of=bm25,query=tokens[size=512,stride=128]]"),
    ("rerank", "a cross-encoder over the first: rerank[of=bm25,model=monobert,top=100]"),
    ("dense", "any embedding model: dense[model=PATH_OR_ID], openai:MODEL, import:module:name"),
    ("web", "the web as a corpus: web[provider=tavily,pages=true]"),
    ("langchain, llamaindex", 'your own retriever: langchain[from="module:name"]'),
)


def retrievers_command(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List retrievers and rerankers: what can be used right now, and what is missing."""
    from ragrounds.tools.analysers import NAMES
    from ragrounds.tools.cards import cards, missing

    found = [(card, missing(card)) for card in cards().values()]
    if json:
        import msgspec

        from ragrounds.cli.common import print_json

        listed = [{**msgspec.to_builtins(card), "usable": not lacks, "missing": lacks} for card, lacks in found]
        print_json({"built_in": [name for name, _ in _BUILT_IN], "analysers": NAMES, "cards": listed})
        return
    from rich.table import Table
    from rich.text import Text

    from ragrounds.ui.tables import results_console

    console = results_console()
    built_in = Table(title="always there", title_justify="left")
    built_in.add_column("name", no_wrap=True)
    built_in.add_column("what it is")
    for name, what in _BUILT_IN:
        built_in.add_row(name, Text(what))
    console.print(built_in)
    console.print(f"analysers of bm25: {', '.join(NAMES)}")
    table = Table(title="cards", title_justify="left")
    for heading in ("name", "kind", "size", "missing", "used in"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for card, lacks in found:
        table.add_row(card.name, card.kind, card.size, Text(lacks or "nothing"), Text("; ".join(card.used_in)))
    console.print(table)
