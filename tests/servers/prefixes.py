"""A prefix cache as vLLM's: prompts in blocks, each known by its own text and all that stands before it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

BLOCK = 64
"""Characters: vLLM's blocks are 16 tokens."""


class PrefixCache:
    """Keeps the `size` blocks that were used last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, None] = OrderedDict()
        self.found = 0
        """Blocks that were there already."""
        self.looked = 0
        """Blocks of all prompts."""

    def read(self, prompt: str) -> int:
        """Take a prompt in; returns how many of its first characters were there."""
        chain, there, whole = b"", 0, True
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = hashlib.sha256(chain + prompt[start : start + BLOCK].encode()).digest()
            self.looked += 1
            if whole and chain in self._kept:
                there += 1
            else:
                whole = False
            self._kept[chain] = None
            self._kept.move_to_end(chain)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        self.found += there
        return there * BLOCK
