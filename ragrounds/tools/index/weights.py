"""Weights of local models: checks that they are here or can be downloaded.

Libraries that download weights try for a minute and more where there is no network. Callers that load weights
check here first.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from ragrounds.base.errors import UserError

PATIENCE = 2.0
"""Seconds within which the hub has to answer anything at all."""
_HUB = "https://huggingface.co"
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def weights_are_here(model: str) -> bool:
    """Return True if the path exists, or Hugging Face's cache holds a snapshot of the id."""
    if Path(model).expanduser().exists():
        return True
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface").expanduser()
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    return any((hub / f"models--{model.replace('/', '--')}" / "snapshots").glob("*/config.json"))


def check_weights(*models: str) -> None:
    """Check that the weights are here, or that the hub that has them answers.

    Raises:
        UserError: the weights are not here, and the hub does not answer within :data:`PATIENCE` seconds.
    """
    absent = [model for model in dict.fromkeys(models) if not weights_are_here(model)]
    if absent and (reason := _out_of_reach(absent[0])):
        raise weights_missing(", ".join(absent), reason)


def need_library(model: str) -> None:
    """Check that the library for local models is installed.

    Raises:
        UserError: it is not installed. The message says what to install.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise UserError(f"The model {model!r} needs sentence-transformers: install ragrounds[local].")


def load_weights(kind: str, model: str, **settings: object) -> Any:
    """Load an object of a class of sentence-transformers, with the weights of a folder or a Hugging Face id.

    Raises:
        UserError: the library is not installed, or too old for the class; the weights are neither here nor available.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    need_library(model)
    check_weights(model)  # before the library is loaded, which takes many seconds
    import sentence_transformers

    loader = getattr(sentence_transformers, kind, None)
    if loader is None:
        raise UserError(f"The model {model!r} needs sentence-transformers 6 or later: install ragrounds[local].")
    try:
        return loader(place_of_weights(model), **settings)
    except Exception as problem:  # the hub, the network and the file formats each have errors of their own
        raise weights_missing(model, f"{type(problem).__name__}: {problem}") from None


def place_of_weights(model: str) -> str:
    """Return the folder if a model's name is a folder's path, or else the name itself as an id."""
    folder = Path(model).expanduser()
    return str(folder) if folder.exists() else model


def weights_missing(model: str, reason: str) -> UserError:
    """Return the error for weights that cannot be loaded."""
    return UserError(
        f"The weights {model!r} cannot be loaded ({' '.join(reason.split())[:200]}). Where they cannot be downloaded, "
        "copy the folder of that Hugging Face id here and give its path in place of the id: "
        "NAME[model=/path/to/copy], and document_model=… where documents have an encoder of their own. "
        "`ragrounds list retrievers` says which retrievers need none."
    )


def _out_of_reach(model: str) -> str:
    """Return why the hub cannot be reached for a model; empty if it answers, whatever the status."""
    if any(os.environ.get(name, "").upper() in ("1", "TRUE", "ON", "YES") for name in _OFFLINE):
        return "they are not here, and the environment is set to offline"
    endpoint = os.environ.get("HF_ENDPOINT") or _HUB
    answer: list[str] = []
    # Looking up a name has no time-out of its own: a thread that hangs is left behind.
    asking = threading.Thread(target=lambda: answer.append(_hub_error(f"{endpoint.rstrip('/')}/{model}")), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return answer[0] if answer else f"they are not here, and {endpoint} does not answer within {PATIENCE:g} s"


def _hub_error(url: str) -> str:
    """Return why a hub's URL cannot be reached; empty if it answers, even with an error status."""
    if not url.startswith(("https://", "http://")):
        return f"they are not here, and {url} is no address of a hub"
    try:
        with urlopen(Request(url, method="HEAD"), timeout=PATIENCE):  # noqa: S310 - the scheme is checked
            return ""
    except HTTPError:
        return ""
    except (URLError, OSError, ValueError) as problem:
        return f"they are not here, and {url} cannot be reached: {getattr(problem, 'reason', problem)}"
