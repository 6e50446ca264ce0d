"""Encoders: open them, keep some of their layers, fit their dimensions to each other, and save them as a pair.

A pair is one folder that loads in three ways with sentence-transformers: as a whole (a Router: ``encode_query``,
``encode_document``), and its ``query`` and ``document`` folders each as a separate encoder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragrounds.base.errors import UserError
from ragrounds.extensions.training.libraries import sentence_transformers, torch
from ragrounds.extensions.training.spec import Encoder, Lora
from ragrounds.tools.index.weights import weights_missing

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


_NEEDED = "Training needs torch, sentence-transformers and peft: install ragrounds[train]."


def import_requirements() -> None:
    """Import the packages that training needs.

    Raises:
        UserError: a package is not installed or too old.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import sentence_transformers
        import torch  # noqa: F401
        import transformers
    except ImportError:
        raise UserError(_NEEDED) from None
    if not hasattr(sentence_transformers.SentenceTransformer, "preprocess"):
        raise UserError(f"{_NEEDED} sentence-transformers {sentence_transformers.__version__} is too old.")
    transformers_logging: Any = transformers.utils.logging
    transformers_logging.disable_progress_bar()


def identity(model: str) -> str:
    """Return the identity of a model: a hash of the folder's files, or the id as given."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return model
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in (".json", ".safetensors", ".bin", ".txt", ".model"):
            digest.update(path.relative_to(folder).as_posix().encode())
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def open_folder(model: str, length: int, device: str) -> SentenceTransformer:
    """Load an encoder by folder or id.

    Raises:
        UserError: it is not on this machine and cannot be downloaded.
    """

    folder = Path(model).expanduser()
    try:
        opened = sentence_transformers.SentenceTransformer(str(folder) if folder.exists() else model, device=device)
    except Exception as problem:  # the hub, the network and the file formats each have other error classes
        raise weights_missing(model, f"{type(problem).__name__}: {problem}") from None
    set_length(opened, length)
    return opened


def set_length(opened: SentenceTransformer, length: int) -> int:
    """Limit inputs to `length` tokens, and return the previous limit.

    A static encoder has no limit, and a `length` of 0 changes nothing.
    """
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    if not length or isinstance(opened[0], StaticEmbedding):
        return 0
    before = int(opened.max_seq_length or 0)
    opened.max_seq_length = length
    return before


def open_encoder(encoder: Encoder, device: str) -> SentenceTransformer:
    """Open an encoder as the training file describes it: a model, or some of its layers, with unit vectors.

    Raises:
        UserError: it cannot be loaded, or has no such layer.
    """
    from sentence_transformers.base.modules import Normalize

    opened = open_folder(encoder.model, encoder.length, device)
    if encoder.layers:
        _keep_layers(opened, encoder)
    if not isinstance(opened[-1], Normalize):
        opened.append(Normalize())
    return opened


def fit(opened: SentenceTransformer, dimensions: int) -> SentenceTransformer:
    """Cut an encoder's vectors to the first `dimensions` (Matryoshka), and normalise them after that.

    The cut is a fixed linear map that is saved with the encoder. The encoder is changed in place.

    Raises:
        UserError: it has fewer dimensions.
    """
    from sentence_transformers.base.modules import Dense, Normalize

    have = opened.get_embedding_dimension()
    if have is None or have < dimensions:
        raise UserError(f"An encoder gives {have} dimensions: cannot keep {dimensions} of them.")
    if have > dimensions:
        cut = Dense(have, dimensions, bias=False, activation_function=torch.nn.Identity())
        with torch.no_grad():
            cut.linear.weight.copy_(torch.eye(dimensions, have))
        cut.requires_grad_(False)
        opened.append(cut.to(opened.device))
        opened.append(Normalize())
    return opened


def freeze_cuts(opened: SentenceTransformer) -> None:
    """Exclude the maps that :func:`fit` added from training, also after an encoder was read from a folder."""
    from sentence_transformers.base.modules import Dense

    modules: Any = opened
    for module in modules:
        if isinstance(module, Dense) and getattr(module.linear, "bias", None) is None:
            weight = module.linear.weight
            if torch.equal(weight, torch.eye(*weight.shape, device=weight.device, dtype=weight.dtype)):
                module.requires_grad_(False)


def add_lora(opened: SentenceTransformer, lora: Lora) -> None:
    """Add low-rank adapters to the transformer; everything else in it is frozen.

    Raises:
        UserError: peft is not installed, or there are no such modules.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError(_NEEDED) from None
    transformer: Any = opened[0]
    try:
        transformer.model = get_peft_model(
            transformer.model,
            LoraConfig(
                r=lora.rank,
                lora_alpha=lora.alpha,
                lora_dropout=lora.dropout,
                target_modules=list(lora.targets) or "all-linear",
            ),
        )
    except ValueError as problem:
        raise UserError(f"The adapters cannot be put on: {' '.join(str(problem).split())[:300]}") from None


