"""ragrounds: agentic RAG evaluation for medical question answering.

    import ragrounds as rr

    result = rr.run("sample", ["direct", "vanilla_rag[top_k=8]"])
    print(result)
    result.to_pandas("attempts")

Every name below is imported at its first use: importing the package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragrounds.version import __version__ as __version__

if TYPE_CHECKING:
    from ragrounds.api.benchmarks import benchmark as benchmark
    from ragrounds.api.compare import analyse as analyse
    from ragrounds.api.compare import compare as compare
    from ragrounds.api.compare import ledger as ledger
    from ragrounds.api.compare import report as report
    from ragrounds.api.doctor import doctor as doctor
    from ragrounds.api.progress import NotebookListener as NotebookListener
    from ragrounds.api.progress import RunListener as RunListener
    from ragrounds.api.progress import TerminalListener as TerminalListener
    from ragrounds.api.results import Result as Result
    from ragrounds.api.run import RunResult as RunResult
    from ragrounds.api.run import arun as arun
    from ragrounds.api.run import run as run
    from ragrounds.api.runs import LoadedRun as LoadedRun
    from ragrounds.api.runs import load as load
    from ragrounds.api.runs import runs as runs
    from ragrounds.api.runs import show as show
    from ragrounds.api.score import judge as judge
    from ragrounds.api.score import score as score
    from ragrounds.base.errors import Interrupted as Interrupted
    from ragrounds.base.errors import StopRun as StopRun
    from ragrounds.base.errors import UserError as UserError
    from ragrounds.base.settings import Settings as Settings
    from ragrounds.extensions.arena.functions import arena as arena
    from ragrounds.extensions.counterfactual.functions import counterfactual as counterfactual
    from ragrounds.extensions.exchange.functions import export as export
    from ragrounds.extensions.exchange.functions import import_store as import_store
    from ragrounds.extensions.exchange.imports import import_runs as import_runs
    from ragrounds.extensions.gate.functions import gate as gate
    from ragrounds.extensions.publishing.publish import publish as publish
    from ragrounds.extensions.publishing.verify import verify as verify
    from ragrounds.extensions.retrieval.functions import retrieve as retrieve
    from ragrounds.extensions.studies.call import StudyListener as StudyListener
    from ragrounds.extensions.studies.functions import StudyResult as StudyResult
    from ragrounds.extensions.studies.functions import study as study

_PLACES = {
    "run": "api.run", "arun": "api.run", "RunResult": "api.run",
    "compare": "api.compare", "analyse": "api.compare", "ledger": "api.compare", "report": "api.compare",
    "score": "api.score", "judge": "api.score",
    "doctor": "api.doctor",
    "benchmark": "api.benchmarks",
    "load": "api.runs", "runs": "api.runs", "LoadedRun": "api.runs", "show": "api.runs",
    "Result": "api.results",
    "RunListener": "api.progress", "TerminalListener": "api.progress", "NotebookListener": "api.progress",
    "UserError": "base.errors", "StopRun": "base.errors", "Interrupted": "base.errors",
    "Settings": "base.settings",
}  # fmt: skip
"""Public names of the core and their modules. :data:`ragrounds.base.hooks.FUNCTION` says how others are added."""


if not TYPE_CHECKING:  # type checkers report a name that does not exist

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        from importlib import import_module
        from importlib.util import find_spec

        if name in _PLACES:
            value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        elif name != "__all__" and (name.startswith("_") or find_spec(f"{__name__}.{name}")):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")  # or a module not yet imported
        else:
            from ragrounds.api.functions import added_function, public_modules

            value = ["__version__", *public_modules()] if name == "__all__" else added_function(name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    from ragrounds.api.functions import public_names

    return sorted({*globals(), *public_names()})
