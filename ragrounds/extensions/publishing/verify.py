"""The figures of a bundle, derived again from its attempts, offline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from rich.console import Console

from ragrounds.api.progress import counted
from ragrounds.api.results import Result
from ragrounds.api.workspace import Progress, chosen_settings
from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.settings import Settings
from ragrounds.evals.benchmarks import load
from ragrounds.evals.benchmarks.benchmark import Benchmark
from ragrounds.evals.compare.comparison import Comparison
from ragrounds.extensions.publishing.bundle import SUFFIX, read_bundle
from ragrounds.extensions.publishing.derivation import Derivation, verify_bundle
from ragrounds.extensions.publishing.index_page import figure_cells
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_tables import print_comparison, printed_figures
from ragrounds.ui.tables.html_tables import breakable
from ragrounds.ui.text import number_of, safe


class VerifiedBundle(Result, frozen=True, kw_only=True):
    """What came of :func:`verify`."""

    bundle: Path
    root: str
    """Of the Merkle tree over the records, as they are now."""
    runs: tuple[str, ...]
    attempts: int
    figures: int
    derived: int
    """Figures that the attempts give again."""
    printed: int
    """Figures as text that were set beside those of the tables made anew: in the bundle, and on its page."""
    differing: tuple[str, ...]
    """What differs, the first first."""
    more: int
    """Further differences."""
    underived: Mapping[str, int]
    """What could not be derived → how many."""
    notes: tuple[str, ...]
    comparison: Comparison | None
    """As the attempts give it."""

    @property
    def ended(self) -> str:
        """``holds``; ``fails``: something differs; ``undecided``: something could not be derived."""
        return "fails" if self.differing else "undecided" if self.derived < self.figures else "holds"

    def draw(self, console: Console) -> None:
        """Print what came of it, and the table that was derived."""
        for line in self.lines():
            console.print(safe(line, 2000), markup=False, soft_wrap=True)
        if self.comparison is not None:
            print_comparison(self.comparison, console=console)

    def lines(self) -> Iterator[str]:
        """What came of it, in words."""
        what = f"{number_of(len(self.runs), 'run')}, {number_of(self.attempts, 'attempt')}"
        yield (
            f"{self.bundle}: {what}; {self.derived:,} of {self.figures:,} figures derived, "
            f"{self.printed:,} as printed; root {self.root[:16]}"
        )
        for text in self.differing:
            yield f"Differs: {text}."
        if self.more:
            yield f"Differs: {self.more:,} more."
        for text, count in self.underived.items():
            yield f"Not derived: {count:,} {text}."
        for text in self.notes:
            yield f"Note: {text}"


def verify(
    bundle: str | Path,
    benchmark: str | None = None,
    *,
    page: str | Path | None = None,
    home: str | Path | None = None,
    settings: Settings | None = None,
    progress: Progress | bool | None = None,
) -> VerifiedBundle:
    """Derive every figure of a bundle again from its attempts: answers are scored anew, costs summed anew, and the
    same comparison is made. No model is asked, nothing is sent, and the store is left alone.

        rr.verify("site/sample-1a2b3c4d-5e6f70.bundle.jsonl").ended

    Args:
        bundle: a file of ``rr.publish(…, bundle=True)``.
        benchmark: what it is of, as `ragrounds run --benchmark` takes it, or the benchmark's file: fills the texts that
            the bundle withholds, and every question is set beside it.
        page: the leaderboard that the bundle was published with, whose printed figures are set beside it; by default
            ``index.html`` beside the bundle, if it is there.
        home, settings: where registered benchmarks are; ``None``: the user's.
        progress: gets how many attempts are derived; ``False``: nothing is shown.

    Raises:
        UserError: no bundle, or no such benchmark.
    """
    read = read_bundle(Path(bundle))
    own = _benchmark(benchmark, read.statement.predicate.suite.get("name", ""), chosen_settings(settings, home))
    with counted(progress) as tell:
        found = verify_bundle(read, printed_figures, own, tell)
    beside = Path(page) if page else read.path.with_name("index.html")
    if found.comparison is not None and (page or beside.is_file()):
        _set_beside_page(beside, read.path.name.removesuffix(SUFFIX), found)
    made = {name: value for name, value in asdict(found).items() if name in VerifiedBundle.__struct_fields__}
    listed: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in made.items()}
    return VerifiedBundle(bundle=read.path, root=read.seal.root, **listed)


def _set_beside_page(page: Path, key: str, found: Derivation) -> None:
    """Set the rows of a published ranking beside those that were derived."""
    if found.comparison is None:
        return
    _, ranking, rest = read_text(page).partition(f'<section class="ranking" id="{escape(key)}">')
    if not ranking:
        found.notes.append(f"{page} holds no ranking {key!r}: its printed figures were not looked at.")
        return
    rows, names = rest.partition("</section>")[0].split("<tr>"), agent_names(found.comparison)
    for run, cells in figure_cells(found.comparison).items():
        named = [row for row in rows if f">{breakable(names[run])}<" in row]
        found.printed += len(re.findall(r"<td", "".join(cells)))
        if not any(all(one in row for one in cells) for row in named):
            shown = " ".join(re.sub(r"<[^>]*>", " ", "".join(cells)).split())
            found.differs(f"{page.name}, {names[run]}: other figures than {shown}, which the attempts give")


def _benchmark(given: str | None, name: str, settings: Settings) -> Benchmark | None:
    if given is None:
        return None
    try:
        return load(given, settings.home)
    except UserError:
        if not Path(given).exists():
            raise
        return load(f"{name}:{given}", settings.home)
