"""Where the processor time of a question goes, by component.

    python perf/question_cost.py [--questions 2000] [--data DATA]

One process answers so many questions against a loopback server that answers after 500 ms, 64 in flight: three nodes
with 24 kB prompts, or with DATA (the folder with medquad/ and mirage/) `vanilla_rag` over 16,407 passages. Every two
milliseconds of processor time a signal comes; what each thread has taken since the last one is counted for the place in
the code at which it is, by the innermost frame that belongs to a component. Imports, planning and the table at the end
do not count: they are no question's.
"""

from __future__ import annotations

import argparse
import collections
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parent
sys.path[0] = str(HERE.parent)  # and not this folder, whose coverage.py numba would take for the package

from perf import engine_rag  # noqa: E402
from perf.engine import questions  # noqa: E402
from perf.engine_peers import server  # noqa: E402

COMPONENTS = (
    ("search", ("/ragrounds/tools/",)),
    ("HTTP", ("/ragrounds/models/transport.py", "/ragrounds/base/http.py", "/aiohttp/", "/yarl/", "/multidict/")),
    ("wire, retries, prices", ("/ragrounds/models/", "/ragrounds/recorder/redaction.py")),
    ("prompts", ("/ragrounds/prompts/", "/ragrounds/graphs/", "/perf/engine/", "/string.py")),
    ("packing and compressing", ("/ragrounds/evals/store/codec.py",)),
    ("journal look-up", ("/ragrounds/evals/store/journal.py",)),
    ("store: rows and commits", ("/ragrounds/evals/store/", "/sqlalchemy/")),
    ("scoring", ("/ragrounds/evals/scorers/", "/ragrounds/api/run_scorers.py")),
    ("trace, caps, keys", ("/ragrounds/evals/engine/context.py", "/ragrounds/evals/engine/attempt_log.py")),
    (
        "recording of systems",
        ("/ragrounds/recorder/", "/ragrounds/evals/engine/recording/", "/ragrounds/evals/engine/foreign_system.py"),
    ),
    ("progress, projection, budgets", ("/ragrounds/evals/engine/progress.py", "/ragrounds/api/", "/ragrounds/ui/")),
    ("attempts in flight for others", ("/ragrounds/evals/engine/in_flight.py",)),
    ("scheduling of attempts", ("/ragrounds/",)),
    ("LangGraph, LangChain", ("/langgraph/", "/langchain_core/", "/langsmith/")),
    ("asyncio", ("/asyncio/", "/selectors.py")),
)


class Sampler:
    """Processor seconds by component, of all threads."""

    def __init__(self) -> None:
        self.spent: collections.Counter[str] = collections.Counter()
        self._before: dict[int, float] = {}

    def __call__(self, number: int, interrupted: FrameType | None) -> None:
        frames = sys._current_frames()
        frames[threading.main_thread().ident or 0] = interrupted  # type: ignore[assignment]
        for thread in threading.enumerate():
            if thread.ident is None or thread.ident not in frames:
                continue
            try:
                now = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            except OSError:  # it has just ended
                continue
            taken = now - self._before.get(thread.ident, now)
            self._before[thread.ident] = now
            if taken > 0:
                self.spent[component(frames[thread.ident])] += taken


def component(frame: FrameType | None) -> str:
    """The component at work: that of the innermost frame that has one; ``""``: no question is at work."""
    files = []
    while frame is not None:
        files.append(frame.f_code.co_filename.replace("\\", "/"))
        frame = frame.f_back
    if any("importlib" in file for file in files):
        return ""
    if not any(file.endswith(("/asyncio/base_events.py", "/store/writer.py", "/in_flight.py")) for file in files):
        return ""
    for file in files:
        for name, marks in COMPONENTS:
            if any(mark in file for mark in marks):
                return name
    return "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    import ragrounds as rr

    with tempfile.TemporaryDirectory(prefix="ragrounds-perf-") as name, server(0.5, 0.5) as url:
        if given.data:
            agent, corpus = "vanilla_rag", f"jsonl:{engine_rag.corpus(given.data, Path(name))}"
            alone = engine_rag.questions(given.data, Path(name), given.questions)
        else:
            agent, corpus = f"{HERE / 'engine' / 'three_nodes.py'}:build", None
            alone, _ = questions.write(Path(name), given.questions)
        home = Path(name) / "home"
        asked = {"model": "openai:perf[alias=perf]", "base_url": url, "corpus": corpus, "home": home}
        rr.run(f"jsonl:{alone}", agent, limit=64, **asked)  # what is loaded late is no question's
        sampler = Sampler()
        signal.signal(signal.SIGPROF, sampler)
        signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
        rr.run(f"jsonl:{alone}", agent, concurrency=64, new=True, journal="fresh", **asked)
        signal.setitimer(signal.ITIMER_PROF, 0)
    of_questions = {name: spent / given.questions * 1000 for name, spent in sampler.spent.items() if name}
    print("| component | processor s per 1,000 |\n|---|---|")
    for name, spent in sorted(of_questions.items(), key=lambda one: -one[1]):
        print(f"| {name} | {spent:.2f} |")
    print(f"| **together** | **{sum(of_questions.values()):.2f}** |")


if __name__ == "__main__":
    main()
