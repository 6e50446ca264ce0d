"""Servers of others under two of the systems of docs/foreign, streamed and not.

They are rows of perf/compatibility.md.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from compatibility_counting import AgentServer, Server
from compatibility_rows import FOREIGN, Measure

KEY = "sk-loopback-needs-none"
"""What the proxy is told its key is."""
TINY = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder, notes = sys.argv[1:3]
torch.manual_seed(0)
raw = Tokenizer(models.BPE())
raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
special, alphabet = ["<s>", "</s>"], pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=alphabet)
raw.train_from_iterator(open(notes, encoding="utf-8"), trainer)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="</s>")
tokenizer.chat_template = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}<s>assistant: "
)
tokenizer.save_pretrained(folder)
sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
ends = dict(bos_token_id=0, eos_token_id=1, pad_token_id=1)
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=8192, **sizes, **ends))
model.generation_config.max_new_tokens = 24
model.generation_config.do_sample = False
model.save_pretrained(folder)
"""
"""Makes a model of 64 thousand random weights with a tokenizer trained on the notes."""


class LoggingServer(Server):
    """A server whose own access log says what it answered."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def log(self) -> IO[bytes]:
        """What uvicorn prints of each request."""
        return (self.folder / "access.log").open("ab")

    def answered(self) -> int:
        """Chat completions that its log calls OK."""
        text = (self.folder / "access.log").read_text(encoding="utf-8", errors="replace")
        return len(re.findall(r'"POST /v1/chat/completions HTTP/1\.1" 200', text))


class TransformersServer(LoggingServer):
    """`transformers serve` with a tiny model of random weights."""

    def __init__(self, python: Path, folder: Path) -> None:
        super().__init__(folder)
        self._serve = python.with_name("transformers")
        self.model = str(folder / "tiny")
        if not Path(self.model).exists():
            subprocess.run([python, "-c", TINY, self.model, FOREIGN / "notes.jsonl"], check=True, capture_output=True)

    def command(self) -> list[str | Path]:
        """What starts it; standard error joins what it prints."""
        words = f'exec "$0" serve "$1" --host 127.0.0.1 --port {self.port} --device cpu --log-level info 2>&1'
        return ["sh", "-c", words, self._serve, self.model]


class LiteLlmServer(LoggingServer):
    """A LiteLLM proxy before our scripted server."""

    def __init__(self, python: Path, folder: Path, behind: AgentServer) -> None:
        super().__init__(folder)
        self._litellm = python.with_name("litellm")
        self._behind = behind
        (folder / "config.yaml").write_text(
            "model_list:\n  - model_name: gpt-4o-mini\n    litellm_params:\n      model: openai/gpt-4o-mini\n"
            f"      api_base: http://127.0.0.1:{behind.port}/v1\n      api_key: none\n"
            f"general_settings:\n  master_key: {KEY}\nlitellm_settings:\n  telemetry: false\n"
        )

    def start(self) -> None:
        """Both."""
        self._behind.start()
        super().start()

    def stop(self) -> None:
        """Both."""
        super().stop()
        self._behind.stop()

    def command(self) -> list[str | Path]:
        """What starts the proxy."""
        config = self.folder / "config.yaml"
        words = f'exec "$0" --config "$1" --host 127.0.0.1 --port {self.port} 2>&1'
        return ["env", "LITELLM_LOCAL_MODEL_COST_MAP=True", "sh", "-c", words, self._litellm, config]


class VllmServer(LoggingServer):
    """vLLM with the same tiny model, where a GPU is at hand."""

    def __init__(self, python: Path, folder: Path, tiny: str) -> None:
        super().__init__(folder)
        self._vllm, self.model = python.with_name("vllm"), tiny

    def command(self) -> list[str | Path]:
        """What starts it."""
        words = f'exec "$0" serve "$1" --host 127.0.0.1 --port {self.port} --max-model-len 4096 2>&1'
        return ["sh", "-c", words, self._vllm, self.model]


class ServerMeasure(Measure):
    """A system on a server that is given."""

    given: Server

    def serving(self, latency: float = 0.0) -> Server:
        """The given one."""
        return self.given


def gpu() -> str:
    """The name of a GPU that is at hand; empty: none."""
    try:
        told = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True
        )
    except OSError:
        return ""
    return told.stdout.strip().split("\n")[0] if told.returncode == 0 else ""


def servers(
    ours: Path, folder: Path, python_of: Callable[[Sequence[str]], Path]
) -> dict[str, Callable[[], tuple[Server, str]]]:
    """What makes each server, and tells its version.

    Args:
        ours: the Python that our scripted server runs under.
        folder: where models, configurations and logs are kept.
        python_of: an environment that holds these packages.
    """

    def _version(python: Path, name: str) -> str:
        code = "import sys, importlib.metadata as m; print(sys.argv[1], m.version(sys.argv[1]))"
        return subprocess.run([python, "-c", code, name], capture_output=True, text=True, check=False).stdout.strip()

    def _ours() -> tuple[Server, str]:
        return AgentServer(ours), ""

    def _transformers() -> tuple[Server, str]:
        python = python_of(("torch", "transformers[serving]"))
        return TransformersServer(python, folder / "transformers"), _version(python, "transformers")

    def _litellm() -> tuple[Server, str]:
        python = python_of(("litellm[proxy]",))
        return LiteLlmServer(python, folder / "litellm", AgentServer(ours)), _version(python, "litellm")

    def _vllm() -> tuple[Server, str]:
        if not gpu():
            raise LookupError("no GPU is at hand")
        python = python_of(("vllm>=0.30",))
        tiny = TransformersServer(python, folder / "transformers").model
        return VllmServer(python, folder / "vllm", tiny), _version(python, "vllm")

    return {
        "our scripted server": _ours,
        "`transformers serve`, random tiny model": _transformers,
        "LiteLLM proxy": _litellm,
        "vLLM": _vllm,
    }
