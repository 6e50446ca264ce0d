"""The MIRAGE authors' recorded replies, found by the question and the options block of a prompt."""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections import Counter
from pathlib import Path

_DOCUMENT = re.compile(r"^Document \[(\d+)\](?: \(Title: .*\))?\n", re.MULTILINE)


class Recorded:
    """Replies by setting, question and options.

    Some questions are substrings of others, and some stand twice with the same options: the whole block after the last
    ``### Question`` is the key, and of questions with the same block the first one's reply is given.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        benchmark = json.loads(options.benchmark.read_text(encoding="utf-8"))
        replies = {}
        for path in options.predictions:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    record = json.loads(line)
                    replies[record["setting"], record["dataset"], record["id"]] = record["raw"]
        settings = {setting for setting, _, _ in replies}
        self.replies_by_block: dict[tuple[str, str], list[str]] = {}
        for dataset, questions in benchmark.items():
            for id, question in questions.items():
                block = _block(question["question"], question["options"])
                for setting in settings:
                    self.replies_by_block.setdefault((setting, block), replies[setting, dataset, id])
        self.documents: int = options.documents
        self.passages = _passages(options.corpus) if options.corpus else None
        self.violations: list[str] = []
        self.checked: Counter[str] = Counter()
        self.held: Counter[str] = Counter()
        """Documents in all prompts of a setting."""

    def replies(self, setting: str, prompt: str) -> list[str]:
        documents, mark, block = prompt.rpartition("### Question\n")
        block = block.removesuffix("\n\n### Answer")
        if setting.startswith("rag"):
            self._check(documents)
        elif documents.strip():
            self.violations.append(f"a prompt without retrieval holds documents: {documents[:80]!r}")
        self.checked[setting] += 1
        self.held[setting] += documents.count("\nDocument [")
        found = self.replies_by_block.get((setting, block))
        if not mark or found is None:
            self.violations.append(f"no recorded reply for {block[:200]!r}")
            return ['{"answer_choice": "not found"}']
        return found

    def _check(self, documents: str) -> None:
        parts = _DOCUMENT.split(documents.partition("### Documents\n")[2])
        numbers, texts = parts[1::2], [text.strip() for text in parts[2::2]]
        if numbers != [str(number) for number in range(len(numbers))] or len(numbers) > self.documents:
            self.violations.append(f"expected up to {self.documents} documents numbered from 0, got {numbers}")
        if not numbers and "(none found)" not in documents:
            self.violations.append(f"a prompt with retrieval holds no documents: {documents[:80]!r}")
        if self.passages is not None:
            strange = [text for text in texts if text not in self.passages]
            if strange:
                self.violations.append(f"{len(strange)} documents are not passages of the corpus: {strange[0][:80]!r}")


def _block(question: str, options: dict[str, str]) -> str:
    listed = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    return f"{question}\n\n### Options\n{listed}"


def _passages(folder: Path) -> set[str]:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        return {json.loads(line)["text"].strip() for line in lines}
