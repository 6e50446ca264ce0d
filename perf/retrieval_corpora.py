"""Made corpora of three shapes: real sentences of the shared corpora, recombined, with rare words strewn in.

    python -m perf.retrieval_corpora DATA HOME abstracts 1000000

| shape | a passage | made of |
|---|---|---|
| ``abstracts`` | a title and three to six sentences | abstracts of PubMedQA, SciFact and MED |
| ``textbooks`` | a heading and eight to sixteen sentences | OpenStax' textbooks and MedQuAD's answers |
| ``titles`` | one sentence | all of them |
| ``paragraphs`` | a title and one to three sentences: 389 characters | all of them |

Real sentences make common terms as common as they are in medical text. No corpus of thousands holds the rare words of
millions of passages (names, doses, misprints), so each passage gets one or two of them, by Zipf's law. What stands
together is drawn, with a seed: passages have no subject, so an order of the passages by subject cannot be tried here.
The passages are stored as a collection without being read from a file, which is not what is measured.
"""

import gzip
import json
import random
import re
import sys
import time
from pathlib import Path

import msgspec

from ragrounds.base.records import Passage
from ragrounds.tools.index.collection import Collection, Manifest, PassageWriter, write_whole
from ragrounds.tools.index.collection_builder import _index_ids

SHAPES = {"abstracts": (4, 7), "textbooks": (9, 17), "titles": (1, 1), "paragraphs": (2, 4)}
"""Fewest and most sentences of a passage; the first is its title."""
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def sentences(data: Path, shape: str) -> list[str]:
    """The different sentences of 30 to 400 characters that passages of a shape are made of, sorted."""
    texts: list[str] = []
    if shape != "textbooks":
        for name in ("scifact", "pubmedqa_1k", "medline_med1033"):
            with (data / "beir" / name / "corpus.jsonl").open(encoding="utf-8") as lines:
                texts += [f"{row['title']}. {row['text']}" for row in map(json.loads, lines)]
    if shape != "abstracts":
        for path, field in (("openstax/openstax_passages", "text"), ("medquad/medquad_with_answers", "answer")):
            with gzip.open(data / f"{path}.jsonl.gz", "rt", encoding="utf-8") as lines:
                texts += [json.loads(line)[field] for line in lines]
    return sorted({part for text in texts for part in _END.split(text) if 30 <= len(part) <= 400})


def rare_word(draw: random.Random) -> str:
    """A word such as ``q7k2``: that of rank n is drawn about as often as 1/n, among 2e8."""
    rank = int(2e8 ** draw.random())
    word = ""
    while rank:
        rank, digit = divmod(rank, 36)
        word = _DIGITS[digit] + word
    return f"q{word}"


def made_collection(data: Path, home: Path, shape: str, count: int) -> Collection:
    """The collection of that shape and size under a home; made where it is not there."""
    folder = home / "indexes" / f"{shape}-{count}"
    if not (folder / "manifest.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        draw, pool = random.Random(shape), sentences(data, shape)
        low, high = SHAPES[shape]
        writer = PassageWriter(folder)
        for number in range(count):
            title, *rest = draw.choices(pool, k=draw.randint(low, high))
            rest += [rare_word(draw) for _ in range(draw.randint(1, 2))]
            identity = f"p{number}"
            writer.add(Passage(id=identity, document=identity, title=title, text=" ".join(rest), corpus=""))
        writer.flush()
        writer.close()
        _index_ids(folder)
        manifest = Manifest(
            name=folder.name,
            version=writer.chain.hex()[:12],
            passages=count,
            documents=count,
            chunker="none",
            source="perf/retrieval_corpora.py",
            size=writer.size,
            built=time.time(),
        )
        write_whole(folder / "manifest.json", msgspec.json.encode(manifest))
    return Collection(folder)


def questions(data: Path, count: int, *, long: bool) -> list[str]:
    """Questions of MIRAGE, drawn: short ones are BioASQ's (one line), long ones are drawn from all five sets."""
    benchmark = json.loads((data / "mirage/benchmark.json").read_text(encoding="utf-8"))
    sets = benchmark.values() if long else [benchmark["bioasq"]]
    found = [item["question"] for part in sets for item in part.values()]
    random.Random(0).shuffle(found)
    return found[:count]


if __name__ == "__main__":
    began = time.process_time()
    made = made_collection(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    sys.stdout.write(f"{made.corpus}: {made.manifest.size / 1e6:,.0f} MB, {time.process_time() - began:.0f} s\n")
