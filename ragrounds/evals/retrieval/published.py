"""Results of others that have means and no rankings: MTEB's result files.

A file is one task by one model: ``{"task_name": "SciFact", "scores": {"test": [{"ndcg_at_10": 0.72, …}]}}``, as MTEB
1.11 and later write it, or ``{"mteb_dataset_name": …, "test": {"ndcg_at_10": …}}`` as it did before. The model's name
is in ``model_meta.json`` beside it, or the name of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ragrounds.errors import UserError
from ragrounds.files import read_text
from ragrounds.text import fault

_MTEB = {"nDCG": "ndcg_at_{}", "MAP": "map_at_{}", "R": "recall_at_{}", "P": "precision_at_{}", "MRR": "mrr_at_{}"}
_META = "model_meta.json"


class PublishedMeans(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody published of one retriever on one set."""

    name: str
    """The model's."""
    task: str
    """The set's name, as its authors wrote it."""
    split: str
    means: Mapping[str, float]
    """Measure, as we spell it → mean, from 0 to 1."""
    path: str


def read_published(path: Path, measures: Sequence[str], *, split: str = "test") -> list[PublishedMeans]:
    """Read one of MTEB's result files, or all below a folder; splits other than `split` are passed over.

    Raises:
        UserError: no such file, none in the folder, one that is no result file, or a mean that is no share.
    """
    path = path.expanduser()
    files = sorted(each for each in path.rglob("*.json") if each.name != _META) if path.is_dir() else [path]
    if not files:
        raise UserError(f"The folder {str(path)!r} holds no result files of MTEB (*.json).")
    return [made for file in files if (made := _read(file, measures, split)) is not None]


def same_set(task: str, name: str) -> bool:
    """Whether a task and a set of ours have the same name: ``SciFact`` and ``scifact``, ``NFCorpus`` and
    ``beir/nfcorpus``."""
    return _letters(task) == _letters(name.rpartition("/")[2])


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _read(path: Path, measures: Sequence[str], split: str) -> PublishedMeans | None:
    try:
        held = msgspec.json.decode(read_text(path), type=dict[str, object])
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise UserError(f"Cannot read {str(path)!r} as a result file of MTEB: {fault(problem)}") from None
    task = held.get("task_name") or held.get("mteb_dataset_name")
    scores = held.get("scores", held)
    if not isinstance(task, str) or not isinstance(scores, dict):
        raise UserError(f"{str(path)!r} is no result file of MTEB: expected task_name and scores.")
    found = scores.get(split)
    rows = found if isinstance(found, list) else [found]
    row = next((one for one in rows if isinstance(one, dict)), None)
    if row is None:
        return None
    means = {name: value for name in measures if (value := _mean(row, name, path)) is not None}
    return PublishedMeans(name=_model(path), task=task, split=split, means=means, path=str(path))


def _mean(row: Mapping[str, object], name: str, path: Path) -> float | None:
    kind, _, cut = name.partition("@")
    key = _MTEB.get(kind, "").format(cut)
    value = row.get(key) if cut else None
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise UserError(f"{str(path)!r}: {key} is {value!r}: expected a share from 0 to 1.")
    return float(value)


def _model(path: Path) -> str:
    meta = path.with_name(_META)
    if meta.is_file():
        try:
            named = msgspec.json.decode(read_text(meta), type=dict[str, object]).get("name")
        except (msgspec.MsgspecError, RecursionError):
            named = None
        if isinstance(named, str) and named:
            return named
    return path.parent.name or path.stem
