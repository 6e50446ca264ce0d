"""A training run as a frozen record: one TOML file says encoders, data, stages, recipes and what is measured.

A *stage* is one training phase with its own losses and settings; a *recipe* is stages in order. Recipes that begin with
the same stages share them, so that an ablation costs only what differs. ``$NAME`` in a path is filled in from the
environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.text import parse_toml

AtLeastOne = Annotated[int, Meta(ge=1)]
AboveZero = Annotated[float, Meta(gt=0)]
Kind = Literal["initialise-query", "initialise-document", "align", "joint", "distil"]
TEACHER = "teacher"
"""The row of the document encoder with itself: in every table, and no recipe's name."""
FOLDERS = ("vectors", "stages", "indexes")
"""Folders of a run that are no recipe's."""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Lora(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Low-rank adapters on an encoder (Hu et al. 2022); defaults are the paper's (Appendix C.3). They are merged into
    the weights when a stage ends."""

    rank: int = 32
    alpha: int = 64
    dropout: float = 0.0
    targets: tuple[str, ...] = ()
    """Modules by name; none: all linear ones."""


class Encoder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where an encoder comes from."""

    model: str
    """A folder or a Hugging Face id that sentence-transformers can load."""
    layers: tuple[int, ...] = ()
    """Only these layers of it, from 0; none: all."""
    length: int = 0
    """Tokens of an input; 0: the model's own limit."""
    prefix: str = ""
    """An instruction put before every input."""
    lora: Lora | None = None


class Texts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unlabelled texts for Stage I: passages of a corpus, or fields of a JSON Lines file."""

    source: str = ""
    """A corpus as `ragrounds index` takes it: ``beir:FOLDER``, ``jsonl:FILE``, …"""
    file: str = ""
    fields: tuple[str, ...] = ()
    """Which fields of `file`; lists of texts are taken one by one."""
    cut: Literal["sentences", "whole"] = "sentences"
    words: tuple[int, int] = (4, 48)
    """Sentences shorter or longer are left out."""
    limit: int = 0
    """So many, drawn by the run's seed; 0: all."""


class Pairs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Queries with a relevant text. One of three: a JSON Lines file (CARE's own training files have the default
    fields), a corpus whose titles stand for queries (Appendix C.1), or a BEIR folder's judgements."""

    file: str = ""
    query: str = "query"
    positive: str = "pos"
    negative: str = "neg"
    source: str = ""
    benchmark: str = ""
    split: str = "train"
    limit: int = 0


class Diversity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The filter against near-duplicates; defaults are the paper's (Section 4.1, Table 14)."""

    seeds: int = 5000
    """Texts taken without a question, to begin with."""
    neighbours: int = 5
    most: int = 1
    """So many of the neighbours may be nearer than the threshold."""
    queries: float = 0.85
    documents: float = 0.78


class Mining(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hard negatives: the best candidates of the document encoder that a verifier says do not answer."""

    candidates: int = 50
    """Looked at for each query (Appendix B.1: 50)."""
    verifier: str = "margin[share=0.95]"
    """``margin[share=…]``, or ``model[name=…]`` for a language model:
    :mod:`ragrounds.extensions.training.hard_negatives`."""
    keep: int = 4
    """Negatives kept for each query, best first."""


class Stage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One phase of training."""

    kind: Kind
    epochs: AtLeastOne = 1
    batch: AtLeastOne = 64
    rate: AboveZero = 1e-4
    """Peak learning rate of AdamW, decayed linearly (Table 17)."""
    warmup: float = 0.05
    """Share of the steps."""
    decay: float = 0.01
    """Weight decay."""
    temperature: AboveZero = 0.05
    contrastive: float = 1.0
    """Weights of the losses; 0 leaves one out."""
    mse: float = 1.0
    kl: float = 0.0
    supervised: bool = False
    """``align`` on labelled pairs in place of texts (Table 5)."""
    length: int = 0
    """Tokens of a document while this stage trains; 0: the encoder's own limit."""
    negatives: int = 0
    """Hard negatives a query, of those that were given or mined."""
    dimensions: tuple[int, ...] = ()
    """Matryoshka: the loss is the mean over these cuts (Equation 5); none: the full vector alone."""
    limit: int = 0
    """Examples an epoch looks at; 0: all."""
    accumulate: AtLeastOne = 1
    """Batches a step."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    dropout: bool = True
    """As the models' own configurations say; ``false``: none, which suits a student that copies vectors."""
    checkpoint: AtLeastOne = 100
    """Steps between checkpoints."""


class Evaluation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trained pair is measured on."""

    benchmark: str
    split: str = "test"
    selection: bool = False
    """These figures chose something: they are shown apart, and are no result."""


class Training(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file."""

    name: str
    query: Encoder
    document: Encoder
    dimensions: int = 0
    """Both vectors are cut to so many; 0: to the smaller encoder's."""
    seed: int = 0
    device: str = "cpu"
    threads: int = 0
    """Of torch; 0: as it likes."""
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
        given = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UserError(f"Cannot read the training file {str(path)!r}: {problem.strerror}.") from None
    except ValueError as problem:
        raise UserError(f"{str(path)!r} is not TOML: {problem}.") from None
    for change in changes:
        _change(given, change)
    try:
        training = msgspec.convert(_filled(given), Training)
    except msgspec.ValidationError as problem:
        raise UserError(f"The training file {str(path)!r}: {problem}.{_meant(str(problem))}") from None
    check(training)
    return training


def check(training: Training) -> None:
    """Say what cannot be, before anything is loaded.

    Raises:
        UserError: the first thing found.
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
        _one_place("texts", {"source": texts.source, "file": texts.file})
        if texts.file and not texts.fields:
            raise UserError(f'[[texts]] of the file {texts.file!r}: give the fields with texts, fields = ["question"].')
    for pairs in training.pairs:
        _one_place("pairs", {"file": pairs.file, "source": pairs.source, "benchmark": pairs.benchmark})


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


def _one_place(kind: str, places: dict[str, str]) -> None:
    given = [place for place, value in places.items() if value]
    if len(given) != 1:
        raise UserError(
            f"An entry of [[{kind}]] has {len(given)} sources ({', '.join(given) or 'none'}): expected one of "
            f"{', '.join(places)}."
        )


def _change(given: dict[str, Any], change: str) -> None:
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
        given = given.setdefault(part, {})
        if not isinstance(given, dict):
            raise UserError(f"Cannot use --set {change!r}: {part!r} holds no fields of its own.")
    given[last] = read


def _filled(value: object) -> object:
    if isinstance(value, str):
        return _VARIABLE.sub(_variable, value)
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def _variable(found: re.Match[str]) -> str:
    name = found.group(1) or found.group(2)
    if name not in os.environ:
        raise UserError(f"The training file uses ${name}, and the environment variable {name} is not set.")
    return os.environ[name]


def _meant(problem: str) -> str:
    """The nearest field to one that is unknown, from msgspec's message."""
    unknown = re.search(r"unknown field `([^`]+)`", problem)
    if not unknown:
        return ""
    records = (Training, Encoder, Stage, Texts, Pairs, Diversity, Mining, Lora, Evaluation)
    return nearest(unknown.group(1), sorted({field for record in records for field in record.__struct_fields__}))
