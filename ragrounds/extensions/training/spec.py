"""Training run as a frozen record: one TOML file with encoders, data, stages, recipes and benchmarks.

A *stage* is one training phase with its own losses and settings; a *recipe* is stages in order. Recipes that begin with
the same stages share them, so that an ablation costs only what differs. ``$NAME`` in a path is filled in from the
environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import map_texts, parse_toml

AtLeastOne = Annotated[int, Meta(ge=1)]
AboveZero = Annotated[float, Meta(gt=0)]
Kind = Literal["initialise-query", "initialise-document", "align", "joint", "distil"]
TEACHER = "teacher"
"""Name of the row of the document encoder with itself: in every table, and no recipe's name."""
FOLDERS = ("vectors", "stages", "indexes")
"""Folders of a run that are reserved, so that no recipe may have their names."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Lora(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Low-rank adapters on an encoder (Hu et al. 2022); defaults are the paper's (Appendix C.3).

    They are merged into the weights when a stage ends.
    """

    rank: int = 32
    alpha: int = 64
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Names of the adapted modules; empty: all linear ones."""


class Encoder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Origin of an encoder, and changes to it."""

    model: str
    """Folder or Hugging Face id that sentence-transformers can load."""
    layers: tuple[int, ...] = ()
    """Layers of the model that are kept, from 0; empty: all."""
    length: int = 0
    """Largest number of tokens of an input; 0: the model's own limit."""
    prefix: str = ""
    """Instruction before every input."""
    lora: Lora | None = None


class Texts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unlabelled texts for Stage I: passages of a corpus, or fields of a JSON Lines file."""

    source: str = ""
    """Corpus as `ragrounds index` takes it: ``beir:FOLDER``, ``jsonl:FILE``, …"""
    file: str = ""
    fields: tuple[str, ...] = ()
    """Fields of `file` with texts; lists of texts are taken one by one."""
    cut: Literal["sentences", "whole"] = "sentences"
    words: tuple[int, int] = (4, 48)
    """Smallest and largest number of words; other sentences are left out."""
    limit: int = 0
    """Number of texts to sample by the run's seed; 0: all."""


