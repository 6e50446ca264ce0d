"""A tiny BERT of random weights, and a world of tiny texts: training in a second, without a download."""

import json
import random

import pytest

from tests.beir_folders import write_beir

WORDS = [f"w{number}" for number in range(60)]
DIMENSIONS = 16


def model(folder, *, layers=3, dimensions=DIMENSIONS, seed=0):
    """Write a sentence-transformers model with `layers` layers; gives its folder as text."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(seed)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", "title"]
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=dimensions,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=2 * dimensions,
        max_position_embeddings=64,
        initializer_range=0.5,  # so that texts and layers differ; as usual, 0.02, all vectors are nearly one
    )
    raw = folder / "raw"
    BertModel(config).save_pretrained(raw)
    fast.save_pretrained(raw)
    transformer = Transformer(str(raw), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(dimensions), Normalize()]).save(
        str(folder / "model"), create_model_card=False
    )
    return str(folder / "model")


def sentence(seed, length=6):
    """The same words for the same seed."""
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def write_world(folder):
    """Texts, pairs in CARE's form, and a BEIR benchmark whose queries share words with their documents."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = [{"text": f"{sentence(n)}. {sentence(n + 1000)}."} for n in range(60)]
    pairs = [{"query": sentence(n, 3), "pos": [sentence(n, 9)], "neg": [sentence(n + 500, 9)]} for n in range(40)]
    lines(folder / "texts.jsonl", texts)
    lines(folder / "pairs.jsonl", pairs)
    documents = {f"d{n}": sentence(n + 2000, 9) for n in range(20)}
    queries = {f"q{n}": sentence(n + 2000, 4) for n in range(12)}
    return write_beir(folder, documents, queries, [(f"q{n}", f"d{n}") for n in range(12)])


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


FILE = """
name = "tiny"
threads = 1
seed = 3
{more}

[query]
model = "{query}"
{student}

[document]
model = "{document}"
{lora}

[[texts]]
file = "{world}/texts.jsonl"
fields = ["text"]

[[pairs]]
file = "{world}/pairs.jsonl"

[stage.align]
kind = "align"
epochs = 4
batch = 8
rate = 1e-2
checkpoint = 5

[stage.supervised]
kind = "align"
supervised = true
batch = 8
rate = 1e-2

[stage.joint]
kind = "joint"
epochs = 2
batch = 8
rate = 1e-3
negatives = 1
checkpoint = 4

[stage.distil]
kind = "distil"
batch = 8
rate = 1e-3
kl = 1
length = 16
checkpoint = 2

[stage.first-query]
kind = "initialise-query"
batch = 8
rate = 1e-3

[stage.first-document]
kind = "initialise-document"
batch = 8
rate = 1e-3
dimensions = [16, 8, 4]

[recipe]
stage-1 = ["align"]
both = ["align", "joint"]
distilled = ["distil"]
supervised = ["supervised"]
whole = ["first-query", "first-document", "align", "joint"]

[[evaluate]]
benchmark = "beir:{world}"
"""


def write_file(folder, world, query, document=None, *, student="layers = [0]", lora="", more=""):
    """A training file with every kind of stage."""
    path = folder / "training.toml"
    text = FILE.format(world=world, query=query, document=document or query, student=student, lora=lora, more=more)
    path.write_text(text, encoding="utf-8")
    return path


def needs_torch():
    reason = "needs torch, sentence-transformers and peft: pip install ragrounds[train]"
    pytest.importorskip("torch", reason=reason)
    pytest.importorskip("sentence_transformers", reason=reason)
    pytest.importorskip("peft", reason=reason)
