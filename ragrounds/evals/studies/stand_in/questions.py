"""What stands in for benchmarks that answer questions, for the corpora that they search, and for every model.

`ragrounds study run --stand-in` puts small made-up sets in the place of the papers' (here: all but those whose point is
retrieval, which :mod:`.retrieval` replaces), BM25 of other parameters in the place of each retriever, and a server on
loopback in the place of every model. Each cell of a study is then carried out from end to end: its graph, prompts,
scorer, judge and statistics are the real ones. Nothing that comes of it is a result.

The questions are the package's own sample, in the form of each benchmark's own files; triplets and Chinese questions
are made up in :mod:`.texts`. Questions of ``mirage/pubmedqa`` and ``mirage/bioasq`` name their abstract, so that
analyses of the gold passage's position have what they need.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from ragrounds.evals.studies.stand_in import texts
from ragrounds.evals.studies.study import Setting
from ragrounds.models.stand_in_server import ALIAS
from ragrounds.specs import Spec, Value, parse
from ragrounds.tools.cards import cards
from ragrounds.tools.retrievers.fusion import MEDRAG

QUESTIONS = 6
"""Questions of a made-up set, about."""
EPOCHS = 2
"""At most: enough for a spread over epochs."""
CORPORA = ("pubmed", "statpearls", "textbooks", "wikipedia")
ELSEWHERE = frozenset({"r2med", "cmedteb", "ogcarebench", "beir"})
"""Families that :mod:`.retrieval` replaces."""
_MIRAGE = {"mmlu": "c", "medqa": "c", "medmcqa": "c", "pubmedqa": "y", "bioasq": "n"}
"""Dataset → what it is made of: four options, yes/no/maybe, yes/no."""
_OWN_MODELS = ("model", "judge")


def stand_in(settings: Mapping[str, Setting], folder: Path, base_url: str) -> dict[str, Setting]:
    """A cell's settings with what can be had here in the place of what cannot.

    Args:
        settings: of a cell.
        folder: where made-up sets and corpora are written; what is there already is left as it is.
        base_url: of :func:`~ragrounds.models.stand_in_server.stand_in_server`.

    Returns:
        The settings, unchanged where the cell is about retrieval.
    """
    benchmark = str(settings.get("benchmark", ""))
    if benchmark.partition(":")[0].partition("/")[0].partition("[")[0] in ELSEWHERE or "agent" not in settings:
        return dict(settings)
    made = dict(settings)
    made["benchmark"] = stand_in_benchmark(benchmark, folder)
    if "corpus" in made:
        made["corpus"] = stand_in_corpus(str(made["corpus"]), folder)
    if "retriever" in made:
        made["retriever"] = stand_in_retriever(str(made["retriever"]))
        made.setdefault("corpus", "sample")  # the web has none
    for role in _OWN_MODELS:
        if role in made:
            made[role] = stand_in_model(str(made[role]))
    made.setdefault("model", stand_in_model("openai:any"))
    made |= {"base_url": base_url, "alias": ALIAS}
    if "epochs" in made:
        made["epochs"] = min(int(str(made["epochs"])), EPOCHS)
    for key in ("imported", "limit", "per_dataset", "where"):
        made.pop(key, None)
    return made


def stand_in_model(model: str) -> str:
    """The text of a model with another provider: the name and its parameters stay, so that rows stay apart."""
    spec = parse(model)
    return str(Spec(f"openai:{spec.name.partition(':')[2] or spec.name}", dict(spec.parameters)))


def stand_in_retriever(retriever: str) -> str:
    """BM25 of other parameters for every encoder and the web; a fusion stays one, of BM25s."""
    return str(_retriever(parse(retriever)))


def _retriever(spec: Spec) -> Spec:
    if spec.name in MEDRAG:
        spec = Spec("rrf", {**MEDRAG[spec.name].parameters, **spec.parameters})
    if spec.name in ("rrf", "weighted"):
        return Spec(spec.name, {key: _member(value) for key, value in spec.parameters.items()})
    if spec.name in ("rerank", "maxp", "joined"):
        inner = spec.parameters.get("of", "bm25")
        return _retriever(inner if isinstance(inner, Spec) else Spec(str(inner), {}))
    if spec.name == "bm25":
        return spec
    drawn = hashlib.sha256(str(spec).encode()).digest()
    return Spec("bm25", {"k1": (5 + drawn[0] % 16) / 10, "b": (1 + drawn[1] % 8) / 10})


def _member(value: Value) -> Value:
    """A parameter of a fusion: a retriever is replaced, a number stays."""
    if isinstance(value, Spec):
        return _retriever(value)
    if isinstance(value, str) and (value in cards() or value in ("bm25", "dense", "web")):
        return _retriever(Spec(value, {}))
    return value


def stand_in_corpus(corpus: str, folder: Path) -> str:
    """Parts of the sample's corpus under the names of MedRAG's four, joined as they were; for others the sample."""
    parts = corpus.split("+")
    if not set(parts) <= set(CORPORA):
        return "sample"
    place = folder / "corpora"
    for name, rows in _corpora().items():
        write_rows(place / f"{name}.jsonl", rows)
    return "+".join(f"medrag:{place / part}.jsonl" for part in parts)


def stand_in_benchmark(benchmark: str, folder: Path) -> str:
    """The reference of a made-up set in the form of the benchmark's own files; of one that is none of the papers', its
    own."""
    family, _, dataset = benchmark.partition("[")[0].partition(":")[0].partition("/")
    if family in ("mirage", "mrag") and (dataset in _MIRAGE or not dataset):
        return f"{benchmark}:{_mirage(folder)}"
    if family == "mrag":
        return f"{benchmark}:{_mrag(dataset, folder)}"
    if benchmark in ("chemprot", "ddi", "cmeie"):
        return f"{benchmark}:{_mrag(benchmark, folder)}"
    return benchmark


def _sample(name: str) -> list[dict[str, object]]:
    text = files("ragrounds").joinpath("sample", name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _number(id: object) -> int:
    """The number of a sample's passage, which stands for its PMID."""
    return int(str(id).lstrip("p"))


