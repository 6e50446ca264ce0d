"""What stands in for the sets, encoders and rerankers of studies of retrieval: R2MED, CMedTEB and OGCaReBench.

Sets are small and made up (:mod:`.retrieval_sets`), in the form of the authors' own files. Encoders and rerankers
become BM25 of other parameters, and vectors of sentences counts of characters. Models are those of :mod:`.questions`.
Nothing that comes of it is a result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ragrounds.evals.studies.stand_in import retrieval_sets as sets
from ragrounds.evals.studies.stand_in.questions import (
    ELSEWHERE,
    stand_in_corpus,
    stand_in_model,
    write_once,
    write_rows,
)
from ragrounds.evals.studies.study import Setting
from ragrounds.models.stand_in_server import ALIAS
from ragrounds.specs import Spec, Value, parse
from ragrounds.tools.cards import cards
from ragrounds.tools.chunkers import chunker, complete
from ragrounds.tools.collection import indexes, is_current
from ragrounds.tools.collection_builder import build_collection
from ragrounds.tools.corpora import corpus_source

_HASHED = "import:ragrounds.evals.studies.stand_in.hashed_vectors:embeddings"


def stand_in(
    settings: Mapping[str, Setting], folder: Path, base_url: str, home: Path | None = None
) -> dict[str, Setting]:
    """A cell's settings with what can be had here in the place of what cannot.

    Args:
        settings: of a cell.
        folder: where made-up sets and corpora are written; what is there already is left as it is.
        base_url: of :func:`~ragrounds.models.stand_in_server.stand_in_server`.
        home: where indexes of chunks are built; ``None``: the folder that `folder` is in.

    Returns:
        The settings, unchanged where the cell is of another paper.
    """
    benchmark = str(settings.get("benchmark", ""))
    family = benchmark.partition(":")[0].partition("/")[0].partition("[")[0]
    if family not in ELSEWHERE or ":" in benchmark:
        return dict(settings)
    made = dict(settings)
    made["benchmark"] = _benchmark(benchmark, folder)
    chinese = "cmedteb" in benchmark
    if "corpus" in made:
        made["corpus"] = _corpus(str(made["corpus"]), folder, home or folder.parent)
    if benchmark == "cmedteb/sts":
        made["retriever"] = str(_vectors(parse(str(made["retriever"]))))
    elif "retriever" in made:
        made["retriever"] = str(_retriever(parse(str(made["retriever"])), chinese))
    if "query_generation" in made:
        made["query_generation"] = str(_way(parse(str(made["query_generation"])), folder, chinese))
    if "agent" in made:
        made["agent"] = str(_agent(parse(str(made["agent"])), folder))
    for role in ("model", "judge"):
        if role in made:
            made[role] = stand_in_model(str(made[role]))
    if "model" in made or "agent" in made:
        made.setdefault("model", stand_in_model("openai:any"))
        made |= {"base_url": base_url, "alias": ALIAS}
    for key in ("limit", "per_dataset"):
        made.pop(key, None)
    return made


def _retriever(spec: Spec, chinese: bool) -> Spec:
    """A retriever with its encoders and rerankers replaced; what it is made of stays."""
    inner = spec.parameters.get("of", "bm25")
    of = inner if isinstance(inner, Spec) else Spec(str(inner))
    if spec.name in ("parent", "maxp"):
        return spec.having(of=_plain(_retriever(of, chinese)))
    if spec.name == "rerank":
        second = _bm25(str(spec.parameters.get("model", "")), chinese)
        return Spec("weighted", {"a": _plain(_retriever(of, chinese)), "b": second, "b_weight": 0.5})
    if spec.name == "bm25":
        return spec.having(analyser="chinese-bigram") if chinese else spec
    return _bm25(str(spec), chinese)


def _plain(spec: Spec) -> Value:
    """A spec as a value of another: a name alone where it has no parameters."""
    return spec if spec.parameters else spec.name


def _bm25(name: str, chinese: bool) -> Spec:
    """BM25 with parameters that follow from a name."""
    drawn = hashlib.sha256(name.encode()).digest()
    given: dict[str, Value] = {"k1": 0.5 + drawn[0] % 16 / 10, "b": 0.1 + drawn[1] % 8 / 10}
    return Spec("bm25", {**given, "analyser": "chinese-bigram"} if chinese else given)


def _vectors(spec: Spec) -> Spec:
    """Counts of characters in place of an encoder's vectors."""
    card = cards().get(spec.name)
    return Spec("dense", {"model": _HASHED, "query_prefix": card.encoding.query_prefix if card else spec.name})


def _way(spec: Spec, folder: Path, chinese: bool) -> Spec:
    """A way of query generation, whose retriever and corpus are replaced."""
    made = dict(spec.parameters)
    if "corpus" in made:
        made["corpus"] = stand_in_corpus(str(made["corpus"]), folder)
    if "retriever" in made:
        made["retriever"] = str(_retriever(parse(str(made["retriever"])), chinese))
    return Spec(spec.name, made)


def _agent(spec: Spec, folder: Path) -> Spec:
    way = spec.parameters.get("query_generation")
    if not isinstance(way, Spec):
        return spec
    return spec.having(query_generation=_plain(_way(way, folder, chinese=False)))


def _benchmark(name: str, folder: Path) -> str:
    """The reference of a made-up set in the form of the authors' files."""
    family, _, dataset = name.partition("[")[0].partition("/")
    place = folder / "retrieval" / family / (dataset or "whole")
    if family == "r2med":
        for file, rows in sets.r2med_set(dataset).items():
            write_rows(place / file, rows)
        return f"{name}:{place}"
    if family == "beir":
        made = sets.cmedteb_retrieval(whole=dataset != "medicalretrieval")
        judged = made.pop("qrels")
        for file, rows in made.items():
            write_rows(place / file, rows)
        lines = ["\t".join(judged[0]), *("\t".join(map(str, row.values())) for row in judged)]
        write_once(place / "qrels" / "test.tsv", "\n".join(lines))
        return f"{name}:{place}"
    if family == "cmedteb":
        return f"{name}:{write_rows(place.with_suffix('.jsonl'), _cmedteb(dataset))}"
    return f"{name}:{write_rows(place.with_suffix('.jsonl'), sets.case_questions())}"


def _cmedteb(dataset: str) -> list[sets.Row]:
    return sets.cmedteb_pairs() if dataset == "sts" else sets.cmedteb_pools(dataset)


def _corpus(name: str, folder: Path, home: Path) -> str:
    """Case reports under the name of an index of OGCaReBench's, cut as the name says; MedRAG's parts otherwise."""
    paper, _, cut = name.partition("-")
    if paper != "ogcarebench":
        return stand_in_corpus(name, folder)
    source = write_rows(folder / "retrieval" / "reports.jsonl", sets.case_reports())
    size, _, stride = cut.partition("-")
    chosen = str(complete(f"tokens[size={size},stride={stride}]" if stride else "none"))
    index = f"stand-in-{name}"
    place = indexes(home) / index
    if not is_current(place):
        build_collection(place, corpus_source(f"jsonl:{source}"), name=index, chunker=chosen, chunk=chunker(chosen))
    return index
