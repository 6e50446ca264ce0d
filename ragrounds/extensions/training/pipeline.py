"""Training run: its recipes' stages one after another, each in a folder named by everything that its result depends on.

OUT/vectors/     the frozen document encoder's vectors of training texts
OUT/stages/KEY/  what a stage made: query/ and document/ where it trained them, stage.json; while it runs, checkpoint.pt
OUT/RECIPE/      the pair, with its model card
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.extensions.training.data import fingerprint
from ragrounds.extensions.training.encoders import (
    add_lora,
    fit,
    freeze_cuts,
    identity,
    import_requirements,
    merge_lora,
    open_encoder,
    open_folder,
    save_encoder,
    set_length,
)
from ragrounds.extensions.training.libraries import torch
from ragrounds.extensions.training.loop import Objective, StageCost, TrainingStep, drop_checkpoint, train
from ragrounds.extensions.training.losses import (
    GradientEncoder,
    alignment_loss,
    distillation_loss,
    ranking_loss,
    symmetric,
    trains_document,
    trains_query,
    with_negatives,
)
from ragrounds.extensions.training.material import Material, MaterialCounts, Progress, prepare
from ragrounds.extensions.training.spec import Stage, Training
from ragrounds.tools.index.collection import write_whole
from ragrounds.tools.index.collection_builder import disk_error, exclusive_build
from ragrounds.tools.index.embedders import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

FORMAT = 2


class EncoderPair(Struct, frozen=True, kw_only=True):
    """Two encoders between stages."""

    key: str
    """Fingerprint of everything that the encoders depend on."""
    query: str = ""
    """Folder of the query encoder; empty: the initial one."""
    document: str = ""
    symmetric: bool = False
    """True if the query encoder encodes documents too."""
    stages: tuple[str, ...] = ()


class TrainingListeners(Struct, frozen=True):
    """Functions that report the progress to a display."""

    doing: Progress = lambda task, done: None
    step: Callable[[TrainingStep], None] = lambda step: None


class TrainingRun:
    """A training file with the folder of its results.

    Raises:
        UserError: what training needs is not installed; a model cannot be loaded.
    """

    def __init__(self, training: Training, out: Path, home: Path, listeners: TrainingListeners | None = None) -> None:
        import_requirements()

        self.training = training
        self.out = out
        self._home = home
        self._listeners = listeners or TrainingListeners()
        if training.threads:
            torch.set_num_threads(training.threads)
        out.mkdir(parents=True, exist_ok=True)

    def recipe(self, name: str) -> EncoderPair:
        """Carry out a recipe from where it stopped, and return the final encoders.

        Raises:
            UserError: another process works in the same folder; data that cannot be used.
            StopRun: the disk is full. Finished stages are kept.
        """
        with exclusive_build(self.out):
            state = self.start
            for stage in self.training.recipe[name]:
                state = self._stage(state, stage)
        return state

    @cached_property
    def start(self) -> EncoderPair:
        """The encoders as the run begins with them."""
        parts = [self.training.query, self.training.document, identity(self.training.query.model), self._teacher]
        return EncoderPair(key=fingerprint([FORMAT, parts, self.dimensions]))

    @cached_property
    def dimensions(self) -> int:
        """Number of dimensions of both encoders' vectors."""
        if self.training.dimensions:
            return self.training.dimensions
        models = (self.training.query.model, self.training.document.model)
        dimensions = {model: open_folder(model, 0, self.training.device).get_embedding_dimension() for model in models}
        return min(int(dimension or 0) for dimension in dimensions.values())

    @cached_property
    def material(self) -> Material:
        """The training data, made ready."""
        vectors_folder = self.out / "vectors"
        return prepare(
            self.training, self.frozen(self.start), self._teacher, vectors_folder, self._home, self._listeners.doing
        )

    def open_query(self, state: EncoderPair) -> SentenceTransformer:
        """Return a copy of the query encoder, to train or to use."""
        if state.query:
            return self._open_trained(state.query, 0)
        return fit(open_encoder(self.training.query, self.training.device), self.dimensions)

    def first_query(self) -> str:
        """Return a folder with the query encoder before any training."""
        folder = self.out / "stages" / f"start-{self.start.key}" / "query"
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            save_encoder(self.open_query(self.start), folder)
        return str(folder)

    def open_document(self, state: EncoderPair) -> SentenceTransformer:
        """Return a copy of the document encoder."""
        if state.symmetric:
            return self.open_query(state)
        if state.document:
            return self._open_trained(state.document, self.training.document.length)
        return fit(open_encoder(self.training.document, self.training.device), self.dimensions)

    def frozen(self, state: EncoderPair) -> Callable[[Sequence[str]], Vectors]:
        """Return a function that gives vectors of texts by a state's document encoder.

        Vectors that were computed before are read from disk.
        """
        encoder, folder = self.training.document, self.out / "vectors"
        initial_key = fingerprint([self._teacher, encoder.length, encoder.layers, self.dimensions])
        encoder_key = state.document or initial_key

        def vectors(texts: Sequence[str]) -> Vectors:
            """Return unit vectors, one row a text."""
            prefixed = [encoder.prefix + text for text in texts]
            path = folder / f"{fingerprint([encoder_key, prefixed])}.npy"
            if not path.is_file():
                document_encoder = self.open_document(state).eval()
                computed: Vectors = document_encoder.encode(prefixed, show_progress_bar=False, convert_to_numpy=True)
                folder.mkdir(parents=True, exist_ok=True)
                buffer = io.BytesIO()
                np.save(buffer, computed.astype(np.float32))
                write_whole(path, buffer.getvalue())
                self._listeners.doing("vectors of the document encoder", len(prefixed))
            return np.asarray(np.load(path), dtype=np.float32)

        return vectors

    def spent(self, state: EncoderPair) -> dict[str, StageCost]:
        """Return the cost of each stage that led to a state."""
        return {
            Path(folder).name: msgspec.json.decode((Path(folder) / "stage.json").read_bytes(), type=_StageRecord).spent
            for folder in state.stages
        }

    @cached_property
    def _teacher(self) -> str:
        return identity(self.training.document.model)

    def _open_trained(self, folder: str, length: int) -> SentenceTransformer:
        opened = open_folder(folder, length, self.training.device)
        freeze_cuts(opened)
        return opened

    def _stage(self, state: EncoderPair, name: str) -> EncoderPair:
        stage = self.training.stage[name]
        settings: Mapping[str, object] = msgspec.structs.asdict(stage) | {"checkpoint": 0}  # changes no result
        other_settings = [
            self.training.seed,
            self.training.precision,
            self.training.threads,
            self.training.document.lora,
        ]
        key = fingerprint([state.key, settings, other_settings, self.material.key])
        folder = self.out / "stages" / f"{name}-{key}"
        trained = EncoderPair(
            key=key,
            query=str(folder / "query") if trains_query(stage) else state.query,
            document=str(folder / "document") if trains_document(stage) else state.document,
            symmetric=symmetric(stage),
            stages=(*state.stages, str(folder)),
        )
        if not (folder / "stage.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            try:
                self._train(state, stage, name, folder)
            except OSError as problem:
                raise disk_error(folder, problem) from None
        return trained

    def _train(self, state: EncoderPair, stage: Stage, name: str, folder: Path) -> None:
        query = self.open_query(state) if trains_query(stage) else None
        document = self.open_document(state) if trains_document(stage) else None
        if document is not None and self.training.gradient_checkpointing:
            transformer: Any = document[0]
            transformer.model.gradient_checkpointing_enable({"use_reentrant": False})
        if document is not None and self.training.document.lora:
            add_lora(document, self.training.document.lora)
        modules = [encoder for encoder in (query, document) if encoder is not None]
        objective = self._loss(state, stage, name, query, document)
        lengths_before = [set_length(encoder, stage.length) for encoder in modules]
        spent = train(name, stage, modules, objective, folder, self.training, self._listeners.step)
        for encoder, length in zip(modules, lengths_before, strict=True):
            set_length(encoder, length)
        if query is not None:
            save_encoder(query, folder / "query")
        if document is not None:
            if self.training.document.lora:
                merge_lora(document)
            save_encoder(document, folder / "document")
        done = _StageRecord(
            name=name, stage=stage, examples=len(objective.lengths), counts=self.material.counts, spent=spent
        )
        write_whole(folder / "stage.json", msgspec.json.format(msgspec.json.encode(done), indent=2))
        drop_checkpoint(folder)

    def _loss(
        self,
        state: EncoderPair,
        stage: Stage,
        name: str,
        query: SentenceTransformer | None,
        document: SentenceTransformer | None,
    ) -> Objective:
        """Return the stage's loss, and the examples' lengths."""
        training, frozen = self.training, self.frozen(state)
        if stage.kind == "align" and query is not None:
            if stage.supervised:
                pairs = self.material.examples
                queries, targets = [pair.query for pair in pairs], frozen([pair.positive for pair in pairs])
            else:
                queries = self.material.texts
                targets = frozen(queries)
            return Objective(alignment_loss(training, stage, query, queries, targets), [len(text) for text in queries])
        examples = with_negatives(self.material.examples, stage, name)
        lengths = [len(example.positive) for example in examples]
        if stage.kind == "distil" and query is not None:
            return Objective(distillation_loss(training, stage, query, examples, frozen), lengths)
        query_encoder, document_encoder = query or document, document or query
        prefixes = training.query.prefix, training.document.prefix
        if query_encoder is None or document_encoder is None:
            raise AssertionError("a stage trains an encoder")
        encode = GradientEncoder(query_encoder, prefixes[0]), GradientEncoder(document_encoder, prefixes[1])
        return Objective(ranking_loss(stage, encode[0], encode[1], query_encoder, examples), lengths)


class _StageRecord(Struct, frozen=True, kw_only=True):
    """Contents of ``stage.json``."""

    name: str
    stage: Stage
    examples: int
    counts: MaterialCounts
    spent: StageCost
