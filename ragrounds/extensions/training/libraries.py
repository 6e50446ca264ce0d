"""Lazy imports of torch and sentence-transformers, on the first use of an attribute. Reading, checking and showing a
training file needs neither."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sentence_transformers as sentence_transformers
    import torch as torch
else:

    class _LazyModule:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, part: str) -> object:
            return getattr(import_module(self._name), part)

    sentence_transformers, torch = _LazyModule("sentence_transformers"), _LazyModule("torch")
