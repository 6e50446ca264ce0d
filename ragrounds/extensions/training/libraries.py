"""torch and sentence-transformers, each imported when something of it is first used: to read, check and show what is
to be trained needs neither."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sentence_transformers as sentence_transformers
    import torch as torch
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, part: str) -> object:
            return getattr(import_module(self._name), part)

    sentence_transformers, torch = _Later("sentence_transformers"), _Later("torch")