class Pairs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Queries with a relevant text.

    One of three: a JSON Lines file (CARE's own training files have the default fields), a corpus whose titles are used
    as queries (Appendix C.1), or a BEIR folder's judgements.
    """

    file: str = ""
    query: str = "query"
    positive: str = "pos"
    negative: str = "neg"
    source: str = ""
    benchmark: str = ""
    split: str = "train"
    limit: int = 0


class Diversity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filter against near-duplicates; defaults are the paper's (Section 4.1, Table 14)."""

    seeds: int = 5000
    """Number of texts at the beginning that are kept without a comparison."""
    neighbours: int = 5
    most: int = 1
    """Number of neighbours that may be nearer than the threshold."""
    queries: float = 0.85
    documents: float = 0.78


class Mining(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mining of hard negatives: the best candidates of the document encoder that a verifier finds not relevant."""

    candidates: int = 50
    """Number of candidates for each query (Appendix B.1: 50)."""
    verifier: str = "margin[share=0.95]"
    """``margin[share=…]``, or ``model[name=…]`` for a language model:
    :mod:`ragrounds.extensions.training.hard_negatives`."""
    keep: int = 4
    """Number of negatives kept for each query, best first."""


class Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Phase of training."""

    kind: Kind
    epochs: AtLeastOne = 1
    batch: AtLeastOne = 64
    rate: AboveZero = 1e-4
    """Peak learning rate of AdamW, decayed linearly (Table 17)."""
    warmup: float = 0.05
    """Share of the steps in the warm-up."""
    decay: float = 0.01
    """Weight decay."""
    temperature: AboveZero = 0.05
    contrastive: float = 1.0
    """Weight of each loss; 0 leaves one out."""
    mse: float = 1.0
    kl: float = 0.0
    supervised: bool = False
    """True if ``align`` trains on labelled pairs instead of texts (Table 5)."""
    length: int = 0
    """Largest number of tokens of a document in this stage; 0: the encoder's own limit."""
    negatives: int = 0
    """Number of hard negatives a query, from the given or mined ones."""
    dimensions: tuple[int, ...] = ()
    """Matryoshka: the loss is the mean over these cuts (Equation 5); empty: only the full vector."""
    limit: int = 0
    """Number of examples in an epoch; 0: all."""
    accumulate: AtLeastOne = 1
    """Number of batches a step."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    dropout: bool = True
    """True if dropout is used as in the models' own configurations; ``false`` suits a student that copies vectors."""
    checkpoint: AtLeastOne = 100
    """Number of steps between checkpoints."""


class Evaluation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Benchmark that a trained pair is measured on."""

    benchmark: str
    split: str = "test"
    selection: bool = False
    """True if these figures were used to choose something: they are shown separately, and are no result."""


class Training(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole training file."""

    name: str
    query: Encoder
    document: Encoder
    dimensions: int = 0
    """Length to which both vectors are cut; 0: the smaller encoder's dimensions."""
    seed: int = 0
    device: str = "cpu"
    threads: int = 0
    """Number of torch's threads; 0: torch's default."""
    precision: Literal["fp32", "bf16"] = "fp32"
    gradient_checkpointing: bool = False
    texts: tuple[Texts, ...] = ()
    pairs: tuple[Pairs, ...] = ()
    diversity: Diversity | None = None
    mining: Mining | None = None
    stage: dict[str, Stage] = {}
    recipe: dict[str, tuple[str, ...]] = {}
    evaluate: tuple[Evaluation, ...] = ()


def read_training(path: Path, changes: Sequence[str] = ()) -> Training:
    """Read a file, with ``key.key=VALUE`` changes (values as in TOML) on top.

    Raises:
        UserError: no such file, not TOML, an unknown or wrong field, or a run that cannot be.
    """
    try:
        values = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UserError(f"Cannot read the training file {str(path)!r}: {problem.strerror}.") from None
    except ValueError as problem:
        raise UserError(f"{str(path)!r} is not TOML: {problem}.") from None
    for change in changes:
        _change(values, change)
    try:
        training = msgspec.convert(map_texts(values, partial(_VARIABLE.sub, _variable)), Training)
    except msgspec.ValidationError as problem:
        raise UserError(f"The training file {str(path)!r}: {problem}.{_nearest_field(str(problem))}") from None
    check(training)
    return training


def check(training: Training) -> None:
    """Check the consistency of a training before anything is loaded.

    Raises:
        UserError: the first problem.
    """
    for name, recipe in training.recipe.items():
        if name == TEACHER:
            raise UserError(f"A recipe cannot be called {TEACHER!r}: every table has a row of that name.")
        if not re.fullmatch(r"\w[\w.-]*", name) or name in FOLDERS:
            raise UserError(
                f"A recipe cannot be called {name!r}: {', '.join(FOLDERS)} are reserved; letters, digits, '.', '_' "
                "and '-' only."
            )
        for stage in recipe:
            if stage not in training.stage:
                raise UserError(
                    f"The recipe {name!r} has the unknown stage {stage!r}.{nearest(stage, training.stage)} Stages: "
                    f"{', '.join(training.stage) or 'none'}."
                )
    for name, settings in training.stage.items():
        _check_stage(training, name, settings)
    for texts in training.texts:
        _check_single_source("texts", {"source": texts.source, "file": texts.file})
        if texts.file and not texts.fields:
            raise UserError(f'[[texts]] of the file {texts.file!r}: give the fields with texts, fields = ["question"].')
    for pairs in training.pairs:
        _check_single_source("pairs", {"file": pairs.file, "source": pairs.source, "benchmark": pairs.benchmark})


def _check_stage(training: Training, name: str, stage: Stage) -> None:
    needs_pairs = stage.kind != "align" or stage.supervised
    if needs_pairs and not training.pairs:
        raise UserError(f"The stage {name!r} ({stage.kind}) trains on labelled pairs: give [[pairs]].")
    if not needs_pairs and not training.texts:
        raise UserError(f"The stage {name!r} (align) trains on texts: give [[texts]], or supervised = true.")
    if stage.contrastive + stage.mse + stage.kl <= 0:
        raise UserError(f"The stage {name!r}: the sum of the losses' weights is above 0.")
    if stage.batch < 2 and (stage.contrastive or stage.kind == "distil"):
        raise UserError(
            f"The stage {name!r}: batch = {stage.batch} leaves no other text to compare the right one with."
        )


def _check_single_source(kind: str, sources: dict[str, str]) -> None:
    present = [name for name, value in sources.items() if value]
    if len(present) != 1:
        raise UserError(
            f"An entry of [[{kind}]] has {len(present)} sources ({', '.join(present) or 'none'}): expected one of "
            f"{', '.join(sources)}."
        )


def _change(values: dict[str, Any], change: str) -> None:
    key, equals, value = change.partition("=")
    try:
        if not equals:
            raise ValueError
        read = parse_toml(f"value = {value}")["value"]
    except ValueError:
        raise UserError(
            f"Cannot use --set {change!r}: expected KEY=VALUE as in the file, such as query.layers=[0,1]; texts need "
            "quotes."
        ) from None
    *path, last = key.strip().split(".")
    for part in path:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise UserError(f"Cannot use --set {change!r}: {part!r} holds no fields of its own.")
    values[last] = read


def _variable(match: re.Match[str]) -> str:
    name = match.group(1) or match.group(2)
    if name not in os.environ:
        raise UserError(f"The training file uses ${name}, and the environment variable {name} is not set.")
    return os.environ[name]


def _nearest_field(problem: str) -> str:
    """Return the nearest field to an unknown one, from msgspec's message."""
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    if not unknown:
        return ""
    records = (Training, Encoder, Stage, Texts, Pairs, Diversity, Mining, Lora, Evaluation)
    return nearest(unknown.group(1), sorted({field for record in records for field in record.__struct_fields__}))