def _corpora() -> dict[str, list[dict[str, object]]]:
    """The sample's passages in MedRAG's form, dealt out by number; those with an answer to yes or no are abstracts."""
    golds = {_number(id) for one in _yes_or_no() for id in _listed(one["documents"])}
    dealt: dict[str, list[dict[str, object]]] = {name: [] for name in CORPORA}
    for row in _sample("corpus.jsonl"):
        number = _number(row["_id"])
        name = CORPORA[0 if number in golds else number % len(CORPORA)]
        made = {"id": f"{name}_{number}", "title": row["title"], "content": row["text"]}
        dealt[name].append({**made, "PMID": number} if name == "pubmed" else made)
    return dealt


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _yes_or_no() -> list[dict[str, object]]:
    return [one for one in _sample("questions.jsonl") if str(one["id"]).startswith("y")]


def _mirage(folder: Path) -> Path:
    """MIRAGE's benchmark.json with `QUESTIONS` of the sample's questions for each dataset."""
    four = [one for one in _sample("questions.jsonl") if str(one["id"]).startswith("c")]
    made: dict[str, dict[str, dict[str, object]]] = {}
    for place, (dataset, kind) in enumerate(_MIRAGE.items()):
        if kind == "c":
            chosen = four[place * QUESTIONS : (place + 1) * QUESTIONS]
        elif kind == "y":
            chosen = _yes_or_no()[:QUESTIONS]
        else:
            chosen = [one for one in _yes_or_no()[QUESTIONS:] if one["answer"] != "C"][:QUESTIONS]
        made[dataset] = {f"{dataset}-{number:03d}": _entry(one, kind) for number, one in enumerate(chosen)}
    path = folder / "mirage" / "benchmark.json"
    write_once(path, json.dumps(made, indent=1))
    return path


def _entry(one: Mapping[str, object], kind: str) -> dict[str, object]:
    options = one["options"]
    shown = {"A": "yes", "B": "no"} if kind == "n" else options
    entry: dict[str, object] = {"question": one["question"], "options": shown, "answer": one["answer"]}
    return entry if kind == "c" else {**entry, "PMID": [_number(id) for id in _listed(one["documents"])]}


def _mrag(dataset: str, folder: Path) -> Path:
    """One of MRAG's other datasets, in the form of its own files."""
    place = folder / "mrag"
    if dataset == "multimedqa":
        long = [one for one in _sample("questions.jsonl") if one["type"] == "long"]
        keys = ("id", "question", "answer", "facts")
        return write_rows(place / "multimedqa.jsonl", ({key: one[key] for key in keys} for one in long))
    if dataset == "tcm":
        return write_rows(place / "tcm.jsonl", texts.MADE_UP.tcm)
    if dataset == "clfqa":
        return write_rows(place / "clfqa.jsonl", texts.MADE_UP.clfqa)
    if dataset == "cmeie":
        return write_rows(place / "CMeIE_dev.jsonl", texts.cmeie())
    if dataset == "ddi":
        return write_rows(place / "ddi2013.jsonl", texts.ddi())
    if dataset == "chemprot":
        for name, lines in texts.chemprot().items():
            write_once(place / "chemprot" / f"chemprot_test_{name}.tsv", "\n".join(lines))
        return place / "chemprot"
    triplets = texts.MADE_UP.drkg if dataset == "drkg" else texts.MADE_UP.adint
    return write_once(place / f"{dataset}.tsv", "\n".join("\t".join(triplet) for triplet in triplets))


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write JSON Lines, once as :func:`write_once` does."""
    return write_once(path, "\n".join(json.dumps(row, ensure_ascii=False) for row in rows))


def write_once(path: Path, text: str) -> Path:
    """Write a file once: what is there already keeps its time, so that no index of it is built again."""
    wanted = (text + "\n").encode()
    if not path.is_file() or path.read_bytes() != wanted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted)
    return path