def merge_lora(opened: SentenceTransformer) -> None:
    """Merge the adapters into the weights."""
    transformer: Any = opened[0]
    transformer.model = transformer.model.merge_and_unload()


def save_encoder(opened: SentenceTransformer, folder: Path) -> None:
    """Write an encoder to a folder, which is complete whenever it exists.

    If the process is killed, the previous encoder is kept: under its name, or next to it as ``.NAME.old``.
    """
    new, previous = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("part", "old"))
    shutil.rmtree(new, ignore_errors=True)
    opened.save(str(new), create_model_card=False)
    # A folder that is not empty cannot be replaced in one step. The previous encoder is removed last.
    if folder.exists():
        shutil.rmtree(previous, ignore_errors=True)
        folder.rename(previous)
    new.rename(folder)
    shutil.rmtree(previous, ignore_errors=True)


def save_pair(
    query: SentenceTransformer, document: SentenceTransformer, folder: Path, prefixes: dict[str, str]
) -> None:
    """Write a pair.

    Args:
        query: The query encoder.
        document: The document encoder; may be the same one.
        folder: Folder of the pair; an earlier pair in it is replaced.
        prefixes: Texts that ``encode_query`` and ``encode_document`` put before each query and document.
    """

    folder.mkdir(parents=True, exist_ok=True)
    structure: dict[str, list[str]] = {}
    types: dict[str, str] = {}
    for name, encoder in (("query", query), ("document", document)):
        save_encoder(encoder, folder / name)
        modules = json.loads((folder / name / "modules.json").read_text())
        paths = [f"{name}/{entry['path']}".rstrip("/") for entry in modules]
        structure[name] = paths
        types |= dict(zip(paths, (entry["type"] for entry in modules), strict=True))
    router = {"types": types, "structure": structure, "parameters": {"default_route": None, "allow_empty_key": False}}
    _write(folder / "router_config.json", router)
    _write(
        folder / "modules.json",
        [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}],
    )
    _write(
        folder / "config_sentence_transformers.json",
        {
            "__version__": {"sentence_transformers": sentence_transformers.__version__},
            "model_type": "SentenceTransformer",
            "prompts": {"query": prefixes.get("query", ""), "document": prefixes.get("document", "")},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _keep_layers(opened: SentenceTransformer, encoder: Encoder) -> None:
    transformer: Any = opened[0]
    model = transformer.model
    count = int(getattr(model.config, "num_hidden_layers", 0))
    stacks = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == count
    ]
    if not stacks:
        raise UserError(f"{encoder.model!r} has no stack of {count} layers to choose from.")
    wrong = [layer for layer in encoder.layers if not 0 <= layer < count]
    if wrong:
        raise UserError(f"{encoder.model!r} has no layer {wrong[0]}: it has {count}, counted from 0.")
    parent, name, stack = stacks[0]
    setattr(parent, name, torch.nn.ModuleList(stack[layer] for layer in encoder.layers))
    model.config.num_hidden_layers = len(encoder.layers)
    kinds = getattr(model.config, "layer_types", None)
    if kinds:  # decoders that mix kinds of attention list them by layer
        model.config.layer_types = [kinds[layer] for layer in encoder.layers]
